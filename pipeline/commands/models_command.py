"""Check whether a model can serve as the attributor: load it, print its memory and speed, and try an example."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from attribeam.attribution.option_declaration import add_options
from attribeam.attribution.options import LOADING, READING, THREADS, AttributorOptions, ModelOptions
from attribeam.schemas.errors import ModelLoadError

if TYPE_CHECKING:
    from attribeam.attribution.attention.attention_model import AttentionModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam models``."""
    parser.add_argument("action", choices=["check"], help="load the model and try it")
    add_options(parser, AttributorOptions, LOADING, READING, THREADS)


def run(arguments: argparse.Namespace) -> None:
    """Print what the model is, what it needs, and what it does with an example.

    Raises:
        ModelLoadError: if it cannot serve; the message says why, and the way out.
    """

    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    options = ModelOptions.from_arguments(arguments, LOADING, READING)
    try:
        _check(options, threads=arguments.threads)
    except ModelLoadError as error:
        raise ModelLoadError(f"this model cannot serve: {error}") from error


def _agreement(model: AttentionModel, options: ModelOptions, threads: int | None) -> float | ModelLoadError:
    """The agreement with float32, or why float32 cannot be loaded beside the model."""
    from attribeam.attribution.models.model_check import agreement_with_float32

    try:
        return agreement_with_float32(model, options, threads=threads)
    except ModelLoadError as error:
        return error


def _check(options: ModelOptions, *, threads: int | None) -> None:
    from attribeam.attribution.answers.answer_parser import AnswerParser
    from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.attributor import Attributor
    from attribeam.attribution.methods.method import Need
    from attribeam.attribution.methods.models import with_chosen_dtype
    from attribeam.attribution.models.model_check import (
        EXAMPLE_RECORD,
        attention_shares,
        describe_model,
        is_exact,
        measure_speed,
    )
    from attribeam.pipeline.commands.models_report import (
        agreement_line,
        description_lines,
        example_lines,
        loaded_line,
        shares_line,
        speed_line,
    )

    options = with_chosen_dtype(options, frozenset({Need.ATTENTION}))
    print("\n".join(description_lines(describe_model(options))), flush=True)
    start = time.perf_counter()
    model = AttentionModel.from_pretrained(options, threads=threads)
    print(loaded_line(model, time.perf_counter() - start), flush=True)
    print(speed_line(measure_speed(model)), flush=True)
    if not is_exact(model, options):
        print(agreement_line(_agreement(model, options, threads)), flush=True)
    attributor = Attributor(parser=AnswerParser.from_pretrained("bundled"), model=model, spans=DEFAULT_SPAN_KINDS)
    print("\n".join(example_lines(EXAMPLE_RECORD, attributor.attribute_many([EXAMPLE_RECORD])[0])))
    print(f"\n{shares_line(attention_shares(model, EXAMPLE_RECORD))}")
    print(f"\n{options.model} can serve.")
