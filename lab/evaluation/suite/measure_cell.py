"""Computing one cell: plain data, from which all figures follow without a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.lab.evaluation.comparison import FailedRow, run_with_costs
from attribeam.lab.evaluation.datasets.ragtruth import load_ragtruth
from attribeam.lab.evaluation.lab_methods import LabelledContext, LabMethod
from attribeam.lab.evaluation.measures.citations import SELF_CITATION, EntailmentModel, run_citations
from attribeam.lab.evaluation.measures.cost import Cost, CostMeter, machine_words
from attribeam.lab.evaluation.measures.faithfulness import TargetAnswers, run_drops
from attribeam.lab.evaluation.measures.faithfulness_targets import AnswerChoice, SpanChoice
from attribeam.lab.evaluation.measures.sensitivity import SensitivityFigure, default_point, one_at_a_time, sweep
from attribeam.lab.evaluation.suite.cell import Cell, Kind, stored_tally
from attribeam.lab.evaluation.suite.data_files import DataFile
from attribeam.lab.evaluation.suite.plan import suite_methods
from attribeam.lab.evaluation.suite.suite_options import SuiteOptions
from attribeam.lab.evaluation.support.judged_answers import group_figures
from attribeam.lab.evaluation.support.judged_command import SPLIT, audited_answers
from attribeam.schemas import CharRange, RowFault
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import LabelledAnswer, LabelledDataset, SkippedRow


def stored_targets(
    answers: Iterable[LabelledAnswer], models: LoadedModels, *, spans: SpanChoice, source: AnswerChoice
) -> dict[str, object]:
    """The answers and their spans by row, and the rows that were left out, as plain data."""
    if models.language is None:
        raise RuntimeError("log-probability drops need a language model, none was loaded")
    made = TargetAnswers(answers, models.language, spans=spans, source=source)
    rows = {
        str(one.record.source.source_row): {
            "answer": one.record.answer,
            "spans": [[span.char_start, span.char_end] for span in one.spans],
        }
        for one in made
    }
    return {"targets": rows, "skipped": [asdict(row) for row in made.skipped]}


def with_targets(answers: Sequence[LabelledAnswer], stored: Mapping[str, Any]) -> list[LabelledAnswer]:
    """The answers with their stored targets, and with their labels where answer and spans are unchanged.

    Answers without a stored target are left out.
    """
    made = []
    for labelled in answers:
        target = stored["targets"].get(str(labelled.record.source.source_row))
        if target is None:
            continue
        spans = tuple(CharRange(start, end) for start, end in target["spans"])
        if spans == labelled.spans and target["answer"] == labelled.record.answer:
            made.append(labelled)
        else:
            made.append(LabelledAnswer(replace(labelled.record, answer=target["answer"], target_spans=spans)))
    return made


TOP_KS = (1, 2, 3, 4, 5, 6, 8, 10)
ISOLATION_TAUS = (0, 1, 2, 3, 4, 5, math.inf)
MOST_LAYERS = 12


def sensitivity_figures(
    answers: Iterable[LabelledAnswer], models: LoadedModels, options: SuiteOptions, *, layers: tuple[int, ...]
) -> dict[str, list[dict[str, object]]]:
    """The points of ``layer``, ``top_k`` and ``isolation_tau`` as plain data; other options keep their defaults."""
    if models.attention is None:
        raise RuntimeError("a sweep needs an attention model, none was loaded")
    default = default_point(models.attention, options.settings)
    lines = one_at_a_time(
        default,
        layers=swept_layers(layers, default.layer),
        top_ks=sorted({*TOP_KS, default.top_k}),
        isolation_taus=sorted({*ISOLATION_TAUS, default.isolation_tau}),
    )
    points = list(dict.fromkeys(point for line in lines.values() for point in line))
    figures = sweep(answers, models, points, settings=options.settings, draws=options.draws, seed=options.seed)
    by_point = {figure.point: figure for figure in figures}
    return {
        varied: [_plain(by_point[point], varied, is_default=point == default) for point in line]
        for varied, line in lines.items()
    }


def swept_layers(layers: tuple[int, ...], default: int) -> tuple[int, ...]:
    """All layers, or about twelve at equal distances if there are more, always including the default."""
    step = math.ceil(len(layers) / MOST_LAYERS)
    return tuple(sorted({*layers[step - 1 :: step], layers[0], default}))


def _plain(figure: SensitivityFigure, varied: str, *, is_default: bool) -> dict[str, object]:
    value = getattr(figure.point, varied)
    return {
        "value": "inf" if value == math.inf else f"{value:g}",
        "is_default": is_default,
        "passage_accuracy": figure.passage_accuracy,
        "interval": {"low": figure.interval.low, "high": figure.interval.high},
        "failed_rows": figure.failed_rows,
        "isolated_spans": figure.isolated_spans,
    }


def judged_figures(directory: Path, method: str, models: LoadedModels, options: SuiteOptions) -> dict[str, object]:
    """The figures of ``support.judged_answers``, for all answers and for each task.

    Raises:
        DataError: if no answer could be audited.
    """
    if models.parser is None or models.attention is None:
        raise RuntimeError("the audit needs a parser and an attention model, one was not loaded")
    dataset = load_ragtruth(directory).of_split(SPLIT)
    dataset = dataset if options.limit is None else dataset.first(options.limit)
    union = options.settings.union_options(method)
    attributor = Attributor(parser=models.parser, model=models.attention.with_method(union), spans=DEFAULT_SPAN_KINDS)
    answers, failed = audited_answers(dataset.answers, attributor)
    if not answers:
        raise DataError(f"data {directory} should have answers that can be audited, has none")
    groups = group_figures(answers, draws=options.draws, seed=options.seed)
    return {"groups": [asdict(group) for group in groups], "failed": [asdict(row) for row in failed]}


ProgressReport = Callable[[Iterable[LabelledAnswer]], Iterator[LabelledAnswer]]
"""Passes answers on and moves a progress bar."""


@dataclass(frozen=True)
class CellInputs:
    """What cells are computed from.

    Attributes:
        options: the options of the suite.
        datasets: the labelled data sets by their files.
        layers: the 1-based layers of the model for the sweep.
        entailment: the NLI model, None if none is named.
        targets: returns the result of the finished TARGETS cell of a data set.
        report_progress: passes answers on and moves the progress bar.
    """

    options: SuiteOptions
    datasets: Mapping[DataFile, LabelledDataset]
    layers: tuple[int, ...]
    entailment: EntailmentModel | None
    targets: Callable[[DataFile], Any]
    report_progress: ProgressReport


def measure_cell(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    """The result of the cell, with its provenance and the machine that its cost was measured on."""
    measured = _MEASURES[cell.kind](cell, inputs, models)
    return {**measured, "provenance": provenance(models), "machine": machine_words()}


def provenance(models: LoadedModels) -> dict[str, str]:
    """Models, settings and versions."""
    found: dict[str, str] = {}
    if models.parser is not None:
        found["parser"] = models.parser.identity
    if models.language is not None:
        found |= models.language.provenance()
    if models.attention is not None:
        hidden = models.attention.layer_count // 2 if models.hidden_layer is None else models.hidden_layer
        found |= {**models.attention.provenance(), "hidden_layer": str(hidden)}
    return found


def _passages(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    (tally,) = run_with_costs(
        inputs.report_progress(inputs.datasets[cell.data].answers), [_method(cell, inputs)], models
    )
    return {"tally": stored_tally(tally)}


def _latency(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    """Like ``run_with_costs``, for answers without labelled passages; refused rows add neither time nor spans."""
    method, meter, cost, spans = _method(cell, inputs), CostMeter(models), Cost(), 0
    failed: list[FailedRow] = []
    for labelled in inputs.report_progress(inputs.datasets[cell.data].answers):
        own = Cost()
        try:
            with meter.measuring(own):
                method.span_results(LabelledContext(labelled, models, method.needs))
        except RowFault as fault:
            failed.append(FailedRow(labelled.record.source.source_row, str(fault.reason), str(fault)))
            continue
        spans += len(labelled.spans)
        cost.seconds += own.seconds
        cost.peak_bytes = max(own.peak_bytes or 0, cost.peak_bytes or 0) or None
    return {"cost": asdict(cost), "spans": spans, "failed": [asdict(row) for row in failed]}


def _sensitivity(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    answers = inputs.report_progress(inputs.datasets[cell.data].answers)
    return {"lines": sensitivity_figures(answers, models, inputs.options, layers=inputs.layers)}


def _targets(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    answers = inputs.report_progress(inputs.datasets[cell.data].answers)
    return stored_targets(answers, models, spans=inputs.options.spans, source=inputs.options.answers)


def _faithfulness(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    answers = with_targets(inputs.datasets[cell.data].answers, inputs.targets(cell.data))
    tallies, refused = run_drops(inputs.report_progress(answers), [_method(cell, inputs)], models)
    return {"tally": stored_tally(tallies[0]), "refused": _skips(refused)}


def _citations(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    if inputs.entailment is None:
        raise RuntimeError("citations need an NLI model, none was loaded")
    methods = [] if cell.method == SELF_CITATION else [_method(cell, inputs)]
    answers = inputs.report_progress(inputs.datasets[cell.data].answers)
    tallies = run_citations(answers, methods, models, inputs.entailment, most_citations=inputs.options.most_citations)
    return {"tally": stored_tally(tallies[-1])}


def _support(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    return judged_figures(cell.data.path, cell.method, models, inputs.options)


def _method(cell: Cell, inputs: CellInputs) -> LabMethod:
    return suite_methods(inputs.options.settings)[cell.method]


def _skips(rows: Iterable[SkippedRow]) -> list[dict[str, object]]:
    return [asdict(row) for row in rows]


_MEASURES: Mapping[Kind, Callable[[Cell, CellInputs, LoadedModels], dict[str, object]]] = {
    Kind.PASSAGES: _passages,
    Kind.LATENCY: _latency,
    Kind.SENSITIVITY: _sensitivity,
    Kind.TARGETS: _targets,
    Kind.FAITHFULNESS: _faithfulness,
    Kind.CITATIONS: _citations,
    Kind.SUPPORT: _support,
}
