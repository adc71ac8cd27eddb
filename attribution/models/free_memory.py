"""How much memory a device has left, before anything is loaded onto it."""

from __future__ import annotations

from pathlib import Path

import torch

_MEMORY_INFO = Path("/proc/meminfo")
_CONTROL_GROUP = Path("/sys/fs/cgroup")


def free_memory(device: torch.device) -> int | None:
    """Bytes that may still be taken on ``device``; of a CPU within its control group. None where nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu":
        return None
    return min((size for size in (_available(), _left_in_control_group()) if size is not None), default=None)


def _available() -> int | None:
    try:
        lines = _MEMORY_INFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kilobytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kilobytes is None else int(kilobytes) * 1024


def _left_in_control_group() -> int | None:
    """The limit of a container, less what its processes hold; files that are merely cached do not count."""
    try:
        limit = (_CONTROL_GROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((_CONTROL_GROUP / "memory.current").read_text(encoding="ascii"))
        numbers = (_CONTROL_GROUP / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    cached = sum(int(line.split()[1]) for line in numbers if line.split()[0] in ("active_file", "inactive_file"))
    return None if limit == "max" else max(0, int(limit) - used + cached)
