"""Timing one attributor on the rows of all shapes, in the process that calls."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import torch

from attribution.attention.packing import pack_by_token_budget
from benchmarks.latency_methods import CCI, AttnUnion, AttnUnionDep, HSSAvg, LatencyMethod, TwoStageUnion
from benchmarks.latency_rows import SHAPES, latency_records
from benchmarks.matrix_peak import StopWatch, forward_operations
from benchmarks.random_model import RandomModel
from benchmarks.time_limit import TimeIsUpError, time_limit
from schemas import QARecord


class Mode(StrEnum):
    """Rows one by one, as in the paper, or in batches."""

    SINGLE = "single"
    BATCHES = "batches"


_BOTH = (Mode.SINGLE, Mode.BATCHES)
_TWO_STAGE = ("two_stage", "two_stage_headless")
MODES: dict[str, tuple[Mode, ...]] = {
    "attn_union": _BOTH,
    "two_stage": _BOTH,
    "two_stage_headless": _BOTH,
    "attn_union_dep": _BOTH,
    "hss_avg": (Mode.SINGLE,),
    "cci": (Mode.SINGLE,),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One method on the rows of one shape.

    Attributes:
        seconds: of all rows; processor time on a CPU.
        tokens: of all rows, prompt and response.
        operations: of the matrix products of the layers that the method runs; 0 where they are not counted.
        peak_bytes: most memory so far: of the process, on a GPU what torch has allocated there for this shape.
        stopped: whether the limit of time stopped it; ``seconds`` is then that limit.
    """

    method: str
    mode: str
    shape: str
    rows: int
    spans: int
    tokens: int
    seconds: float
    operations: float
    peak_bytes: int
    stopped: bool = False


def method_names() -> list[str]:
    """The methods' names, in the order in which they are run."""
    return [*MODES]


def measure(
    name: str, mode: Mode, random_model: RandomModel, *, rows: int, token_budget: int | None, limit: float | None = None
) -> list[Measured]:
    """Load a method and time it on ``rows`` rows of every shape; CCI, which is slow, on the first span of each.

    A shape that takes longer than ``limit`` seconds of wall time is stopped.
    """
    method = _method(name, random_model, token_budget)
    records = [latency_records(shape, rows) for shape in SHAPES]
    if name == "cci":
        records = [[replace(one, target_spans=(one.target_spans or ())[:1]) for one in some] for some in records]
    return [
        _measure_shape(method, name, mode, random_model, shape.name, some, token_budget, limit)
        for shape, some in zip(SHAPES, records, strict=True)
    ]


def _method(name: str, random_model: RandomModel, token_budget: int | None) -> LatencyMethod:
    if name == "attn_union":
        return AttnUnion(random_model, token_budget)
    if name == "attn_union_dep":
        return AttnUnionDep(random_model, token_budget)
    if name in _TWO_STAGE:
        return TwoStageUnion(random_model, lm_head=name == "two_stage")
    return HSSAvg(random_model) if name == "hss_avg" else CCI(random_model)


def _measure_shape(
    method: LatencyMethod,
    name: str,
    mode: Mode,
    random_model: RandomModel,
    shape: str,
    records: Sequence[QARecord],
    token_budget: int | None,
    limit: float | None,
) -> Measured:
    lengths = [len(method.encode(record).token_ids) for record in records]
    batches = _batches(records, lengths, name, mode, token_budget or _budget(random_model.device))
    warm_up = () if name == "cci" else batches[0][:1]  # a row of CCI takes minutes on a CPU
    seconds = _seconds(method, batches, random_model.device, warm_up=warm_up, limit=limit)
    return Measured(
        method=name,
        mode=str(mode),
        shape=shape,
        rows=len(records),
        spans=sum(len(record.target_spans or ()) for record in records),
        tokens=sum(lengths),
        seconds=(limit or 0.0) if seconds is None else seconds,
        operations=_operations(name, random_model, lengths),
        peak_bytes=_peak_bytes(random_model.device),
        stopped=seconds is None,
    )


def _seconds(
    method: LatencyMethod,
    batches: Sequence[Sequence[QARecord]],
    device: str,
    *,
    warm_up: Sequence[QARecord],
    limit: float | None,
) -> float | None:
    """Of all batches, after the rows to warm up, which do not count; None where the limit stopped them."""
    try:
        with time_limit(limit):
            if warm_up:
                method.run(warm_up)
            if torch.device(device).type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)
            with StopWatch(device) as watch:
                for batch in batches:
                    method.run(batch)
    except TimeIsUpError:
        return None
    return watch.seconds


def _batches(
    records: Sequence[QARecord], lengths: Sequence[int], name: str, mode: Mode, token_budget: int
) -> list[list[QARecord]]:
    """Rows that are handed over together; ours make batches of their own."""
    if mode is Mode.SINGLE:
        return [[record] for record in records]
    if name in _TWO_STAGE:
        return [[records[index] for index in batch] for batch in pack_by_token_budget(lengths, token_budget)]
    return [list(records)]


def _operations(name: str, random_model: RandomModel, lengths: Sequence[int]) -> float:
    config = random_model.config
    if name == "cci":
        return 0.0
    layer = config.num_hidden_layers + 1 if name in _TWO_STAGE else random_model.layer
    return sum(forward_operations(config, tokens=length, layer=layer) for length in lengths)


def _budget(device: str) -> int:
    return 2_048 if torch.device(device).type == "cpu" else 16_384


def _peak_bytes(device: str) -> int:
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
