"""Part 8: what ``attribeam models suggest`` reads, speed and memory by size of model and form of its weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from attribeam.attribution.options import ATTN_UNION_DEP
from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState
from attribeam.lab.benchmarks.gpu_report.part import LeftOutError, Step, need_nf4
from attribeam.lab.benchmarks.gpu_report.parts.loaded import release_memory
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan
from attribeam.lab.benchmarks.model_size_measurement import SizedModel, measure_size

TABLE = "Sizes"
_HEADER = ("size", "weights", "memory MiB", "ms/row")
_SECONDS = 5.0
_LIMIT = 60.0


def steps(plan: ReportPlan, _: JournalState, __: Path) -> list[Step]:
    """One step per size and form of weights; a single one that says why, if the report is of a named model."""
    if plan.model is not None:
        return [Step("sizes", _left_out)]
    return [
        Step(f"{size} {plan.precision if form == 'none' else form}", partial(_measure, plan, size, form))
        for form in ("none", "nf4")
        for size in plan.suggested_sizes
    ]


def _left_out() -> list[Finding]:
    raise LeftOutError("attribeam models suggest reads figures of random models; leave --model out")


def _measure(plan: ReportPlan, size: str, form: str) -> Iterator[Finding]:
    if form == "nf4":
        need_nf4()
    release_memory()
    wanted = SizedModel(size, plan.precision, form, ATTN_UNION_DEP, plan.device)
    (found,) = measure_size(wanted, seconds=_SECONDS, limit=_LIMIT).models
    times = ", ".join(f"{1000 * one.seconds:.2f} of {one.row_tokens:,} tokens" for one in found.figures)
    cells = (size, found.precision, f"{found.peak_bytes / 2**20:,.0f}", times)
    yield Finding(TABLE, _HEADER, cells, asdict(found))
