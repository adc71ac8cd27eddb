"""Part 1: the tests that are marked ``gpu``, one step each: one that kills its process takes no other along."""

from __future__ import annotations

import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState
from attribeam.lab.benchmarks.gpu_report.part import LeftOutError, Step
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan

_ROOT = Path(__file__).resolve().parents[4]
_MARK = re.compile(r"pytest\.mark\.gpu\b")
_HEADER = ("test", "outcome", "seconds", "why")
_OPTIONS = ("-q", "-p", "no:cacheprovider", "-m", "gpu", "--rootdir", str(_ROOT), "-c", str(_ROOT / "pyproject.toml"))


def steps(_: ReportPlan, __: JournalState, ___: Path) -> list[Step]:
    """One step per test; a single one that says why, if there is nothing to run."""
    if find_spec("pytest") is None:
        return [Step("tests", partial(_left_out, "pytest is not installed"))]
    files = [
        str(path) for path in sorted((_ROOT / "tests").rglob("test_*.py")) if _MARK.search(path.read_text("utf-8"))
    ]
    if not files:
        return [Step("tests", partial(_left_out, f"no tests lie in {_ROOT / 'tests'}"))]
    return [step for file in files for step in _steps_of(file)]


def _left_out(why: str) -> list[Finding]:
    raise LeftOutError(why)


def _steps_of(file: str) -> list[Step]:
    """The tests of a file, in the order in which they stand; a single step if it cannot be imported."""
    import pytest

    seen = _Seen()
    code = pytest.main([*_OPTIONS, "--collect-only", file], plugins=[seen])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return [Step(Path(file).name, partial(_left_out, "its tests cannot be collected here, see the log"))]
    return [Step(node.rpartition("/")[2], partial(_run, node)) for node in seen.collected]


def _run(node: str) -> list[Finding]:
    import pytest

    seen = _Seen()
    pytest.main([*_OPTIONS, "--tb=short", str(_ROOT / node)], plugins=[seen])
    outcome, seconds, why = seen.outcomes.get(node, ("not run", 0.0, "see the log"))
    is_bad = outcome in ("failed", "not run")
    cells = (node.rpartition("::")[2], outcome, f"{seconds:.1f}", why.replace("|", "/"))
    values = {"test": node, "outcome": outcome, "seconds": seconds, "why": why}
    return [Finding("Tests", _HEADER, cells, values, counted="" if is_bad else outcome, is_bad=is_bad)]


class _Seen:
    """A plugin of pytest that keeps which tests there are, and how each of them ended."""

    def __init__(self) -> None:
        self.collected: list[str] = []
        self.outcomes: dict[str, tuple[str, float, str]] = {}

    def pytest_collection_finish(self, session: Any) -> None:
        self.collected = [item.nodeid for item in session.items]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test has three reports; what goes wrong in one of them counts."""
        earlier, seconds, why = self.outcomes.get(report.nodeid, ("passed", 0.0, ""))
        outcome = earlier if report.passed else report.outcome
        self.outcomes[report.nodeid] = (outcome, seconds + report.duration, why or _why(report))


def _why(report: Any) -> str:
    """The reason of a skip, or the line of an error."""
    if report.passed:
        return ""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return next(iter(str(crash.message if crash else report.longrepr).splitlines()), "")
