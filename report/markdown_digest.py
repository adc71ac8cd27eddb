"""A digest of an audit in Markdown: its figures, then its riskiest answers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attribeam.report.answer_ranking import rank_answers
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedAnswer, EmbeddedAnswer, embedded_answers
from attribeam.report.audited_logs import AuditedLogs
from attribeam.report.messages import harmless, one_line
from attribeam.schemas import VERDICTS, AnswerKind, SpanEvidence, Support
from attribeam.schemas.run_manifest import AuditCounts

DEFAULT_DIGEST_ANSWERS = 50
_LONGEST_SPAN = 200
_SPAN_TABLE = (
    "| support | score | on evidence | claim | not in the passages | best evidence |\n|---|---:|---:|---|---|---|"
)
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$&#@])")
_LINE_START = re.compile(r"^(\s*)([-+=]|\d+(?=[.)]))")


def digest_lines(audit: AuditDirectory, *, answers: int, texts: bool = False) -> Iterator[str]:
    """The digest line by line, with at most ``answers`` answers, riskiest first.

    ``texts`` shows texts from the logs although the audit wrote none.

    Raises:
        RunError: if a file of the audit cannot be read.
    """
    ranking = rank_answers(audit, answers)
    yield from _figures(audit)
    yield f"\n## The {len(ranking.riskiest):,} riskiest of {ranking.answer_count:,} audited answers\n"
    for place, one in enumerate(embedded_answers(audit, AuditedLogs.of(audit, texts=texts), ranking.riskiest), start=1):
        yield from _answer(place, one)


def _figures(audit: AuditDirectory) -> Iterator[str]:
    manifest, counts = audit.manifest, audit.counts
    inputs = ", ".join(escape_markdown(one.path) for one in manifest.inputs)
    yield f"# Audit of {inputs}\n"
    yield f"Status: {manifest.status}, started at {manifest.started_at}, attribeam {manifest.attribeam_version}.\n"
    notes = [str(note) for one in manifest.inputs for note in one.notes]
    cut = [] if manifest.cut_passages is None else [str(manifest.cut_passages)]
    yield from (f"- {escape_markdown(note)}\n" for note in (*cut, *notes))
    yield "| | | share |\n|---|---:|---:|"
    yield _figure("rows", counts.rows, None)
    yield _figure("audited", counts.audited, counts.rows)
    yield _figure("dead letters", counts.dead_lettered, counts.rows)
    for letter in counts.dead_letters:
        yield _figure(f"dead letters: `{letter.reason}`", letter.rows, counts.rows)
    yield from _span_figures(counts)


def _span_figures(counts: AuditCounts) -> Iterator[str]:
    yield _figure("claims", counts.claim_count, None)
    for support in VERDICTS:
        yield _figure(str(support), counts.claims.get(support, 0), counts.claim_count)
    for support in (Support.NOT_CALIBRATED, Support.NO_CLAIM, Support.NOT_JUDGED):
        if spans := counts.claims.get(support, 0):
            yield _figure(f"spans with support `{support}`", spans, None)
    for kind in (AnswerKind.REFUSAL, AnswerKind.PARTIAL):
        if answers := counts.answers.get(kind, 0):
            yield _figure(f"answers of the kind `{kind}`", answers, counts.audited)


def _figure(name: str, count: int, whole: int | None) -> str:
    return f"| {name} | {count:,} | {'' if not whole else f'{count / whole:.1%}'} |"


def _answer(place: int, one: EmbeddedAnswer) -> Iterator[str]:
    answer = one.answer
    yield f"### {place}. {escape_markdown(answer.record_id)} ({_standing(one)})\n"
    yield f"{escape_markdown(answer.source.source_file)}, row {answer.source.source_row}{_facts(answer)}\n"
    if one.texts is not None:
        yield from _quoted("Question", one.texts.question)
        yield from _quoted("Answer", one.texts.answer)
    claims = [span for span in answer.spans if span.is_claim]
    worth = [span for span in claims if span.support is not Support.SUPPORTED or span.unmatched_values]
    if worth:
        yield _SPAN_TABLE
        yield from map(_span, worth)
    yield f"\nSupported claims besides: {len(claims) - len(worth)}.\n"


def _standing(one: EmbeddedAnswer) -> str:
    """The answer's risk, or why it has none; and what it is, if it does not just answer."""
    if one.risk is None:
        return f"not judged: {', '.join(one.answer.not_judged) or 'nothing in it can be'}"
    kinds = {AnswerKind.REFUSAL: ", a refusal", AnswerKind.PARTIAL: ", refuses in part"}
    return f"risk {one.risk:.2f}{kinds.get(one.answer.kind, '')}"


def _facts(answer: AuditedAnswer) -> str:
    moment = None if answer.answered_at is None else answer.answered_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    known = [one for one in (moment, answer.generator) if one is not None]
    return "".join(f", {escape_markdown(one)}" for one in known)


def _span(span: SpanEvidence) -> str:
    best = f"passage {span.evidence[0].passage_index + 1}: {_cut(span.evidence[0].text)}" if span.evidence else "none"
    cells = (
        f"{span.support}: {_cut(span.why)}" if span.why else str(span.support),
        "" if span.support_score is None else f"{span.support_score:.2f}",
        "" if span.evidence_mass is None else f"{span.evidence_mass:.0%}",
        _cut(span.text),
        ", ".join(map(escape_markdown, span.unmatched_values)),
        best,
    )
    return f"| {' | '.join(cells)} |"


def _quoted(title: str, text: str) -> Iterator[str]:
    """A block quote with one line per line of the text."""
    yield f"> **{title}:**"
    for line in harmless(text).split("\n"):
        yield f"> {escape_markdown(line)}  "
    yield ""


def _cut(text: str) -> str:
    return escape_markdown(text if len(text) <= _LONGEST_SPAN else f"{text[:_LONGEST_SPAN]}…")


def escape_markdown(text: str) -> str:
    """The text on one line, escaped so that Markdown shows it as it is: no markup, HTML, table cell or link."""
    marked = _SPECIAL.sub(r"\\\1", one_line(text)).replace("://", r"\://").replace("www.", r"www\.")
    return _LINE_START.sub(_escaped_start, marked)


def _escaped_start(start: re.Match[str]) -> str:
    """Escape what starts a list; after a number, that is the mark that follows ``start``."""
    indent, mark = start.groups()
    return f"{indent}{mark}\\" if mark.isdigit() else f"{indent}\\{mark}"
