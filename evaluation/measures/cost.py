"""The cost of a method: time per span and peak memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from attribeam.attribution.methods.answer_context import LoadedModels

_MIB = 2**20
_RESET_PEAK = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


@dataclass(slots=True)
class Cost:
    """Total seconds of all answers, and their peak memory; ``peak_bytes`` is None if it is not known."""

    seconds: float = 0.0
    peak_bytes: int | None = None

    def ms_per_span(self, spans: int) -> float:
        """Milliseconds per span; ``spans`` is at least 1."""
        return 1000 * self.seconds / spans

    @property
    def peak_mib(self) -> float | None:
        """``peak_bytes`` in MiB."""
        return None if self.peak_bytes is None else self.peak_bytes / _MIB


class CostMeter:
    """Measures time and memory on the device that the models run on.

    On a GPU the memory is the most that torch had allocated there; elsewhere it is the largest resident size of the
    process, on Linux only. Both include the loaded models.
    """

    def __init__(self, models: LoadedModels) -> None:
        devices = [model.device for model in (models.attention, models.language) if model is not None]
        self._gpu = next((device for device in devices if device.type == "cuda"), None)

    @contextmanager
    def measuring(self, cost: Cost) -> Iterator[None]:
        """Add the time and memory of the block to ``cost``."""
        known = self._reset_peak()
        start = time.perf_counter()
        try:
            yield
        finally:
            peak = self._peak() if known else None
            cost.seconds += time.perf_counter() - start
            if peak is not None:
                cost.peak_bytes = max(peak, cost.peak_bytes or 0)

    def _reset_peak(self) -> bool:
        """Forget earlier peaks; False if that is impossible, so that later peaks would be meaningless."""
        if self._gpu is not None:
            import torch

            torch.cuda.synchronize(self._gpu)
            torch.cuda.reset_peak_memory_stats(self._gpu)
            return True
        try:
            _RESET_PEAK.write_text("5", encoding="ascii")
        except OSError:
            return False
        return True

    def _peak(self) -> int | None:
        """The peak in bytes, once all launched work is done."""
        if self._gpu is not None:
            import torch

            torch.cuda.synchronize(self._gpu)
            return int(torch.cuda.max_memory_allocated(self._gpu))
        return resident_peak(_STATUS.read_text(encoding="ascii"))


def resident_peak(status: str) -> int | None:
    """The bytes of ``VmHWM`` in the text of /proc/self/status, None if it is missing."""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
