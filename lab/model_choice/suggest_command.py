"""Say which sizes of model fit a machine, a number of rows and a deadline, by what was measured."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
from dataclasses import asdict

from attribeam.attribution.option_types import positive_integer
from attribeam.logs.arguments import add_log_arguments, log_options
from attribeam.report.messages import print_lines
from attribeam.schemas.errors import UsageError

DEFAULT_ROW_TOKENS = 600
_UNITS = {
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)},
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)")
TEXT, JSON = "text", "json"


def memory_size(text: str) -> int:
    """A size such as 8GB or 7.5 GiB in bytes.

    Raises:
        argparse.ArgumentTypeError: if the number or the unit is missing or unknown, or it is nothing.
    """
    found = _SIZE.fullmatch(text.strip())
    units = {name.lower(): size for name, size in _UNITS.items()}
    size = 0 if found is None else int(float(found[1]) * units.get(found[2].lower(), 0))
    if size < 1:
        raise argparse.ArgumentTypeError(
            f"should be a number above 0 with one of the units {', '.join(_UNITS)}, such as 8GB, was: {text!r}"
        )
    return size


def hours(text: str) -> float:
    """A number of hours above 0.

    Raises:
        argparse.ArgumentTypeError: if it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"should be a number of hours above 0, was: {text!r}")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam models suggest``."""
    parser.add_argument(
        "--memory", type=memory_size, required=True, metavar="SIZE", help="memory of the machine, such as 8GB"
    )
    parser.add_argument("--rows", type=positive_integer, required=True, metavar="N", help="rows to audit")
    parser.add_argument("--hours", type=hours, required=True, metavar="H", help="time for them")
    parser.add_argument(
        "--cores", type=positive_integer, metavar="N", help="cores of the machine (default: those of this one)"
    )
    parser.add_argument("--gpu-memory", type=memory_size, metavar="SIZE", help="memory of its GPU, if it has one")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--tokens-per-row",
        type=positive_integer,
        metavar="N",
        help=f"tokens of a row, passages and answer (default: {DEFAULT_ROW_TOKENS}, about 2,000 characters of passages "
        "and 275 of answer)",
    )
    length.add_argument("--input", metavar="GLOB", help="a log whose rows are measured in the place of that")
    add_log_arguments(parser.add_argument)
    parser.add_argument("--format", choices=[TEXT, JSON], default=TEXT, help="for people or for programs")


def run(arguments: argparse.Namespace) -> None:
    """Print what fits.

    Raises:
        UsageError: if the log cannot be read or no row of it can be audited.
    """
    from attribeam.lab.model_choice.measured_models import Measurements
    from attribeam.lab.model_choice.suggest_report import suggestion_lines, suggestion_values
    from attribeam.lab.model_choice.suggestion import Job, Machine, fits

    machine = Machine(arguments.memory, arguments.cores or _own_cores(), arguments.gpu_memory)
    row_tokens, source = _row_tokens(arguments)
    job = Job(arguments.rows, arguments.hours, row_tokens)
    measured = Measurements.from_file()
    found = fits(measured, machine, job)
    if arguments.format == JSON:
        values = {"machine": asdict(machine), "job": asdict(job), "models": suggestion_values(found)}
        print_lines(*json.dumps(values, indent=2).split("\n"))
    else:
        print_lines(*suggestion_lines(found, measured, machine, job, source))


def _row_tokens(arguments: argparse.Namespace) -> tuple[float, str]:
    """Tokens per row, and where the number is from."""
    options = log_options(arguments)
    if arguments.input is None:
        _refuse_log_options(arguments)
        if arguments.tokens_per_row is None:
            return DEFAULT_ROW_TOKENS, "the default; --input measures your log, --tokens-per-row sets it"
        return arguments.tokens_per_row, "as given"
    from attribeam.lab.model_choice.row_length import measured_length

    length = measured_length(arguments.input, options)
    return length.mean, f"the mean of {length.rows:,} rows; nine of ten have at most {length.ninth_decile:,.0f}"


def _refuse_log_options(arguments: argparse.Namespace) -> None:
    defaults = argparse.ArgumentParser()
    add_log_arguments(defaults.add_argument)
    if any(getattr(arguments, name) != value for name, value in vars(defaults.parse_args([])).items()):
        raise UsageError("--log-format and --columns say how --input is read; name a log with it or leave them out")


def _own_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
