"""The notice of ``--notify`` on failed quality gates: figures, and texts of answers only where they are asked for."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from attribeam.pipeline.chunks.output_directory import REPORT_PAGE
from attribeam.pipeline.measures.quality_gates import failed_gate_lines
from attribeam.pipeline.measures.webhook import NoticeFormat, WebhookUrl, post_json
from attribeam.pipeline.options.audit_options import RunOptions
from attribeam.pipeline.outcome.run_record import FinishedRun
from attribeam.report.answer_ranking import RiskTally, riskiest_claim
from attribeam.report.audit_directory import AuditDirectory, evidence_columns
from attribeam.report.audited_answer import answer_of_rows
from attribeam.report.worklist import spans_by_answer
from attribeam.schemas import VERDICTS
from attribeam.schemas.errors import ExitCode, RunError

_MAX_CLAIM_CHARS = 300
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def send_notice(finished: FinishedRun, options: RunOptions) -> None:
    """Post a notice to ``--notify`` if a gate failed; what goes wrong is said, and never fails the finished audit."""
    if options.notify is None or finished.exit_code is not ExitCode.GATE_FAILED:
        return
    if (reason := _post(finished, options, options.notify)) is not None:
        options.messages.say(f"the audit is done, but its notice could not be sent to {options.notify}: {reason}")


def _post(finished: FinishedRun, options: RunOptions, url: WebhookUrl) -> str | None:
    try:
        claims = tuple(_worst_claims(Path(options.output), options.notify_answers))
    except RunError as error:
        return str(error)
    return post_json(url, notice(finished, options, claims))


def notice(finished: FinishedRun, options: RunOptions, claims: tuple[Mapping[str, object], ...]) -> dict[str, object]:
    """What is posted; ``claims`` are those of the riskiest answers."""
    lines = [*_figure_lines(finished, options), *(_claim_line(one) for one in claims)]
    if options.notify_format is NoticeFormat.SLACK:
        return {"text": _slack_text("\n".join(lines))}
    manifest = finished.metrics.manifest
    return {
        "event": "quality_gates_failed",
        "text": "\n".join(lines),
        "host": socket.gethostname(),
        "output": options.output,
        "started_at": manifest.started_at,
        "configuration": manifest.configuration,
        "quality_gates": [{**asdict(one.gate), "value": one.value, "failed": one.failed} for one in finished.verdicts],
        "metrics": finished.metrics.values(),
        "answers": list(claims),
    }


def _figure_lines(finished: FinishedRun, options: RunOptions) -> Iterator[str]:
    counts = finished.metrics.manifest.counts
    failed = [*failed_gate_lines(finished.verdicts)]
    yield f"attribeam: {len(failed)} of {len(finished.verdicts)} quality gates failed in {options.output}"
    yield from (f"- {line.removeprefix('quality gate failed: ')}" for line in failed)
    shares = [(support, finished.metrics.value(f"{support}_share")) for support in VERDICTS]
    told = [f"{share:.1%} {support}" for support, share in shares if share is not None]
    yield f"{counts.rows:,} rows, {counts.dead_lettered:,} dead letters, {counts.claim_count:,} claims" + (
        f": {', '.join(told)}" if told else ""
    )
    page = Path(options.output) / REPORT_PAGE
    yield f"on {socket.gethostname()}" + (f", report: {page.resolve()}" if page.is_file() else "")


def _worst_claims(root: Path, answers: int) -> Iterator[Mapping[str, object]]:
    """The riskiest claim of each of the riskiest answers; the texts are those of the evidence, so they are redacted."""
    if not answers:
        return
    audit, tally = AuditDirectory.open(root), RiskTally()
    for batch in evidence_columns(audit, RiskTally.columns):
        tally.add(batch)
    judged = [one for one in tally.ranking(answers).riskiest if one.risk is not None]
    rows = spans_by_answer(audit, frozenset(one.source for one in judged))
    for one in judged:
        answer = answer_of_rows(one.source, sorted(rows[one.source], key=lambda row: int(row["span_index"])))
        if (claim := riskiest_claim(answer.spans)) is not None:
            text = (claim.text or "")[:_MAX_CLAIM_CHARS]
            yield {"record_id": answer.record_id, "risk": one.risk, "support": claim.support, "claim": text}


def _claim_line(claim: Mapping[str, object]) -> str:
    return f"- {claim['record_id']}, risk {claim['risk']:.2f}, {claim['support']}: {claim['claim']}"


def _slack_text(text: str) -> str:
    """Slack takes what stands between < and > for links and for mentions of everybody."""
    return "".join(_ESCAPES.get(char, char) for char in text)
