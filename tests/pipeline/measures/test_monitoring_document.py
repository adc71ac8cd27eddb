"""docs/nightly.md names every metric, every family with its labels, and the exit codes."""

from __future__ import annotations

import re
from pathlib import Path

from tests.pipeline.measures.made_metrics import made_metrics

from attribeam.pipeline.measures.metrics import METRICS
from attribeam.pipeline.measures.metrics_export import metric_families
from attribeam.pipeline.measures.quality_gates import judge_gates, quality_gate
from attribeam.schemas import Reason, SpanKind, SupportedHow, UnsupportedReason
from attribeam.schemas.errors import ExitCode

DOCUMENT = (Path(__file__).parents[3] / "docs" / "nightly.md").read_text(encoding="utf-8")


def _rows(title: str) -> list[list[str]]:
    """The cells of the table rows of one section, without its heading."""
    (text,) = re.findall(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    return [row for row in cells[1:] if not row[0].startswith("---")]


def _documented_metrics() -> dict[str, tuple[str, str]]:
    """(unit, gate) by name, REASON and KIND filled in."""
    found = {}
    for names, unit, gate, *_ in _rows("Metrics"):
        for name in re.findall(r"`([\w.]+)`", names):
            room, _, last = name.rpartition(".")
            reasons = list(UnsupportedReason) if room == "unsupported_spans" else list(Reason)
            values = {"REASON": reasons, "KIND": list(SpanKind), "HOW": list(SupportedHow)}.get(last, [last])
            found.update({f"{room}.{value}" if room else value: (unit, gate) for value in values})
    return found


def test_the_document_has_exactly_the_metrics_of_the_code() -> None:
    assert _documented_metrics() == {
        name: (metric.unit, "no" if metric.of_run else "yes") for name, metric in METRICS.items()
    }


def test_the_document_has_exactly_the_families_of_prometheus_with_their_labels() -> None:
    metrics = made_metrics()
    expected = {
        f"attribeam_{family.name}": [name for name, _ in family.samples[0].labels]
        for family in metric_families(metrics, judge_gates([quality_gate("rows < 1")], metrics))
    }
    found = {names.strip("`"): re.findall(r"`(\w+)`", labels) for names, labels, _ in _rows("`metrics.prom`")}
    assert found == expected


def test_the_document_has_the_exit_code_of_a_failed_gate() -> None:
    codes = {row[0]: row[1] for row in _rows("Exit codes of `attribeam audit`")}
    assert "quality gate failed" in codes[str(int(ExitCode.GATE_FAILED))]
    assert set(codes) == {"0", "1", "2", "3", "130"}
