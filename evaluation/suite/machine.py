"""The machine that a cost was measured on, in words; nothing that names it."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine_words() -> str:
    """Processor, cores that may be used, memory and GPU."""
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
