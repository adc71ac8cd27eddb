"""Part 2: our attention against eager attention on the device, in each precision and with each kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState
from attribeam.lab.benchmarks.gpu_report.part import Step
from attribeam.lab.benchmarks.gpu_report.parts.loaded import release_memory
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan
from attribeam.lab.benchmarks.kernel_exactness import HEADER, measure_exactness, unmeasured_kernels

TABLE = "Errors of S"
_HEADER = ("model", *HEADER)


def steps(plan: ReportPlan, _: JournalState, __: Path) -> list[Step]:
    """One step per model and precision, the smallest model first."""
    return [
        Step(f"{name}, {precision}", partial(_compare, plan, name, precision))
        for name in reversed(plan.names)
        for precision in plan.exact_precisions
    ]


def _compare(plan: ReportPlan, name: str, precision: str) -> Iterator[Finding]:
    release_memory()
    measured = []
    for one in measure_exactness(plan.made(name, precision=precision)):
        measured.append(one.kernel)
        values = {"model": name, **asdict(one), "is_exact": one.is_exact}
        yield Finding(TABLE, _HEADER, (name, *one.cells()), values, is_bad=not one.is_exact)
    for kernel, words in unmeasured_kernels(plan.device, precision, measured).items():
        empty = ("-",) * (len(_HEADER) - 4)
        cells = (name, precision, kernel, *empty, words)
        yield Finding(TABLE, _HEADER, cells, {"model": name, "dtype": precision, "kernel": kernel, "missing": words})
