"""A process keeps what a large model's pass has freed, unless the user has set glibc's thresholds."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PASS = """
import resource, torch
from attribeam.attribution.models import freed_memory
if {size} >= 0:
    freed_memory._SMALL_MODEL = {size}
    freed_memory.keep_freed_memory(torch.nn.Linear(8, 8, device="{device}"))
def states():
    one = torch.zeros(20 * 2**20, dtype=torch.uint8)
    return torch.zeros(24 * 2**20, dtype=torch.uint8)
states()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    states()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")


def page_faults(size: int, *, device: str = "cpu", **settings: str) -> int:
    """Page faults of ten passes in a new process, for a model that is small if it has fewer than ``size`` bytes."""
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", PASS.format(size=size, device=device)]
    found = subprocess.run(command, env={**unset, **settings}, capture_output=True, text=True, check=True)
    return int(found.stdout)


def test_freed_states_cause_no_page_faults_in_the_next_pass() -> None:
    assert 10 * page_faults(0) < page_faults(-1)


def test_small_models_change_nothing() -> None:
    assert page_faults(2**20) > 10_000


def test_models_elsewhere_than_on_the_cpu_change_nothing() -> None:
    assert page_faults(0, device="meta") > 10_000


def test_settings_of_the_user_stay() -> None:
    assert page_faults(0, MALLOC_TRIM_THRESHOLD_="131072", MALLOC_MMAP_THRESHOLD_="131072") > 10_000
