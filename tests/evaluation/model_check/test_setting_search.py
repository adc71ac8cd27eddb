"""Choosing among settings: what is only lucky is not preferred, and the choice is judged on other rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pytest

from attribeam.evaluation.model_check.setting_search import Choice
from attribeam.evaluation.model_check.setting_search import choose as choose_in_layers

ROWS = 40
SPANS = [2] * ROWS
SOURCES = [*range(ROWS)]
_Setting = TypeVar("_Setting", bound=Hashable)


def choose(
    credits: Mapping[_Setting, Sequence[float]], *, spans: Sequence[int], sources: Sequence[Hashable]
) -> Choice[_Setting]:
    """A choice among settings of one layer."""
    return choose_in_layers(credits, layer_of=lambda _: 1, spans=spans, sources=sources)


def choose_among_layers(credits: Mapping[tuple[int, str], Sequence[float]]) -> Choice[tuple[int, str]]:
    """A choice among settings whose first part is the layer."""
    return choose_in_layers(credits, layer_of=lambda setting: setting[0], spans=SPANS, sources=SOURCES)


def right_on(*rows: int) -> list[float]:
    """Both spans of these rows are right."""
    return [2.0 * (row in rows) for row in range(ROWS)]


def credits_of(share: float, *, seed: int) -> list[float]:
    """Of 2 spans per row about this share is right, each drawn alone."""
    return np.random.default_rng(seed).binomial(2, share, size=ROWS).astype(float).tolist()


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


def test_best_layer_is_chosen_though_a_more_usual_one_is_within_a_standard_error() -> None:
    """As with SmolLM2: the usual layer is level with the best one by one lucky k only."""
    credits = {
        (1, "k 2"): right_on(*range(28)),
        (1, "k 4"): right_on(*range(3, 37)),
        (2, "k 2"): right_on(*range(35)),
        (2, "k 4"): right_on(*range(35)),
    }
    found = choose_among_layers(credits)
    assert found.level == ((1, "k 4"), (2, "k 2"), (2, "k 4"))
    assert found.setting == (2, "k 2")


def test_setting_of_the_best_layer_that_is_clearly_better_replaces_the_usual_one() -> None:
    credits = {
        (1, "usual"): right_on(*range(10)),
        (1, "other"): right_on(*range(12)),
        (2, "usual"): right_on(*range(20)),
        (2, "other"): right_on(*range(35)),
    }
    assert choose_among_layers(credits).setting == (2, "other")


def test_spans_and_not_rows_have_equal_weight() -> None:
    spans = [1] * 30 + [9] * 10
    found = choose(
        {"usual": [0.0] * 40, "short": [1.0] * 30 + [0.0] * 10, "long": [0.0] * 30 + [9.0] * 10},
        spans=spans,
        sources=SOURCES,
    )
    assert found.setting == "long"
    assert found.accuracy == pytest.approx(75)
