"""The benchmark of memory that grows with new lengths of rows, with a tiny model."""

import platform

import pytest

from attribeam.lab.benchmarks.memory_growth import measure_growth
from attribeam.lab.benchmarks.random_model import RandomModel


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_growth_is_told_at_every_quarter_of_the_rows() -> None:
    found = measure_growth(RandomModel("tiny"), characters=range(100, 180, 10))
    assert len(found.quarters) == 4
    assert 0 < found.start_trimmed <= found.start + 1
    assert 0 < found.trimmed <= found.quarters[-1] + 1
