"""Which answers are most worth a person's time: the risk of a span, of an answer, and the ranking by it.

A span's risk starts at 0 where it is supported, at 1/2 where it is weak and at 1 where it is unsupported; it is
multiplied by the share of its attention that does not lie on evidence (1 - evidence_mass); 1/2 is added where it has
unmatched values; and it is at most 1. An answer's risk is two thirds the largest risk of its spans and one third their
mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from report.evidence_columns import support_codes
from schemas import RowSource

UNMATCHED_RISK = 0.5
WORST_SHARE = 2 / 3
_SUPPORT_RISK = np.array([0.0, 0.5, 1.0])
_KEYS = ["file", "row"]


@dataclass(frozen=True, slots=True)
class AnswerRisk:
    """One audited answer and its risk, 0 to 1."""

    source: RowSource
    risk: float


@dataclass(frozen=True, slots=True)
class AnswerRanking:
    """The riskiest answers, largest risk first, ties in the order of the input; and how many answers there are.

    ``clean`` counts the answers whose spans are all supported.
    """

    riskiest: tuple[AnswerRisk, ...]
    answers: int
    clean: int


class RiskTally:
    """Adds up risks batch by batch; memory is some 40 bytes an answer."""

    columns: tuple[str, ...] = ("source_file", "source_row", "evidence_mass", "support", "unmatched_values")

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._parts: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        risk = span_risks(batch)
        table = pa.table({"file": self._file_numbers(batch), "row": batch.column("source_row"), "risk": risk})
        parts = table.group_by(_KEYS).aggregate([("risk", "max"), ("risk", "sum"), ("risk", "count")])
        self._parts.append(parts)

    def ranking(self, size: int) -> AnswerRanking:
        """The ``size`` riskiest answers."""
        if not self._parts:
            return AnswerRanking((), 0, 0)
        answers = _answer_risks(pa.concat_tables(self._parts))
        order = [("risk", "descending"), ("file", "ascending"), ("row", "ascending")]
        first = answers.take(pc.select_k_unstable(answers, k=size, sort_keys=order)).sort_by(order)
        names = list(self._files)
        riskiest = tuple(
            AnswerRisk(RowSource(names[one["file"]], one["row"]), one["risk"]) for one in first.to_pylist()
        )
        clean = pc.sum(pc.equal(answers["risk"], 0.0)).as_py()
        return AnswerRanking(riskiest, answers.num_rows, clean)

    def _file_numbers(self, batch: pa.RecordBatch) -> pa.Array:
        """Each span's file as a number, in the order in which files were first seen."""
        encoded = batch.column("source_file").dictionary_encode()
        numbers = [self._files.setdefault(name, len(self._files)) for name in encoded.dictionary.to_pylist()]
        return pa.array(numbers, pa.int32()).take(encoded.indices)


def span_risks(batch: pa.RecordBatch) -> npt.NDArray[np.float64]:
    """The risk of each span, shape (spans,)."""
    mass = batch.column("evidence_mass").to_numpy(zero_copy_only=False).astype(np.float64)
    unmatched = pc.list_value_length(batch.column("unmatched_values")).to_numpy(zero_copy_only=False) > 0
    risk: npt.NDArray[np.float64] = _SUPPORT_RISK[support_codes(batch)] * (1 - mass) + UNMATCHED_RISK * unmatched
    return np.clip(risk, 0.0, 1.0)


def _answer_risks(parts: pa.Table) -> pa.Table:
    """One row an answer, also where its spans stood in several batches."""
    sums = parts.group_by(_KEYS).aggregate([("risk_max", "max"), ("risk_sum", "sum"), ("risk_count", "sum")])
    mean = pc.divide(sums["risk_sum_sum"], sums["risk_count_sum"].cast(pa.float64()))
    worst = pc.multiply(sums["risk_max_max"], WORST_SHARE)
    risk = pc.add(worst, pc.multiply(mean, 1 - WORST_SHARE))
    return pa.table({"file": sums["file"], "row": sums["row"], "risk": risk})
