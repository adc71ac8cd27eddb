"""The cost of a method: time per span, peak memory, and the machine they were measured on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from attribeam.attribution.methods.answer_context import LoadedModels


def machine_words() -> str:
    """Processor, usable cores, memory and GPU, in words."""
    parts = [_processor(), f"{len(os.sched_getaffinity(0)) if _LINUX else os.cpu_count()} cores", *_memory(), _gpu()]
    return ", ".join(parts)


_LINUX = hasattr(os, "sched_getaffinity")


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> list[str]:
    if not _LINUX:
        return []
    return [f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB memory"]


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"


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
        devices = [model.device for model in (models.attention, models.language, models.decoder) if model is not None]
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
