"""Choosing among settings: what is only lucky is not preferred, and the choice is judged on other rows."""

from __future__ import annotations

import numpy as np
import pytest

from attribeam.lab.model_choice.setting_search import LEAST_SOURCES, ROUNDS, choose

ROWS = 40
SPANS = [2] * ROWS
SOURCES = [*range(ROWS)]


def credits_of(share: float, *, seed: int) -> list[float]:
    """Of 2 spans per row about this share is right, each drawn alone."""
    return np.random.default_rng(seed).binomial(2, share, size=ROWS).astype(float).tolist()


def test_clearly_better_setting_is_chosen_in_every_fold() -> None:
    found = choose({"usual": credits_of(0.3, seed=1), "good": credits_of(0.9, seed=2)}, spans=SPANS, sources=SOURCES)
    assert found.setting == "good"
    assert found.chosen == {"good": ROUNDS * 5}
    assert found.cross_validated.low == found.cross_validated.high == pytest.approx(found.accuracy)
    assert found.is_gain


def test_best_of_many_equally_good_settings_is_not_preferred_to_the_usual_one() -> None:
    """Among 200 settings that are right as often, the luckiest is 5 points ahead or more."""
    drawn = {number: credits_of(0.7, seed=number) for number in range(200)}
    accuracies = [sum(values) / (2 * ROWS) for values in drawn.values()]
    found = choose({"usual": [1.4] * ROWS, **drawn}, spans=SPANS, sources=SOURCES)
    assert max(accuracies) > 0.75
    assert found.cross_validated.mean < 100 * max(accuracies)
    assert not found.is_gain


def test_cross_validation_sees_through_settings_that_fit_their_rows_by_luck() -> None:
    drawn = {number: credits_of(0.5, seed=number) for number in range(500)}
    found = choose(drawn, spans=SPANS, sources=SOURCES)
    assert found.accuracy > 60
    assert found.cross_validated.mean < found.accuracy - 3
    assert found.cross_validated.low < found.cross_validated.mean < found.cross_validated.high


def test_of_settings_within_a_standard_error_the_first_is_chosen() -> None:
    better = [0.0, *[1.0] * (ROWS - 3), 2.0, 2.0]
    found = choose({"usual": [1.0] * ROWS, "better": better}, spans=SPANS, sources=SOURCES)
    assert found.setting == "usual"
    assert found.accuracy == found.usual_accuracy == 50


def test_rows_of_one_source_are_on_one_side_of_every_fold() -> None:
    """Setting n knows the answers of source n only: chosen on other sources, it is worth nothing."""
    sources = [row // 4 for row in range(ROWS)]
    knowing = {n: [2.0 if source == n else 0.0 for source in sources] for n in range(10)}
    found = choose(knowing, spans=SPANS, sources=sources)
    assert found.accuracy == pytest.approx(10)
    assert found.cross_validated.high == 0


def test_choice_is_the_same_each_time() -> None:
    settings = {number: credits_of(0.6, seed=number) for number in range(20)}
    assert choose(settings, spans=SPANS, sources=SOURCES) == choose(settings, spans=SPANS, sources=SOURCES)


def test_spans_and_not_rows_have_equal_weight() -> None:
    spans = [1] * 30 + [9] * 10
    found = choose(
        {"usual": [0.0] * 40, "short": [1.0] * 30 + [0.0] * 10, "long": [0.0] * 30 + [9.0] * 10},
        spans=spans,
        sources=SOURCES,
    )
    assert found.setting == "long"
    assert found.accuracy == pytest.approx(75)


def test_too_few_sources_are_an_error() -> None:
    with pytest.raises(ValueError, match="10 sources of rows or more, had 1 and 9"):
        choose({"usual": [1.0] * ROWS}, spans=SPANS, sources=[row % (LEAST_SOURCES - 1) for row in range(ROWS)])
