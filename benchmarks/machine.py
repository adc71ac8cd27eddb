"""One paragraph about the machine and the versions that figures were measured with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

_PACKAGES = ("apache-beam", "torch", "transformers", "spacy", "pyarrow")


def machine_description() -> str:
    """Processor, cores, memory, load at the moment, and versions."""
    memory = psutil.virtual_memory().total / 2**30
    packages = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    return (
        f"{_processor()}, {len(os.sched_getaffinity(0))} cores used, {memory:.0f} GiB memory, "
        f"load {os.getloadavg()[0]:.1f} at the start; Python {platform.python_version()}, {packages}"
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        names = [line for line in information.read_text().splitlines() if line.startswith("model name")]
        if names:
            return names[0].partition(":")[2].strip()
    return platform.processor() or platform.machine()
