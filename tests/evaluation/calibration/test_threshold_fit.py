"""Thresholds by F1 and by false-alarm rate, against trying every threshold."""

from __future__ import annotations

import numpy as np
import pytest

from attribeam.evaluation.calibration.marked_items import MarkedItems
from attribeam.evaluation.calibration.threshold_fit import call_figures, chooser, fit_threshold, needs


def drawn(seed: int, count: int = 60) -> MarkedItems:
    """Items whose suspicion tells something, with ties."""
    chance = np.random.default_rng(seed)
    lacking = chance.random(count) < 0.4
    suspicion = np.round(np.clip(chance.normal(0.4 + 0.2 * lacking, 0.15), 0, 1), 2)
    return MarkedItems(suspicion, lacking, np.arange(count) // 2)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_f1_of_all_thresholds_is_found(seed: int) -> None:
    items = drawn(seed)
    found = chooser(None)(items.suspicion, items.lacking)
    every = [call_figures(items.suspicion >= one, items.lacking).f1 for one in np.unique(items.suspicion)]
    assert call_figures(items.suspicion >= found, items.lacking).f1 == max(every)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.25])
def test_the_lowest_threshold_within_the_rate_is_found(seed: int, rate: float) -> None:
    items = drawn(seed)
    found = chooser(rate)(items.suspicion, items.lacking)
    figures = call_figures(items.suspicion >= found, items.lacking)
    assert figures.false_alarms <= rate
    lower = [one for one in np.unique(items.suspicion) if one < found]
    assert all(call_figures(items.suspicion >= one, items.lacking).false_alarms > rate for one in lower)


def test_figures_are_of_answers_that_a_threshold_was_not_fitted_on() -> None:
    items = drawn(3)
    noise = MarkedItems(items.suspicion, np.random.default_rng(0).permutation(items.lacking), items.answers)
    fitted = fit_threshold(noise, chooser(None), seed=0)
    inside = call_figures(noise.suspicion >= fitted.threshold, noise.lacking)
    assert fitted.figures.f1 < inside.f1
    assert fitted.f1_interval.low <= fitted.figures.f1 <= fitted.f1_interval.high
    assert fitted.threshold_interval.low <= fitted.threshold_interval.high


def test_a_small_rate_needs_more_supported_items() -> None:
    items = MarkedItems(np.zeros(30), np.arange(30) < 25, np.arange(30))
    lacking, supported = needs(items, "claims", 0.02)
    assert (lacking.more, supported.needed, supported.more) == (0, 50, 45)
    assert needs(items, "claims", None)[1].more == 15
