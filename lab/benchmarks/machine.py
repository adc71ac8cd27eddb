"""The machine and versions that figures are measured with, time and memory of processes, and tables of both."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

_INFORMATION = Path("/proc/cpuinfo")
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16", "amx_fp16")
_PACKAGES = ("apache-beam", "torch", "transformers", "spacy", "pyarrow")


def machine_description() -> str:
    """Processor, cores, memory, current load and versions, in words."""
    memory = psutil.virtual_memory().total / 2**30
    packages = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    return (
        f"{processor_with_instructions()}, {len(os.sched_getaffinity(0))} cores used, {memory:.0f} GiB memory, "
        f"load {os.getloadavg()[0]:.1f} at the start; Python {platform.python_version()}, {packages}"
    )


def processor_with_instructions() -> str:
    """The processor's name, and which instructions for products it has."""
    named = " ".join(processor_instructions())
    return f"{processor_name()} with {named}" if named else processor_name()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def processor_name() -> str:
    """The name of the processor, as the system tells it."""
    return _told("model name") or platform.processor() or platform.machine()


def processor_instructions() -> tuple[str, ...]:
    """Of the instructions that decide how fast products are, those that the processor has."""
    flags = frozenset(_told("flags").split())
    return tuple(name for name in _INSTRUCTIONS if name in flags)


def _told(name: str) -> str:
    """What the system tells of the first processor; empty where it tells nothing."""
    if not _INFORMATION.is_file():
        return ""
    lines = (line.partition(":") for line in _INFORMATION.read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "")


_SAMPLE_SECONDS = 0.25
_SAMPLING_SHARE = 0.02
"""The largest share of time that sampling may take; the kernel visits all pages of a process for each sample."""


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """How one command ran.

    Attributes:
        exit_code: exit code of the command.
        wall_seconds: time from its start to its end.
        cpu_seconds: user and system time of the command and of the children that it waited for.
        peak_bytes: largest sum of the processes' memory. Where the system tells, a page shared by n processes counts
            1/n for each (PSS), else it counts n times (RSS).
        standard_error: its error output.
    """

    exit_code: int
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    standard_error: str


def run_measured(command: Sequence[str]) -> ProcessRun:
    """Run a command to its end, sampling the memory of its process tree every quarter of a second.

    Samples are less frequent if they would take more than a fiftieth of the time.
    """
    started, cpu_before = time.monotonic(), _cpu_of_children()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peak = 0
    while True:
        before = time.monotonic()
        peak = max(peak, tree_bytes(process.pid))
        pause = max(_SAMPLE_SECONDS, (time.monotonic() - before) / _SAMPLING_SHARE)
        try:
            _, errors = process.communicate(timeout=pause)
            break
        except subprocess.TimeoutExpired:
            continue
    wall = time.monotonic() - started
    return ProcessRun(process.returncode, wall, _cpu_of_children() - cpu_before, peak, errors)


def peak_bytes(device: str) -> int:
    """The largest memory so far: torch's allocations on a GPU, else the resident memory of this process."""
    import torch

    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def tree_bytes(pid: int) -> int:
    """Current memory of a process and its descendants; processes that end meanwhile count as 0."""
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    return sum(_process_bytes(process) for process in processes)


def _process_bytes(process: psutil.Process) -> int:
    try:
        memory = process.memory_full_info()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return 0
    except psutil.AccessDenied:
        memory = process.memory_info()
    return int(getattr(memory, "pss", memory.rss))


def _cpu_of_children() -> float:
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, padded: bool = False) -> str:
    """A table whose first column is flush left and all others flush right.

    Args:
        header: the column titles.
        rows: the cells, one per column.
        padded: whether cells are filled with spaces, so that columns line up in a terminal as well.

    Raises:
        ValueError: if the length of a row differs from the header's.
    """
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"rows should have {len(header)} cells like the header")
    if not padded:
        return "\n".join(map(_line, (header, ["---", *["---:"] * (len(header) - 1)], *rows)))
    widths = [max(3, *(len(line[column]) for line in (header, *rows))) for column in range(len(header))]
    first, *others = ("-" * width for width in widths)
    rule = [first, *(dashes[1:] + ":" for dashes in others)]
    return "\n".join(_line(_aligned(line, widths)) for line in (header, rule, *rows))


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
