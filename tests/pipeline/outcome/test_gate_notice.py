"""What ``--notify`` sends when a gate failed, and what it never does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.measures.made_metrics import made_metrics
from tests.pipeline.measures.test_webhook import chat
from tests.report.made_audit import ANSWER, made_audit, supported_span, unsupported_span

from attribeam.pipeline.measures.evidence_totals import sum_evidence
from attribeam.pipeline.measures.metrics import RunMetrics
from attribeam.pipeline.measures.quality_gates import judge_gates, quality_gate
from attribeam.pipeline.measures.webhook import WebhookUrl
from attribeam.pipeline.options.audit_options import RunOptions
from attribeam.pipeline.outcome.gate_notice import notice, send_notice
from attribeam.pipeline.outcome.run_record import FinishedRun
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas.errors import ExitCode

GATES = ("weak_share > 0.01", "rows < 1")


def _finished(*gates: str, metrics: RunMetrics | None = None) -> FinishedRun:
    metrics = metrics or made_metrics()
    return FinishedRun(metrics, judge_gates([quality_gate(one) for one in gates or GATES], metrics))


def _options(url: WebhookUrl, **given: Any) -> RunOptions:
    return RunOptions(output="audits/today", notify=url, **given)


def _sent(finished: FinishedRun, **given: Any) -> Mapping[str, Any]:
    with chat(200) as (server, url):
        send_notice(finished, _options(url, **given))
    (body,) = server.bodies
    found: Mapping[str, Any] = json.loads(body)
    return found


def test_a_failed_gate_is_told_with_the_figures() -> None:
    content = _sent(_finished())
    assert list(content) == ["text"]
    first, gate, figures, place = content["text"].splitlines()
    assert first == "attribeam: 1 of 2 quality gates failed in audits/today"
    assert gate == "- weak_share &gt; 0.01: weak_share is 0.05, the limit is 0.01"
    assert figures == "40 rows, 3 dead letters, 100 claims: 85.0% supported, 5.0% weak, 10.0% unsupported"
    assert place.startswith("on ")


def test_json_has_every_metric_and_gate() -> None:
    content = _sent(_finished(), notify_format="json")
    assert content["event"] == "quality_gates_failed"
    assert content["metrics"]["unsupported_share"] == 0.1
    assert [gate["failed"] for gate in content["quality_gates"]] == [True, False]
    assert content["answers"] == []
    assert "> 0.01" in content["text"]


def test_nothing_is_sent_where_no_gate_failed() -> None:
    with chat() as (server, url):
        send_notice(_finished("rows < 1"), _options(url))
    assert server.paths == []


def test_nothing_is_sent_where_nobody_is_named() -> None:
    send_notice(_finished(), RunOptions(output="audits/today"))


def _audited(folder: Path) -> tuple[FinishedRun, str]:
    spans = {
        row: tuple(replace(one, answer_risk=risk) for one in (supported_span(), unsupported_span()))
        for row, risk in {0: 0.25, 1: 0.75, 2: 0.5}.items()
    }
    audit = AuditDirectory.open(made_audit(folder, spans=spans).root)
    return _finished("rows > 1", metrics=RunMetrics(audit.manifest, sum_evidence(audit))), str(audit.root)


@pytest.mark.parametrize("kind", ["slack", "json"])
def test_no_text_of_an_answer_is_sent_unless_it_is_asked_for(tmp_path: Path, kind: str) -> None:
    finished, root = _audited(tmp_path)
    with chat(200) as (server, url):
        send_notice(finished, RunOptions(output=str(root), notify=url, notify_format=kind))
    said = server.bodies[0].decode()
    assert not [word for word in (ANSWER, "40 cars", "leaves at noon", "ferry-1", "pier") if word in said]


def test_the_worst_claims_of_the_riskiest_answers_are_sent_where_they_are_asked_for(tmp_path: Path) -> None:
    finished, root = _audited(tmp_path)
    with chat(200) as (server, url):
        send_notice(finished, RunOptions(output=str(root), notify=url, notify_format="json", notify_answers=2))
    content = json.loads(server.bodies[0])
    assert content["answers"] == [
        {"record_id": "ferry-1", "risk": 0.75, "support": "unsupported", "claim": "40 cars"},
        {"record_id": "ferry-2", "risk": 0.5, "support": "unsupported", "claim": "40 cars"},
    ]
    assert "- ferry-1, risk 0.75, unsupported: 40 cars" in content["text"]


def test_slack_cannot_be_made_to_call_everybody() -> None:
    claim = {"record_id": "<!channel>", "risk": 0.5, "support": "weak", "claim": "<!here> & <@U1>"}
    content = notice(_finished(), _options(WebhookUrl("https://chat.example.com/x")), (claim,))
    assert "<" not in str(content["text"])
    assert "&lt;!channel&gt;" in str(content["text"])


def test_a_notice_that_cannot_be_sent_is_said_without_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    with chat(404) as (_, url):
        send_notice(_finished(), _options(url))
    error = capsys.readouterr().err
    assert error == f"attribeam audit: the audit is done, but its notice could not be sent to {url}: it answered 404\n"
    assert "SECRET" not in error


def test_evidence_that_cannot_be_read_is_said_and_fails_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished, root = _audited(tmp_path)
    for path in (Path(root) / "evidence").iterdir():
        path.write_bytes(b"no parquet")
    with chat() as (server, url):
        send_notice(finished, RunOptions(output=str(root), notify=url, notify_answers=1))
    assert server.paths == []
    assert "its notice could not be sent" in capsys.readouterr().err
    assert finished.exit_code is ExitCode.GATE_FAILED


def test_the_manifest_gets_the_webhook_without_its_secret() -> None:
    options = _options(WebhookUrl("https://chat.example.com/hooks/SECRET"))
    assert options.given()["notify"] == "https://chat.example.com/***"
    assert "SECRET" not in repr(options)
    assert "SECRET" not in json.dumps(options.given())
