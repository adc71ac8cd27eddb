"""What a report found so far, on disk: one line of JSON per event, so that a kill loses no more than one step.

A report has parts, and a part has steps. Events are the plan, the start of a run of the command, a part's list of
steps, and the start and the end of each step. One process writes at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from attribeam.schemas.errors import DataError


class Status(StrEnum):
    """How a step ended.

    ``FAILED``: it raised an error, or found something wrong. ``CRASHED``: its process died. ``CUT``: time was up, or
    the command was stopped. ``LEFT_OUT``: something that it needs is not there.
    """

    DONE = "done"
    FAILED = "failed"
    CRASHED = "crashed"
    CUT = "cut"
    LEFT_OUT = "left out"


FINAL = frozenset({Status.DONE, Status.LEFT_OUT})
"""What a later run of the command keeps; everything else is tried again."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a table.

    Attributes:
        table: the table's title; findings of one title have one header.
        cells: the line as it is printed.
        values: the figures behind it.
        counted: if not empty, the page only counts such lines under this word, and report.json lists them.
        is_bad: whether the step that found it has failed.
    """

    table: str
    header: Sequence[str]
    cells: Sequence[str]
    values: Mapping[str, Any] = field(default_factory=dict)
    counted: str = ""
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """How a step ended, in the ``run``-th run of the command; ``words`` say what went wrong."""

    part: str
    step: str
    status: Status
    seconds: float
    findings: tuple[Finding, ...] = ()
    words: str = ""
    run: int = 0


@dataclass(slots=True)
class JournalState:
    """What the journal says.

    Attributes:
        runs: how often the command was started.
        steps: the steps of each part that ever began.
        outcomes: the last outcome of each step.
        running: the step of each part that began and has not ended.
        troubles: how parts ended that did not get as far as their steps, in this run.
    """

    plan: dict[str, Any] = field(default_factory=dict)
    runs: int = 0
    steps: dict[str, tuple[str, ...]] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], StepOutcome] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)

    def open_steps(self, part: str) -> list[str]:
        """The steps that this run of the command has yet to run: those not tried in it, or cut."""
        return [step for step in self.steps.get(part, ()) if self._is_open(self.outcomes.get((part, step)))]

    def is_open(self, part: str) -> bool:
        """Whether the part has steps to run, or has not said which it has."""
        return bool(self.open_steps(part)) if part in self.steps else part not in self.troubles

    def outcomes_of(self, part: str) -> list[StepOutcome]:
        """The outcomes of a part, in the order of its steps."""
        return [self.outcomes[part, step] for step in self.steps.get(part, ()) if (part, step) in self.outcomes]

    def values_of(self, part: str, table: str) -> list[Mapping[str, Any]]:
        """The figures of one table of a part."""
        return [
            finding.values
            for outcome in self.outcomes_of(part)
            for finding in outcome.findings
            if finding.table == table
        ]

    def _is_open(self, outcome: StepOutcome | None) -> bool:
        if outcome is None or outcome.status is Status.CUT:
            return True
        return outcome.status not in FINAL and outcome.run < self.runs


class Journal:
    """The file of events; every event is on disk when the call that adds it returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Begin a run of the command: the first one writes the plan.

        A line that a kill cut short is removed.
        """
        self._drop_torn_line()
        if not self.read().plan:
            self._add({"event": "plan", "plan": dict(plan)})
        self._add({"event": "begun"})

    def add_steps(self, part: str, steps: Sequence[str]) -> None:
        """Note which steps a part has."""
        self._add({"event": "steps", "part": part, "steps": list(steps)})

    def add_start(self, part: str, step: str) -> None:
        """Note that a step begins."""
        self._add({"event": "started", "part": part, "step": step})

    def add_outcome(
        self,
        part: str,
        step: str,
        status: Status,
        *,
        seconds: float,
        findings: Iterable[Finding] = (),
        words: str = "",
    ) -> None:
        """Note how a step ended."""
        found = [asdict(finding) for finding in findings]
        ended = {"part": part, "step": step, "status": status, "seconds": round(seconds, 3)}
        self._add({"event": "ended", **ended, "words": words, "findings": found})

    def add_trouble(self, part: str, words: str) -> None:
        """Note that a part ended before its first step."""
        self._add({"event": "trouble", "part": part, "words": words})

    def read(self) -> JournalState:
        """What the events add up to; a last line without an end is ignored.

        Raises:
            DataError: if the file holds something else.
        """
        state = JournalState()
        if not self.path.exists():
            return state
        lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        for number, line in enumerate(lines, start=1):
            try:
                _apply(state, json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(
                    f"{self.path}, line {number} should be an event of a report, is not ({error}); remove the file to "
                    "start over"
                ) from error
        return state

    def _add(self, event: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _drop_torn_line(self) -> None:
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        if not content.endswith(b"\n"):
            os.truncate(self.path, content.rfind(b"\n") + 1)


def _apply(state: JournalState, event: Mapping[str, Any]) -> None:
    kind, part = event["event"], event.get("part", "")
    if kind == "plan":
        state.plan = event["plan"]
    elif kind == "begun":
        state.runs += 1
        state.running.clear()
        state.troubles.clear()
    elif kind == "steps":
        state.steps[part] = tuple(event["steps"])
    elif kind == "started":
        state.running[part] = event["step"]
    elif kind == "ended":
        state.running.pop(part, None)
        findings = tuple(Finding(**finding) for finding in event["findings"])
        state.outcomes[part, event["step"]] = StepOutcome(
            part, event["step"], Status(event["status"]), event["seconds"], findings, event["words"], state.runs
        )
    elif kind == "trouble":
        state.troubles[part] = event["words"]
    else:
        raise ValueError(f"unknown event {kind!r}")
