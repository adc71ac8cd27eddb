"""How a process with an attention model on the CPU grows with rows of new lengths, or takes its memory anew.

    python -m attribeam.lab.benchmarks.memory_growth --shape qwen2-0.5b --dtype bfloat16 [--whole-rows]
    python -m attribeam.lab.benchmarks.memory_growth --dtype float32 --same-row [--give-back]

Resident memory, on Linux with glibc; ``--whole-rows`` multiplies the tokens of a row at once, not in blocks.
``--same-row`` counts the page faults of one row of ASQA's shape, again and again; ``--give-back`` lets glibc hand freed
memory back as it does by itself.
"""

from __future__ import annotations

import argparse
import ctypes
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from attribeam.attribution.fast_paths import packed_layers
from attribeam.attribution.models import freed_memory
from attribeam.attribution.options import DTYPES
from attribeam.lab.benchmarks.latency_methods import AttnUnion
from attribeam.lab.benchmarks.latency_rows import LATENCY_SHAPES, LatencyShape, latency_records
from attribeam.lab.benchmarks.machine import machine_description
from attribeam.lab.benchmarks.random_model import SHAPES, RandomModel

_CHARACTERS = range(800, 4_000, 32)
"""Characters of a passage: 100 lengths of rows of QuoteSum's shape."""

_PASSES = 8
"""How often the same row runs."""


@dataclass(frozen=True, slots=True)
class MemoryGrowth:
    """Resident MiB, with the longest row run once before it starts.

    Attributes:
        start, start_trimmed: before the rows, as it is and once glibc has given back what is free.
        quarters: after each quarter of the rows.
        trimmed: after all rows, once glibc has given back what is free.
    """

    start: float
    start_trimmed: float
    quarters: tuple[float, ...]
    trimmed: float


def measure_growth(model: RandomModel, *, characters: Sequence[int]) -> MemoryGrowth:
    """Run one row per number of characters of a passage, ascending and at least four, one by one."""
    method = AttnUnion(model, None)
    shape = LATENCY_SHAPES[0]
    records = [latency_records(replace(shape, passage_characters=one), 1)[0] for one in characters]
    method.run(records[-1:])
    start, start_trimmed = _resident_mib(), _trimmed_mib()
    quarters = []
    for count, record in enumerate(records, start=1):
        method.run([record])
        if count in {len(records) * quarter // 4 for quarter in range(1, 5)}:
            quarters.append(_resident_mib())
    return MemoryGrowth(start, start_trimmed, tuple(quarters), _trimmed_mib())


@dataclass(frozen=True, slots=True)
class RowPass:
    """One pass of a row: its page faults that no disk was read for, and its seconds."""

    page_faults: int
    seconds: float


def measure_passes(model: RandomModel, *, shape: LatencyShape, passes: int) -> list[RowPass]:
    """Run the same row ``passes`` times, after a first time that is not counted."""
    method = AttnUnion(model, None)
    records = latency_records(shape, 1)
    method.run(records)
    found = []
    for _ in range(passes):
        faults, start = _page_faults(), time.perf_counter()
        method.run(records)
        found.append(RowPass(_page_faults() - faults, time.perf_counter() - start))
    return found


def _page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _resident_mib() -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def _trimmed_mib() -> float:
    ctypes.CDLL(None).malloc_trim(0)
    return _resident_mib()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the growth, or the passes of the same row, in one line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--shape", choices=sorted(SHAPES), default="qwen2-0.5b")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--whole-rows", action="store_true", help="do not cut packed products into blocks of tokens")
    parser.add_argument("--same-row", action="store_true", help="count the page faults of a row, again and again")
    parser.add_argument("--give-back", action="store_true", help="do not keep freed memory for the next pass")
    args = parser.parse_args(arguments)
    if args.whole_rows:
        packed_layers._BLOCK, packed_layers._STEP = 10**9, 1
    if args.give_back:
        freed_memory._SMALL_MODEL = sys.maxsize
    torch.set_num_threads(1)
    print(machine_description())
    model = RandomModel(args.shape, dtype=args.dtype)
    if args.same_row:
        passes = measure_passes(model, shape=LATENCY_SHAPES[1], passes=_PASSES)
        told = "; ".join(f"{one.page_faults:,} page faults in {one.seconds:.2f} s" for one in passes)
        print(f"{args.shape}, {args.dtype}, one row of {LATENCY_SHAPES[1].name}'s shape: {told}")
        return
    found = measure_growth(model, characters=_CHARACTERS)
    quarters = ", ".join(f"{one:,.0f}" for one in found.quarters)
    print(
        f"{args.shape}, {args.dtype}, {len(_CHARACTERS)} lengths, resident MiB: start {found.start:,.0f}, trimmed "
        f"{found.start_trimmed:,.0f}; after each quarter {quarters}; trimmed {found.trimmed:,.0f}"
    )


if __name__ == "__main__":
    main()
