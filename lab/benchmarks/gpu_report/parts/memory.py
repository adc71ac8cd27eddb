"""Part 4: peak memory of rows of growing length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from attribeam.lab.benchmarks.attribution_memory import HEADER, measure_lengths, measure_row
from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState
from attribeam.lab.benchmarks.gpu_report.part import Step, need_nf4
from attribeam.lab.benchmarks.gpu_report.parts.loaded import OneLoaded
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan

TABLE = "Memory"
_HEADER = ("model", "weights", *HEADER)


def steps(plan: ReportPlan, _: JournalState, __: Path) -> list[Step]:
    """One step per model, form of weights and length."""
    loaded = OneLoaded()
    return [
        Step(f"{name} {form}, {tokens:,} tokens", partial(_measure, plan, loaded, name, form, tokens))
        for form in (plan.precision, "nf4")
        for name in plan.names
        for tokens in plan.memory_tokens
    ]


def _measure(plan: ReportPlan, loaded: OneLoaded, name: str, form: str, tokens: int) -> Iterator[Finding]:
    if form == "nf4":
        need_nf4()
    model = plan.made(name, quantization="nf4" if form == "nf4" else "none")
    if plan.device == "cpu":
        (found,) = measure_lengths(model, [tokens])
    else:
        found = measure_row(loaded.get((name, form), model.attributor), model, tokens)
    yield Finding(TABLE, _HEADER, (name, form, *found.cells()), {"model": name, "weights": form, **asdict(found)})
