"""Load a model and try it: memory, speed, a worked example, and how many passages each method finds with it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from attribeam.attribution.models.local_revision import CONFIG_FILE
from attribeam.attribution.option_declaration import add_options
from attribeam.attribution.options import LAYER, LOADING, READING, THREADS, AttributorOptions, ModelOptions
from attribeam.logs.arguments import add_log_arguments, log_options
from attribeam.report.messages import print_lines
from attribeam.schemas.errors import ModelLoadError, RunError, UsageError

if TYPE_CHECKING:
    from attribeam.attribution.answers.answer_parser import AnswerParser
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.models.model_directory import ModelDirectory
    from attribeam.lab.model_choice.check_report import Quality
    from attribeam.schemas.labelled_answer import LabelledAnswer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam models check``."""
    parser.add_argument("action", choices=("check",), help="load a model, try it and say whether it serves")
    add_options(parser, AttributorOptions, LOADING, READING, LAYER, THREADS)
    rows = parser.add_argument_group("labelled rows")
    rows.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="a labelled log of your own, as evaluate --dataset log reads it (default: 40 English rows of the package)",
    )
    add_log_arguments(rows.add_argument)
    sweep = parser.add_argument_group("layers")
    sweep.add_argument(
        "--sweep-layers",
        action="store_true",
        help="try every layer of the model on the labelled rows, with several k and tau, and write the choice",
    )
    sweep.add_argument(
        "--output",
        type=Path,
        metavar="FILE.json",
        help=f"where --sweep-layers writes it (default: {CONFIG_FILE} in this folder)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print what the model is, what it needs, what it does with an example, and which method serves.

    Raises:
        ModelLoadError: if it cannot be used; the message says why, and the way out.
        UsageError: if there is no such layer, the labelled rows cannot be used, or the choice cannot be written.
        RunError: if it could not be written after all.
    """
    from attribeam.lab.model_choice.labelled_rows import labelled_answers

    output = _output(arguments)

    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    options = ModelOptions.from_arguments(arguments, LOADING, READING, LAYER)
    answers = labelled_answers(arguments.data, log_options(arguments))
    if output is not None:
        check_sources(answers)
    try:
        check_layer(options)
        _check(options, answers, threads=arguments.threads, output=output)
    except ModelLoadError as error:
        raise ModelLoadError(f"this model cannot serve: {error}") from error


def _output(arguments: argparse.Namespace) -> Path | None:
    """Where the choice of a sweep is written; None without a sweep."""
    given: Path | None = arguments.output
    if not arguments.sweep_layers:
        if given is not None:
            raise UsageError("--output says where --sweep-layers writes its choice; add --sweep-layers or leave it out")
        return None
    path = Path(CONFIG_FILE) if given is None else given
    if path.exists() or not path.parent.is_dir():
        raise UsageError(
            f"--output should be a new file in an existing directory, was: {path}; name another with --output"
        )
    return path


def check_sources(answers: Sequence[LabelledAnswer]) -> None:
    """Refuse labelled rows that are too few for a choice of layers.

    Raises:
        UsageError: if their questions are.
    """
    from attribeam.lab.model_choice.setting_search import LEAST_SOURCES

    count = len({answer.record.question for answer in answers})
    if count < LEAST_SOURCES:
        raise UsageError(
            f"--sweep-layers should have labelled rows with {LEAST_SOURCES} different questions or more, has {count}; "
            "label more rows, or leave --data out to use those of the package"
        )


def check_layer(options: ModelOptions) -> None:
    """Refuse a layer that the model does not have.

    Raises:
        UsageError: if the options name one.
        ModelLoadError: if there is no such model.
    """
    from attribeam.attribution.attention.layer_choice import choose_layer
    from attribeam.attribution.models.model_directory import read_model_directory

    if options.layer is None:
        return
    try:
        choose_layer(read_model_directory(options).config, options.layer)
    except ValueError as error:
        raise UsageError(f"--layer of {options.model!r}: {error}") from error


def _check(
    options: ModelOptions, answers: Sequence[LabelledAnswer], *, threads: int | None, output: Path | None
) -> None:
    from attribeam.attribution.answers.answer_parser import AnswerParser
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.methods.method import Need
    from attribeam.attribution.methods.models import with_chosen_dtype
    from attribeam.attribution.models.model_check import describe_model, is_exact, measure_speed
    from attribeam.lab.model_choice.check_report import (
        agreement_line,
        description_lines,
        loaded_line,
        serving_line,
        speed_line,
    )

    options = with_chosen_dtype(options, frozenset({Need.ATTENTION}))
    described = describe_model(options)
    print_lines(*description_lines(described))
    start = time.perf_counter()
    layers = None if output is None else len(described.layer.kinds)
    model = AttentionModel.from_pretrained(options.replaced(loaded_layers=layers), threads=threads)
    print_lines(loaded_line(model, time.perf_counter() - start))
    print_lines(speed_line(measure_speed(model)))
    if not is_exact(model, options):
        print_lines(agreement_line(_agreement(model, options, threads)))
    parser = AnswerParser.from_pretrained("bundled")
    _show_example(model, parser)
    quality = _show_quality(model, parser, answers)
    if output is None:
        print_lines("", serving_line(options.model, quality))
    else:
        _sweep(described.directory, model, parser, answers, output)


def _agreement(model: AttentionModel, options: ModelOptions, threads: int | None) -> float | ModelLoadError:
    """The agreement with float32, or why float32 cannot be loaded beside the model."""
    from attribeam.attribution.models.model_check import agreement_with_float32

    try:
        return agreement_with_float32(model, options, threads=threads)
    except ModelLoadError as error:
        return error


def _show_example(model: AttentionModel, parser: AnswerParser) -> None:
    from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
    from attribeam.attribution.attributor import Attributor
    from attribeam.attribution.models.model_check import EXAMPLE_RECORD, attention_shares
    from attribeam.lab.model_choice.check_report import example_lines, shares_line

    attributor = Attributor(parser=parser, model=model, spans=DEFAULT_SPAN_KINDS)
    print_lines(*example_lines(EXAMPLE_RECORD, attributor.attribute_many([EXAMPLE_RECORD])[0]))
    print_lines("", shares_line(attention_shares(model, EXAMPLE_RECORD)), "")


def _show_quality(model: AttentionModel, parser: AnswerParser, answers: Sequence[LabelledAnswer]) -> Quality:
    from attribeam.lab.model_choice.check_report import measure_quality, quality_lines

    quality = measure_quality(_shown(answers, "quality"), model, parser)
    print_lines(*quality_lines(quality))
    return quality


def _sweep(
    directory: ModelDirectory,
    model: AttentionModel,
    parser: AnswerParser,
    answers: Sequence[LabelledAnswer],
    output: Path,
) -> None:
    from attribeam.lab.evaluation.report import write_json
    from attribeam.lab.model_choice.setting_search import found_settings, search_layers, search_lines

    found = search_layers(answers, model, parser, _shown)
    print_lines(*search_lines(found, len(answers)))
    try:
        write_json(output, found_settings(directory, found.attention))
    except OSError as error:
        raise RunError(f"--output {output} could not be written: {error}") from error
    print_lines(
        "", f"written to {output}; use it with --attribution-config {output}, or copy it into the model's directory"
    )


def _shown(answers: Sequence[LabelledAnswer], what: str) -> Iterable[LabelledAnswer]:
    """The answers, with a progress bar on a terminal."""
    from tqdm import tqdm

    return cast("Iterable[LabelledAnswer]", tqdm(answers, desc=what, unit="row", disable=None))
