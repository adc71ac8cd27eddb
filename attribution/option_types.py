"""Types of command line options; what they raise, argparse shows as a usage error."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from attribeam.attribution.answers.target_spans import parse_span_kinds
from attribeam.attribution.prompts.prompt_template import TEMPLATE_NAMES
from attribeam.schemas import SpanKind


def positive_integer(text: str) -> int:
    """A whole number from 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"should be a whole number from 1, was: {text!r}")
    return value


def whole_number(text: str) -> int:
    """A whole number from 0."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"should be a whole number from 0, was: {text!r}")
    return int(text)


def isolation_tau(text: str) -> float:
    """A whole number of tokens from 0, or "inf"."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value >= 0 and (math.isinf(value) or value % 1 == 0)):
        raise argparse.ArgumentTypeError(f"should be a whole number of tokens from 0, or inf, was: {text!r}")
    return value


def evidence_window(text: str) -> float:
    """A whole number of tokens from 1, or "inf"."""
    return math.inf if text == "inf" else positive_integer(text)


def non_negative(text: str) -> float:
    """A number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"should be a number of at least 0, was: {text!r}")
    return value


def fraction(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"should be a number from 0 to 1, was: {text!r}")
    return value


def name_list(text: str) -> tuple[str, ...]:
    """Names between commas, each once, in their order."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def span_kinds(text: str) -> tuple[SpanKind, ...]:
    """Kinds of target spans between commas."""
    try:
        return parse_span_kinds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def prompt_template(text: str) -> str:
    """The name of a prompt template, or the path of a file that is there."""
    if text not in TEMPLATE_NAMES and not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"should be {', '.join(TEMPLATE_NAMES)} or a file, there is no file {text!r}")
    return text
