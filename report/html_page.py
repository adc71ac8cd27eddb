"""Renders the page of an audit as one self-contained HTML text, and writes it to a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from markupsafe import Markup

from attribeam.report import page_data as page_assets
from attribeam.report.audit_comparison import compare_audits
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audit_summary import (
    audit_facts,
    audit_key,
    audit_title,
    citation_figures,
    comparison_remark,
    model_line,
    top_figures,
)
from attribeam.report.audited_logs import AuditedLogs
from attribeam.report.output_file import check_output, write_lines
from attribeam.report.page_data import (
    AnswersJson,
    Overview,
    answers_json,
    compact_json,
    plots_json,
    read_overview,
)
from attribeam.report.passages import disagreement, passage_names, retrieved_passages
from attribeam.report.privacy import as_private_as
from attribeam.report.verdict_meaning import no_proof, ranking_meaning, verdict_meaning
from attribeam.report.worklist import DEAD_LETTERS_PER_REASON, embedded_answers, embedded_dead_letters
from attribeam.schemas import VERDICTS
from attribeam.schemas.run_manifest import RunStatus

DEFAULT_PAGE_ANSWERS = 1000
_SHARE_OF_CHANGED = 10
"""A page that compares shows, beside its riskiest answers, a tenth as many that changed most."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What to show: an audit, an earlier one to compare it with, and the most answers that the page holds.

    ``texts`` shows texts from the logs although the audit wrote none. Without a ``title`` the logs give one.
    """

    audit: AuditDirectory
    previous: AuditDirectory | None = None
    answers: int = DEFAULT_PAGE_ANSWERS
    texts: bool = False
    title: str | None = None


def html_page(request: PageRequest) -> str:
    """The whole page, self-contained.

    Raises:
        UsageError: if the earlier audit has no answer of this one.
        RunError: if a file of the audit cannot be read.
        LeakError: if the page would show what the audit masks.
    """
    audit = request.audit
    title = request.title or audit_title(audit)
    logs = AuditedLogs.of(audit, texts=request.texts)
    comparison = None if request.previous is None else compare_audits(audit, request.previous)
    also = () if comparison is None else comparison.changed[: request.answers // _SHARE_OF_CHANGED]
    overview = read_overview(audit, answers=request.answers, also=also)
    riskiest = overview.ranking.riskiest
    answers = tuple(embedded_answers(audit, logs, riskiest))
    embedded = answers_json(answers, comparison)
    names = passage_names(one.texts for one in answers if one.texts is not None)
    passages = overview.passages.result(retrieved_passages(logs), names)
    problems = logs.problems(frozenset(one.source for one in riskiest))
    shown = {
        "answers": embedded.text,
        "plots": plots_json(overview, passages),
        "dead letters": compact_json(embedded_dead_letters(audit)),
    }
    for name, written in shown.items():
        logs.check(f"the page's list of {name}", written)
    return page_assets.template("page.html.j2").render(
        title=title,
        started=_readable_moment(audit.manifest.started_at),
        model=model_line(audit),
        compared=None if request.previous is None else _readable_moment(request.previous.manifest.started_at),
        figures=(*top_figures(audit, request.previous), *citation_figures(overview.citations)),
        shares=tuple(_shares(audit)),
        comparison=comparison,
        comparison_words="" if comparison is None else comparison.words(),
        overview=overview,
        no_proof=no_proof(audit.manifest.models),
        meaning=tuple(verdict_meaning()),
        ranked=tuple(ranking_meaning(calibrated=overview.ranking.mean_risk is not None)),
        embedded=embedded,
        notes=tuple(_notes(request, overview, embedded, problems)),
        facts=audit_facts(audit),
        licences=page_assets.licences(),
        csp=page_assets.content_security_policy(),
        style=Markup(page_assets.style()),
        scripts=tuple(Markup(script) for script in page_assets.scripts()),
        audit_json=Markup(_audit_json(request, title)),
        plots_json=Markup(shown["plots"]),
        answers_json=Markup(embedded.text),
        dead_letters_json=Markup(shown["dead letters"]),
    )


def _audit_json(request: PageRequest, title: str) -> str:
    models = request.audit.manifest.models
    return compact_json(
        {
            "key": audit_key(request.audit),
            "title": title,
            "compared": request.previous is not None,
            "dead_letters": _dead_letters_by_reason(request.audit),
            "thresholds": {
                "supported": models.get("supported_threshold"),
                "weak": models.get("weak_threshold"),
            },
        }
    )


def _dead_letters_by_reason(audit: AuditDirectory) -> list[dict[str, object]]:
    """Numbers of rows by reason, largest first."""
    rows: Counter[str] = Counter()
    for letter in audit.counts.dead_letters:
        rows[letter.reason] += letter.rows
    return [{"reason": reason, "rows": count} for reason, count in rows.most_common()]


def _shares(audit: AuditDirectory) -> Iterator[tuple[str, float, float]]:
    """(support, start, width) of each support in a bar of width 100, all claims."""
    counts, start = audit.counts, 0.0
    for support in VERDICTS:
        width = 100 * counts.claims.get(support, 0) / (counts.claim_count or 1)
        yield str(support), round(start, 3), round(width, 3)
        start += width


def _notes(request: PageRequest, overview: Overview, embedded: AnswersJson, problems: tuple[str, ...]) -> Iterator[str]:
    """What the page does not show, and what speaks against its verdicts, in sentences for its reader."""
    manifest = request.audit.manifest
    if manifest.cut_passages is not None:
        yield f"{manifest.cut_passages}."
    if told := disagreement(overview.evidence.told, overview.evidence.agreeing):
        yield f"{told[0].upper()}{told[1:]}."
    if request.previous is not None and (remark := comparison_remark(request.audit, request.previous)):
        yield remark
    if manifest.status is not RunStatus.DONE:
        yield f"This audit is not complete, its status is “{manifest.status}”. The page shows its finished chunks."
    if embedded.answer_count < overview.ranking.answer_count:
        changed = "" if request.previous is None else ", and those that changed most"
        yield (
            f"The worklist holds the {embedded.answer_count:,} riskiest of {overview.ranking.answer_count:,} answers"
            f"{changed}. "
            "The figures and plots count all of them; all their spans stand in evidence/*.parquet, "
            "and “attribeam show RECORD_ID” prints any."
        )
    if problems:
        yield f"Only spans and evidence can be shown for some answers, not their whole texts: {'; '.join(problems)}."
    elif embedded.with_text_count < embedded.answer_count:
        missing = embedded.answer_count - embedded.with_text_count
        yield f"{missing:,} answers are shown without their whole texts, which are too long for this page."
    if any(letter.rows > DEAD_LETTERS_PER_REASON for letter in request.audit.counts.dead_letters):
        yield (
            f"The first {DEAD_LETTERS_PER_REASON} dead letters of a reason are listed; "
            "all stand in dead_letters/*.parquet."
        )
    for share in overview.shares:
        if share.too_many_values:
            yield f"“{share.column}” is not drawn, it has too many different values."


def _readable_moment(moment: str) -> str:
    return datetime.fromisoformat(moment).strftime("%d %B %Y, %H:%M UTC").lstrip("0")


def write_html_report(
    audit: str | Path,
    output: Path,
    *,
    previous: str | Path | None = None,
    answers: int = DEFAULT_PAGE_ANSWERS,
    texts: bool = False,
    title: str | None = None,
) -> None:
    """Write the page of the audit in directory ``audit``; an existing file is replaced once the new page is complete.

    ``previous`` is the directory of an audit to compare with, ``answers`` the most answers in the worklist.
    ``texts`` shows texts from the logs although the audit wrote none. Without a ``title`` the logs give one.

    Raises:
        UsageError: if there is no such audit, the earlier one has no answer of this one, or the output's directory does
            not exist.
        RunError: if the audit cannot be read or the page cannot be written.
    """
    check_output(str(output))
    earlier = None if previous is None else AuditDirectory.open(previous)
    request = PageRequest(AuditDirectory.open(audit), earlier, answers, texts, title)
    page = html_page(request)
    with as_private_as([audit] if previous is None else [audit, previous]):
        write_lines(str(output), [page])
