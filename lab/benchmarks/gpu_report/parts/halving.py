"""Part 6: a batch that does not fit into memory is halved, and a row that does not fit alone fails alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState
from attribeam.lab.benchmarks.gpu_report.part import Step
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan
from attribeam.lab.benchmarks.memory_halving import HEADER, measure_halving

TABLE = "Too little memory"
_LARGEST_DIFFERENCE = 0.02
"""Of a passage's mass, between one batch and its halves, in half precision."""


def steps(plan: ReportPlan, _: JournalState, __: Path) -> list[Step]:
    """One step, with the model that leaves the most room."""
    return [Step(plan.smallest, partial(_measure, plan))]


def _measure(plan: ReportPlan) -> Iterator[Finding]:
    model = plan.made(plan.smallest)
    for found in measure_halving(model, rows=plan.halving_rows, tokens=plan.halving_tokens):
        is_bad = not found.difference <= _LARGEST_DIFFERENCE
        yield Finding(TABLE, HEADER, found.cells(), {"model": plan.smallest, **asdict(found)}, is_bad=is_bad)
