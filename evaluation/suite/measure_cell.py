"""Computing one cell: what all figures follow from without a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.evaluation.comparison import run_with_costs
from attribeam.evaluation.datasets.ragtruth import load_ragtruth
from attribeam.evaluation.lab_methods import LabelledContext, LabMethod
from attribeam.evaluation.measures.citations import SELF_CITATION, EntailmentModel, run_citations
from attribeam.evaluation.measures.cost import Cost, CostMeter, machine_words
from attribeam.evaluation.measures.faithfulness import TargetAnswers, run_drops
from attribeam.evaluation.measures.sensitivity import SensitivityFigure, default_point, one_at_a_time, sweep
from attribeam.evaluation.suite.plan import Cell, DataFile, Kind, suite_methods
from attribeam.evaluation.suite.suite_options import SuiteOptions
from attribeam.evaluation.support.judged_answers import group_figures
from attribeam.evaluation.support.judged_command import SPLIT, audited_answers
from attribeam.schemas import RowFault
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import LabelledAnswer, LabelledDataset


def with_targets(answers: Sequence[LabelledAnswer], made: Mapping[int, LabelledAnswer]) -> list[LabelledAnswer]:
    """The answers with their targets, and with their labels where answer and spans are unchanged.

    Answers without a target are left out.
    """
    pairs = ((one, made.get(one.record.source.source_row)) for one in answers)
    return [
        own if (target.spans, target.record.answer) == (own.spans, own.record.answer) else LabelledAnswer(target.record)
        for own, target in pairs
        if target is not None
    ]


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
    answers, _ = audited_answers(dataset.answers, attributor)
    if not answers:
        raise DataError(f"data {directory} should have answers that can be audited, has none")
    groups = group_figures(answers, draws=options.draws, seed=options.seed)
    return {"groups": [asdict(group) for group in groups]}


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
        targets: the targets of the data sets whose TARGETS cell has run, by row; ``run_cells`` adds to them.
        report_progress: passes answers on and moves the progress bar.
    """

    options: SuiteOptions
    datasets: Mapping[DataFile, LabelledDataset]
    layers: tuple[int, ...]
    entailment: EntailmentModel | None
    targets: dict[DataFile, Mapping[int, LabelledAnswer]]
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
    return {"tally": tally}


def _latency(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    """Like ``run_with_costs``, for answers without labelled passages; refused rows add neither time nor spans."""
    method, meter, cost, spans = _method(cell, inputs), CostMeter(models), Cost(), 0
    for labelled in inputs.report_progress(inputs.datasets[cell.data].answers):
        own = Cost()
        try:
            with meter.measuring(own):
                method.span_results(LabelledContext(labelled, models, method.needs))
        except RowFault:
            continue
        spans += len(labelled.spans)
        cost.seconds += own.seconds
        cost.peak_bytes = max(own.peak_bytes or 0, cost.peak_bytes or 0) or None
    return {"cost": cost, "spans": spans}


def _sensitivity(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    answers = inputs.report_progress(inputs.datasets[cell.data].answers)
    return {"lines": sensitivity_figures(answers, models, inputs.options, layers=inputs.layers)}


def _targets(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    """The answers with their targets by row, and the rows that were left out."""
    if models.language is None:
        raise RuntimeError("log-probability drops need a language model, none was loaded")
    answers = inputs.report_progress(inputs.datasets[cell.data].answers)
    made = TargetAnswers(answers, models.language, spans=inputs.options.spans, source=inputs.options.answers)
    targets = {one.record.source.source_row: one for one in made}
    return {"targets": targets, "skipped": [*made.skipped]}


def _faithfulness(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    answers = with_targets(inputs.datasets[cell.data].answers, inputs.targets[cell.data])
    tallies, refused = run_drops(inputs.report_progress(answers), [_method(cell, inputs)], models)
    return {"tally": tallies[0], "refused": [*refused]}


def _citations(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    if inputs.entailment is None:
        raise RuntimeError("citations need an NLI model, none was loaded")
    methods = [] if cell.method == SELF_CITATION else [_method(cell, inputs)]
    answers = inputs.report_progress(inputs.datasets[cell.data].answers)
    tallies = run_citations(answers, methods, models, inputs.entailment, most_citations=inputs.options.most_citations)
    return {"tally": tallies[-1]}


def _support(cell: Cell, inputs: CellInputs, models: LoadedModels) -> dict[str, object]:
    return judged_figures(cell.data.path, cell.method, models, inputs.options)


def _method(cell: Cell, inputs: CellInputs) -> LabMethod:
    return suite_methods(inputs.options.settings)[cell.method]


_MEASURES: Mapping[Kind, Callable[[Cell, CellInputs, LoadedModels], dict[str, object]]] = {
    Kind.PASSAGES: _passages,
    Kind.LATENCY: _latency,
    Kind.SENSITIVITY: _sensitivity,
    Kind.TARGETS: _targets,
    Kind.FAITHFULNESS: _faithfulness,
    Kind.CITATIONS: _citations,
    Kind.SUPPORT: _support,
}
