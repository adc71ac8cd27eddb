"""Reports of stand-in parts: every way in which a part ends, kills of the whole command, and going on afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attribeam.lab.benchmarks.gpu_report import part_runs
from attribeam.lab.benchmarks.gpu_report.journal import Journal, JournalState, Status
from attribeam.lab.benchmarks.gpu_report.part import Part
from attribeam.lab.benchmarks.gpu_report.part_process import JOURNAL
from attribeam.lab.benchmarks.gpu_report.report_run import ReportRun, locked
from attribeam.schemas.errors import ExitCode, UsageError

ROOT = Path(__file__).parents[4]
STAND_INS = "tests.lab.benchmarks.gpu_report.stand_ins"
QUICK, HANGING, CRASHING, BROKEN = (
    Part(name, f"The {name} part", f"{STAND_INS}.{name}_part", 1) for name in ("quick", "hanging", "crashing", "broken")
)
MACHINE = {"device": "cpu", "torch": "2.13.0"}
LONG = 60.0
"""Minutes that nothing here takes."""
PATIENCE = 300.0
"""Seconds after which a test gives up waiting for what is sure to happen."""


@pytest.fixture(autouse=True)
def importable_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT}")


def report(folder: Path, *parts: Part, minutes: float = LONG, machine: dict[str, str] = MACHINE) -> ExitCode:
    run = ReportRun(folder, parts, minutes, "the command")
    return run.run("cpu", None, machine=machine, at_start={"load": "0.1"})


def state_of(folder: Path) -> JournalState:
    return Journal(folder / JOURNAL).read()


def statuses(folder: Path, part: str) -> dict[str, str]:
    return {one.step: str(one.status) for one in state_of(folder).outcomes_of(part)}


def figures(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return found


def ran(folder: Path) -> list[str]:
    return (folder / "ran.txt").read_text(encoding="utf-8").split()


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class TimeIsUpOnceItHangs(subprocess.Popen[bytes]):
    """A process whose time is up as soon as its part hangs, and not before."""

    hangs: Callable[[], bool]
    was_up = False

    def wait(self, timeout: float | None = None) -> int:
        while timeout is not None and not self.was_up and self.poll() is None:
            if type(self).hangs():
                self.was_up = True
                raise subprocess.TimeoutExpired("the part", timeout)
            time.sleep(0.05)
        return super().wait()


def test_report_of_parts_that_work_has_their_lines(tmp_path: Path) -> None:
    assert report(tmp_path, QUICK) == ExitCode.DONE
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "## 1. The quick part" in page
    assert "| first | 7 |" in page
    assert "finished at" in page
    assert "torch | 2.13.0" in page
    assert [step["findings"][0]["values"] for step in figures(tmp_path)["parts"][0]["steps"]] == [{"value": 7}] * 2
    assert not (tmp_path / "work").exists()


def test_part_that_runs_out_of_time_keeps_its_steps_and_the_next_part_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = staticmethod(lambda: "hangs" in state_of(tmp_path).running.values() and (tmp_path / "pids").exists())
    monkeypatch.setattr(TimeIsUpOnceItHangs, "hangs", hangs, raising=False)
    monkeypatch.setattr(part_runs.subprocess, "Popen", TimeIsUpOnceItHangs)
    assert report(tmp_path, HANGING, QUICK) == ExitCode.FAILED
    assert statuses(tmp_path, "hanging")["before"] == "done"
    assert statuses(tmp_path, "hanging")["hangs"] == "cut"
    assert statuses(tmp_path, "quick") == {"first": "done", "second": "done"}
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "- hangs: cut, time was up" in page
    assert "| before | 7 |" in page
    for pid in (tmp_path / "pids").read_text(encoding="utf-8").split():
        wait_until(lambda pid=pid: not is_running(int(pid)))  # type: ignore[misc]


def test_process_that_a_driver_holds_on_to_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float | None] = []

    class Held:
        pid = 7

        def wait(self, timeout: float | None = None) -> int:
            waited.append(timeout)
            raise subprocess.TimeoutExpired("the part", timeout or 0.0)

    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(part_runs.os, "killpg", lambda *sent: killed.append(sent))
    part_runs._kill(Held())  # type: ignore[arg-type]
    assert killed == [(7, signal.SIGKILL)]
    assert None not in waited


def test_every_bad_end_is_said_and_the_steps_behind_it_run(tmp_path: Path) -> None:
    assert report(tmp_path, CRASHING, BROKEN, QUICK) == ExitCode.FAILED
    assert statuses(tmp_path, "crashing") == {
        "raises": "failed",
        "dies": "crashed",
        "is bad": "failed",
        "loses the device": "failed",
        "is missing": "left out",
        "works": "done",
    }
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "- raises: failed, ValueError: heads should fit," in page
    assert "- dies: crashed, signal SIGKILL; last line of parts.log: the last words" in page
    assert "- is bad: failed, see the table" in page
    assert "- is missing: left out, the library is not installed" in page
    assert "no step could begin: exit code 1; last line of parts.log: ImportError: no such library" in page
    assert "| raises | 1 |" in page, "what a step found before its error stays"
    assert statuses(tmp_path, "quick") == {"first": "done", "second": "done"}


def test_what_did_not_fit_is_said(tmp_path: Path) -> None:
    assert report(tmp_path, QUICK, minutes=0.0) == ExitCode.FAILED
    assert "Not run: there was no time left." in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_part_gets_its_share_of_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [Part(name, name, "none", share) for name, share in (("a", 1), ("b", 3), ("c", 4))]
    monkeypatch.setattr(part_runs.time, "monotonic", lambda: 100.0)
    runs = part_runs.PartRuns(tmp_path, parts, 180.0, lambda: None)
    assert [runs._seconds_for(parts[place:]) for place in range(3)] == [10.0, 80.0 * 3 / 7, 80.0]
    Journal(tmp_path / JOURNAL).add_trouble("b", "done with")
    assert runs._seconds_for(parts) == 80.0 / 5


def test_same_command_keeps_what_is_done_and_tries_the_rest_again(tmp_path: Path) -> None:
    report(tmp_path, CRASHING)
    assert report(tmp_path, QUICK, CRASHING) == ExitCode.FAILED
    assert ran(tmp_path) == ["works", "first", "second"]
    outcomes = {one.step: one.run for one in state_of(tmp_path).outcomes_of("crashing")}
    assert outcomes == {"raises": 2, "dies": 2, "is bad": 2, "loses the device": 2, "is missing": 1, "works": 1}


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL], ids=["polite", "not to be caught"])
def test_kill_of_the_whole_command_leaves_what_was_done_and_nothing_running(
    tmp_path: Path, sent: signal.Signals
) -> None:
    command = (
        "import signal; signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
        "from tests.lab.benchmarks.gpu_report.test_report_run import *\n"
        f"raise SystemExit(report(Path({str(tmp_path)!r}), QUICK, HANGING))"
    )
    driver = subprocess.Popen([sys.executable, "-c", command], cwd=ROOT)
    wait_until((tmp_path / "pids").exists)
    driver.send_signal(sent)
    assert driver.wait(PATIENCE) == (ExitCode.INTERRUPTED if sent is signal.SIGTERM else -sent)
    for pid in (tmp_path / "pids").read_text(encoding="utf-8").split():
        wait_until(lambda pid=pid: not is_running(int(pid)))  # type: ignore[misc]
    assert statuses(tmp_path, "hanging")["before"] == Status.DONE
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| first | 7 |" in page
    assert (", stopped at" in page) == (sent is signal.SIGTERM)
    assert figures(tmp_path)["parts"][0]["steps"][0]["status"] == "done"

    (tmp_path / "may end").touch()
    assert report(tmp_path, QUICK, HANGING) == ExitCode.DONE
    assert ran(tmp_path) == ["first", "second", "before", "hangs", "after"]
    assert "| before | 7 |" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_figures_of_two_machines_are_not_mixed(tmp_path: Path) -> None:
    report(tmp_path, QUICK)
    with pytest.raises(UsageError, match=r"torch '2\.13\.0', which cannot go on with '2\.14\.0'; choose another"):
        report(tmp_path, QUICK, machine=MACHINE | {"torch": "2.14.0"})
    assert ran(tmp_path) == ["first", "second"]


def test_line_that_a_kill_cut_short_is_forgotten(tmp_path: Path) -> None:
    report(tmp_path, QUICK)
    with (tmp_path / JOURNAL).open("a", encoding="utf-8") as file:
        file.write('{"event": "ended", "part": "quick", "st')
    assert statuses(tmp_path, "quick") == {"first": "done", "second": "done"}
    assert report(tmp_path, QUICK) == ExitCode.DONE
    assert ran(tmp_path) == ["first", "second"]


def test_directory_in_use_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UsageError, match="in use by another report"):
        report(tmp_path, QUICK)
