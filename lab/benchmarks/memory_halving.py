"""What happens when a batch does not fit into the memory of a device: it is halved, and the results stay.

The memory of this process is limited for the measurement, to a share of what the batch needs. A GPU's is limited by
torch's allocator, that of a CPU by the kernel (Linux with glibc only).
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.lab.benchmarks.attribution_memory import random_row
from attribeam.lab.benchmarks.benchmark_model import BenchmarkModel
from attribeam.lab.benchmarks.latency_measurement import StopWatch
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import RunError

HEADER = ("what", "rows", "needs MiB", "allowed MiB", "passes", "no room", "largest difference", "times as long")
_PASSAGES = 8
_STATUS = Path("/proc/self/status")
_RESET_PEAK = Path("/proc/self/clear_refs")


@dataclass(frozen=True, slots=True)
class Halving:
    """A batch in too little memory, compared with the same batch in enough of it.

    Attributes:
        needed, allowed: bytes beside the model, of the whole batch and for the measurement.
        passes: forward passes that were begun, those that ran out of memory included.
        faults: rows that did not fit even alone.
        difference: the largest difference of a row's mass on a passage, among the rows that fit.
        slowdown: the time taken, as a multiple of that with enough memory.
    """

    what: str
    rows: int
    needed: int
    allowed: int
    passes: int
    faults: int
    difference: float
    slowdown: float

    def cells(self) -> tuple[str, ...]:
        """The line in the table, below ``HEADER``."""
        sizes = (f"{size / 2**20:,.0f}" for size in (self.needed, self.allowed))
        counts = (str(self.passes), f"{self.faults} of {self.rows}")
        return (self.what, str(self.rows), *sizes, *counts, f"{self.difference:.1e}", f"{self.slowdown:.1f}")


def measure_halving(model: BenchmarkModel, *, rows: int, tokens: int) -> Iterator[Halving]:
    """Run ``rows`` rows in a third of what they need, then with one row among them that does not fit alone.

    Raises:
        RunError: if memory did not run out, or a row that fits got no result.
    """
    attributor = model.attributor(token_budget=2**30)
    vocabulary = model.config.get_text_config().vocab_size
    short = [random_row(tokens + place, vocabulary, seed=place) for place in range(rows)]
    if attributor.device.type == "cpu":
        _give_memory_back_when_freed()
    _in_enough(attributor, short)  # what stays with the process after the first time is not needed a second time
    batch = _in_enough(attributor, short)
    yield _in_too_little("a batch", attributor, short, batch, allowed=batch.needed // 3)
    long = random_row(8 * tokens, vocabulary)
    one, most = _in_enough(attributor, short[:1]), _in_enough(attributor, [long])
    mixed = [*short[:2], long, *short[2:4]]
    batch = _in_enough(attributor, mixed)
    allowed = (one.needed + most.needed) // 2
    yield _in_too_little("one row is too long", attributor, mixed, batch, allowed=allowed)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The outcomes of rows, the bytes that they needed beside the model, and the seconds they took."""

    outcomes: Sequence[TokenAttribution | RowFault]
    needed: int
    seconds: float


def _in_enough(attributor: AttentionModel, rows: Sequence[EncodedRow]) -> _Batch:
    before = _start_of_peak(attributor.device)
    with StopWatch(str(attributor.device)) as watch:
        found = attributor.attribute(rows, [_PASSAGES] * len(rows))
    return _Batch(found, _peak(attributor.device) - before, watch.seconds)


def _in_too_little(
    what: str, attributor: AttentionModel, rows: Sequence[EncodedRow], batch: _Batch, *, allowed: int
) -> Halving:
    """The same rows in ``allowed`` bytes, compared with ``batch``."""
    watch = StopWatch(str(attributor.device))
    with _limited(attributor.device, allowed), _counted_passes(attributor) as passes, watch:
        found = attributor.attribute(rows, [_PASSAGES] * len(rows))
    if len(passes) < 2:
        raise RunError(
            f"{what}: {allowed:,} bytes should be too little where {batch.needed:,} are needed, but were enough"
        )
    pairs = [(one, other) for one, other in zip(found, batch.outcomes, strict=True) if not isinstance(one, RowFault)]
    faults = [one for one in found if isinstance(one, RowFault)]
    if not pairs or any(fault.reason is not Reason.OUT_OF_MEMORY for fault in faults):
        raise RunError(f"{what}: {len(faults)} of {len(rows)} rows got no result: {faults[0]}")
    return Halving(
        what=what,
        rows=len(rows),
        needed=batch.needed,
        allowed=allowed,
        passes=len(passes),
        faults=len(faults),
        difference=max(_difference(one, other) for one, other in pairs),
        slowdown=watch.seconds / max(batch.seconds, 1e-9),
    )


def _difference(found: TokenAttribution, expected: TokenAttribution | RowFault) -> float:
    if isinstance(expected, RowFault):
        raise RunError(f"a row did not fit where no limit was set: {expected}")
    return float(np.abs(found.passage_mass - expected.passage_mass).max())


@contextmanager
def _counted_passes(attributor: AttentionModel) -> Iterator[list[None]]:
    """A list that gets an item for every forward pass that begins in the block."""
    passes: list[None] = []
    handle = attributor.network.register_forward_pre_hook(lambda *_: passes.append(None))
    try:
        yield passes
    finally:
        handle.remove()


def _start_of_peak(device: torch.device) -> int:
    """Forget earlier peaks; the bytes in use now."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    _RESET_PEAK.write_text("5", encoding="ascii")
    return _bytes_of("VmRSS")


def _peak(device: torch.device) -> int:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else _bytes_of("VmHWM")


@contextmanager
def _limited(device: torch.device, allowed: int) -> Iterator[None]:
    """Inside, this process gets at most ``allowed`` bytes more of the device's memory than it has now."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved(device) + allowed) / total, device)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, device)
        return
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_bytes_of("VmSize") + allowed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


_M_MMAP_THRESHOLD = -3
_LARGE = 2**16


def _give_memory_back_when_freed() -> None:
    """Keep the C library from holding freed memory back, which the limit would not see."""
    library = ctypes.CDLL(None)
    library.mallopt(_M_MMAP_THRESHOLD, _LARGE)
    library.malloc_trim(0)


def _bytes_of(name: str) -> int:
    """A figure of /proc/self/status."""
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
