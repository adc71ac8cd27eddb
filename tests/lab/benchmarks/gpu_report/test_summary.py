"""The report at a glance: answers from the figures, and "not measured" where there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attribeam.lab.benchmarks.gpu_report.journal import Finding, Journal, Status
from attribeam.lab.benchmarks.gpu_report.summary import NOT_MEASURED, at_a_glance


def add(journal: Journal, part: str, table: str, *values: dict[str, Any]) -> None:
    journal.add_steps(part, [table])
    findings = [Finding(table, ("a",), ("1",), one) for one in values]
    journal.add_outcome(part, table, Status.DONE, seconds=1.0, findings=findings)


def latency(mode: str, seconds: float, *, quantization: str = "none", stopped: bool = False) -> dict[str, Any]:
    measured = {"method": "attn_union", "mode": mode, "operations": 1e12, "seconds": seconds, "stopped": stopped}
    weights = {"name": "qwen2-7b", "precision": "bfloat16", "quantization": quantization}
    return {"weights": weights, "measured": measured, "peak": 1e12}


def test_nothing_is_claimed_without_figures(tmp_path: Path) -> None:
    found = at_a_glance(Journal(tmp_path / "steps.jsonl").read())
    assert {answer for _, _, answer in found} == {NOT_MEASURED}


def test_steps_that_gave_no_figures_are_told_beside_those_that_did(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "steps.jsonl")
    passed = Finding("Tests", ("a",), ("1",), {"outcome": "passed"})
    failed = Finding("Tests", ("a",), ("1",), {"outcome": "failed"}, is_bad=True)
    unknown = Finding("Tests", ("a",), ("1",), {"outcome": "not run"}, is_bad=True)
    journal.add_steps("tests", ["passes", "fails", "is not run", "crashes", "is cut", "never begins"])
    journal.add_outcome("tests", "passes", Status.DONE, seconds=1.0, findings=[passed])
    journal.add_outcome("tests", "fails", Status.FAILED, seconds=1.0, findings=[failed])
    journal.add_outcome("tests", "is not run", Status.FAILED, seconds=1.0, findings=[unknown])
    journal.add_outcome("tests", "crashes", Status.CRASHED, seconds=1.0)
    journal.add_outcome("tests", "is cut", Status.CUT, seconds=1.0)
    journal.add_steps("halving", ["raises"])
    journal.add_outcome("halving", "raises", Status.FAILED, seconds=1.0)
    answers = {question: answer for question, _, answer in at_a_glance(journal.read())}
    assert answers["GPU tests"] == (
        "1 passed, 1 failed, 1 not run (steps without figures: 1 crashed, 1 cut, 1 not run)"
    )
    assert answers["out of memory"] == f"{NOT_MEASURED} (steps without figures: 1 failed)"


def test_answers_follow_from_the_figures(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "steps.jsonl")
    add(journal, "tests", "Tests", {"outcome": "passed"}, {"outcome": "passed"}, {"outcome": "failed"})
    exact = {"kernel": "torch-varlen", "is_exact": True}
    add(
        journal,
        "exactness",
        "Errors of S",
        exact,
        exact | {"is_exact": False},
        {"kernel": "flash-attn", "missing": "no"},
    )
    add(journal, "latency", "Times", latency("batches", 2.0), latency("batches", 1.6), latency("single", 9.0),
        latency("batches", 4.0, quantization="nf4"), latency("batches", 0.1, stopped=True))  # fmt: skip
    ratio = {"model": "qwen2-7b", "weights": "bfloat16", "other": "two_stage", "factor": 5.25}
    journal.add_steps("latency", ["Times", "AttnUnion against two stages"])
    found = [Finding("AttnUnion against two stages", ("a",), ("1",), ratio | {"factor": one}) for one in (5.25, 6.5)]
    journal.add_outcome("latency", "AttnUnion against two stages", Status.DONE, seconds=1.0, findings=found)
    add(
        journal,
        "audit",
        "Idle share",
        {"workers": 16, "waiting_percent": 3.25},
        {"workers": 4, "waiting_percent": 40.0},
    )
    add(journal, "memory", "Memory", {"model": "m", "weights": "nf4", "tokens": 1024, "before": 0, "peak": 2**20})
    answers = {question: answer for question, _, answer in at_a_glance(journal.read())}
    assert answers["GPU tests"] == "2 passed, 1 failed"
    assert answers["exactness against eager attention"] == "1 of 2 comparisons within bounds (torch-varlen)"
    assert answers["share of the measured peak, AttnUnion in batches"] == (
        "qwen2-7b bfloat16: 50% to 62%; qwen2-7b nf4: 25% to 25%"
    )
    assert answers["AttnUnion against the two stages"] == "qwen2-7b bfloat16: 5.2 to 6.5 times as fast"
    assert answers["idle share of the device in an audit"] == "16 workers 3.2 %, 4 workers 40.0 %"
    assert answers["memory of the longest row beside the model"] == "m nf4: 1 to 1 KiB per token"
    assert answers["out of memory"] == NOT_MEASURED
