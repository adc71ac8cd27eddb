"""The types of option values; each describes what it expects, for messages, help and docs."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from enum import StrEnum
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError

from attribeam.attribution.option_declaration import Says, plain_value
from attribeam.attribution.prompts.prompt_template import TEMPLATE_NAMES

_DEVICE = re.compile(r"auto|all|(cpu|cuda|mps|xpu|mtia|hpu|npu|xla)(:\d+)?")
BUNDLED_MODEL_NAME = "bundled"
BUNDLED_VERDICT_NAME, MASS_VERDICT = "bundled", "mass"
SHIPPED_VERDICTS = {
    BUNDLED_VERDICT_NAME: "verdict",
    "smollm2-135m": "verdict_smollm2",
}
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


def _infinity(value: object) -> object:
    """JSON has no infinity, so files say "inf"."""
    return math.inf if value == "inf" else value


def _whole_or_infinite(value: float) -> float:
    if not math.isinf(value) and value % 1:
        raise ValueError("a fraction")
    return value


def _as_integer(value: float) -> int | float:
    return value if math.isinf(value) else int(value)


PositiveInteger: TypeAlias = Annotated[int, Field(strict=True, ge=1), Says("a whole number from 1")]
WholeNumber: TypeAlias = Annotated[int, Field(strict=True, ge=0), Says("a whole number from 0")]
NonNegative: TypeAlias = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False), Says("a number of at least 0")]
Fraction: TypeAlias = Annotated[float, Field(strict=True, ge=0, le=1), Says("a number from 0 to 1")]
TokenDistance: TypeAlias = Annotated[
    float,
    Field(strict=True, ge=0),
    AfterValidator(_whole_or_infinite),
    BeforeValidator(_infinity),
    Says("a whole number of tokens from 0, or inf"),
]
TokenCount: TypeAlias = Annotated[
    Annotated[int, Field(strict=True, ge=1)] | Annotated[float, Field(strict=True, ge=1)],
    AfterValidator(_whole_or_infinite),
    AfterValidator(_as_integer),
    BeforeValidator(_infinity),
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
DtypeName: TypeAlias = Annotated[
    str,
    Field(pattern=f"^({'|'.join((AUTO_DTYPE, *DTYPES))})$"),
    Says("one of " + ", ".join(map(repr, (AUTO_DTYPE, *DTYPES)))),
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
    folder = Path(name).expanduser()
    if name in (*SHIPPED_VERDICTS, MASS_VERDICT) or any((folder / one).is_file() for one in (VERDICT_FILE, MASS_FILE)):
        return False
    if folder.is_dir():
        return any((folder / file).is_file() for file in (VERIFIER_FILE, "config.json"))
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
