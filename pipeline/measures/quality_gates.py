"""Quality gates: ``--fail-if 'unsupported_share > 0.05'``, judged on the metrics of a finished audit."""

from __future__ import annotations

import argparse
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from attribeam.pipeline.measures.metrics import METRICS, RunMetrics
from attribeam.schemas import SpanKind
from attribeam.schemas.errors import UsageError, did_you_mean

GATE_NAMES = tuple(name for name, metric in METRICS.items() if not metric.of_run)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_GATE = re.compile(r"\s*([^\s<>=!]+)\s*([<>=!]+)\s*(\S+)\s*")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class QualityGate:
    """The audit fails if the metric compares to the limit as the operator says."""

    metric: str
    operator: str
    limit: float

    def __str__(self) -> str:
        return f"{self.metric} {self.operator} {_exact(self.limit)}"


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """One judged gate; a gate whose metric has no value (None) has failed."""

    gate: QualityGate
    value: float | None
    failed: bool


def quality_gate(text: str) -> QualityGate:
    """Parse the gate of ``--fail-if TEXT``.

    Raises:
        argparse.ArgumentTypeError: if it is not NAME OP NUMBER, or can never be judged.
    """
    parts = _GATE.fullmatch(text)
    if parts is None:
        raise argparse.ArgumentTypeError(f"should be NAME OP NUMBER, such as 'unsupported_share > 0.05', was: {text!r}")
    name, relation, number = parts.groups()
    _check_name(name)
    if relation not in _OPERATORS:
        raise argparse.ArgumentTypeError(f"should have one of {' '.join(_OPERATORS)} as operator, was: {relation!r}")
    return QualityGate(name, relation, _limit(name, number))


def judge_gates(gates: Sequence[QualityGate], metrics: RunMetrics) -> tuple[GateVerdict, ...]:
    """One verdict per gate, in order."""
    return tuple(_verdict(gate, metrics.value(gate.metric)) for gate in gates)


def check_gates(gates: Sequence[QualityGate], *, span_kinds: Collection[SpanKind]) -> None:
    """Refuse gates on metrics that this run will not have.

    Raises:
        UsageError: if one needs a kind of span that is not chosen.
    """
    for gate in gates:
        kind = gate.metric.partition("_share.")[2]
        if kind and SpanKind(kind) not in span_kinds:
            raise UsageError(f"--fail-if {str(gate)!r}: there will be no spans of the kind {kind!r}, see --spans")


def _verdict(gate: QualityGate, value: float | None) -> GateVerdict:
    failed = value is None or _OPERATORS[gate.operator](value, gate.limit)
    return GateVerdict(gate, value, failed)


def failed_gate_lines(verdicts: Sequence[GateVerdict]) -> Iterator[str]:
    """One line per failed gate, with value and limit."""
    for verdict in verdicts:
        if verdict.value is None:
            yield f"quality gate failed: {verdict.gate}: {verdict.gate.metric} has no value, there is nothing to count"
        elif verdict.failed:
            value, limit = f"{verdict.value:.10g}", _exact(verdict.gate.limit)
            yield f"quality gate failed: {verdict.gate}: {verdict.gate.metric} is {value}, the limit is {limit}"


def _exact(number: float) -> str:
    """The shortest text of this very number, so that different gates never look the same."""
    return repr(number).removesuffix(".0")


def _check_name(name: str) -> None:
    if name in GATE_NAMES:
        return
    if name in METRICS:
        raise argparse.ArgumentTypeError(
            f"{name!r} describes the run and not the answers, so it cannot be a quality gate"
        )
    hint = did_you_mean(name, GATE_NAMES, otherwise=f"there are: {', '.join(GATE_NAMES)}")
    raise argparse.ArgumentTypeError(f"unknown metric {name!r}; {hint}")


def _limit(name: str, text: str) -> float:
    limit = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(limit):
        raise argparse.ArgumentTypeError(f"should end in a finite decimal number, such as 0.05, was: {text!r}")
    if METRICS[name].unit == "share" and not 0 <= limit <= 1:
        raise argparse.ArgumentTypeError(f"{name} is a share from 0 to 1, its limit should be one too, was: {text}")
    return limit
