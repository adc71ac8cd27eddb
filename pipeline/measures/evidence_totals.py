"""Sums over all evidence of an audit, made in one pass over the columns that its metrics need."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from math import sqrt

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.overview import AgreementTally, ShareBy, ShareTally
from attribeam.schemas import VERDICTS, Support
from attribeam.schemas.evidence_record import CLAIM_COLUMNS, claim_mask, claim_rows, judged_rows

_SUMMED_COLUMNS = (
    *CLAIM_COLUMNS, "span_kind", "evidence_mass", "evidence_isolated", "unmatched_values", "answer_risk",
    "reason", "how", "evidence_agrees", "citation_agrees", "answered_at",
)  # fmt: skip
RISK_THRESHOLD = "answer_risk_threshold"
"""What the provenance of a verdict calls the risk from which an answer is at risk."""

_DEFAULT_RISK_THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class RiskTotals:
    """The answers that have a risk, the sums of their risks and squares, and how many have at least the threshold."""

    answers: int = 0
    risk: float = 0.0
    at_risk: int = 0
    squared_risk: float = 0.0

    @property
    def mean_error(self) -> float | None:
        """The standard error of the mean risk; None for fewer than two answers."""
        if self.answers < 2:
            return None
        spread = max(self.squared_risk - self.risk**2 / self.answers, 0.0)
        return sqrt(spread / (self.answers - 1) / self.answers)


@dataclass(frozen=True, slots=True)
class AnswerTotals:
    """How claims lie in answers: claims of one answer stand or fall together, so they tell less than as many others.

    Attributes:
        answers: those that have a claim.
        claims: claims, and those of each verdict, in the order of ``VERDICTS``.
        products: sums over the answers of the products of these numbers, by their places.
    """

    answers: int = 0
    claims: tuple[float, ...] = (0.0,) * (1 + len(VERDICTS))
    products: tuple[tuple[float, ...], ...] = ((0.0,) * (1 + len(VERDICTS)),) * (1 + len(VERDICTS))

    def share_error(self, support: Support) -> float | None:
        """The standard error of the share of one verdict among the claims, of answers drawn by chance.

        It is that of a ratio of two sums over answers (linearised); None for fewer than two answers.
        """
        if self.answers < 2:
            return None
        place = 1 + VERDICTS.index(support)
        share = self.claims[place] / self.claims[0]
        own, both, all_claims = self.products[place][place], self.products[place][0], self.products[0][0]
        spread = max(own - 2 * share * both + share**2 * all_claims, 0.0)
        return sqrt(spread * self.answers / (self.answers - 1)) / self.claims[0]


class AnswerTally:
    """Adds up ``AnswerTotals`` over batches in which the rows of an answer follow each other, the first of index 0."""

    def __init__(self) -> None:
        size = 1 + len(VERDICTS)
        self._open = np.zeros((1, size))
        self._claims, self._products, self._answers = np.zeros(size), np.zeros((size, size)), 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch; its last answer may go on in the next."""
        answers = np.cumsum(_as_numpy(pc.equal(batch["span_index"], 0)))
        claims = _as_numpy(claim_mask(batch))
        masks = [claims, *(claims & _as_numpy(pc.equal(batch["support"], one.value)) for one in VERDICTS)]
        last = int(answers[-1]) if len(answers) else 0
        columns = [np.bincount(answers, weights=mask, minlength=last + 1) for mask in masks]
        counts = np.stack(columns, axis=1).astype(np.float64)
        counts[0] += self._open[0]
        self._finish(counts[:-1])
        self._open = counts[-1:]

    def result(self) -> AnswerTotals:
        """The sums so far, with the answer that is open."""
        self._finish(self._open)
        self._open = np.zeros_like(self._open)
        claims, products = self._claims.tolist(), self._products.tolist()
        return AnswerTotals(self._answers, tuple(claims), tuple(tuple(row) for row in products))

    def _finish(self, counts: npt.NDArray[np.float64]) -> None:
        self._answers += int(np.count_nonzero(counts[:, 0]))
        self._claims += counts.sum(axis=0)
        self._products += counts.T @ counts


def _as_numpy(mask: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = mask.to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True, slots=True)
class EvidenceTotals:
    """Sums over evidence records.

    Attributes:
        spans: target spans by (span kind, support), those within a claim too.
        claims: claims, each counted once.
        evidence_mass: sum of the claims' evidence masses, None if no claim has one.
        unmatched_spans: claims with at least one unmatched value.
        isolated_spans: claims whose whole evidence was isolated.
        cited_claims: claims for which the answer cites a passage.
        agreeing_claims: those whose best passages include a cited one.
        told_claims: claims whose words some passage sentences have.
        attended_claims: those whose evidence lies there, too.
        reasons: unsupported claims by ``reason``.
        hows: supported claims by ``how``.
        risks: of the answers.
        answers: how the claims lie in the answers.
        answered_at: the hour (UTC) at which half of the answers that have a time were given; None where none has one.
        groups: claims with a verdict by the values of ``generator`` and of each carried column that can be grouped.
    """

    spans: Mapping[tuple[str, str], int]
    claims: int
    evidence_mass: float | None
    unmatched_spans: int
    isolated_spans: int
    risks: RiskTotals = RiskTotals()
    answers: AnswerTotals = AnswerTotals()
    groups: tuple[ShareBy, ...] = field(default=())
    cited_claims: int = 0
    agreeing_claims: int = 0
    told_claims: int = 0
    attended_claims: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    hows: Mapping[str, int] = field(default_factory=dict)
    answered_at: datetime | None = None


def sum_evidence(audit: AuditDirectory) -> EvidenceTotals:
    """Sum up the evidence in one pass over the columns that are needed, in small batches.

    Raises:
        RunError: if a file cannot be read.
    """
    threshold = float(audit.manifest.models.get(RISK_THRESHOLD, _DEFAULT_RISK_THRESHOLD))
    carried = [one.name for one in audit.extra_fields if ShareTally.can_group(one)]
    groups = [ShareTally(column) for column in ("generator", *carried)]
    columns = (*_SUMMED_COLUMNS, "generator", *carried)
    return _sum_batches(audit.evidence_batches(columns), threshold, groups)


def _sum_batches(
    batches: Iterable[pa.RecordBatch], risk_threshold: float, groups: Sequence[ShareTally]
) -> EvidenceTotals:
    spans: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    hows: Counter[str] = Counter()
    mass: float | None = None
    claims = unmatched = isolated = 0
    citations, words = AgreementTally("citation_agrees"), AgreementTally("evidence_agrees")
    hours: Counter[datetime] = Counter()
    risks, answers = RiskTotals(), AnswerTally()
    for batch in batches:
        spans.update(zip(batch["span_kind"].to_pylist(), batch["support"].to_pylist(), strict=True))
        risks = _with_risks(risks, batch, risk_threshold)
        answers.add(batch)
        first = batch.filter(pc.equal(batch["span_index"], 0))["answered_at"].drop_null()
        hours.update(pc.floor_temporal(first, unit="hour").to_pylist())
        judged = judged_rows(batch)
        for tally in groups:
            tally.add(judged)
        of_claims = claim_rows(batch)
        claims += of_claims.num_rows
        of_batch = pc.sum(of_claims["evidence_mass"]).as_py()
        mass = mass if of_batch is None else (mass or 0.0) + of_batch
        isolated += pc.sum(of_claims["evidence_isolated"]).as_py() or 0
        citations.add(of_claims)
        words.add(of_claims)
        reasons.update(of_claims["reason"].drop_null().to_pylist())
        hows.update(of_claims["how"].drop_null().to_pylist())
        unmatched += pc.sum(pc.greater(pc.list_value_length(of_claims["unmatched_values"]), 0)).as_py() or 0
    shares = tuple(tally.result() for tally in groups)
    sums = dict(sorted(spans.items()))
    agreement = (citations.told, citations.agreeing, words.told, words.agreeing)
    return EvidenceTotals(
        sums, claims, mass, unmatched, isolated, risks, answers.result(), shares, *agreement, reasons, hows,
        _middle(hours),
    )  # fmt: skip


def _middle(hours: Counter[datetime]) -> datetime | None:
    """The median hour, the earlier one of two."""
    ordered = sorted(hours)
    place = bisect_left([*accumulate(hours[hour] for hour in ordered)], hours.total() / 2)
    return ordered[place] if ordered else None


def _with_risks(risks: RiskTotals, batch: pa.RecordBatch, threshold: float) -> RiskTotals:
    """With the risks of the answers whose first span is in the batch."""
    first = batch.filter(pc.equal(batch["span_index"], 0))
    known = pc.drop_null(first["answer_risk"]).cast(pa.float64())
    return RiskTotals(
        risks.answers + len(known),
        risks.risk + (pc.sum(known).as_py() or 0.0),
        risks.at_risk + (pc.sum(pc.greater_equal(known, threshold)).as_py() or 0),
        risks.squared_risk + (pc.sum(pc.multiply(known, known)).as_py() or 0.0),
    )
