"""The results of a suite: plain figures for every table, computed from finished cells without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attribeam.evaluation.comparison import MethodScore, MethodTally, score_methods
from attribeam.evaluation.measures.bootstrap import CONFIDENCE, Interval, RowBootstrap
from attribeam.evaluation.measures.citations import CitationRow, score_citations
from attribeam.evaluation.measures.faithfulness import RANDOM_DRAWS, DropScore, score_drops
from attribeam.evaluation.suite.plan import (
    ALTERNATIVES,
    DataFile,
    FinishedCell,
    FoundData,
    Kind,
    LeftOut,
    Section,
    suite_methods,
    with_paper_weights,
)
from attribeam.evaluation.suite.suite_options import SuiteOptions
from attribeam.schemas.labelled_answer import LabelledDataset

AUGMENTED = "attn-union-dep"
TO_AVERAGE = (("hss-union", "hss-avg"), ("hss-union-dep", "hss-avg-dep"))


@dataclass(frozen=True, slots=True)
class Difference:
    """Accuracy of ``method`` minus that of ``reference`` in percent, with its interval over the same resamples."""

    method: str
    reference: str
    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class DatasetAccuracy:
    """The passage accuracy of all methods on one data set; ``skipped_rows`` counts rows by reason."""

    dataset: str
    section: str
    answers: int
    spans: int
    single_passage_spans: int
    skipped_rows: Mapping[str, int]
    scores: tuple[MethodScore, ...]
    differences: tuple[Difference, ...]

    @property
    def augmented(self) -> str:
        """The method that alternatives to dependency augmentation are compared with."""
        return with_paper_weights(AUGMENTED, [score.method for score in self.scores])

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The methods of the table of alternatives that ran, all with the paper's weights."""
        ran = [score.method for score in self.scores]
        return tuple(name for plain in ALTERNATIVES if (name := with_paper_weights(plain, ran)) in ran)

    def score(self, method: str) -> MethodScore | None:
        """The figures of one method, None if it did not run."""
        return next((score for score in self.scores if score.method == method), None)

    def difference(self, method: str, reference: str) -> Difference | None:
        """The paired difference, None if a method did not run or the two are not compared."""
        pairs = (one for one in self.differences if (one.method, one.reference) == (method, reference))
        return next(pairs, None)


@dataclass(frozen=True, slots=True)
class Drops:
    """Log-probability drops on one data set."""

    dataset: str
    skipped_rows: Mapping[str, int]
    scores: tuple[DropScore, ...]


@dataclass(frozen=True, slots=True)
class Citations:
    """Citation quality on one data set."""

    dataset: str
    rows: tuple[CitationRow, ...]


@dataclass(frozen=True, slots=True)
class Latency:
    """The cost of one method on one data set; ``peak_memory_mib`` is None if it is not known."""

    dataset: str
    method: str
    ms_per_span: float
    peak_memory_mib: float | None


@dataclass(frozen=True, slots=True)
class SensitivityLine:
    """Accuracy on one data set as one hyper-parameter varies; ``points`` are those of ``measure_cell``."""

    dataset: str
    varied: str
    points: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class SupportGroups:
    """Support labels of one data set; ``groups`` are ``support.judged_answers.GroupFigures`` as plain data."""

    dataset: str
    method: str
    groups: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class SuiteResults:
    """All figures of a suite and what they depend on."""

    model: str
    machines: tuple[str, ...]
    provenance: Mapping[str, str]
    found: tuple[Mapping[str, object], ...]
    missing: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    confidence: float
    bootstrap_draws: int
    bootstrap_seed: int
    random_draws: int
    limit: int | None
    spans: str
    answers: str
    accuracy: tuple[DatasetAccuracy, ...]
    faithfulness: tuple[Drops, ...]
    citations: tuple[Citations, ...]
    latency: tuple[Latency, ...]
    sensitivity: tuple[SensitivityLine, ...]
    support: tuple[SupportGroups, ...]


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
        found=tuple(
            {"dataset": one.name, "kind": one.loader_name, "sha256": dict(digests[one])} for one in found.files
        ),
        missing=found.missing,
        left_out=left_out,
        confidence=CONFIDENCE,
        bootstrap_draws=options.draws,
        bootstrap_seed=options.seed,
        random_draws=RANDOM_DRAWS,
        limit=options.limit,
        spans=options.spans,
        answers=options.answers,
        accuracy=accuracy,
        faithfulness=tuple(gathered.faithfulness()),
        citations=tuple(gathered.citations()),
        latency=(*_measured_costs(accuracy), *gathered.latency()),
        sensitivity=tuple(gathered.sensitivity()),
        support=tuple(gathered.support()),
    )


def _provenance(cells: Sequence[FinishedCell]) -> dict[str, str]:
    """The merged provenance of all cells except the Chinese ones."""
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
            tallies = [replace(one.result["tally"], name=one.cell.method) for one in cells]
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
            tallies = [replace(one.result["tally"], name=one.cell.method) for one in cells]
            if not tallies[0].spans:
                continue
            skipped = [*targets[data]["skipped"], *cells[0].result["refused"]]
            scores = score_drops(tallies, draws=self.options.draws, seed=self.options.seed)
            yield Drops(data.name, dict(Counter(row.reason for row in skipped)), scores)

    def citations(self) -> Iterator[Citations]:
        for data, cells in self._by_data(Kind.CITATIONS):
            tallies = [replace(one.result["tally"], name=one.cell.method) for one in cells]
            yield Citations(data.name, score_citations(tallies, draws=self.options.draws, seed=self.options.seed))

    def latency(self) -> Iterator[Latency]:
        for data, cells in self._by_data(Kind.LATENCY):
            for one in cells:
                cost, spans = one.result["cost"], one.result["spans"]
                if spans:
                    peak = None if cost.peak_bytes is None else cost.peak_bytes / 2**20
                    yield Latency(data.name, one.cell.method, 1000 * cost.seconds / spans, peak)

    def sensitivity(self) -> Iterator[SensitivityLine]:
        for data, cells in self._by_data(Kind.SENSITIVITY):
            for varied, points in cells[0].result["lines"].items():
                yield SensitivityLine(data.name, varied, tuple(points))

    def support(self) -> Iterator[SupportGroups]:
        for data, cells in self._by_data(Kind.SUPPORT):
            for one in cells:
                yield SupportGroups(data.name, one.cell.method, tuple(one.result["groups"]))

    def _by_data(self, kind: Kind) -> Iterator[tuple[DataFile, list[FinishedCell]]]:
        """The cells of one kind by data set, in the order of the tables."""
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
