"""The process of one part: runs the steps that are still open, and notes each one's outcome as it ends.

python -m attribeam.lab.benchmarks.gpu_report.part_process MODULE PART FOLDER
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
import time
import traceback
from pathlib import Path

from attribeam.lab.benchmarks.gpu_report.journal import Finding, Journal, Status
from attribeam.lab.benchmarks.gpu_report.part import LeftOutError, Step
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan

JOURNAL = "steps.jsonl"
WORK = "work"
DEVICE_LOST = 75
"""Exit code: the device raises errors whatever it is asked; a new process may go on."""
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run the part; returns 0, or ends with ``DEVICE_LOST`` if another process should run the rest."""
    module, part, folder = sys.argv[1:]
    _end_with_driver()
    journal = Journal(Path(folder) / JOURNAL)
    state = journal.read()
    work = Path(folder) / WORK
    work.mkdir(exist_ok=True)
    plan = ReportPlan.from_values(state.plan["sizes"])
    steps: list[Step] = importlib.import_module(module).steps(plan, state, work)
    journal.add_steps(part, [step.name for step in steps])
    wanted = set(journal.read().open_steps(part))
    for step in steps:
        if step.name in wanted and not _run(step, part, journal, plan.device):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(DEVICE_LOST)  # an orderly end could abort: CUDA's libraries raise errors then, too
    return 0


def _end_with_driver() -> None:
    """Leave nothing running when the driver is gone: neither this process nor what it has started."""

    def end(*_: object) -> None:
        os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _run(step: Step, part: str, journal: Journal, device: str) -> bool:
    """Run a step and note its outcome; False if ``device`` is lost."""
    print(f"== {part}: {step.name}", file=sys.stderr, flush=True)
    journal.add_start(part, step.name)
    began = time.monotonic()
    found: list[Finding] = []
    status, words = Status.DONE, ""
    try:
        found.extend(step.run())
        if any(finding.is_bad for finding in found):
            status, words = Status.FAILED, "see the table"
    except LeftOutError as reason:
        status, words = Status.LEFT_OUT, str(reason)
    except Exception as error:  # noqa: BLE001 - a step may fail in any way, and the next one may not
        traceback.print_exc()
        status, words = Status.FAILED, f"{type(error).__name__}: {_first_line(str(error))}"
    journal.add_outcome(part, step.name, status, seconds=time.monotonic() - began, findings=found, words=words)
    return status is not Status.FAILED or not _is_lost(device)


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _is_lost(device: str) -> bool:
    """Whether an error of the GPU, such as an illegal address, makes every later call of this process fail, too."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
