"""Compares two audits of the same answers: whose verdict changed, whose risk, and what was said of their claims then.

Answers are the same if they have the same ``record_id``. Where several answers of an audit have one id, as in several
logs or behind masks, nobody knows which is which, so they are not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.report.answer_ranking import AnswerGroup, RiskTally
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedAnswer, audited_answers
from attribeam.report.privacy import with_texts, without_texts
from attribeam.schemas import RowSource
from attribeam.schemas.errors import UsageError

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
class EarlierAnswer:
    """An answer as the earlier audit saw it; ``risk`` is None where it could not be judged."""

    answer: AuditedAnswer
    risk: float | None


@dataclass(frozen=True, slots=True)
class AuditComparison:
    """What changed between two audits.

    Attributes:
        in_both, only_now, only_before: numbers of answers whose ids are unique.
        repeated: ids that several answers of an audit have.
        changes: numbers of the answers in both, by change.
        shows_texts: whether the earlier audit's texts may be shown beside this one's: its masks, if any, are the same.
        changed: rows of this audit whose answers changed, the largest change first: a verdict before a risk.
    """

    earlier: AuditDirectory
    in_both: int
    only_now: int
    only_before: int
    changes: Mapping[AnswerChange, int]
    changed: tuple[RowSource, ...]
    repeated: frozenset[str]
    shows_texts: bool
    _by_id: Mapping[str, tuple[AnswerChange, float | None]]

    def change_of(self, record_id: str) -> AnswerChange:
        """What became of an answer of this audit."""
        if record_id in self.repeated:
            return AnswerChange.REPEATED
        return self._by_id[record_id][0] if record_id in self._by_id else AnswerChange.NEW

    def words(self) -> str:
        """The numbers of changes in a sentence's words, such as "2 newly flagged, 1 about the same"."""
        counted = ((change, self.changes.get(change, 0)) for change in AnswerChange)
        return ", ".join(f"{count:,} {change}" for change, count in counted if count)

    def earlier_answers(self, record_ids: list[str]) -> dict[str, EarlierAnswer]:
        """Those of the answers that the earlier audit has, by id.

        Raises:
            RunError: if a file of the earlier audit cannot be read.
        """
        found = audited_answers(self.earlier.evidence_of([one for one in record_ids if one in self._by_id]))
        shown = (with_texts(one) if self.shows_texts else without_texts(one) for one in found)
        return {one.record_id: EarlierAnswer(one, self._by_id[one.record_id][1]) for one in shown}


def compare_audits(audit: AuditDirectory, earlier: AuditDirectory) -> AuditComparison:
    """Compare an audit with an earlier one; memory grows with the number of answers.

    Raises:
        UsageError: if the audits have no answer in common.
        RunError: if a file of one cannot be read.
    """
    all_now, all_before = _answers(audit), _answers(earlier)
    repeated = _repeated(all_now) | _repeated(all_before)
    now, before = _without(all_now, repeated), _without(all_before, repeated)
    both = now.join(before, keys="id", right_suffix="_before", join_type="inner", use_threads=False)
    if not both.num_rows:
        raise UsageError(_unrelated(audit, earlier, all_now, all_before))
    rows = [*_changes(both)]
    changed = sorted((one for one in rows if one.change is not AnswerChange.SAME), key=_size_of, reverse=True)
    return AuditComparison(
        earlier=earlier,
        in_both=len(rows),
        only_now=now.num_rows - len(rows),
        only_before=before.num_rows - len(rows),
        changes=Counter(one.change for one in rows),
        changed=tuple(one.source for one in changed),
        repeated=repeated,
        shows_texts=_privacy(audit) in ({}, _privacy(earlier)),
        _by_id={one.record_id: (one.change, one.risk_before) for one in rows},
    )


def _privacy(audit: AuditDirectory) -> object:
    """What the audit hides, as its manifest records it; empty where it hides nothing."""
    return audit.manifest.options.get("privacy", {})


@dataclass(frozen=True, slots=True)
class _Row:
    record_id: str
    source: RowSource
    change: AnswerChange
    risk_before: float | None
    risk_change: float


_COLUMNS = ["id", "row", "risk", "group", "unsupported"]


def _answers(audit: AuditDirectory) -> pa.Table:
    """One row per answer: id, file, row, risk, group, and number of unsupported claims.

    Raises:
        UsageError: if the audit has no answer.
    """
    tally = RiskTally(with_ids=True)
    for batch in audit.evidence_columns(sorted(tally.columns)):
        tally.add(batch)
    if not tally.file_names:
        raise UsageError(f"--previous compares answers, but the audit {str(audit.root)!r} has none; leave it out")
    answers = tally.answers()
    files = pa.array(tally.file_names).take(answers["file"].combine_chunks())
    return answers.select(_COLUMNS).append_column("file", files)


def _repeated(answers: pa.Table) -> frozenset[str]:
    """Ids that several answers have."""
    counts = answers["id"].value_counts()
    return frozenset(counts.field("values").filter(pc.greater(counts.field("counts"), 1)).to_pylist())


def _without(answers: pa.Table, ids: frozenset[str]) -> pa.Table:
    return answers.filter(pc.invert(pc.is_in(answers["id"], pa.array(sorted(ids), pa.string())))) if ids else answers


def _changes(both: pa.Table) -> Iterator[_Row]:
    for one in both.to_pylist():
        risk, before = one["risk"], one["risk_before"]
        step = 0.0 if risk is None or before is None else risk - before
        yield _Row(one["id"], RowSource(one["file"], one["row"]), _change(one, step), before, step)


def _change(one: Mapping[str, int], step: float) -> AnswerChange:
    if one["group"] != one["group_before"]:
        return AnswerChange.OTHER_KIND
    flagged, flagged_before = one["unsupported"] > 0, one["unsupported_before"] > 0
    if flagged is not flagged_before and one["group"] == AnswerGroup.JUDGED:
        return AnswerChange.NEWLY_FLAGGED if flagged else AnswerChange.NO_LONGER_FLAGGED
    if abs(step) < RISK_STEP:
        return AnswerChange.SAME
    return AnswerChange.RISKIER if step > 0 else AnswerChange.LESS_RISKY


def _size_of(one: _Row) -> tuple[bool, float]:
    return one.change not in (AnswerChange.RISKIER, AnswerChange.LESS_RISKY), abs(one.risk_change)


def _unrelated(audit: AuditDirectory, earlier: AuditDirectory, now: pa.Table, before: pa.Table) -> str:
    def first(answers: pa.Table) -> str:
        return repr(pc.min(answers["id"]).as_py()) if answers.num_rows else "none"

    shared = "has no record id that is unique in both and is one of"
    shared = shared if _repeated(now) | _repeated(before) else "has none of the record ids of"
    return (
        f"--previous should be an audit of the same answers, but {str(earlier.root)!r} {shared} "
        f"{str(audit.root)!r}: {before.num_rows:,} and {now.num_rows:,} answers, the first ids are {first(before)} and "
        f"{first(now)}; name another audit, or leave --previous out"
    )
