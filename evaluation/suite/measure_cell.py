"""Computing one cell: plain data, from which all figures are made without any model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.comparison import FailedRow, run_with_costs
from evaluation.datasets.labelled_answer import LabelledAnswer, LabelledDataset, SkippedRow
from evaluation.measures.citation_run import SELF_CITATION, run_citations
from evaluation.measures.cost import Cost, CostMeter
from evaluation.measures.entailment import EntailmentModel
from evaluation.measures.faithfulness import run_drops
from evaluation.methods.answer_context import AnswerContext, LoadedModels
from evaluation.methods.method import Method
from evaluation.suite.cell import Cell, Kind
from evaluation.suite.data_files import DataFile
from evaluation.suite.machine import machine_words
from evaluation.suite.stored_tallies import stored_tally
from evaluation.suite.suite_methods import suite_methods
from evaluation.suite.suite_options import SuiteOptions
from evaluation.suite.support_cell import support_figures
from evaluation.suite.sweep_cell import sensitivity_figures
from evaluation.suite.target_cell import stored_targets, with_targets
from schemas import RowFault

Watch = Callable[[Iterable[LabelledAnswer]], Iterator[LabelledAnswer]]
"""Hands answers on, and tells a progress bar."""


@dataclass(frozen=True)
class Bench:
    """What cells are computed with.

    Attributes:
        options: the suite's.
        datasets: the labelled data sets by their files.
        layers: 1-based layers of the model for the sweep.
        entailment: the NLI model, None where none is named.
        targets: the finished TARGETS cell of a data set.
        watch: the progress.
    """

    options: SuiteOptions
    datasets: Mapping[DataFile, LabelledDataset]
    layers: tuple[int, ...]
    entailment: EntailmentModel | None
    targets: Callable[[DataFile], Any]
    watch: Watch


def measure_cell(cell: Cell, bench: Bench, models: LoadedModels) -> dict[str, object]:
    """The cell's result, what its figures depend on, and the machine that its cost was measured on."""
    measured = _MEASURES[cell.kind](cell, bench, models)
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


def _passages(cell: Cell, bench: Bench, models: LoadedModels) -> dict[str, object]:
    (tally,) = run_with_costs(bench.watch(bench.datasets[cell.data].answers), [_method(cell, bench)], models)
    return {"tally": stored_tally(tally)}


def _latency(cell: Cell, bench: Bench, models: LoadedModels) -> dict[str, object]:
    """As ``run_with_costs``, for answers without labelled passages; a refused row counts no time and no span."""
    method, meter, cost, spans = _method(cell, bench), CostMeter(models), Cost(), 0
    failed: list[FailedRow] = []
    for labelled in bench.watch(bench.datasets[cell.data].answers):
        own = Cost()
        try:
            with meter.measuring(own):
                method.span_results(AnswerContext(labelled, models, method.needs))
        except RowFault as fault:
            failed.append(FailedRow(labelled.record.source.source_row, str(fault.reason), str(fault)))
            continue
        spans += len(labelled.spans)
        cost.seconds += own.seconds
        cost.peak_bytes = max(own.peak_bytes or 0, cost.peak_bytes or 0) or None
    return {"cost": asdict(cost), "spans": spans, "failed": [asdict(row) for row in failed]}


def _sensitivity(cell: Cell, bench: Bench, models: LoadedModels) -> dict[str, object]:
    answers = bench.watch(bench.datasets[cell.data].answers)
    return {"lines": sensitivity_figures(answers, models, bench.options, layers=bench.layers)}


def _targets(cell: Cell, bench: Bench, models: LoadedModels) -> dict[str, object]:
    answers = bench.watch(bench.datasets[cell.data].answers)
    return stored_targets(answers, models, spans=bench.options.spans, source=bench.options.source)


def _faithfulness(cell: Cell, bench: Bench, models: LoadedModels) -> dict[str, object]:
    answers = with_targets(bench.datasets[cell.data].answers, bench.targets(cell.data))
    tallies, refused = run_drops(bench.watch(answers), [_method(cell, bench)], models)
    return {"tally": stored_tally(tallies[0]), "refused": _skips(refused)}


def _citations(cell: Cell, bench: Bench, models: LoadedModels) -> dict[str, object]:
    if bench.entailment is None:
        raise RuntimeError("citations should have an NLI model, have none")
    methods = [] if cell.method == SELF_CITATION else [_method(cell, bench)]
    answers = bench.watch(bench.datasets[cell.data].answers)
    tallies = run_citations(answers, methods, models, bench.entailment, most_citations=bench.options.most_citations)
    return {"tally": stored_tally(tallies[-1])}


def _support(cell: Cell, bench: Bench, models: LoadedModels) -> dict[str, object]:
    return support_figures(cell.data.path, cell.method, models, bench.options)


def _method(cell: Cell, bench: Bench) -> Method:
    return suite_methods(bench.options.settings)[cell.method]


def _skips(rows: Iterable[SkippedRow]) -> list[dict[str, object]]:
    return [asdict(row) for row in rows]


_MEASURES: Mapping[Kind, Callable[[Cell, Bench, LoadedModels], dict[str, object]]] = {
    Kind.PASSAGES: _passages,
    Kind.LATENCY: _latency,
    Kind.SENSITIVITY: _sensitivity,
    Kind.TARGETS: _targets,
    Kind.FAITHFULNESS: _faithfulness,
    Kind.CITATIONS: _citations,
    Kind.SUPPORT: _support,
}
