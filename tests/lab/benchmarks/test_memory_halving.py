"""The limit on a device's memory; ``test_report_on_a_cpu.py`` runs out of memory for real."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest
import torch

from attribeam.lab.benchmarks import memory_halving
from attribeam.lab.benchmarks.memory_halving import Halving

CUDA = torch.device("cuda", 0)


@pytest.fixture
def fractions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """What a GPU that is not there is asked for, of 8,000 bytes with 3,000 reserved."""
    asked: list[float] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 3000)
    properties = type("Properties", (), {"total_memory": 8000})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share, _: asked.append(share))
    return asked


def test_limit_of_a_gpu_is_what_is_reserved_and_what_is_allowed(fractions: list[float]) -> None:
    with memory_halving._limited(CUDA, 1000):
        assert fractions == [0.5]
    assert fractions == [0.5, 1.0]


def test_limit_of_a_gpu_ends_with_its_block_even_by_an_error(fractions: list[float]) -> None:
    limited = memory_halving._limited(CUDA, 1000)
    limited.__enter__()
    limited.__exit__(RuntimeError, RuntimeError("inside"), None)
    assert fractions == [0.5, 1.0]


def test_limit_of_a_cpu_ends_with_its_block() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with memory_halving._limited(torch.device("cpu"), 2**33):
        assert resource.getrlimit(resource.RLIMIT_AS)[0] > 2**33
        assert resource.getrlimit(resource.RLIMIT_AS) != before
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_line_says_how_many_rows_had_no_room() -> None:
    found = Halving("a batch", 8, 12 * 2**20, 4 * 2**20, 3, 1, 0.00012, 1.25)
    assert found.cells() == ("a batch", "8", "12", "4", "3", "1 of 8", "1.2e-04", "1.2")
