"""An audit that reads the export of a trace store directly, and a report that finds its texts again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.logs.traces.exports import ANSWER, PASSAGES, mixed_spans
from tests.pipeline.audit_fixtures import save_tiny_audit

from attribeam.pipeline.command_line import main


def test_every_trace_is_audited_or_a_dead_letter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = save_tiny_audit(tmp_path)
    audit = tmp_path / "audit"
    models = ["--model", str(settings.model.model), "--parser", settings.parser, "--workers", "1"]
    command = [
        "audit",
        "--log-format",
        "openinference",
        "--input",
        mixed_spans(tmp_path),
        "--output",
        str(audit),
        *models,
    ]
    assert main(command) == 0, capsys.readouterr().err
    manifest = json.loads((audit / "run_manifest.json").read_text())
    assert (manifest["counts"]["rows"], manifest["counts"]["audited"]) == (4, 2)
    letters = [row for path in (audit / "dead_letters").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert {(one["record_id"], one["stage"], one["reason"]) for one in letters} == {
        ("trace-bare", "validate", "no_passages"), (None, "read", "invalid_json")
    }  # fmt: skip
    capsys.readouterr()
    assert main(["show", "trace-1", "--audit", str(audit)]) == 0
    said = capsys.readouterr().out
    assert ANSWER.split(",")[0] in said
    assert PASSAGES[0][1] in said
