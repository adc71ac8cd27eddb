"""Declared options, and what each declaration yields: checks, command line, signature, merging, JSON.

A class of options is a frozen pydantic model whose fields are made by ``option``. The same class holds a user's
options, a model directory's, and those in force: a field that nobody set has its default and is not in
``model_fields_set``. Passing None is the same as leaving an option out.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, wraps
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    overload,
)

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from attribeam.attribution.option_types import Says, number_or_text

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


@dataclass(frozen=True, slots=True)
class Option:
    """One declared option; its attributes are the arguments of ``option``, completed by the field's type."""

    name: str
    default: object
    help: str
    group: str
    metavar: str | None
    default_words: str | None
    choices: tuple[str, ...]
    reads: Callable[[str], object] | None
    expects: str | None
    in_directory: bool
    paper: str
    extends_paper: bool

    @property
    def flag(self) -> str:
        """The command-line flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def default_in_words(self) -> str:
        """The value in force if nobody sets one, and where it comes from."""
        if self.default_words is not None:
            return self.default_words
        words = f"{self.default:g}" if isinstance(self.default, float) else str(self.default)
        words = "none" if self.default == () else words
        return f"the model's, else {words}" if self.in_directory else words


def option(
    *,
    default: Any,
    help: str,
    group: str = "",
    metavar: str | None = None,
    default_words: str | None = None,
    choices: Sequence[str] = (),
    reads: Callable[[str], object] | None = None,
    expects: str | None = None,
    in_directory: bool = False,
    paper: str = "",
    extends_paper: bool = False,
    kw_only: bool = True,
) -> Any:
    """A field of a class of options.

    Args:
        default: the value in force if nobody sets one.
        help: what the option does, for command line, docstring and docs; no full stop.
        group: the group under which ``add_options`` adds it to a command line; empty if it does not belong there.
        default_words: the default as shown in help and docs, if the value itself says too little.
        choices: the accepted texts; an enumeration brings its own.
        reads: turns text from the command line into a value, if the field's type alone cannot.
        expects: the accepted values in words; a type of ``option_types`` brings its own.
        in_directory: whether ``attribution_config.json`` may hold it.
        paper: the section of the paper that has it.
        extends_paper: whether the option goes beyond the paper; its default then follows the paper.
        kw_only: for type checkers, whether the field is given by keyword only.
    """
    said = {name: value for name, value in locals().items() if name not in ("default", "kw_only")}
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
            name: None if one.in_directory and name not in self.model_fields_set else getattr(self, name)
            for name, one in declared(type(self)).items()
        }

    def replaced(self, **changes: object) -> Self:
        """The same options with ``changes``; None unsets a value.

        Raises:
            ValueError: as for the constructor.
        """
        return type(self)(**(self.explicit() | changes))

    def over(self, defaults: Self) -> Self:
        """These options where they were given, else those of ``defaults``.

        Raises:
            ValueError: if they do not fit together.
        """
        return defaults.replaced(**self.explicit())

    def explicit(self) -> dict[str, object]:
        """The options that were given."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    def only(self, options: type[_O]) -> _O:
        """The given options that the class ``options`` also declares."""
        return options(**{name: value for name, value in self.explicit().items() if name in options.model_fields})

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace, *groups: str) -> Self:
        """The options of these groups from a parsed command line.

        Raises:
            ValueError: if they do not fit together.
        """
        names = [name for name, one in declared(cls).items() if one.group in groups]
        return cls(**{name: getattr(arguments, name) for name in names})


@cache
def declared(options: type[Options]) -> Mapping[str, Option]:
    """The options of a class by name, in order of declaration."""
    return {name: _declared(name, field) for name, field in options.model_fields.items()}


def _declared(name: str, field: FieldInfo) -> Option:
    said = dict(cast("Mapping[str, Any]", field.json_schema_extra))
    choices = tuple(said.pop("choices")) or _enumerated(field)
    expects = said.pop("expects") or ("one of " + ", ".join(map(repr, choices)) if choices else _expected(field))
    return Option(name=name, default=field.default, choices=choices, expects=expects, **said)


def _enumerated(field: FieldInfo) -> tuple[str, ...]:
    """The values of an enumeration, optional or not."""
    alternatives = get_args(field.annotation) if get_origin(field.annotation) in (Union, UnionType) else ()
    kinds = [kind for kind in (field.annotation, *alternatives) if isinstance(kind, type)]
    return tuple(str(one) for kind in kinds if issubclass(kind, StrEnum) for one in kind)


def _expected(field: FieldInfo) -> str | None:
    """What the field's type, or its type besides None, says that it expects."""
    kinds = get_args(field.annotation)
    metadata = [*field.metadata, *(one for kind in kinds for one in getattr(kind, "__metadata__", ()))]
    return next((one.expects for one in metadata if isinstance(one, Says)), None)


def add_options(parser: Group, options: type[Options], *groups: str) -> None:
    """Add the options of these groups to a command line, in order of declaration."""
    for one in declared(options).values():
        if one.group in groups:
            parser.add_argument(one.flag, **_argument(one, options))


def _argument(one: Option, options: type[Options]) -> dict[str, Any]:
    """The keywords of ``add_argument``."""
    if one.default is False:
        return {"action": "store_true", "help": one.help}
    said: dict[str, Any] = {
        "help": f"{one.help} (default: {one.default_in_words})",
        "default": None if one.in_directory else one.default,
    }
    if one.choices:
        return said | {"choices": one.choices}
    reads = one.reads or (_reader(one, options) if one.expects else str)
    return said | {"metavar": one.metavar, "type": reads}


def _reader(one: Option, options: type[Options]) -> Callable[[str], object]:
    def read(text: str) -> object:
        try:
            return getattr(options(**{one.name: number_or_text(text)}), one.name)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"should be {one.expects}, was: {text!r}") from error

    return read


def _complaint(error: ValidationError, options: type[Options]) -> str:
    """The first error, in one line."""
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        return str(first["ctx"]["error"])
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return f"{name} is no option; there are: {', '.join(options.model_fields)}"
    expects = declared(options)[name].expects or first["msg"].removeprefix("Input should be ").replace("valid ", "")
    return f"{name} should be {expects}, was: {first['input']!r}"


def takes_options(
    options: Callable[_P, _O],
) -> Callable[[Callable[[type[_T], _O], _T]], Callable[Concatenate[type[_T], _P], _T]]:
    """Decorate a constructor that takes an options object, so that it takes the options as arguments instead.

    Type checkers see the signature of ``options``; so do ``help`` and ``inspect``, with every option explained.
    """
    kind = cast("type[_O]", options)

    def decorate(method: Callable[[type[_T], _O], _T]) -> Callable[Concatenate[type[_T], _P], _T]:
        signature = _signature(kind, returns=method.__annotations__.get("return"))

        @wraps(method)
        def call(cls: type[_T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
            bound = signature.bind(cls, *args, **kwargs).arguments
            return method(cls, kind(**{name: value for name, value in bound.items() if name != "cls"}))

        call.__doc__ = f"{inspect.cleandoc(method.__doc__ or '')}\n\n{_explained(kind)}"
        call.__signature__ = signature  # type: ignore[attr-defined]
        return cast(Callable[Concatenate[type[_T], _P], _T], call)

    return decorate


def _signature(options: type[Options], *, returns: object) -> inspect.Signature:
    """The signature of a class method; options that may be positional come first."""
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD if field.kw_only is False else inspect.Parameter.KEYWORD_ONLY,
            default=None if declared(options)[name].in_directory else field.default,
            annotation=_plain(field.annotation, may_be_none=declared(options)[name].in_directory),
        )
        for name, field in options.model_fields.items()
    ]
    first = inspect.Parameter("cls", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature([first, *sorted(parameters, key=lambda one: one.kind)], return_annotation=returns)


def _plain(kind: Any, *, may_be_none: bool = False) -> Any:
    """A type without its ``Annotated`` metadata."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    bare = [get_args(one)[0] if get_origin(one) is Annotated else one for one in kinds]
    return Union[(*bare, None)] if may_be_none else Union[tuple(bare)]  # noqa: UP007


def _explained(options: type[Options]) -> str:
    """The options as lines of a docstring."""
    lines = [f"    {one.name}: {one.help} (default: {one.default_in_words})." for one in declared(options).values()]
    return "\n".join(["Args:", *lines])


def option_texts(options: Options) -> dict[str, str]:
    """The values in force as text, for a file's metadata; without those that are None."""
    values = {name: getattr(options, name) for name in declared(type(options))}
    return {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in values.items()
        if value is not None
    }
