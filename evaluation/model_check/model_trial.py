"""Loads a model and tries it, printing what comes out step by step."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from tqdm import tqdm

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.model_check import (
    EXAMPLE_RECORD,
    agreement_with_float32,
    attention_shares,
    describe_model,
    is_exact,
    measure_speed,
)
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import with_chosen_dtype
from attribeam.attribution.models.layer_choice import choose_layer
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.options import ModelOptions
from attribeam.evaluation.datasets.labelled_log import load_log
from attribeam.evaluation.model_check.check_report import (
    agreement_line,
    description_lines,
    example_lines,
    loaded_line,
    measure_quality,
    quality_lines,
    serving_line,
    shares_line,
    speed_line,
)
from attribeam.evaluation.model_check.setting_search import (
    LEAST_SOURCES,
    found_settings,
    search_layers,
    search_lines,
)
from attribeam.evaluation.report import skip_remarks, write_json
from attribeam.logs.columns import LogOptions
from attribeam.report.messages import print_lines
from attribeam.schemas.errors import DataError, ModelLoadError, RunError, UsageError
from attribeam.schemas.labelled_answer import LabelledAnswer

LABELLED_ROWS = Path(__file__).parent / "labelled_rows.jsonl"


def labelled_answers(data: Path | None, options: LogOptions) -> tuple[LabelledAnswer, ...]:
    """The answers of the user's labelled log, which ``options`` say how to read; of the package's rows for None.

    Raises:
        UsageError: if the log cannot be read, or none of its spans has a label.
    """
    if data is None:
        return load_log(LABELLED_ROWS, LogOptions(format="jsonl")).answers
    try:
        dataset = load_log(data, options)
    except DataError as error:
        raise UsageError(f"--data: {error}") from error
    if not dataset.answers:
        reasons = ", ".join(skip_remarks(dataset.skipped)) or "the file has no rows"
        raise UsageError(
            f"--data {data} should have target spans with gold passages, has none: {reasons}; see 'Labels' in "
            "docs/schema.md"
        )
    return dataset.answers


def check_sources(answers: Sequence[LabelledAnswer]) -> None:
    """Refuse labelled rows that are too few for a choice of layers.

    Raises:
        UsageError: if their questions are.
    """
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
    if options.layer is None:
        return
    try:
        choose_layer(read_model_directory(options).config, options.layer)
    except ValueError as error:
        raise UsageError(f"--layer of {options.model!r}: {error}") from error


def try_model(
    options: ModelOptions, answers: Sequence[LabelledAnswer], *, threads: int | None, output: Path | None
) -> None:
    """Print what the model is, what it does with an example, and what it finds; sweep its layers into ``output``.

    Raises:
        ModelLoadError: if it cannot be used.
        RunError: if the choice cannot be written.
    """
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
    attributor = Attributor(parser=parser, models=LoadedModels(attention=model), spans=DEFAULT_SPAN_KINDS)
    print_lines(*example_lines(EXAMPLE_RECORD, attributor.attribute_many([EXAMPLE_RECORD])[0]))
    print_lines("", shares_line(attention_shares(model, EXAMPLE_RECORD)), "")
    quality = measure_quality(_shown(answers, "quality"), model, parser)
    print_lines(*quality_lines(quality))
    if output is None:
        print_lines("", serving_line(options.model, quality))
        return
    found = search_layers(answers, model, parser, _shown)
    print_lines(*search_lines(found, len(answers)))
    try:
        write_json(output, found_settings(described.directory, found.attention))
    except OSError as error:
        raise RunError(f"--output {output} could not be written: {error}") from error
    print_lines(
        "", f"written to {output}; use it with --attribution-config {output}, or copy it into the model's directory"
    )


def _agreement(model: AttentionModel, options: ModelOptions, threads: int | None) -> float | ModelLoadError:
    """The agreement with float32, or why float32 cannot be loaded beside the model."""
    try:
        return agreement_with_float32(model, options, threads=threads)
    except ModelLoadError as error:
        return error


def _shown(answers: Sequence[LabelledAnswer], what: str) -> Iterable[LabelledAnswer]:
    """The answers, with a progress bar on a terminal."""
    return cast("Iterable[LabelledAnswer]", tqdm(answers, desc=what, unit="row", disable=None))
