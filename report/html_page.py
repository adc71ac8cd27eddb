"""The page of an audit: one self-contained HTML text, of plots and answers as JSON, styles and scripts.

Ranges are arrays of ``char_start`` and ``char_end`` in code points; scores have three significant digits, and risks and
shares six. A text that the page can cut out of the answer or a passage is not written twice.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from attribeam.logs.privacy import check_masked
from attribeam.report.answer_ranking import AuditComparison, compare_audits, riskiest_claim
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audit_summary import (
    audit_facts,
    audit_key,
    audit_title,
    citation_figures,
    comparison_remark,
    model_line,
    top_figures,
    verdict_accuracy,
)
from attribeam.report.audited_answer import (
    DEAD_LETTERS_PER_REASON,
    AuditedLogs,
    EmbeddedAnswer,
    embedded_answers,
    embedded_dead_letters,
)
from attribeam.report.messages import as_private_as, check_output, write_lines
from attribeam.report.overview import Overview, disagreement, passage_names, read_overview, retrieved_passages
from attribeam.schemas import VERDICTS, CharRange, EvidencePiece, SpanEvidence

DEFAULT_PAGE_ANSWERS = 1000
MAX_ANSWER_BYTES = 16_000_000
_ROOM = Path(__file__).parent
_STYLES = ("assets/1_base.css", "assets/2_overview.css", "assets/3_answers.css", "assets/4_print.css")
_SCRIPTS = ("vendor/plot.js", "vendor/parquet.js", "assets/page.js")
"""The libraries, then the page's own script; ``vendor/make_bundles.sh`` makes all three."""
_PLOT_STYLE = "vendor/plot_style.css"
"""Observable Plot adds a style element with this text to every drawing."""
_PLOTS = ("timeline", "masses", "support_scores", "shares", "ranks")
_ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


def write_html_report(audit: AuditDirectory, output: Path) -> None:
    """Write the page; an existing file is replaced once the new page is complete. Raises as ``html_page``.

    Raises ``UsageError`` or ``RunError`` if the page cannot be written there.
    """
    check_output(str(output))
    page = html_page(audit)
    with as_private_as([audit.root]):
        write_lines(str(output), [page])


def html_page(
    audit: AuditDirectory,
    *,
    previous: AuditDirectory | None = None,
    answers: int = DEFAULT_PAGE_ANSWERS,
    texts: bool = False,
    title: str | None = None,
) -> str:
    """The whole page, self-contained, with at most that many ``answers`` in the worklist.

    ``previous`` is an earlier audit to compare it with; ``texts`` shows texts from the logs although the audit wrote
    none; without a ``title``, the logs give one. Raises ``UsageError`` if the earlier audit has no answer of this one;
    ``RunError`` if a file of the audit cannot be read; ``LeakError`` if the page would show what the audit masks.
    """
    title = title or audit_title(audit)
    logs = AuditedLogs.of(audit, texts=texts)
    comparison = None if previous is None else compare_audits(audit, previous)
    also = () if comparison is None else comparison.changed[: answers // 10]  # beside the riskiest answers
    overview = read_overview(audit, answers=answers, also=also)
    worklist = tuple(embedded_answers(audit, logs, overview.ranking.riskiest))
    embedded = _answers_json(worklist, comparison)
    problems = logs.problems(frozenset(overview.ranking.riskiest))
    names = passage_names(answer.texts for answer in worklist if answer.texts is not None)
    passages = overview.passages.result(retrieved_passages(logs), names)
    shown = {
        "answers": embedded.text,
        "plots": _compact_json({**{name: getattr(overview, name) for name in _PLOTS}, "passages": passages}),
        "dead letters": _compact_json(embedded_dead_letters(audit)),
    }
    for name, written in shown.items():
        check_masked(f"the page's list of {name}", json.loads(written), logs.redactor.settings, logs.files)
    moments = [datetime.fromisoformat(side.manifest.started_at) for side in (audit, previous) if side is not None]
    started = [f"{moment:%d %B %Y, %H:%M UTC}".lstrip("0") for moment in moments]
    style, scripts = asset(*_STYLES), [asset(name) for name in _SCRIPTS]
    return template("page.html.j2").render(
        title=title,
        started=started[0],
        model=model_line(audit),
        compared=None if previous is None else started[1],
        figures=(*top_figures(audit, previous), *citation_figures(overview.citations)),
        shares=tuple(_shares(audit)),
        comparison=comparison,
        overview=overview,
        verdict_accuracy=verdict_accuracy(audit.manifest.models),
        embedded=embedded,
        notes=tuple(_notes(audit, previous, overview, embedded, problems)),
        facts=audit_facts(audit),
        licences=asset("vendor/LICENCES.txt"),
        csp=security_policy(styles=(style, asset(_PLOT_STYLE).rstrip("\n")), scripts=scripts),
        style=Markup(style),
        scripts=tuple(map(Markup, scripts)),
        audit_json=Markup(_audit_json(audit, title, compared=previous is not None)),
        plots_json=Markup(shown["plots"]),
        answers_json=Markup(embedded.text),
        dead_letters_json=Markup(shown["dead letters"]),
    )


def _audit_json(audit: AuditDirectory, title: str, *, compared: bool) -> str:
    models = audit.manifest.models
    rows: Counter[str] = Counter()
    for letter in audit.counts.dead_letters:
        rows[letter.reason] += letter.rows
    return _compact_json(
        {
            "key": audit_key(audit),
            "title": title,
            "compared": compared,
            "dead_letters": [{"reason": reason, "rows": count} for reason, count in rows.most_common()],
            "thresholds": {"supported": models.get("supported_threshold"), "weak": models.get("weak_threshold")},
        }
    )


def _shares(audit: AuditDirectory) -> Iterator[tuple[str, float, float]]:
    """(support, start, width) of each support in a bar of width 100, all claims."""
    counts, start = audit.counts, 0.0
    for support in VERDICTS:
        width = 100 * counts.claims.get(support, 0) / (counts.claim_count or 1)
        yield str(support), round(start, 3), round(width, 3)
        start += width


def _notes(
    audit: AuditDirectory,
    previous: AuditDirectory | None,
    overview: Overview,
    embedded: _AnswersJson,
    problems: tuple[str, ...],
) -> Iterator[str]:
    """What the page does not show, and what speaks against its verdicts, in sentences for its reader."""
    manifest = audit.manifest
    if manifest.cut_passages is not None:
        yield f"{manifest.cut_passages}."
    if warning := disagreement(overview.evidence.told, overview.evidence.agreeing):
        yield f"{warning[0].upper()}{warning[1:]}."
    if previous is not None and (remark := comparison_remark(audit, previous)):
        yield remark
    if audit.incomplete:
        chunks = f"finished chunks, {audit.counts.rows:,} of {sum(file.row_count for file in manifest.inputs):,} rows"
        yield f"This audit is not complete, its status is “{manifest.status}”. The page shows its {chunks}."
    if embedded.answer_count < overview.ranking.answer_count:
        changed = "" if previous is None else ", and those that changed most"
        yield (
            f"The worklist holds the {embedded.answer_count:,} riskiest of {overview.ranking.answer_count:,} answers"
            f"{changed}. The figures and plots count all of them; all their spans stand in evidence/*.parquet, "
            "and “attribeam show RECORD_ID” prints any."
        )
    if problems:
        yield f"Only spans and evidence can be shown for some answers, not their whole texts: {'; '.join(problems)}."
    elif embedded.with_text_count < embedded.answer_count:
        missing = embedded.answer_count - embedded.with_text_count
        yield f"{missing:,} answers are shown without their whole texts, which are too long for this page."
    if any(letter.rows > DEAD_LETTERS_PER_REASON for letter in audit.counts.dead_letters):
        yield (
            f"The first {DEAD_LETTERS_PER_REASON} dead letters of a reason are listed; "
            "all stand in dead_letters/*.parquet."
        )
    for share in overview.shares:
        if share.too_many_values:
            yield f"“{share.column}” is not drawn, it has too many different values."


@dataclass(frozen=True, slots=True)
class _AnswersJson:
    """A JSON array of ``answer_count`` answers, ``with_text_count`` of them with their texts."""

    text: str
    answer_count: int
    with_text_count: int


def _answers_json(answers: Sequence[EmbeddedAnswer], comparison: AuditComparison | None) -> _AnswersJson:
    """As many answers as fit into ``MAX_ANSWER_BYTES``; with a ``comparison``, what was said of them then."""
    items: list[str] = []
    size = with_text_count = 0
    earlier = {} if comparison is None else comparison.earlier_answers([answer.answer.record_id for answer in answers])
    for answer in answers:
        fields = _answer_json(answer)
        if comparison is not None:
            record_id = answer.answer.record_id
            fields |= {"change": comparison.change_of(record_id), "before": _earlier_json(earlier.get(record_id))}
        item = _compact_json(fields)
        size += len(item.encode()) + 1
        if size > MAX_ANSWER_BYTES:
            break
        items.append(item)
        with_text_count += answer.texts is not None
    return _AnswersJson(f"[{','.join(items)}]", len(items), with_text_count)


def _compact_json(value: object) -> str:
    """JSON without white space or anything that an HTML parser takes for markup: ``<``, ``>`` and ``&`` are escaped."""
    text = json.dumps(value, default=asdict, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _answer_json(embedded: EmbeddedAnswer) -> dict[str, object]:
    answer, texts = embedded.answer, embedded.texts
    passages = () if texts is None else texts.passages
    worst, positions = riskiest_claim(answer.spans), {span.span_index: n for n, span in enumerate(answer.spans)}
    return {
        "id": answer.record_id,
        "file": answer.source.source_file,
        "row": answer.source.source_row,
        "at": None if answer.answered_at is None else answer.answered_at.isoformat(),
        "generator": answer.generator,
        "risk": _rounded(embedded.risk),
        "answer_kind": answer.kind,
        "not_judged": answer.not_judged,
        "worst": None if worst is None else positions[worst.span_index],
        "extra": embedded.extra_columns,
        "question": None if texts is None else texts.question,
        "answer": None if texts is None else texts.answer,
        "passages": [{"id": passage.passage_id, "title": passage.title, "text": passage.text} for passage in passages],
        "spans": [_span_json(span, positions, with_texts=texts is not None) for span in answer.spans],
    }


def _earlier_json(then: EmbeddedAnswer | None) -> dict[str, object] | None:
    """What the earlier audit said of the answer and its claims, in the page's order of claims."""
    if then is None:
        return None
    # Of two that begin at one place, the longer one first.
    claims = sorted(
        (span for span in then.answer.spans if span.is_claim),
        key=lambda span: (span.chars.char_start, -span.chars.char_end),
    )
    said = [[span.text, span.support, _rounded(span.support_score), list(span.unmatched_values)] for span in claims]
    return {"risk": _rounded(then.risk), "answer_kind": then.answer.kind, "claims": said}


def _span_json(span: SpanEvidence, positions: Mapping[int, int], *, with_texts: bool) -> dict[str, object]:
    """``claim`` is the position of the span's claim among the spans of its answer, None where there is no claim."""
    claim = span.span_index if span.is_claim else span.claim_index
    return {
        "index": span.span_index,
        "kind": span.span_kind,
        "at": _range_json(span.chars),
        "text": None if with_texts else span.text,
        "fact": [_range_json(chars) for chars in span.atomic_fact],
        "evidence": [_piece_json(piece, with_texts=with_texts) for piece in span.evidence],
        "scores": [_rounded(score, digits=3) for score in span.passage_scores],
        "top": span.top_passage_index,
        "margin": _rounded(span.margin),
        "mass": _rounded(span.evidence_mass),
        "isolated": span.evidence_isolated,
        "support": span.support,
        "unmatched": span.unmatched_values,
        "words": [_range_json(chars) for chars in span.unsupported_words],
        "reason": span.reason,
        "expected": span.expected,
        "how": span.how,
        "claim": None if claim is None else positions[claim],
        "claim_kind": span.claim_kind,
        "score": _rounded(span.support_score),
    }


def _piece_json(piece: EvidencePiece, *, with_texts: bool) -> list[object]:
    """Passage, 1 for its title or 0 for its text, range, score; then id and text if the page lacks the passages."""
    position = [piece.passage_index, int(piece.in_title), *_range_json(piece.chars)]
    return [*position, _rounded(piece.score, digits=3), *(() if with_texts else (piece.passage_id, piece.text))]


def _range_json(chars: CharRange) -> list[int]:
    return [chars.char_start, chars.char_end]


def _rounded(value: float | None, *, digits: int = 6) -> float | None:
    """With so many significant digits; six leave the two decimals that the page shows as other commands round them."""
    return None if value is None else float(f"{value:.{digits}g}")


def template(name: str) -> Template:
    """A page's template; what is put into it is escaped."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.loader = FileSystemLoader(_ROOM / "assets")
    return environment.get_template(name)


def security_policy(*, styles: Iterable[str], scripts: Iterable[str] = ()) -> str:
    """Load nothing, and apply only these scripts and styles, by their SHA-256 hashes."""

    def hashes(texts: Iterable[str]) -> str:
        digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
        return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"

    own = f"script-src {hashes(scripts)}; style-src {hashes(styles)}"
    return f"default-src 'none'; {own}; img-src data:; base-uri 'none'; form-action 'none'"


@cache
def asset(*names: str) -> str:
    """The text of files of this room, one after the other."""
    return "\n".join((_ROOM / name).read_text(encoding="utf-8") for name in names)
