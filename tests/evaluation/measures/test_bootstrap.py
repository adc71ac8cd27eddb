import pytest

from evaluation.measures.bootstrap import Interval, RowBootstrap

SPANS = [1, 3, 2, 4, 1, 2]
CREDIT = [1.0, 1.5, 0.0, 4.0, 0.0, 2.0]


def test_equal_seeds_give_equal_intervals():
    first, second = (RowBootstrap(SPANS, draws=200, seed=5).interval(CREDIT) for _ in range(2))
    assert first == second


def test_other_seed_gives_another_interval():
    assert RowBootstrap(SPANS, draws=200, seed=5).interval(CREDIT) != RowBootstrap(SPANS, draws=200, seed=6).interval(
        CREDIT
    )


def test_interval_encloses_the_mean_and_stays_within_percent():
    interval = RowBootstrap(SPANS, draws=500).interval(CREDIT)
    assert 0 <= interval.low < 100 * sum(CREDIT) / sum(SPANS) < interval.high <= 100


def test_all_right_has_no_spread():
    assert RowBootstrap(SPANS, draws=50).interval([float(spans) for spans in SPANS]) == Interval(100.0, 100.0)


def test_constant_difference_a_span_has_no_spread_because_resamples_are_paired():
    bootstrap = RowBootstrap([1, 1, 1, 1], draws=300)
    worse, better = [0.0, 0.25, 0.5, 0.5], [0.5, 0.75, 1.0, 1.0]
    assert bootstrap.interval(worse).low < bootstrap.interval(worse).high
    difference = [mine - other for mine, other in zip(better, worse, strict=True)]
    assert bootstrap.interval(difference) == Interval(50.0, 50.0)


def test_rows_are_drawn_rather_than_spans():
    one_long_row = RowBootstrap([10, 10], draws=500).interval([10.0, 0.0])
    assert one_long_row == Interval(0.0, 100.0)


@pytest.mark.parametrize(("spans", "draws"), [([], 10), ([1], 0)])
def test_no_rows_or_no_draws_are_refused(spans, draws):
    with pytest.raises(ValueError, match="at least 1"):
        RowBootstrap(spans, draws=draws)
