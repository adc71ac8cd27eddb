"""Ranks answers: those that have a verdict by risk, then refusals, then those that cannot be judged.

The risk of an answer is its ``answer_risk``, a calibrated probability. Where an audit has none, it is made of its
claims: a claim's risk starts at 0 if it is supported, at 1/2 if weak and at 1 if unsupported. It is multiplied by the
share of its attention that does not lie on evidence (1 - evidence_mass), grows by 1/2 if it has unmatched values, and
is at most 1. The answer's risk is two thirds of its claims' largest risk plus one third of their mean.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribeam.schemas import AnswerKind, RowSource, SpanEvidence, Support
from attribeam.schemas.claim_rows import CLAIM_COLUMNS, CLAIM_SUPPORTS, claim_mask

UNMATCHED_RISK = 0.5
WORST_SHARE = 2 / 3
_START_RISKS = {Support.SUPPORTED: 0.0, Support.WEAK: 0.5, Support.UNSUPPORTED: 1.0, Support.NOT_CALIBRATED: 0.5}
_START_RISK = np.array([_START_RISKS[support] for support in CLAIM_SUPPORTS])
_KINDS = pa.array([kind.value for kind in AnswerKind])


class AnswerGroup(IntEnum):
    """Where an answer stands in the ranking: by its risk, or apart."""

    JUDGED = 0
    REFUSAL = 1
    NOT_JUDGED = 2


_GROUPS = {AnswerKind.REFUSAL: AnswerGroup.REFUSAL, AnswerKind.NOT_JUDGED: AnswerGroup.NOT_JUDGED}
_GROUP_OF_KIND = np.array([_GROUPS.get(kind, AnswerGroup.JUDGED) for kind in AnswerKind])
_ANSWER_KEYS = ["file", "row"]
_SUMS = [
    ("risk", "max"), ("risk", "sum"), ("claim", "sum"), ("unsupported", "sum"), ("group", "max"), ("given", "max"),
]  # fmt: skip
_RESERVED = 10


@dataclass(frozen=True, slots=True)
class AnswerRisk:
    """One audited answer and its risk, 0 to 1; None where it cannot be judged."""

    source: RowSource
    risk: float | None


@dataclass(frozen=True, slots=True)
class AnswerRanking:
    """The first answers: by risk, largest first, then refusals, then those that cannot be judged.

    Ties stay in the order of the input.

    Attributes:
        answer_count: number of all answers.
        judged_count: those that have claims, or with calibrated risks those that have one.
        flagged_count: those that have an unsupported claim.
        mean_risk: mean of the calibrated risks; None where the audit has none, and the risks are made of the claims.
    """

    riskiest: tuple[AnswerRisk, ...]
    answer_count: int
    judged_count: int
    flagged_count: int
    mean_risk: float | None = None


class RiskTally:
    """Adds up risks batch after batch; it needs about 70 bytes of memory per answer, and its id if that is kept."""

    columns: tuple[str, ...] = (
        *CLAIM_COLUMNS,
        "source_file",
        "source_row",
        "evidence_mass",
        "unmatched_values",
        "answer_kind",
        "answer_risk",
    )

    def __init__(self, *, with_ids: bool = False) -> None:
        self._keys = [*_ANSWER_KEYS, "id"] if with_ids else _ANSWER_KEYS
        if with_ids:
            self.columns = (*RiskTally.columns, "record_id")
        self._files: dict[str, int] = {}
        self._parts: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        claims = claim_mask(batch).to_numpy(zero_copy_only=False)
        kinds = pc.index_in(batch.column("answer_kind"), value_set=_KINDS).to_numpy(zero_copy_only=False)
        unsupported = pc.equal(batch.column("support"), str(Support.UNSUPPORTED)).to_numpy(zero_copy_only=False)
        table = pa.table(
            {
                "file": self._file_numbers(batch),
                "row": batch.column("source_row"),
                "risk": span_risks(batch) * claims,
                "claim": claims.astype(np.int64),
                "unsupported": (claims & unsupported).astype(np.int64),
                "group": _GROUP_OF_KIND[kinds],
                "given": batch.column("answer_risk").cast(pa.float64()),
            }
        )
        if "id" in self._keys:
            table = table.append_column("id", batch.column("record_id"))
        self._parts.append(table.group_by(self._keys).aggregate(_SUMS))

    def answers(self) -> pa.Table:
        """One row per answer: file, row, risk, group (an ``AnswerGroup``), unsupported claims, and its id if kept.

        ``file`` is a number, see ``file_names``; ``given`` is the calibrated risk.

        Raises:
            ValueError: if no batch was added.
        """
        if not self._parts:
            raise ValueError("answers are added up batch by batch, there was none")
        return _answer_risks(pa.concat_tables(self._parts), self._keys)

    @property
    def file_names(self) -> list[str]:
        """The file of each number."""
        return list(self._files)

    def ranking(self, size: int, also: Collection[RowSource] = ()) -> AnswerRanking:
        """The first ``size`` answers; a tenth of them are kept for refusals, and a tenth for what cannot be judged.

        Judged answers of the rows ``also`` are among them, however small their risk.
        """
        if not self._parts:
            return AnswerRanking((), 0, 0, 0)
        answers, names = self.answers(), self.file_names
        numbers = {(self._files.get(one.source_file), one.source_row) for one in also}
        chosen = tuple(
            AnswerRisk(RowSource(names[one["file"]], one["row"]), one["risk"])
            for group, places in zip(AnswerGroup, _places(answers, size), strict=True)
            for one in _first(answers.filter(pc.equal(answers["group"], group)), places, numbers)
        )
        flagged = pc.sum(pc.greater(answers["unsupported"], 0), min_count=0).as_py()
        judged = pc.count(answers["given"]).as_py() or pc.sum(answers["claims"], min_count=0).as_py()
        return AnswerRanking(chosen, answers.num_rows, judged, flagged, pc.mean(answers["given"]).as_py())

    def _file_numbers(self, batch: pa.RecordBatch) -> pa.Array:
        """Each span's file as a number, in the order in which files were first seen."""
        encoded = batch.column("source_file").dictionary_encode()
        numbers = [self._files.setdefault(name, len(self._files)) for name in encoded.dictionary.to_pylist()]
        return pa.array(numbers, pa.int32()).take(encoded.indices)


def span_risks(batch: pa.RecordBatch) -> npt.NDArray[np.float64]:
    """The risk of each span, shape (spans,), 0 for what is no claim; without evidence mass it counts as of mass 0."""
    codes = pc.index_in(batch.column("support"), value_set=pa.array([one.value for one in CLAIM_SUPPORTS]))
    start = np.append(_START_RISK, 0.0)[pc.fill_null(codes, len(CLAIM_SUPPORTS)).to_numpy(zero_copy_only=False)]
    mass = pc.fill_null(batch.column("evidence_mass"), 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    return _risk(start, mass, _has_unmatched_values(batch))


def riskiest_claim(spans: Sequence[SpanEvidence]) -> SpanEvidence | None:
    """The claim that most likely lacks support, of equal ones the first; None where there is no claim."""
    claims = [span for span in spans if span.is_claim]
    return max(claims, key=_claim_risk, default=None)


def _claim_risk(span: SpanEvidence) -> float:
    if span.support_score is not None:
        return 1 - span.support_score
    start = np.array(_START_RISKS[span.support])
    return float(_risk(start, np.array(span.evidence_mass or 0.0), np.array(bool(span.unmatched_values))))


def _risk(
    start: npt.NDArray[np.float64], mass: npt.NDArray[np.float64], unmatched: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    return np.clip(start * (1 - mass) + UNMATCHED_RISK * unmatched, 0.0, 1.0)


def _has_unmatched_values(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    lengths = pc.list_value_length(batch.column("unmatched_values")).to_numpy(zero_copy_only=False)
    has: npt.NDArray[np.bool_] = lengths > 0
    return has


def _answer_risks(parts: pa.Table, keys: list[str]) -> pa.Table:
    """One row per answer, even if its spans came in several batches; no risk where it cannot be judged."""
    sums = parts.group_by(keys).aggregate([(f"{name}_{how}", how) for name, how in _SUMS])
    claims = pc.max_element_wise(sums["claim_sum_sum"], 1).cast(pa.float64())
    mean = pc.multiply(pc.divide(sums["risk_sum_sum"], claims), 1 - WORST_SHARE)
    made = pc.add(pc.multiply(sums["risk_max_max"], WORST_SHARE), mean)
    refused = pc.equal(sums["group_max_max"], AnswerGroup.REFUSAL)
    cannot = pc.and_(pc.equal(sums["group_max_max"], AnswerGroup.NOT_JUDGED), pc.equal(sums["claim_sum_sum"], 0))
    judged = pc.if_else(cannot, int(AnswerGroup.NOT_JUDGED), int(AnswerGroup.JUDGED))
    group = pc.if_else(refused, int(AnswerGroup.REFUSAL), judged)
    return pa.table(
        {
            **{name: sums[name] for name in keys},
            "risk": pc.if_else(cannot, None, pc.coalesce(sums["given_max_max"], made)),
            "given": sums["given_max_max"],
            "unsupported": sums["unsupported_sum_sum"],
            "claims": pc.greater(sums["claim_sum_sum"], 0),
            "group": group,
        }
    )


def _places(answers: pa.Table, size: int) -> list[int]:
    """How many answers of each group are shown; what one group does not need falls to the others."""
    judged, refusals, not_judged = (
        pc.sum(pc.equal(answers["group"], group), min_count=0).as_py() for group in AnswerGroup
    )
    kept = [min(refusals, size // _RESERVED), min(not_judged, size // _RESERVED)]
    first = min(judged, size - sum(kept))
    second = min(refusals, size - first - kept[1])
    return [first, second, min(not_judged, size - first - second)]


def _first(answers: pa.Table, size: int, also: Collection[tuple[int | None, int]]) -> list[dict[str, Any]]:
    """The ``size`` riskiest rows and those of ``also``, (file, row), in order."""
    if not size:
        return []
    order = [("risk", "descending"), ("file", "ascending"), ("row", "ascending")]
    taken = pc.select_k_unstable(answers, k=size, sort_keys=order).to_pylist()
    if also and answers.num_rows > size:
        rows = pc.is_in(answers["row"], value_set=pa.array({row for _, row in also}, answers["row"].type))
        places = pc.indices_nonzero(rows).to_pylist()
        found = answers.take(places).select(["file", "row"]).to_pylist()
        own = (place for place, one in zip(places, found, strict=True) if (one["file"], one["row"]) in also)
        taken = [*{*taken, *own}]
    chosen: list[dict[str, Any]] = answers.take(taken).sort_by(order).to_pylist()
    return chosen
