"""``metrics.prom``: the metrics in Prometheus text format, for the textfile collector of node_exporter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.metrics import RunMetrics
from pipeline.metrics_families import Family, Sample, families
from pipeline.quality_gates import GateVerdict

_PREFIX = "attribeam_"


def prometheus_text(metrics: RunMetrics, verdicts: Sequence[GateVerdict]) -> str:
    """All families with HELP and TYPE; those without any value are left out."""
    return "".join(f"{line}\n" for family in families(metrics, verdicts) for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    if family.known:
        yield f"# HELP {_PREFIX}{family.name} {_escaped(family.meaning)}"
        yield f"# TYPE {_PREFIX}{family.name} gauge"
    for sample in family.known:
        yield f"{_PREFIX}{family.name}{_labels(sample)} {sample.value!r}"


def _labels(sample: Sample) -> str:
    pairs = ",".join(f'{name}="{_quoted(text)}"' for name, text in sample.labels)
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
