"""Ranks answers, and compares two audits of them.

Answers that have a verdict come by risk, then refusals, then those that cannot be judged. The risk of an answer is its
``answer_risk``, a calibrated probability. Where an audit has none, it is made of its claims: a claim's risk starts at 0
if it is supported, at 1/2 if weak and at 1 if unsupported. It is multiplied by the share of its attention that does not
lie on evidence (1 - evidence_mass), grows by 1/2 if it has unmatched values, and is at most 1. The answer's risk is two
thirds of its claims' largest risk plus one third of their mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import EmbeddedAnswer, audited_answers, with_texts, without_texts
from attribeam.schemas import AnswerKind, RowSource, SpanEvidence, Support
from attribeam.schemas.errors import UsageError
from attribeam.schemas.evidence_record import CLAIM_COLUMNS, CLAIM_SUPPORTS, claim_mask

UNMATCHED_RISK = 0.5
WORST_SHARE = 2 / 3
_START_RISKS = {Support.SUPPORTED: 0.0, Support.WEAK: 0.5, Support.UNSUPPORTED: 1.0, Support.NOT_CALIBRATED: 0.5}
_KINDS = pa.array([kind.value for kind in AnswerKind])
_JUDGED, _REFUSAL, _NOT_JUDGED = range(3)
"""Where an answer stands in the ranking: by its risk, or apart."""
_APART = {AnswerKind.REFUSAL: _REFUSAL, AnswerKind.NOT_JUDGED: _NOT_JUDGED}
_GROUP_OF_KIND = np.array([_APART.get(kind, _JUDGED) for kind in AnswerKind])
_SUMS = {"worst": "max", "risk": "sum", "claims": "sum", "unsupported": "sum", "group": "max", "given": "max"}


@dataclass(frozen=True, slots=True)
class AnswerRanking:
    """The first answers with their risks, 0 to 1, None where they cannot be judged; ties in the order of the input.

    Counted as judged are answers that have claims, or with calibrated risks those that have one. ``mean_risk`` is None
    where the audit has no calibrated risks.
    """

    riskiest: Mapping[RowSource, float | None]
    answer_count: int
    judged_count: int
    flagged_count: int
    mean_risk: float | None = None


class RiskTally:
    """Adds up risks batch after batch; it needs about 70 bytes of memory per answer, and its id if that is kept."""

    def __init__(self, *, with_ids: bool = False) -> None:
        ids = ("record_id",) if with_ids else ()
        self.columns: tuple[str, ...] = (
            *CLAIM_COLUMNS, *ids, "source_file", "source_row", "evidence_mass", "unmatched_values", "answer_kind",
            "answer_risk",
        )  # fmt: skip
        self._keys = ["file", "row", *ids]
        self.files: dict[str, int] = {}
        self._parts: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        files = batch["source_file"].dictionary_encode()
        numbers = [self.files.setdefault(name, len(self.files)) for name in files.dictionary.to_pylist()]
        claims = claim_mask(batch).to_numpy(zero_copy_only=False)
        kinds = pc.index_in(batch["answer_kind"], value_set=_KINDS).to_numpy(zero_copy_only=False)
        unsupported = pc.equal(batch["support"], str(Support.UNSUPPORTED)).to_numpy(zero_copy_only=False)
        risks = span_risks(batch) * claims
        columns = {
            "file": pa.array(numbers, pa.int32()).take(files.indices),
            "row": batch["source_row"],
            "record_id": batch["record_id"] if "record_id" in self._keys else pa.nulls(batch.num_rows),
            "worst": risks,
            "risk": risks,
            "claims": claims.astype(np.int64),
            "unsupported": (claims & unsupported).astype(np.int64),
            "group": _GROUP_OF_KIND[kinds],
            "given": batch["answer_risk"].cast(pa.float64()),
        }
        self._parts.append(self._summed(pa.table(columns)))

    def _summed(self, parts: pa.Table) -> pa.Table:
        sums = parts.group_by(self._keys).aggregate([*_SUMS.items()])
        names = {**{key: key for key in self._keys}, **{name: f"{name}_{how}" for name, how in _SUMS.items()}}
        return pa.table({name: sums[summed] for name, summed in names.items()})

    def answers(self) -> pa.Table:
        """One row per answer: file (a number), row, id if kept, risk, counts of claims, and group.

        ``given`` is the calibrated risk. There is no risk where the answer cannot be judged.
        """
        sums = self._summed(pa.concat_tables(self._parts))
        claims, given, group = sums["claims"], sums["given"], sums["group"]
        mean = pc.divide(sums["risk"], pc.max_element_wise(claims, 1).cast(pa.float64()))
        made = pc.add(pc.multiply(sums["worst"], WORST_SHARE), pc.multiply(mean, 1 - WORST_SHARE))
        cannot = pc.and_(pc.equal(group, _NOT_JUDGED), pc.equal(claims, 0))
        return pa.table(
            {
                **{name: sums[name] for name in (*self._keys, "given", "claims", "unsupported")},
                "risk": pc.if_else(cannot, None, pc.coalesce(given, made)),
                "group": pc.if_else(pc.equal(group, _REFUSAL), _REFUSAL, pc.if_else(cannot, _NOT_JUDGED, _JUDGED)),
            }
        )

    def ranking(self, size: int, also: Collection[RowSource] = ()) -> AnswerRanking:
        """The first ``size`` answers; a tenth of them are kept for refusals, and a tenth for what cannot be judged.

        Judged answers of the rows ``also`` are among them, however small their risk.
        """
        if not self._parts:
            return AnswerRanking({}, 0, 0, 0)
        answers, names = self.answers(), [*self.files]
        wanted = {(self.files.get(source.source_file), source.source_row) for source in also}
        groups = [answers.filter(pc.equal(answers["group"], group)) for group in (_JUDGED, _REFUSAL, _NOT_JUDGED)]
        # What one group does not need falls to the others.
        judged, refusals, not_judged = (group.num_rows for group in groups)
        kept_refusals, kept_others = min(refusals, size // 10), min(not_judged, size // 10)
        first = min(judged, size - kept_refusals - kept_others)
        second = min(refusals, size - first - kept_others)
        shown = (first, second, min(not_judged, size - first - second))
        chosen = {
            RowSource(names[row["file"]], row["row"]): row["risk"]
            for group, count in zip(groups, shown, strict=True)
            for row in _first(group, count, wanted)
        }
        columns = (pc.greater(answers[name], 0) for name in ("unsupported", "claims"))
        flagged, with_claims = (pc.sum(column, min_count=0).as_py() for column in columns)
        judged_count = pc.count(answers["given"]).as_py() or with_claims
        return AnswerRanking(chosen, answers.num_rows, judged_count, flagged, pc.mean(answers["given"]).as_py())


def rank_answers(audit: AuditDirectory, size: int, *, where: ds.Expression | None = None) -> AnswerRanking:
    """The first ``size`` answers of an audit, or of its rows ``where`` something holds."""
    tally = RiskTally()
    for batch in audit.evidence_batches(tally.columns, where=where):
        tally.add(batch)
    return tally.ranking(size)


def span_risks(batch: pa.RecordBatch) -> npt.NDArray[np.float64]:
    """The risk of each span, shape (spans,), 0 for what is no claim; without evidence mass it counts as of mass 0."""
    codes = pc.index_in(batch["support"], value_set=pa.array([support.value for support in CLAIM_SUPPORTS]))
    starts = np.array([*(_START_RISKS[support] for support in CLAIM_SUPPORTS), 0.0])
    start = starts[pc.fill_null(codes, len(CLAIM_SUPPORTS)).to_numpy(zero_copy_only=False)]
    mass = pc.fill_null(batch["evidence_mass"], 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    return _risk(start, mass, pc.list_value_length(batch["unmatched_values"]).to_numpy(zero_copy_only=False) > 0)


def riskiest_claim(spans: Sequence[SpanEvidence]) -> SpanEvidence | None:
    """The claim that most likely lacks support, of equal ones the first; None where there is no claim."""

    def risk_of(span: SpanEvidence) -> float:
        if span.support_score is not None:
            return 1 - span.support_score
        return float(_risk(_START_RISKS[span.support], span.evidence_mass or 0.0, bool(span.unmatched_values)))

    return max((span for span in spans if span.is_claim), key=risk_of, default=None)


def _risk(start: npt.ArrayLike, mass: npt.ArrayLike, unmatched: npt.ArrayLike) -> npt.NDArray[np.float64]:
    start, mass, unmatched = map(np.asarray, (start, mass, unmatched))
    risk: npt.NDArray[np.float64] = np.clip(start * (1 - mass) + UNMATCHED_RISK * unmatched, 0.0, 1.0)
    return risk


def _first(answers: pa.Table, size: int, also: Collection[tuple[int | None, int]]) -> list[dict[str, Any]]:
    """The ``size`` riskiest rows and those of ``also``, (file, row), in order; none for none."""
    if not size:
        return []
    order = [("risk", "descending"), ("file", "ascending"), ("row", "ascending")]
    taken = pc.select_k_unstable(answers, k=size, sort_keys=order).to_pylist()
    if also and answers.num_rows > size:
        sources = zip(answers["file"].to_pylist(), answers["row"].to_pylist(), strict=True)
        taken = [*{*taken, *(index for index, source in enumerate(sources) if source in also)}]
    chosen: list[dict[str, Any]] = answers.take(taken).sort_by(order).to_pylist()
    return chosen


RISK_STEP = 0.1
"""The least change of an answer's risk that counts as one."""


class AnswerChange(StrEnum):
    """What became of one answer since the earlier audit."""

    NEWLY_FLAGGED = "newly flagged"
    NO_LONGER_FLAGGED = "no longer flagged"
    OTHER_KIND = "another kind of answer"
    RISKIER = "riskier"
    LESS_RISKY = "less risky"
    SAME = "about the same"
    NEW = "not in the earlier audit"
    REPEATED = "id not unique"


@dataclass(frozen=True, slots=True)
class AuditComparison:
    """What changed between two audits. Answers of one ``record_id`` are the same.

    Where several answers of an audit have one id, as in several logs or behind masks, nobody knows which is which:
    these ids are ``repeated`` and not compared. The earlier audit's texts may be shown if its masks, if any, are the
    same.
    """

    earlier: AuditDirectory
    only_now: int
    only_before: int
    repeated: frozenset[str]
    shows_texts: bool
    answers: Mapping[str, ChangedAnswer]

    @property
    def changed(self) -> list[RowSource]:
        """Rows of this audit whose answers changed, the largest change first: a verdict before a risk."""
        changed = [answer for answer in self.answers.values() if answer.change is not AnswerChange.SAME]
        risks = (AnswerChange.RISKIER, AnswerChange.LESS_RISKY)
        changed.sort(key=lambda answer: (answer.change not in risks, abs(answer.step)), reverse=True)
        return [answer.source for answer in changed]

    def change_of(self, record_id: str) -> AnswerChange:
        """What became of an answer of this audit."""
        if record_id in self.repeated:
            return AnswerChange.REPEATED
        return self.answers[record_id].change if record_id in self.answers else AnswerChange.NEW

    def words(self) -> str:
        """The numbers of changes in a sentence's words, such as "2 newly flagged, 1 about the same"."""
        counts = Counter(answer.change for answer in self.answers.values())
        return ", ".join(f"{counts[change]:,} {change}" for change in AnswerChange if counts[change])

    def earlier_answers(self, record_ids: list[str]) -> dict[str, EmbeddedAnswer]:
        """Those of the answers that the earlier audit has, by id, as it saw them."""
        answers = audited_answers(self.earlier.evidence_of([key for key in record_ids if key in self.answers]))
        shown = map(with_texts if self.shows_texts else without_texts, answers)
        return {item.record_id: EmbeddedAnswer(item, self.answers[item.record_id].risk_before, None) for item in shown}


@dataclass(frozen=True, slots=True)
class ChangedAnswer:
    """An answer of both audits: its row now, its risk then, and the change of its risk."""

    source: RowSource
    change: AnswerChange
    risk_before: float | None
    step: float


def compare_audits(audit: AuditDirectory, earlier: AuditDirectory) -> AuditComparison:
    """Compare an audit with an earlier one; memory grows with the number of answers.

    Raises ``UsageError`` if the audits have no answer in common.
    """
    all_now, all_before = _answers(audit), _answers(earlier)
    counts = [Counter(answers["record_id"].to_pylist()) for answers in (all_now, all_before)]
    repeated = frozenset(record_id for counter in counts for record_id, count in counter.items() if count > 1)
    ids = pa.array(sorted(repeated), pa.string())
    now, before = (all_.filter(pc.invert(pc.is_in(all_["record_id"], ids))) for all_ in (all_now, all_before))
    both = now.join(before, keys="record_id", right_suffix="_before", join_type="inner", use_threads=False)
    if not both.num_rows:
        first = " and ".join(repr(min(counter)) if counter else "none" for counter in reversed(counts))
        lacks = "no record id that is unique in both and is one of" if repeated else "none of the record ids of"
        raise UsageError(
            f"--previous should be an audit of the same answers, but {str(earlier.root)!r} has {lacks} "
            f"{str(audit.root)!r}: {all_before.num_rows:,} and {all_now.num_rows:,} answers, the first ids are "
            f"{first}; name another audit, or leave --previous out"
        )
    answers = {row["record_id"]: _changed_answer(row) for row in both.to_pylist()}
    hidden, hidden_before = (side.manifest.options.get("privacy", {}) for side in (audit, earlier))
    return AuditComparison(
        earlier=earlier,
        only_now=now.num_rows - len(answers),
        only_before=before.num_rows - len(answers),
        repeated=repeated,
        shows_texts=hidden in ({}, hidden_before),
        answers=answers,
    )


def _answers(audit: AuditDirectory) -> pa.Table:
    """As ``RiskTally.answers``, with the names of files."""
    tally = RiskTally(with_ids=True)
    for batch in audit.evidence_columns(sorted(tally.columns)):
        tally.add(batch)
    if not tally.files:
        raise UsageError(f"--previous compares answers, but the audit {str(audit.root)!r} has none; leave it out")
    answers = tally.answers()
    files = pa.array([*tally.files]).take(answers["file"].combine_chunks())
    return answers.select(["record_id", "row", "risk", "group", "unsupported"]).append_column("file", files)


def _changed_answer(row: Mapping[str, Any]) -> ChangedAnswer:
    risk, before = row["risk"], row["risk_before"]
    step = 0.0 if risk is None or before is None else risk - before
    flagged, flagged_before = row["unsupported"] > 0, row["unsupported_before"] > 0
    if row["group"] != row["group_before"]:
        change = AnswerChange.OTHER_KIND
    elif flagged is not flagged_before and row["group"] == _JUDGED:
        change = AnswerChange.NEWLY_FLAGGED if flagged else AnswerChange.NO_LONGER_FLAGGED
    elif abs(step) < RISK_STEP:
        change = AnswerChange.SAME
    else:
        change = AnswerChange.RISKIER if step > 0 else AnswerChange.LESS_RISKY
    return ChangedAnswer(RowSource(row["file"], row["row"]), change, before, step)
