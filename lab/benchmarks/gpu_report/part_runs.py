"""Runs the parts one after the other, each in a process of its own, within the time that is left.

What a part does not use goes to the later ones, and what is left after the last part goes to the steps that were cut.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from attribeam.lab.benchmarks.gpu_report.journal import Journal, Status
from attribeam.lab.benchmarks.gpu_report.part import Part
from attribeam.lab.benchmarks.gpu_report.part_process import DEVICE_LOST, JOURNAL

LOG = "parts.log"
_LEAST_SECONDS = 3.0
"""A part with less time than this is not started."""
_TAIL_BYTES = 2000
_KILL_SECONDS = 20


@dataclass(frozen=True, slots=True)
class PartRuns:
    """The runs of all parts.

    Attributes:
        folder: the report's directory, where journal and log are.
        deadline: when the last part must have ended, by ``time.monotonic``.
        after_part: called whenever a part has ended.
    """

    folder: Path
    parts: Sequence[Part]
    deadline: float
    after_part: Callable[[], None]

    def run(self) -> None:
        """Run what is open; a second round takes up what the first one cut, if time is left."""
        for _ in range(2):
            for place, part in enumerate(self.parts):
                if self._journal.read().is_open(part.name) and self._seconds_for(self.parts[place:]) >= _LEAST_SECONDS:
                    self._run_part(part, time.monotonic() + self._seconds_for(self.parts[place:]))
                    self.after_part()

    @property
    def _journal(self) -> Journal:
        return Journal(self.folder / JOURNAL)

    def _seconds_for(self, parts: Sequence[Part]) -> float:
        """What the first of ``parts`` may take, if the others are to get their shares."""
        state = self._journal.read()
        shares = [part.share for part in parts if part is parts[0] or state.is_open(part.name)]
        return (self.deadline - time.monotonic()) * shares[0] / sum(shares)

    def _run_part(self, part: Part, until: float) -> None:
        """Run the part's process, and another one for the steps behind a crash."""
        while self._journal.read().is_open(part.name) and time.monotonic() < until:
            exit_code = self._run_process(part, until)
            if exit_code is None:
                self._end_running_step(part, Status.CUT, "time was up")
                return
            if exit_code == 0 or (part.name in (state := self._journal.read()).steps and not state.is_open(part.name)):
                return
            if exit_code != DEVICE_LOST and not self._end_running_step(part, Status.CRASHED, self._how(exit_code)):
                self._journal.add_trouble(part.name, f"no step could begin: {self._how(exit_code)}")
                return

    def _run_process(self, part: Part, until: float) -> int | None:
        """The exit code of the part's process; None if it had to be killed."""
        module = "attribeam.lab.benchmarks.gpu_report.part_process"
        command = [sys.executable, "-m", module, part.module, part.name, str(self.folder)]
        with (self.folder / LOG).open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            try:
                exit_code = process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                _kill(process)
                return None
            except BaseException:  # the command was stopped
                _kill(process)
                self._end_running_step(part, Status.CUT, "the command was stopped")
                raise
            if exit_code:
                _kill(process)  # what it has started may still run
            return exit_code

    def _end_running_step(self, part: Part, status: Status, words: str) -> bool:
        """Note the end of the step that its process did not note; False if there is none."""
        step = self._journal.read().running.get(part.name)
        if step is None:
            return False
        self._journal.add_outcome(part.name, step, status, seconds=0.0, words=words)
        return True

    def _how(self, exit_code: int) -> str:
        """How a process ended, and its last words."""
        how = f"exit code {exit_code}"
        if exit_code < 0:
            with suppress(ValueError):
                how = f"signal {signal.Signals(-exit_code).name}"
        with (self.folder / LOG).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = log.read().decode("utf-8", errors="replace").strip().splitlines()
        last = next((line for line in reversed(lines) if not line.startswith("== ")), "")
        return f"{how}; last line of {LOG}: {last}" if last else how


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a part's process and everything that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # a driver that hangs keeps its process; the report goes on
        process.wait(_KILL_SECONDS)
