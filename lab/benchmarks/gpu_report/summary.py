"""The report at a glance: each question of the goals, with the answer that the figures give, and what they lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attribeam.lab.benchmarks.gpu_report.journal import JournalState, Status

NOT_MEASURED = "not measured"
HEADER = ("question", "goal", "found")


def at_a_glance(state: JournalState) -> list[tuple[str, str, str]]:
    """One line per question, below ``HEADER``."""
    lines = [
        ("tests", "GPU tests", "all pass", _tests(state)),
        ("exactness", "exactness against eager attention", "within bounds", _exactness(state)),
        ("latency", "share of the measured peak, AttnUnion in batches", "60 %", _peak_share(state)),
        ("latency", "AttnUnion against the two stages", "5 times", _factors(state, "two_stage")),
        ("latency", "NF4 against full precision, time", "at most 1.5 times", _nf4(state)),
        ("memory", "memory of the longest row beside the model", "linear", _memory(state)),
        ("audit", "idle share of the device in an audit", "at most 5 %", _idle(state)),
        ("halving", "out of memory", "halved, same results", _halving(state)),
    ]
    return [(question, goal, answer + _without_figures(state, part)) for part, question, goal, answer in lines]


def _without_figures(state: JournalState, part: str) -> str:
    """How many steps of the part gave no answer, and why; empty if all did."""
    ended = state.outcomes_of(part)
    bare = [one for one in ended if one.status is not Status.DONE and not any(found.is_bad for found in one.findings)]
    counts = Counter(str(one.status) for one in bare)
    missing = len(state.steps.get(part, ())) - len(ended)
    if missing:
        counts["not run"] = missing
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f" (steps without figures: {told})" if told else ""


_Values = Sequence[Mapping[str, Any]]
_OUTCOMES = ("passed", "failed", "skipped", "not run")


def _tests(state: JournalState) -> str:
    found = state.values_of("tests", "Tests")
    counts = Counter(one["outcome"] for one in found)
    order = sorted(counts, key=lambda outcome: _OUTCOMES.index(outcome))
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in order) or NOT_MEASURED


def _exactness(state: JournalState) -> str:
    found = [one for one in state.values_of("exactness", "Errors of S") if "is_exact" in one]
    if not found:
        return NOT_MEASURED
    exact = sum(one["is_exact"] for one in found)
    kernels = sorted({one["kernel"] for one in found})
    return f"{exact} of {len(found)} comparisons within bounds ({', '.join(kernels)})"


def _peak_share(state: JournalState) -> str:
    return _by_weights(
        [
            one | {"share": one["measured"]["operations"] / one["measured"]["seconds"] / one["peak"]}
            for one in map(dict, state.values_of("latency", "Times"))
            if one["measured"]["method"] == "attn_union" and one["measured"]["mode"] == "batches"
            and one["measured"]["operations"] and not one["measured"]["stopped"]
        ],
        name=lambda one: _form(one["weights"]),
        value=lambda one: one["share"],
        words=lambda low, high: f"{low:.0%} to {high:.0%}",
    )  # fmt: skip


def _factors(state: JournalState, other: str) -> str:
    return _by_weights(
        [one for one in state.values_of("latency", "AttnUnion against two stages") if one["other"] == other],
        name=lambda one: f"{one['model']} {one['weights']}",
        value=lambda one: one["factor"],
        words=lambda low, high: f"{low:.1f} to {high:.1f} times as fast",
    )


def _nf4(state: JournalState) -> str:
    return _by_weights(
        state.values_of("latency", "NF4 against full precision"),
        name=lambda one: one["model"],
        value=lambda one: one["factor"],
        words=lambda low, high: f"{low:.2f} to {high:.2f} times as long",
    )


def _memory(state: JournalState) -> str:
    return _by_weights(
        state.values_of("memory", "Memory"),
        name=lambda one: f"{one['model']} {one['weights']}",
        value=lambda one: (one["peak"] - one["before"]) / one["tokens"] / 1024,
        words=lambda low, high: f"{low:.0f} to {high:.0f} KiB per token",
    )


def _idle(state: JournalState) -> str:
    found = state.values_of("audit", "Idle share")
    told = [f"{one['workers']} workers {one['waiting_percent']:.1f} %" for one in found]
    return ", ".join(told) or NOT_MEASURED


def _halving(state: JournalState) -> str:
    found = state.values_of("halving", "Too little memory")
    told = [
        f"{one['what']}: {one['passes']} passes, {one['faults']} of {one['rows']} rows had no room" for one in found
    ]
    return "; ".join(told) or NOT_MEASURED


def _by_weights(
    found: _Values,
    *,
    name: Callable[[Mapping[str, Any]], str],
    value: Callable[[Mapping[str, Any]], float],
    words: Callable[[float, float], str],
) -> str:
    """The lowest and the highest value of each model and form of weights."""
    values: dict[str, list[float]] = {}
    for one in found:
        values.setdefault(name(one), []).append(value(one))
    return "; ".join(f"{group}: {words(min(some), max(some))}" for group, some in values.items()) or NOT_MEASURED


def _form(weights: Mapping[str, str]) -> str:
    form = weights["precision"] if weights["quantization"] == "none" else weights["quantization"]
    return f"{weights['name']} {form}"
