"""The data of the page: what is drawn, from one pass over the evidence, the answers and the dead letters, as JSON.

Ranges are ``[char_start, char_end]`` and count code points; scores are rounded to three digits. A text that the page
can cut out of the answer or a passage is not written a second time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Protocol

import pyarrow as pa

from attribeam.report.audit_directory import AuditDirectory, evidence_columns
from attribeam.report.audited_logs import AuditedLogs
from attribeam.report.passage_use import PassageRanking, PassageTally, RankTally, RankUse, retrieved_passages
from attribeam.report.support_distribution import (
    MassHistogram,
    MassTally,
    ShareBy,
    ShareTally,
    Timeline,
    TimelineTally,
    can_be_grouped,
)
from attribeam.report.worklist import AnswerRanking, EmbeddedAnswer, EmbeddedDeadLetter, EvidenceRow, RiskTally


class _Tally(Protocol):
    @property
    def columns(self) -> tuple[str, ...]: ...

    def add(self, batch: pa.RecordBatch) -> None: ...


@dataclass(frozen=True, slots=True)
class Overview:
    """Aggregates of a whole audit; their size does not depend on the number of spans.

    ``shares`` are by generator, by kind of span, and by each extra column whose values can be grouped.
    """

    timeline: Timeline
    masses: MassHistogram
    shares: tuple[ShareBy, ...]
    ranks: tuple[RankUse, ...]
    passages: PassageRanking
    ranking: AnswerRanking


def read_overview(audit: AuditDirectory, logs: AuditedLogs, *, answers: int) -> Overview:
    """Aggregate an audit, with the ranking of its ``answers`` riskiest answers.

    Raises:
        RunError: if a file of the audit cannot be read.
    """
    timeline, masses, ranks, passages, risks = TimelineTally(), MassTally(), RankTally(), PassageTally(), RiskTally()
    grouped = [field.name for field in audit.extra_fields if can_be_grouped(field)]
    shares = [ShareTally(column) for column in ("generator", "span_kind", *grouped)]
    tallies: Sequence[_Tally] = (timeline, masses, ranks, passages, risks, *shares)
    columns = sorted({column for tally in tallies for column in tally.columns})
    for batch in evidence_columns(audit, columns):
        for tally in tallies:
            tally.add(batch)
    return Overview(
        timeline=timeline.result(),
        masses=masses.result(),
        shares=tuple(tally.result() for tally in shares),
        ranks=ranks.result(),
        passages=passages.result(retrieved_passages(logs)),
        ranking=risks.ranking(answers),
    )


MAX_ANSWER_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class AnswersJson:
    """The answers' JSON array, how many answers are in it, and how many of these have their texts."""

    text: str
    answers: int
    with_texts: int


def answers_json(answers: Iterable[EmbeddedAnswer], *, max_bytes: int = MAX_ANSWER_BYTES) -> AnswersJson:
    """As many answers, from the first on, as fit into ``max_bytes`` of UTF-8."""
    items: list[str] = []
    size = with_texts = 0
    for answer in answers:
        item = compact_json(_answer_json(answer))
        size += len(item.encode()) + 1
        if size > max_bytes:
            break
        items.append(item)
        with_texts += answer.texts is not None
    return AnswersJson(f"[{','.join(items)}]", len(items), with_texts)


def dead_letters_json(letters: Iterable[EmbeddedDeadLetter]) -> str:
    """The dead letters as a JSON array."""
    return compact_json([asdict(letter) for letter in letters])


def plots_json(overview: Overview) -> str:
    """What the plots show."""
    return compact_json(
        {
            "timeline": asdict(overview.timeline),
            "masses": [asdict(one) for one in overview.masses.bins],
            "shares": [asdict(one) for one in overview.shares],
            "ranks": [asdict(one) for one in overview.ranks],
            "passages": asdict(overview.passages),
        }
    )


def compact_json(value: object) -> str:
    """JSON without white space that no HTML parser can take for markup: ``<``, ``>`` and ``&`` are escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _answer_json(answer: EmbeddedAnswer) -> dict[str, object]:
    first = answer.spans[0]
    texts = answer.texts
    passages = () if texts is None else texts.passages
    return {
        "id": first["record_id"],
        "file": answer.source.source_file,
        "row": answer.source.source_row,
        "at": _moment(first["answered_at"]),
        "generator": first["generator"],
        "risk": _rounded(answer.risk),
        "extra": answer.extra,
        "question": None if texts is None else texts.question,
        "answer": None if texts is None else texts.answer,
        "passages": [{"id": one.passage_id, "title": one.title, "text": one.text} for one in passages],
        "spans": [_span_json(row, with_texts=texts is not None) for row in answer.spans],
    }


def _span_json(row: EvidenceRow, *, with_texts: bool) -> dict[str, object]:
    return {
        "index": row["span_index"],
        "kind": row["span_kind"],
        "at": [row["char_start"], row["char_end"]],
        "text": None if with_texts else row["text"],
        "fact": [[one["char_start"], one["char_end"]] for one in _structs(row["atomic_fact"])],
        "evidence": [_piece_json(one, with_texts=with_texts) for one in _structs(row["evidence"])],
        "scores": [_rounded(score) for score in _floats(row["passage_scores"])],
        "top": row["top_passage_index"],
        "margin": _rounded(row["margin"]),
        "mass": _rounded(row["evidence_mass"]),
        "isolated": row["evidence_isolated"],
        "support": row["support"],
        "unmatched": row["unmatched_values"],
    }


def _piece_json(piece: Mapping[str, object], *, with_texts: bool) -> list[object]:
    """Passage, 1 for its title or 0 for its text, range, score; then id and text where the page has no passages."""
    place = [piece["passage_index"], int(bool(piece["in_title"])), piece["char_start"], piece["char_end"]]
    return [*place, _rounded(piece["score"]), *(() if with_texts else (piece["passage_id"], piece["text"]))]


def _structs(value: object) -> Sequence[Mapping[str, object]]:
    return value if isinstance(value, list) else []


def _floats(value: object) -> Sequence[float]:
    return value if isinstance(value, list) else []


def _rounded(value: object) -> float | None:
    return float(f"{value:.3g}") if isinstance(value, float) else None


def _moment(value: object) -> str | None:
    return value.isoformat() if isinstance(value, datetime) else None


_ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}
