"""Declared options, and what each declaration yields: checks, command line, signature, merging, JSON.

A class of options is a frozen pydantic model whose fields are made by ``option``. The same class holds a user's
options, a model directory's, and those in force: a field that nobody set has its default and is not in
``model_fields_set``. Passing None is the same as leaving an option out.
"""

from __future__ import annotations

import argparse
import inspect
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, wraps
from importlib.metadata import entry_points
from pathlib import Path, PurePath
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    overload,
)

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from attribeam.attribution.prompts import TEMPLATE_NAMES

_T = TypeVar("_T")
_G = TypeVar("_G")
_O = TypeVar("_O", bound="Options")
_P = ParamSpec("_P")

if TYPE_CHECKING:  # type checkers see descriptors, whose __set__ says what the constructor takes

    class Parsed(Generic[_T, _G]):
        """A field that reads as ``T`` and accepts ``G``."""

        @overload
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type) -> _T: ...
        def __get__(self, instance: object, owner: type) -> object: ...
        def __set__(self, instance: object, value: _G) -> None: ...

    class Value(Parsed[_T, _T | None], Generic[_T]):
        """A field that reads as ``T`` and accepts ``T`` or None."""

else:  # pydantic sees only the type

    class Parsed:
        def __class_getitem__(cls, kinds):
            return kinds[0]

    class Value:
        def __class_getitem__(cls, kind):
            return kind


Group = argparse.ArgumentParser | argparse._ArgumentGroup
TEXT = "a text"
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Says:
    """A description of the accepted values that ends a sentence, such as "a whole number from 1"."""

    expects: str


@dataclass(frozen=True, slots=True)
class Option:
    """One declared option: the field ``name`` of the class ``owner``; ``help`` has no full stop.

    ``expects`` are the accepted values in words; an enumeration and an option type below bring their own. ``group`` is
    that under which ``add_options`` adds it to a command line, "" for none, where it may take ``several`` texts, each
    one item of the value. ``default_words`` are for a default that says too little itself, ``reads`` turns a text into
    a value if the field's type alone cannot. With ``in_directory``, ``attribution_config.json`` may hold it. ``paper``
    is the paper's section; where ``extends_paper``, it goes beyond the paper, which its default follows.
    """

    owner: type[Options]
    name: str
    default: object
    help: str
    expects: str
    group: str = ""
    metavar: str | None = None
    default_words: str | None = None
    reads: Callable[[str], object] | None = None
    several: bool = False
    in_directory: bool = False
    paper: str = ""
    extends_paper: bool = False

    @property
    def flag(self) -> str:
        """The command-line flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return isinstance(self.default, bool)

    @property
    def default_in_words(self) -> str:
        """The value in force if nobody sets one, and where it comes from; empty if there is none."""
        if self.default_words is not None:
            return self.default_words
        if self.is_switch:
            return "yes" if self.default else "no"
        words = f"{self.default:g}" if isinstance(self.default, float) else str(self.default or "")
        return f"the model's, else {words}" if self.in_directory else words

    def read(self, text: str) -> object:
        """What a text of a command line or a file means; of an option that takes several, one of them.

        Raises:
            argparse.ArgumentTypeError: if it means nothing; the message says what was expected.
        """
        if self.reads is not None or self.several:
            return text if self.reads is None else self.reads(text)
        for value in (_SWITCH.get(text),) if self.is_switch else (text, plain_value(text)):
            with suppress(ValueError):
                if value is not None:
                    return getattr(self.owner(**{self.name: value}), self.name)
        raise argparse.ArgumentTypeError(f"should be {self.expects}, was: {text!r}")


def plain_value(text: str) -> object:
    """``text`` as a number, as an integer if possible; else the text itself."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def option(*, default: Any, help: str, kw_only: bool = True, **said: Any) -> Any:
    """A field of a class of options; ``said`` holds further attributes of its ``Option``."""
    return Field(default, description=help, json_schema_extra=said, kw_only=kw_only)


@dataclass_transform(kw_only_default=True, field_specifiers=(option,))
class Options(BaseModel):
    """A frozen set of declared options.

    Raises:
        ValueError: if a value is out of its range, or a name is unknown; the message says what was expected.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    if not TYPE_CHECKING:  # type checkers make the signature from the fields

        def __init__(self, **given: object) -> None:
            try:
                super().__init__(**{name: value for name, value in given.items() if value is not None})
            except ValidationError as error:
                raise ValueError(_complaint(error, type(self))) from error

    def __eq__(self, other: object) -> bool:
        """Equal if the same values were given; an option left open may differ between models."""
        return isinstance(other, Options) and type(self) is type(other) and self.given() == other.given()

    def __hash__(self) -> int:
        return hash((type(self), *self.given().values()))

    def given(self) -> dict[str, object]:
        """Every option as given; None if the model directory may still decide it, else the default."""
        return {
            name: None if option.in_directory and name not in self.model_fields_set else getattr(self, name)
            for name, option in declared(type(self)).items()
        }

    def replaced(self, **changes: object) -> Self:
        """The same options with ``changes``; None unsets a value.

        Raises ``ValueError`` as for the constructor.
        """
        return type(self)(**(self.explicit() | changes))

    def over(self, defaults: Self) -> Self:
        """These options where they were given, else those of ``defaults``.

        Raises ``ValueError`` if they do not fit together.
        """
        return defaults.replaced(**self.explicit())

    def explicit(self) -> dict[str, object]:
        """The options that were given."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}

    def only(self, options: type[_O]) -> _O:
        """The given options that the class ``options`` also declares."""
        return options(**{name: value for name, value in self.explicit().items() if name in options.model_fields})

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace, *groups: str) -> Self:
        """The options of these groups from a parsed command line; ``ValueError`` if they do not fit together."""
        return cls(**{name: getattr(arguments, name) for name, opt in declared(cls).items() if opt.group in groups})


@cache
def declared(options: type[Options]) -> Mapping[str, Option]:
    """The options of a class by name, in order of declaration."""
    by_name = {}
    for name, field in options.model_fields.items():
        kinds = [field.annotation, *(get_args(field.annotation) if _is_union(field.annotation) else ())]
        choices = [str(item) for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum) for item in kind]
        metadata = [*field.metadata, *(item for kind in kinds for item in getattr(kind, "__metadata__", ()))]
        said: dict[str, Any] = {"expects": next((item.expects for item in metadata if isinstance(item, Says)), TEXT)}
        if choices:
            said = {"expects": "one of " + ", ".join(map(repr, choices)), "metavar": "|".join(choices)}
        elif isinstance(field.default, bool):
            said = {"expects": "true or false"}
        said |= cast("Mapping[str, Any]", field.json_schema_extra)
        by_name[name] = Option(owner=options, name=name, default=field.default, help=str(field.description), **said)
    return by_name


def _is_union(kind: object) -> bool:
    return get_origin(kind) in (Union, UnionType)


def add_options(parser: Group, options: type[Options], *groups: str) -> None:
    """Add the options of these groups to a command line, in order of declaration; ``--no-...`` turns a switch off."""
    for opt in declared(options).values():
        if opt.group not in groups:
            continue
        if opt.is_switch:
            parser.add_argument(opt.flag, action=argparse.BooleanOptionalAction, help=opt.help)
        else:
            several: dict[str, Any] = {"nargs": "+", "action": "extend"} if opt.several else {}
            words = opt.default_in_words and f" (default: {opt.default_in_words})"
            parser.add_argument(opt.flag, metavar=opt.metavar, type=opt.read, help=opt.help + words, **several)
        parser.set_defaults(**{opt.name: None if opt.in_directory else opt.default})


def _complaint(error: ValidationError, options: type[Options]) -> str:
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        return str(first["ctx"]["error"])
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return f"{name} is no option; there are: {', '.join(options.model_fields)}"
    return f"{name} should be {declared(options)[name].expects}, was: {first['input']!r}"


def takes_options(
    options: Callable[_P, _O],
) -> Callable[[Callable[[type[_T], _O], _T]], Callable[Concatenate[type[_T], _P], _T]]:
    """Decorate a constructor that takes an options object, so that it takes the options as arguments instead.

    Type checkers see the signature of ``options``; so do ``help`` and ``inspect``, with every option explained. A path
    is taken as its text.
    """
    kind = cast("type[_O]", options)

    def decorate(method: Callable[[type[_T], _O], _T]) -> Callable[Concatenate[type[_T], _P], _T]:
        signature = _signature(kind, returns=method.__annotations__.get("return"))

        @wraps(method)
        def call(cls: type[_T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
            bound = signature.bind(cls, *args, **kwargs).arguments
            given = {name: str(value) if isinstance(value, PurePath) else value for name, value in bound.items()}
            return method(cls, kind(**{name: value for name, value in given.items() if name != "cls"}))

        lines = [f"    {opt.name}: {opt.help} (default: {opt.default_in_words})." for opt in declared(kind).values()]
        call.__doc__ = "\n".join([inspect.cleandoc(method.__doc__ or ""), "", "Args:", *lines])
        call.__signature__ = signature  # type: ignore[attr-defined]
        return cast(Callable[Concatenate[type[_T], _P], _T], call)

    return decorate


def _signature(options: type[Options], *, returns: object) -> inspect.Signature:
    """The signature of a class method without ``Annotated`` metadata; options that may be positional come first."""
    parameters = []
    for name, field in options.model_fields.items():
        is_open = declared(options)[name].in_directory
        kinds = get_args(field.annotation) if _is_union(field.annotation) else (field.annotation,)
        bare = [get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in kinds]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if field.kw_only is False else inspect.Parameter.KEYWORD_ONLY
        annotation = Union[(*bare, None)] if is_open else Union[tuple(bare)]  # noqa: UP007
        default = None if is_open else field.default
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
    first = inspect.Parameter("cls", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature([first, *sorted(parameters, key=lambda param: param.kind)], return_annotation=returns)


def option_texts(options: Options) -> dict[str, str]:
    """The values in force as text, for a file's metadata; without those that are None."""
    values = ((name, getattr(options, name)) for name in type(options).model_fields)
    return {name: f"{item:g}" if isinstance(item, float) else str(item) for name, item in values if item is not None}


_DEVICE = re.compile(r"auto|all|(cpu|cuda|mps|xpu|mtia|hpu|npu|xla)(:\d+)?")
BUNDLED_MODEL_NAME = "bundled"
BUNDLED_VERDICT_NAME, MASS_VERDICT = "bundled", "mass"
SHIPPED_VERDICTS = {BUNDLED_VERDICT_NAME: "verdict", "smollm2-135m": "verdict_smollm2"}
"""The fitted verdicts of the package by name, and their folders in ``attribution/bundled``."""


class Strictness(StrEnum):
    """How soon a claim is called unsupported."""

    LENIENT = "lenient"
    BALANCED = "balanced"
    STRICT = "strict"


VERDICT_FILE, MASS_FILE = "verdict.json", "mass_thresholds.json"
"""What a directory holds that ``--verdict`` names: a fitted verdict, or thresholds of evidence mass."""
VERIFIER_FILE, VERIFIERS = "verifier.json", "attribeam.verifiers"
"""What a directory holds that a verifier was calibrated into, and the entry-point group of other packages' ones."""
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def _whole_or_infinite(value: float) -> float:
    if not math.isinf(value) and value % 1:
        raise ValueError("a fraction")
    return value


_WHOLE_OR_INFINITE = AfterValidator(_whole_or_infinite)
_INFINITY = BeforeValidator(lambda value: math.inf if value == "inf" else value)
"""JSON has no infinity, so files say "inf"."""
PositiveInteger: TypeAlias = Annotated[int, Field(strict=True, ge=1), Says("a whole number from 1")]
WholeNumber: TypeAlias = Annotated[int, Field(strict=True, ge=0), Says("a whole number from 0")]
NonNegative: TypeAlias = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False), Says("a number of at least 0")]
Fraction: TypeAlias = Annotated[float, Field(strict=True, ge=0, le=1), Says("a number from 0 to 1")]
TokenDistance: TypeAlias = Annotated[
    float,
    Field(strict=True, ge=0), _WHOLE_OR_INFINITE, _INFINITY, Says("a whole number of tokens from 0, or inf"),
]  # fmt: skip
TokenCount: TypeAlias = Annotated[
    Annotated[int, Field(strict=True, ge=1)] | Annotated[float, Field(strict=True, ge=1)],
    _WHOLE_OR_INFINITE,
    AfterValidator(lambda value: value if math.isinf(value) else int(value)),
    _INFINITY,
    Says("a whole number of tokens from 1, or inf"),
]


def _band(value: object) -> object:
    """Two numbers, from text with a comma between them, from a list, or from a tuple."""
    parts = [plain_value(part.strip()) for part in value.split(",")] if isinstance(value, str) else value
    return tuple(parts) if isinstance(parts, list) else parts


def _ascending(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] >= value[1]:
        raise ValueError("does not ascend")
    return value


AUTO_DTYPE = "auto"
DTYPES = ("float32", "bfloat16", "float16")
_NAMES = (AUTO_DTYPE, *DTYPES)
DtypeName: TypeAlias = Annotated[
    str, Field(pattern=f"^({'|'.join(_NAMES)})$"), Says("one of " + ", ".join(map(repr, _NAMES)))
]
RiskBand: TypeAlias = Annotated[
    tuple[Fraction, Fraction],
    AfterValidator(_ascending),
    BeforeValidator(_band),
    Says("two numbers from 0 to 1, the smaller one first, as 0.1,0.6"),
]


def text_reader(kind: Any, expects: str) -> Callable[[str], object]:
    """A type for argparse that turns text into a value of ``kind``, or into a usage error with the expected values."""
    adapter = TypeAdapter[object](kind)

    def read(text: str) -> object:
        try:
            return adapter.validate_python(plain_value(text))
        except ValidationError as error:
            raise argparse.ArgumentTypeError(f"should be {expects}, was: {text!r}") from error

    return read


positive_integer = text_reader(PositiveInteger, "a whole number from 1")
whole_number = text_reader(WholeNumber, "a whole number from 0")
fraction = text_reader(Fraction, "a number from 0 to 1")


def existing_file(text: str) -> str:
    """The path of an existing file."""
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"should be a file, there is no file {text!r}")
    return text


def device_name(text: str) -> str:
    """The name of a device, whether it is there or not; lists are left to the commands that take several devices."""
    if "," not in text and not _DEVICE.fullmatch(text):
        raise argparse.ArgumentTypeError(
            "should be auto, cpu, cuda, cuda:1, or another device that torch knows (mps, xpu, mtia, hpu, npu, xla), "
            f"was: {text!r}"
        )
    return text


def prompt_template(text: str) -> str:
    """The name of a prompt template, or the path of an existing file."""
    if text not in TEMPLATE_NAMES and not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"should be {', '.join(TEMPLATE_NAMES)} or a file, there is no file {text!r}")
    return text


def names_verifier(name: str) -> bool:
    """Whether ``--verdict`` means a verifier: a hub id, a directory of a model or of a calibrated one, or a package's.

    It means none where the directory holds a fitted verdict or thresholds of evidence mass.
    """
    path = Path(name).expanduser()
    if name in (*SHIPPED_VERDICTS, MASS_VERDICT) or any((path / file).is_file() for file in (VERDICT_FILE, MASS_FILE)):
        return False
    if path.is_dir():
        return any((path / file).is_file() for file in (VERIFIER_FILE, "config.json"))
    return _HUB_ID.fullmatch(name) is not None or bool(entry_points(group=VERIFIERS, name=name))


def verdict_source(text: str) -> str:
    """The name of a verdict or of a verifier, or the path of a directory that holds one."""
    files = (Path(text) / VERDICT_FILE, Path(text) / MASS_FILE)
    names = (*SHIPPED_VERDICTS, MASS_VERDICT)
    if text not in names and not any(file.is_file() for file in files) and not names_verifier(text):
        raise argparse.ArgumentTypeError(
            f"should be {', '.join(names)}, a verifier (a hub id as organisation/name, or a directory with "
            "config.json) or a directory that attribeam calibrate or the lab's recipe wrote, there is no "
            f"{VERDICT_FILE}, {MASS_FILE} or {VERIFIER_FILE} in {text!r}"
        )
    return text
