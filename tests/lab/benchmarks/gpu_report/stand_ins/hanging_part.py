"""A part whose second step never ends, unless a file says that it may; it has a process of its own beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.lab.benchmarks.gpu_report.stand_ins.quick_part import line

from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState
from attribeam.lab.benchmarks.gpu_report.part import Step
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan


def steps(_: ReportPlan, __: JournalState, folder: Path) -> list[Step]:
    names = {"before": line, "hangs": hang, "after": line}
    return [Step(name, partial(run, folder.parent, name)) for name, run in names.items()]


def hang(report: Path, name: str) -> Iterator[Finding]:
    if not (report / "may end").exists():
        beside = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        written = report / "pids.partial"
        written.write_text(f"{os.getpid()} {beside.pid}", encoding="utf-8")
        written.replace(report / "pids")
        time.sleep(3600)
    yield from line(report, name)
