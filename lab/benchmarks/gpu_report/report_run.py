"""One run of the command: begins or continues a report, runs its parts, and writes the report when one has ended."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attribeam.lab.benchmarks.gpu_report.journal import FINAL, Journal
from attribeam.lab.benchmarks.gpu_report.part import Part
from attribeam.lab.benchmarks.gpu_report.part_process import JOURNAL, WORK
from attribeam.lab.benchmarks.gpu_report.part_runs import PartRuns
from attribeam.lab.benchmarks.gpu_report.report_page import PAGE, write_report
from attribeam.lab.benchmarks.gpu_report.report_plan import plan_for
from attribeam.schemas.errors import ExitCode, UsageError

_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class ReportRun:
    """A run of ``parts`` into ``output``, with ``minutes`` for all of them; ``command`` is printed on the page."""

    output: str | Path
    parts: Sequence[Part]
    minutes: float
    command: str

    def run(
        self, device: str, model: str | None, *, machine: Mapping[str, str], at_start: Mapping[str, str]
    ) -> ExitCode:
        """Measure what is not measured yet; FAILED if something is still missing or wrong, INTERRUPTED if stopped.

        Raises:
            UsageError: if the directory holds a report of another machine or with other options, or is in use.
        """
        deadline = time.monotonic() + 60 * self.minutes
        folder = Path(self.output)
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            journal = Journal(folder / JOURNAL)
            sizes = plan_for(device, model=model, cores=len(os.sched_getaffinity(0)))
            plan = {"machine": dict(machine), "sizes": sizes.as_values()}
            _check_same(folder, journal.read().plan, plan)
            journal.begin(plan)
            return self._run_parts(folder, journal, deadline, at_start)

    def _run_parts(self, folder: Path, journal: Journal, deadline: float, at_start: Mapping[str, str]) -> ExitCode:
        def write(state: str) -> None:
            now = time.strftime("%Y-%m-%d %H:%M %Z")
            about = {"command": self.command, "state": state, "time": now, "at_start": dict(at_start)}
            write_report(folder, self.parts, journal.read(), about)

        write("begun")
        try:
            PartRuns(folder, self.parts, deadline, lambda: write("not yet finished")).run()
        except KeyboardInterrupt:
            write("stopped")
            return ExitCode.INTERRUPTED
        finally:
            shutil.rmtree(folder / WORK, ignore_errors=True)
        write("finished")
        print(f"{folder / PAGE}")
        return ExitCode.DONE if self._is_complete(journal) else ExitCode.FAILED

    def _is_complete(self, journal: Journal) -> bool:
        state = journal.read()
        steps = [(part.name, step) for part in self.parts for step in state.steps.get(part.name, ())]
        ended = all(key in state.outcomes and state.outcomes[key].status in FINAL for key in steps)
        return ended and all(part.name in state.steps and part.name not in state.troubles for part in self.parts)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs away from the directory.

    Raises:
        UsageError: if one is there already.
    """
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"{folder} is in use by another report; wait for it, or choose another --output"
            ) from error
        yield


def _check_same(folder: Path, earlier: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    """Refuse to mix figures.

    Raises:
        UsageError: if machine, versions, commit or sizes differ from those of the report that is there.
    """
    for group in plan if earlier else ():
        found, asked = earlier[group], plan[group]
        differs = sorted(name for name in {*found, *asked} if found.get(name) != asked.get(name))
        if differs:
            name = differs[0]
            raise UsageError(
                f"{folder} holds a report with {name} {found.get(name)!r}, which cannot go on with "
                f"{asked.get(name)!r}; choose another --output"
            )
