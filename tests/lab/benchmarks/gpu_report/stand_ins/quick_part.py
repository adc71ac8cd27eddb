"""A part of two steps, each of which says in a file that it ran."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState
from attribeam.lab.benchmarks.gpu_report.part import Step
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan


def steps(_: ReportPlan, __: JournalState, folder: Path) -> list[Step]:
    return [Step(name, partial(line, folder.parent, name)) for name in ("first", "second")]


def line(report: Path, name: str) -> Iterator[Finding]:
    with (report / "ran.txt").open("a", encoding="utf-8") as file:
        file.write(f"{name}\n")
    yield Finding("Lines", ("step", "value"), (name, "7"), {"value": 7})
