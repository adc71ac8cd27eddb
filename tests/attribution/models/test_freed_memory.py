"""A process keeps what a large model's pass has freed, unless the user has set glibc's thresholds."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from attribeam.attribution.models import freed_memory
from attribeam.attribution.models.freed_memory import keep_freed_memory

NO_HUGE_PAGES = 41
"""``PR_SET_THP_DISABLE`` of prctl(2): a page fault is then one of 4 KiB, whatever the system's setting."""

PASS = f"""
import ctypes, resource
ctypes.CDLL(None).prctl({NO_HUGE_PAGES}, 1, 0, 0, 0)
import torch
from attribeam.attribution.models import freed_memory
freed_memory._SMALL_MODEL = 0
freed_memory.keep_freed_memory(torch.nn.Linear(8, 8))
def states():
    return [torch.zeros(20 * 2**20, dtype=torch.uint8) for _ in range(3)]
for _ in range(3):
    states()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    states()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES_OF_A_PASS = 3 * 20 * 2**20 // 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_states_are_kept_for_the_next_pass() -> None:
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    page_faults = subprocess.run([sys.executable, "-c", PASS], env=unset, capture_output=True, text=True, check=True)
    assert int(page_faults.stdout) < PAGES_OF_A_PASS


def thresholds_set(monkeypatch: pytest.MonkeyPatch, network: torch.nn.Module) -> list[tuple[int, int]]:
    taken: list[tuple[int, int]] = []
    glibc = SimpleNamespace(mallopt=lambda *given: taken.append(given))
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda _: glibc)
    keep_freed_memory(network)
    return taken


def test_small_models_and_models_on_other_devices_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("MALLOC_", "GLIBC_")):
            monkeypatch.delenv(name)
    small, elsewhere = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8, device="meta")
    assert not thresholds_set(monkeypatch, small)
    monkeypatch.setattr(freed_memory, "_SMALL_MODEL", 0)
    assert len(thresholds_set(monkeypatch, small)) == 2
    assert not thresholds_set(monkeypatch, elsewhere)


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_TRIM_THRESHOLD_", "131072"), ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=131072")],
)
def test_thresholds_of_the_user_stay(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "_SMALL_MODEL", 0)
    monkeypatch.setenv(name, value)
    assert not thresholds_set(monkeypatch, torch.nn.Linear(8, 8))


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "_SMALL_MODEL", 0)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda _: pytest.fail("it should not be asked"))
    keep_freed_memory(torch.nn.Linear(8, 8))
