"""Which operators of torch a piece of work spends its time in; on a GPU, which kernels, and how long it is idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

from attribeam.lab.benchmarks.latency_measurement import mean_seconds
from attribeam.schemas.errors import RunError

HEADER = ("operator or kernel", "kind", "calls", "ms", "share")
_LONGEST_NAME = 70
_KINDS = {
    "quantisation": ("dequant", "4bit", "quantize"),
    "attention": ("flash", "fmha", "attention", "softmax"),
    "products": ("gemm", "cutlass", "cublas", "nvjet", "xmma", "::mm", "::bmm", "::addmm", "::linear", "splitk"),
    "selection": ("topk", "sort", "gather", "index", "scatter"),
    "copies": ("memcpy", "memset", "copy", "cat", "::to"),
}


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One operator, or on a GPU one kernel; ``seconds`` are its own, without those of what it calls."""

    name: str
    calls: int
    seconds: float

    @property
    def kind(self) -> str:
        """What it is for, told by its name."""
        name = self.name.lower()
        return next((kind for kind, parts in _KINDS.items() if any(part in name for part in parts)), "other")


@dataclass(frozen=True, slots=True)
class OperatorProfile:
    """The operators of one call, longest first; ``wall_seconds`` are those of a call without the profiler."""

    operators: tuple[OperatorTime, ...]
    wall_seconds: float

    @property
    def seconds(self) -> float:
        """Seconds of all operators together."""
        return sum(one.seconds for one in self.operators)

    @property
    def busy_share(self) -> float:
        """How much of the time of a call the operators run: on a GPU, the rest of the time it is idle."""
        return self.seconds / self.wall_seconds

    def shares(self) -> dict[str, float]:
        """The share of each kind, largest first."""
        found: dict[str, float] = {}
        for one in self.operators:
            found[one.kind] = found.get(one.kind, 0.0) + one.seconds / self.seconds
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def lines(self, count: int) -> Iterator[tuple[str, ...]]:
        """The first ``count`` operators as lines of a table, below ``HEADER``."""
        for one in self.operators[:count]:
            name = one.name.replace("|", "/")
            short = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
            yield (short, one.kind, f"{one.calls:,}", f"{1000 * one.seconds:.2f}", f"{one.seconds / self.seconds:.1%}")


def profile_operators(run: Callable[[], object], *, device: str) -> OperatorProfile:
    """Profile one call, after others that warm up and are timed.

    Raises:
        RunError: if the profiler saw nothing, as where a GPU's counters are not open to all users.
    """
    on_gpu = torch.device(device).type == "cuda"
    wall = mean_seconds(run, repeats=3, device=device)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as seen:
        run()
        if on_gpu:
            torch.cuda.synchronize(device)
    wanted = "CUDA" if on_gpu else "CPU"
    found = [
        OperatorTime(event.key, event.count, _own_seconds(event, on_gpu=on_gpu))
        for event in seen.key_averages()
        if event.device_type.name == wanted and not getattr(event, "is_user_annotation", False)
    ]
    ordered = sorted((one for one in found if one.seconds > 0), key=lambda one: -one.seconds)
    if not ordered:
        raise RunError(f"torch's profiler should see what runs on {device}, saw nothing; may this user profile it?")
    return OperatorProfile(tuple(ordered), wall)


def _own_seconds(event: object, *, on_gpu: bool) -> float:
    """From microseconds."""
    return float(getattr(event, "self_device_time_total" if on_gpu else "self_cpu_time_total")) / 1e6
