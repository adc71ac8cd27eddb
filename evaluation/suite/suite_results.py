"""What a suite finds out: plain figures of every table, and what they depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.comparison import MethodScore
from evaluation.measures.bootstrap import Interval
from evaluation.measures.citation_run import CitationRow
from evaluation.measures.faithfulness import DropScore
from evaluation.suite.left_out import LeftOut
from evaluation.suite.suite_methods import ALTERNATIVES, with_paper_weights

AUGMENTED = "attn-union-dep"
TO_AVERAGE = (("hss-union", "hss-avg"), ("hss-union-dep", "hss-avg-dep"))


@dataclass(frozen=True, slots=True)
class Difference:
    """The accuracy of ``method`` minus that of ``reference`` in percent, with its interval over the same resamples."""

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
        """The method that alternatives to dependency augmentation are held against."""
        return with_paper_weights(AUGMENTED, [score.method for score in self.scores])

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The methods of the table of alternatives that ran, unions with the paper's weights, as the others have."""
        ran = [score.method for score in self.scores]
        return tuple(name for plain in ALTERNATIVES if (name := with_paper_weights(plain, ran)) in ran)

    def score(self, method: str) -> MethodScore | None:
        """The figures of one method, None where it did not run."""
        return next((score for score in self.scores if score.method == method), None)

    def difference(self, method: str, reference: str) -> Difference | None:
        """The paired difference, None where one of both did not run or they are not held against each other."""
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
    """What one method cost on one data set; ``peak_memory_mib`` is None where it is not known."""

    dataset: str
    method: str
    ms_per_span: float
    peak_memory_mib: float | None


@dataclass(frozen=True, slots=True)
class SensitivityLine:
    """Accuracy of one data set against one hyper-parameter; ``points`` as in ``evaluation.suite.sweep_cell``."""

    dataset: str
    varied: str
    points: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class SupportGroups:
    """Support labels of one data set; ``groups`` as in ``evaluation.support.support_label_figures.GroupFigures``."""

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
