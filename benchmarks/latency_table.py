"""The table of latencies in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from benchmarks.latency_run import Measured

_HEADER = ("rows", "method", "mode", "tokens/row", "spans/row", "ms/span", "ms/row", "tokens/s", "of peak", "peak MiB")
_NAMES = {
    "attn_union": "AttnUnion",
    "attn_union_dep": "AttnUnionDep",
    "two_stage": "AttnUnion, two stages",
    "two_stage_headless": "two stages, no LM head",
    "hss_avg": "HSSAvg",
    "cci": "CCI",
}


def table(found: Sequence[Measured], peak: float) -> str:
    """One line a shape, method and mode; ``peak`` in operations a second."""
    shapes = dict.fromkeys(one.shape for one in found)
    lines = [_HEADER, *(_cells(one, peak) for shape in shapes for one in found if one.shape == shape)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADER))]
    rendered = [
        "| " + " | ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    rule = "| " + " | ".join("-" * (width - 1) + ":" for width in widths) + " |"
    return "\n".join([rendered[0], rule, *rendered[1:]])


def ratios(found: Sequence[Measured]) -> str:
    """How many times as fast as the two-stage implementations AttnUnion is, unless one of both was stopped."""
    seconds = {(one.method, one.mode, one.shape): one.seconds for one in found if not one.stopped}
    lines = []
    for shape in dict.fromkeys(one.shape for one in found):
        for mode, other in product(("single", "batches"), ("two_stage", "two_stage_headless")):
            ours, theirs = (seconds.get((name, mode, shape)) for name in ("attn_union", other))
            if ours is not None and theirs is not None:
                lines.append(f"{shape}, {mode}: AttnUnion is {theirs / ours:.2f} times as fast as {_NAMES[other]!r}")
    return "\n".join(lines)


def _cells(one: Measured, peak: float) -> tuple[str, ...]:
    return (
        one.shape,
        _NAMES[one.method],
        one.mode,
        f"{one.tokens / one.rows:.0f}",
        f"{one.spans / one.rows:.1f}",
        *((f"stopped after {one.seconds:.0f} s", "-", "-", "-") if one.stopped else _times(one, peak)),
        f"{one.peak_bytes / 2**20:,.0f}",
    )


def _times(one: Measured, peak: float) -> tuple[str, ...]:
    return (
        f"{1000 * one.seconds / one.spans:.1f}",
        f"{1000 * one.seconds / one.rows:.1f}",
        f"{one.tokens / one.seconds:,.0f}",
        f"{100 * one.operations / one.seconds / peak:.0f} %" if one.operations else "-",
    )
