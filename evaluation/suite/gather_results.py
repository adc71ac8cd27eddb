"""Making the figures of a suite from its finished cells, without any model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluation.comparison import MethodTally, score_methods
from evaluation.datasets.labelled_answer import LabelledDataset
from evaluation.measures.bootstrap import CONFIDENCE, RowBootstrap
from evaluation.measures.citation_run import score_citations
from evaluation.measures.faithfulness import RANDOM_DRAWS, score_drops
from evaluation.suite.cell import Kind
from evaluation.suite.data_files import DataFile, FoundData, Section
from evaluation.suite.left_out import LeftOut
from evaluation.suite.run_suite import FinishedCell
from evaluation.suite.stored_tallies import citation_tally, drop_tally, method_tally
from evaluation.suite.suite_methods import ALTERNATIVES, suite_methods, with_paper_weights
from evaluation.suite.suite_options import SuiteOptions
from evaluation.suite.suite_results import (
    AUGMENTED,
    TO_AVERAGE,
    Citations,
    DatasetAccuracy,
    Difference,
    Drops,
    Latency,
    SensitivityLine,
    SuiteResults,
    SupportGroups,
)


def gather_results(
    cells: Sequence[FinishedCell],
    found: FoundData,
    left_out: tuple[LeftOut, ...],
    options: SuiteOptions,
    datasets: Mapping[DataFile, LabelledDataset],
    digests: Mapping[DataFile, Mapping[str, str]],
) -> SuiteResults:
    """The figures of all finished cells."""
    gathered = _Gathered(cells, found, options, datasets)
    accuracy = tuple(gathered.accuracy())
    return SuiteResults(
        model=options.choice.model.model,
        machines=tuple(sorted({one.result["machine"] for one in cells})),
        provenance=_provenance(cells),
        found=tuple({"dataset": one.name, "kind": one.kind, "sha256": dict(digests[one])} for one in found.files),
        missing=found.missing,
        left_out=left_out,
        confidence=CONFIDENCE,
        bootstrap_draws=options.draws,
        bootstrap_seed=options.seed,
        random_draws=RANDOM_DRAWS,
        limit=options.limit,
        spans=options.spans,
        answers=options.source,
        accuracy=accuracy,
        faithfulness=tuple(gathered.faithfulness()),
        citations=tuple(gathered.citations()),
        latency=(*_measured_costs(accuracy), *gathered.latency()),
        sensitivity=tuple(gathered.sensitivity()),
        support=tuple(gathered.support()),
    )


def _provenance(cells: Sequence[FinishedCell]) -> dict[str, str]:
    """Of the English cells together; those of a method say the paper's one."""
    merged: dict[str, str] = {}
    for one in cells:
        if one.cell.data.section is not Section.CHINESE:
            merged |= one.result["provenance"]
    return merged


def _measured_costs(accuracy: Sequence[DatasetAccuracy]) -> Iterator[Latency]:
    for dataset in accuracy:
        for score in dataset.scores:
            if score.ms_per_span is not None:
                yield Latency(dataset.dataset, score.method, score.ms_per_span, score.peak_memory_mib)


@dataclass(frozen=True)
class _Gathered:
    cells: Sequence[FinishedCell]
    found: FoundData
    options: SuiteOptions
    datasets: Mapping[DataFile, LabelledDataset]

    def accuracy(self) -> Iterator[DatasetAccuracy]:
        for data, cells in self._by_data(Kind.PASSAGES):
            tallies = [method_tally(one.result["tally"], one.cell.method) for one in cells]
            dataset = self.datasets[data]
            yield DatasetAccuracy(
                dataset=data.name,
                section=data.section,
                answers=len(dataset.answers),
                spans=sum(tallies[0].spans),
                single_passage_spans=sum(len(one.spans) for one in dataset.answers if len(one.record.passages) == 1),
                skipped_rows=dict(Counter(row.reason for row in dataset.skipped)),
                scores=score_methods(tallies, draws=self.options.draws, seed=self.options.seed),
                differences=tuple(self._differences(tallies)),
            )

    def faithfulness(self) -> Iterator[Drops]:
        targets = {data: cells[0].result for data, cells in self._by_data(Kind.TARGETS)}
        for data, cells in self._by_data(Kind.FAITHFULNESS):
            tallies = [drop_tally(one.result["tally"], one.cell.method) for one in cells]
            if not tallies[0].spans:
                continue
            skipped = [*targets[data]["skipped"], *cells[0].result["refused"]]
            scores = score_drops(tallies, draws=self.options.draws, seed=self.options.seed)
            yield Drops(data.name, dict(Counter(row["reason"] for row in skipped)), scores)

    def citations(self) -> Iterator[Citations]:
        for data, cells in self._by_data(Kind.CITATIONS):
            tallies = [citation_tally(one.result["tally"], one.cell.method) for one in cells]
            yield Citations(data.name, score_citations(tallies, draws=self.options.draws, seed=self.options.seed))

    def latency(self) -> Iterator[Latency]:
        for data, cells in self._by_data(Kind.LATENCY):
            for one in cells:
                cost, spans = one.result["cost"], one.result["spans"]
                if spans:
                    peak = None if cost["peak_bytes"] is None else cost["peak_bytes"] / 2**20
                    yield Latency(data.name, one.cell.method, 1000 * cost["seconds"] / spans, peak)

    def sensitivity(self) -> Iterator[SensitivityLine]:
        for data, cells in self._by_data(Kind.SENSITIVITY):
            for varied, points in cells[0].result["lines"].items():
                yield SensitivityLine(data.name, varied, tuple(points))

    def support(self) -> Iterator[SupportGroups]:
        for data, cells in self._by_data(Kind.SUPPORT):
            for one in cells:
                yield SupportGroups(data.name, one.cell.method, tuple(one.result["groups"]))

    def _by_data(self, kind: Kind) -> Iterator[tuple[DataFile, list[FinishedCell]]]:
        """The cells of one kind, data set by data set, in the order of the tables."""
        methods = [*suite_methods(self.options.settings)]
        own = [one for one in self.cells if one.cell.kind is kind]
        for data in (file for file in self.found.files if any(one.cell.data == file for one in own)):
            of_data = [one for one in own if one.cell.data == data]
            yield (
                data,
                sorted(of_data, key=lambda one: methods.index(one.cell.method) if one.cell.method in methods else -1),
            )

    def _differences(self, tallies: Sequence[MethodTally]) -> Iterator[Difference]:
        by_name = {tally.name: tally for tally in tallies}
        bootstrap = RowBootstrap(tallies[0].spans, draws=self.options.draws, seed=self.options.seed)
        augmented = with_paper_weights(AUGMENTED, by_name)
        others = [with_paper_weights(name, by_name) for name in ALTERNATIVES]
        for method, reference in (*TO_AVERAGE, *((name, augmented) for name in others)):
            if method in by_name and reference in by_name and method != reference:
                yield _difference(by_name[method], by_name[reference], bootstrap)


def _difference(tally: MethodTally, reference: MethodTally, bootstrap: RowBootstrap) -> Difference:
    credits = [own - other for own, other in zip(tally.credits, reference.credits, strict=True)]
    return Difference(tally.name, reference.name, 100 * sum(credits) / sum(tally.spans), bootstrap.interval(credits))
