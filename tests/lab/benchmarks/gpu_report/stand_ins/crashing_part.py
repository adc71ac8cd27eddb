"""A part whose steps end in every way but well: by an error, a signal, a lost device, and something that is missing."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from tests.lab.benchmarks.gpu_report.stand_ins.quick_part import line

from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState
from attribeam.lab.benchmarks.gpu_report.part import LeftOutError, Step
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan


def steps(_: ReportPlan, __: JournalState, folder: Path) -> list[Step]:
    return [
        Step("raises", raises),
        Step("dies", dies),
        Step("is bad", is_bad),
        Step("loses the device", loses_device),
        Step("is missing", is_missing),
        Step("works", partial(line, folder.parent, "works")),
    ]


def raises() -> Iterator[Finding]:
    yield Finding("Lines", ("step", "value"), ("raises", "1"), {"value": 1})
    raise ValueError("heads should fit,\nbut do not")


def dies() -> Iterator[Finding]:
    print("the last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    yield Finding("Lines", ("step", "value"), ("dies", "-"))


def is_bad() -> Iterator[Finding]:
    yield Finding("Lines", ("step", "value"), ("is bad", "9"), {"value": 9}, is_bad=True)


def loses_device() -> Iterator[Finding]:
    """As torch is after an illegal address: every call to the device fails, and so does the process as it ends."""

    def fail(device: str) -> None:
        if device == "cpu":  # the report's
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    cuda = SimpleNamespace(is_initialized=lambda: True, synchronize=fail)
    sys.modules["torch"] = SimpleNamespace(cuda=cuda)  # type: ignore[assignment]
    atexit.register(os.abort)
    fail("cpu")
    yield Finding("Lines", ("step", "value"), ("loses the device", "-"))


def is_missing() -> Iterator[Finding]:
    raise LeftOutError("the library is not installed")
    yield Finding("Lines", ("step", "value"), ("is missing", "-"))
