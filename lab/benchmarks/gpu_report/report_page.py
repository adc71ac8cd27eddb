"""The report as one Markdown page and as JSON, and what ``attribeam models suggest`` reads of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any

from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState, Status, StepOutcome
from attribeam.lab.benchmarks.gpu_report.part import Part
from attribeam.lab.benchmarks.gpu_report.part_runs import LOG
from attribeam.lab.benchmarks.gpu_report.summary import HEADER, at_a_glance
from attribeam.lab.markdown_table import markdown_table
from attribeam.lab.model_choice.measured_models import Measurements

PAGE, FIGURES, SIZES = "report.md", "report.json", "measured_models.json"


def write_report(folder: Path, parts: Sequence[Part], state: JournalState, about: Mapping[str, Any]) -> None:
    """Replace the files by what ``state`` holds so far; ``SIZES`` is not written before a size was measured.

    ``about`` are the command's options and what is true of this run only.
    """
    _replace(folder / PAGE, "\n".join(_page(parts, state, about)) + "\n")
    _replace(folder / FIGURES, json.dumps(_figures(parts, state, about), indent=1) + "\n")
    sizes = state.values_of("sizes", "Sizes")
    if sizes:
        found = Measurements.from_values({"other_stages": None, "models": sizes}).models
        reduce(Measurements.with_model, found, Measurements()).write(folder / SIZES)


def _replace(path: Path, text: str) -> None:
    written = path.with_name(f".{path.name}.partial")
    written.write_text(text, encoding="utf-8")
    written.replace(path)


def _page(parts: Sequence[Part], state: JournalState, about: Mapping[str, Any]) -> Iterator[str]:
    machine = state.plan["machine"]
    yield f"# GPU report: {machine['device']}"
    yield f"\n`{about['command']}`, {about['state']} at {about['time']}."
    if machine["device"] == "cpu":
        yield "\n**Measured on a CPU, with small sizes: this shows that the report works, and nothing about a GPU.**"
        yield "Peaks of memory beside latencies are those of the process so far."
    yield "\n## At a glance\n"
    yield markdown_table(HEADER, at_a_glance(state))
    yield "\n## Machine\n"
    yield markdown_table(("what", "value"), [*machine.items(), *about["at_start"].items()])
    yield "\n## Sizes\n"
    yield markdown_table(("what", "value"), [(name, _text(value)) for name, value in state.plan["sizes"].items()])
    for number, part in enumerate(parts, start=1):
        yield f"\n## {number}. {part.title}\n"
        yield from _part(part, state)


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _part(part: Part, state: JournalState) -> Iterator[str]:
    yield f"{_how_far(part, state)}"
    outcomes = state.outcomes_of(part.name)
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    for table in dict.fromkeys(finding.table for finding in findings):
        yield from _table(table, [finding for finding in findings if finding.table == table])
    problems = [*_problems(part, state)]
    if problems:
        yield "\n" + "\n".join(f"- {problem}" for problem in problems)


def _how_far(part: Part, state: JournalState) -> str:
    steps, outcomes = state.steps.get(part.name, ()), state.outcomes_of(part.name)
    if not steps:
        return state.troubles.get(part.name, "Not run: there was no time left.")
    counts = Counter(str(outcome.status) for outcome in outcomes)
    told = [f"{count} {status}" for status, count in counts.items()]
    missing = len(steps) - len(outcomes)
    if missing:
        told.append(f"{missing} not run, since time was up")
    seconds = sum(outcome.seconds for outcome in outcomes)
    return f"{len(steps)} steps: {', '.join(told)}; {seconds:.0f} s."


def _table(title: str, findings: Sequence[Finding]) -> Iterator[str]:
    counts = Counter(finding.counted for finding in findings if finding.counted)
    listed = [finding.cells for finding in findings if not finding.counted]
    yield f"\n### {title}\n"
    if counts:
        yield f"{', '.join(f'{count} {word}' for word, count in counts.items())}.\n"
    if listed:
        yield markdown_table(findings[0].header, listed)


def _problems(part: Part, state: JournalState) -> Iterator[str]:
    """One line for everything that is not as it should be."""
    for outcome in state.outcomes_of(part.name):
        if outcome.status is not Status.DONE:
            yield f"{outcome.step}: {outcome.status}, {outcome.words}".removesuffix(", ")
    missing = [step for step in state.steps.get(part.name, ()) if (part.name, step) not in state.outcomes]
    if missing:
        yield f"not run: {'; '.join(missing)}"
    if part.name in state.troubles and part.name in state.steps:
        yield f"{state.troubles[part.name]}; see {LOG}"


def _figures(parts: Sequence[Part], state: JournalState, about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **about,
        **state.plan,
        "at_a_glance": [dict(zip(HEADER, line, strict=True)) for line in at_a_glance(state)],
        "parts": [
            {
                "name": part.name,
                "title": part.title,
                "trouble": state.troubles.get(part.name, ""),
                "steps": [_step(part.name, step, state) for step in state.steps.get(part.name, ())],
            }
            for part in parts
        ],
    }


def _step(part: str, step: str, state: JournalState) -> dict[str, Any]:
    outcome: StepOutcome | None = state.outcomes.get((part, step))
    return {"step": step, "status": "not run"} if outcome is None else asdict(outcome)
