"""The benchmark of compiled layers, with the backend of torch.compile that needs no C++ compiler."""

import pytest

from attribeam.lab.benchmarks.compiled_layers import measure_compiled_layers
from attribeam.lab.benchmarks.random_model import RandomModel


def test_rows_of_all_lengths_give_the_same_compiled_and_not() -> None:
    found = measure_compiled_layers(RandomModel("tiny"), layers=2, lengths=(12, 7, 30), rounds=1, backend="eager")

    assert found.largest_difference == pytest.approx(0, abs=1e-5)
    assert min(found.first_seconds, found.second_seconds, found.gain) > 0


def test_a_backend_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(Exception, match="no-such-backend"):
        measure_compiled_layers(RandomModel("tiny"), layers=1, lengths=(5, 6), rounds=1, backend="no-such-backend")
