"""What an audit's page is made of: plots and answers as JSON; styles, scripts, licences and security policy.

All plots come from one pass over the evidence. Ranges are arrays of ``char_start`` and ``char_end`` in code points;
scores have three significant digits. A text that the page can cut out of the answer or a passage is not written twice.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from attribeam.report.answer_ranking import AnswerRanking, RiskTally, riskiest_claim
from attribeam.report.audit_comparison import AuditComparison, EarlierAnswer
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.passages import AgreementTally, PassageRanking, PassageTally, RankTally, RankUse
from attribeam.report.support_distribution import (
    MassHistogram,
    MassTally,
    ShareBy,
    ShareTally,
    Timeline,
    TimelineTally,
)
from attribeam.report.worklist import EmbeddedAnswer
from attribeam.schemas import CharRange, EvidencePiece, RowSource, SpanEvidence
from attribeam.schemas.claim_rows import CLAIM_COLUMNS, claim_rows, judged_rows


class _Tally(Protocol):
    @property
    def columns(self) -> tuple[str, ...]: ...

    def add(self, batch: pa.RecordBatch) -> None: ...


@dataclass(frozen=True, slots=True)
class Overview:
    """Aggregates of a whole audit's claims; their size does not depend on the number of spans.

    ``shares`` has one entry for the generator, one for the kind of span, and one per extra column that can be grouped.
    ``passages`` has counted the passages' uses; their ranking needs the logs.
    """

    timeline: Timeline
    masses: MassHistogram
    support_scores: MassHistogram
    shares: tuple[ShareBy, ...]
    ranks: tuple[RankUse, ...]
    passages: PassageTally
    citations: AgreementTally
    evidence: AgreementTally
    ranking: AnswerRanking


def read_overview(audit: AuditDirectory, *, answers: int, also: Collection[RowSource] = ()) -> Overview:
    """Aggregate the claims of an audit in one pass, and rank its ``answers`` first answers and those of ``also``.

    Raises:
        RunError: if a file of the audit cannot be read.
    """
    timeline, ranks, passages, risks = TimelineTally(), RankTally(), PassageTally(), RiskTally()
    citations, evidence = AgreementTally("citation_agrees"), AgreementTally("evidence_agrees")
    masses, scores = MassTally(), MassTally("support_score")
    grouped = [field.name for field in audit.extra_fields if ShareTally.can_group(field)]
    shares = [ShareTally(column) for column in ("generator", "span_kind", *grouped)]
    of_claims: Sequence[_Tally] = (ranks, passages, citations, evidence)
    of_judged: Sequence[_Tally] = (timeline, masses, scores, *shares)
    tallies = (risks, *of_claims, *of_judged)
    columns = sorted({*CLAIM_COLUMNS, *(column for tally in tallies for column in tally.columns)})
    for batch in audit.evidence_columns(columns):
        risks.add(batch)
        _add_to(of_claims, claim_rows(batch))
        _add_to(of_judged, judged_rows(batch))
    return Overview(
        timeline=timeline.result(),
        masses=masses.result(),
        support_scores=scores.result(),
        shares=tuple(tally.result() for tally in shares),
        ranks=ranks.result(),
        passages=passages,
        citations=citations,
        evidence=evidence,
        ranking=risks.ranking(answers, also),
    )


def _add_to(tallies: Iterable[_Tally], batch: pa.RecordBatch) -> None:
    for tally in tallies:
        tally.add(batch)


MAX_ANSWER_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class AnswersJson:
    """A JSON array of ``answer_count`` answers, ``with_text_count`` of them with their texts."""

    text: str
    answer_count: int
    with_text_count: int


def answers_json(
    answers: Sequence[EmbeddedAnswer],
    comparison: AuditComparison | None = None,
    *,
    max_bytes: int = MAX_ANSWER_BYTES,
) -> AnswersJson:
    """The first answers, as many as fit into ``max_bytes`` of UTF-8; with a ``comparison``, what was said of them then.

    Raises:
        RunError: if a file of the earlier audit cannot be read.
    """
    items: list[str] = []
    size = with_text_count = 0
    earlier = {} if comparison is None else comparison.earlier_answers([one.answer.record_id for one in answers])
    for answer in answers:
        found = _answer_json(answer)
        if comparison is not None:
            found |= _earlier_json(answer.answer.record_id, comparison, earlier)
        item = compact_json(found)
        size += len(item.encode()) + 1
        if size > max_bytes:
            break
        items.append(item)
        with_text_count += answer.texts is not None
    return AnswersJson(f"[{','.join(items)}]", len(items), with_text_count)


def plots_json(overview: Overview, passages: PassageRanking) -> str:
    """What the plots show."""
    return compact_json(
        {
            "timeline": asdict(overview.timeline),
            "masses": [asdict(one) for one in overview.masses.bins],
            "support_scores": [asdict(one) for one in overview.support_scores.bins],
            "shares": [asdict(one) for one in overview.shares],
            "ranks": [asdict(one) for one in overview.ranks],
            "passages": asdict(passages),
        }
    )


def compact_json(value: object) -> str:
    """JSON without white space or anything that an HTML parser takes for markup: ``<``, ``>`` and ``&`` are escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _answer_json(embedded: EmbeddedAnswer) -> dict[str, object]:
    answer, texts = embedded.answer, embedded.texts
    passages = () if texts is None else texts.passages
    worst, places = riskiest_claim(answer.spans), {span.span_index: place for place, span in enumerate(answer.spans)}
    return {
        "id": answer.record_id,
        "file": answer.source.source_file,
        "row": answer.source.source_row,
        "at": None if answer.answered_at is None else answer.answered_at.isoformat(),
        "generator": answer.generator,
        "risk": _rounded(embedded.risk),
        "answer_kind": answer.kind,
        "not_judged": answer.not_judged,
        "worst": None if worst is None else places[worst.span_index],
        "extra": embedded.extra_columns,
        "question": None if texts is None else texts.question,
        "answer": None if texts is None else texts.answer,
        "passages": [{"id": one.passage_id, "title": one.title, "text": one.text} for one in passages],
        "spans": [_span_json(span, places, with_texts=texts is not None) for span in answer.spans],
    }


def _earlier_json(
    record_id: str, comparison: AuditComparison, earlier: Mapping[str, EarlierAnswer]
) -> dict[str, object]:
    """What became of the answer, and what the earlier audit said of its claims, in their order."""
    then = earlier.get(record_id)
    if then is None:
        return {"change": comparison.change_of(record_id), "before": None}
    # As the page orders the claims of today: of two that begin at one place, the longer one first.
    claims = sorted(
        (span for span in then.answer.spans if span.is_claim),
        key=lambda span: (span.chars.char_start, -span.chars.char_end),
    )
    said = [[span.text, span.support, _rounded(span.support_score), list(span.unmatched_values)] for span in claims]
    return {
        "change": comparison.change_of(record_id),
        "before": {"risk": _rounded(then.risk), "answer_kind": then.answer.kind, "claims": said},
    }


def _span_json(span: SpanEvidence, places: Mapping[int, int], *, with_texts: bool) -> dict[str, object]:
    """``claim`` is the place of the span's claim among the spans of its answer, None where there is no claim."""
    claim = span.span_index if span.is_claim else span.claim_index
    return {
        "index": span.span_index,
        "kind": span.span_kind,
        "at": _range_json(span.chars),
        "text": None if with_texts else span.text,
        "fact": [_range_json(one) for one in span.atomic_fact],
        "evidence": [_piece_json(one, with_texts=with_texts) for one in span.evidence],
        "scores": [_rounded(score) for score in span.passage_scores],
        "top": span.top_passage_index,
        "margin": _rounded(span.margin),
        "mass": _rounded(span.evidence_mass),
        "isolated": span.evidence_isolated,
        "support": span.support,
        "unmatched": span.unmatched_values,
        "words": [_range_json(one) for one in span.unsupported_words],
        "reason": span.reason,
        "expected": span.expected,
        "how": span.how,
        "claim": None if claim is None else places[claim],
        "claim_kind": span.claim_kind,
        "score": _rounded(span.support_score),
    }


def _piece_json(piece: EvidencePiece, *, with_texts: bool) -> list[object]:
    """Passage, 1 for its title or 0 for its text, range, score; then id and text if the page lacks the passages."""
    place = [piece.passage_index, int(piece.in_title), *_range_json(piece.chars)]
    return [*place, _rounded(piece.score), *(() if with_texts else (piece.passage_id, piece.text))]


def _range_json(chars: CharRange) -> list[int]:
    return [chars.char_start, chars.char_end]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")


_ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


ROOM = Path(__file__).parent
_ASSETS = ROOM / "assets"
_VENDOR = ROOM / "vendor"
_NONE = "'none'"


@cache
def style() -> str:
    """The style sheet of an audit's page."""
    return "\n".join(_read(path) for path in sorted(_ASSETS.glob("[0-9]_*.css")))


@cache
def history_style() -> str:
    """The style sheet of the page over several audits."""
    return "\n".join(_read(_ASSETS / name) for name in ("1_base.css", "2_overview.css", "history.css"))


@cache
def scripts() -> tuple[str, ...]:
    """The libraries, then the page's own script; ``vendor/make_bundles.sh`` makes all three."""
    return _read(_VENDOR / "plot.js"), _read(_VENDOR / "parquet.js"), _read(_ASSETS / "page.js")


@cache
def licences() -> str:
    """The licences of the libraries."""
    return _read(_VENDOR / "LICENCES.txt")


def content_security_policy() -> str:
    """Load nothing, and apply only the scripts and styles with these SHA-256 hashes.

    Observable Plot adds a style element to every drawing; its text is in ``vendor/plot_style.css``.
    """
    return security_policy(styles=(style(), _read(_VENDOR / "plot_style.css").rstrip("\n")), scripts=scripts())


def template(name: str) -> Template:
    """A page's template; what is put into it is escaped."""
    environment = Environment(
        loader=FileSystemLoader(_ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def security_policy(*, styles: Iterable[str], scripts: Iterable[str] = ()) -> str:
    """Load nothing, and apply only these scripts and styles, by their SHA-256 hashes."""
    rules = (
        "default-src 'none'",
        f"script-src {_hashes(scripts) or _NONE}",
        f"style-src {_hashes(styles)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _hashes(texts: Iterable[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
