"""Which step is profiled: that of AttnUnion which is farthest from the peak."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from attribeam.lab.benchmarks.gpu_report.journal import Finding, Journal, Status
from attribeam.lab.benchmarks.gpu_report.parts.latency import TIMES, Weights
from attribeam.lab.benchmarks.gpu_report.parts.profile import slowest
from attribeam.lab.benchmarks.gpu_report.report_plan import plan_for
from attribeam.lab.benchmarks.latency_measurement import LatencyMeasurement

PLAN = plan_for("cuda", model=None, cores=8)
WEIGHTS = Weights("qwen2-0.5b", "bfloat16", "none")
FAST = LatencyMeasurement("attn_union", "batches", "ASQA", 2, 4, 1000, 2.0, 8e12, 2**30)


def journal_of(folder: Path, *measured: LatencyMeasurement) -> Journal:
    journal = Journal(folder / "steps.jsonl")
    journal.add_steps("latency", ["all"])
    values = [{"weights": asdict(WEIGHTS), "measured": asdict(one), "peak": 1e13} for one in measured]
    findings = [Finding(TIMES, ("a",), ("1",), one) for one in values]
    journal.add_outcome("latency", "all", Status.DONE, seconds=1.0, findings=findings)
    return journal


def test_slowest_step_is_farthest_from_the_peak_among_our_own(tmp_path: Path) -> None:
    slow = replace(FAST, shape="QuoteSum", mode="single", operations=2e12)
    stopped = replace(FAST, shape="VERI-GRAN", seconds=900.0, stopped=True)
    theirs = replace(FAST, method="two_stage", operations=1e12)
    journal = journal_of(tmp_path, FAST, slow, stopped, theirs)
    assert slowest(PLAN, journal.read()) == (WEIGHTS, slow, 0.1)


def test_without_latencies_the_first_model_is_profiled(tmp_path: Path) -> None:
    found = slowest(PLAN, Journal(tmp_path / "steps.jsonl").read())
    assert found == (Weights("qwen2-7b", "bfloat16", "none"), None, 0.0)
