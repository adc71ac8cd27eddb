import numpy as np
import pytest

from evaluation.measures.f1_figures import f1_figures

ALL_DRAWS = np.ones((5, 2), dtype=np.int64)


def test_counts_are_summed_before_they_are_divided():
    figures = f1_figures(common=[3, 1], called=[4, 6], marked=[3, 5], row_counts=ALL_DRAWS)
    assert figures.precision == pytest.approx(40)
    assert figures.recall == pytest.approx(50)
    assert figures.f1 == pytest.approx(100 * 2 * 4 / 18)
    assert (figures.f1_interval.low, figures.f1_interval.high) == pytest.approx((figures.f1, figures.f1))


def test_interval_is_over_resamples_of_rows():
    draws = np.array([[2, 0], [0, 2]], dtype=np.int64)
    figures = f1_figures(common=[2, 0], called=[2, 2], marked=[2, 2], row_counts=draws)
    assert figures.f1 == pytest.approx(50)
    assert figures.f1_interval.low < 5
    assert figures.f1_interval.high > 95


def test_share_of_nothing_is_zero():
    figures = f1_figures(common=[0, 0], called=[0, 0], marked=[0, 0], row_counts=ALL_DRAWS)
    assert (figures.precision, figures.recall, figures.f1) == (0, 0, 0)
