"""The benchmark of memory that grows with new lengths of rows or is taken anew, with a tiny model."""

import os
import platform
import re
import subprocess
import sys

import pytest

from attribeam.lab.benchmarks.memory_growth import measure_growth
from attribeam.lab.benchmarks.random_model import RandomModel

NO_HUGE_PAGES = 41
"""``PR_SET_THP_DISABLE`` of prctl(2): a page fault is then one of 4 KiB, whatever the system's setting."""

SAME_ROW = f"""
import ctypes, sys
ctypes.CDLL(None).prctl({NO_HUGE_PAGES}, 1, 0, 0, 0)
from attribeam.attribution.models import freed_memory
from attribeam.lab.benchmarks.memory_growth import main
freed_memory._SMALL_MODEL = 0
main(sys.argv[1:])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_growth_is_told_at_every_quarter_of_the_rows() -> None:
    found = measure_growth(RandomModel("tiny"), characters=range(100, 180, 10))
    assert len(found.quarters) == 4
    assert 0 < found.start_trimmed <= found.start + 1
    assert 0 < found.trimmed <= found.quarters[-1] + 1


def page_faults(*options: str) -> list[int]:
    """Those of each pass of the same row, as the command prints them in a new process."""
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", SAME_ROW, "--shape", "small", "--dtype", "float32", "--same-row", *options]
    found = subprocess.run(command, env=unset, capture_output=True, text=True, check=True)
    return [int(one.replace(",", "")) for one in re.findall(r"([\d,]+) page faults in [\d.]+ s", found.stdout)]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_a_row_takes_more_pages_anew_where_freed_memory_is_given_back() -> None:
    kept, given_back = page_faults(), page_faults("--give-back")
    assert len(kept) == len(given_back) == 8
    assert sum(kept) < sum(given_back)
