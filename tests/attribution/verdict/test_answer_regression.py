"""The regression of answers, with one set of weights or one for each kind of row."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.attribution.verdict.judged_rows import LANTERN, parse, record

from attribeam.attribution.verdict.claim_kinds import word_kinds
from attribeam.attribution.verdict.regressions import (
    AnswerRegression,
    BoostedTrees,
    LogisticRegression,
    answer_numbers,
    trees_json,
)
from attribeam.attribution.verdict.row_kind import RowKind
from attribeam.attribution.verdict.signals import AnswerRow, Signals, answer_signals
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.attribution.verdict.word_table import word_table

ANSWER = "The keeper trimmed the lamp."
CLAIMS = np.array([-1.5])
"""The likelihood ratio of its only claim."""


@pytest.fixture
def signals() -> Signals:
    row, parsed = record(ANSWER, LANTERN), parse(ANSWER)
    (found,) = answer_signals([AnswerRow.of(row, parsed, word_kinds(parsed, row))], word_table(BUNDLED_VERDICT))
    return found


def made_regression(signals: Signals, seed: int) -> LogisticRegression:
    names, _ = answer_numbers(signals, np.zeros(len(signals.words)), CLAIMS)
    draw = np.random.default_rng(seed)
    mean, scale, weights = draw.normal(size=(3, len(names)))
    return LogisticRegression(names, mean, np.abs(scale) + 0.1, weights, float(seed))


def test_each_kind_of_row_has_its_own_regression(signals: Signals) -> None:
    odds = np.linspace(-3, 2, len(signals.words))
    owns = {kind: made_regression(signals, seed) for seed, kind in enumerate(RowKind)}
    found = AnswerRegression(owns)
    for kind, own in owns.items():
        (expected,) = own.log_odds(*answer_numbers(signals, odds, CLAIMS))
        assert found.log_odds(replace(signals, kind=kind), odds, CLAIMS) == pytest.approx(expected)
    assert len({found.log_odds(replace(signals, kind=kind), odds, CLAIMS) for kind in RowKind}) == len(RowKind)


def test_both_forms_come_back_as_they_were_saved(signals: Signals) -> None:
    odds = np.linspace(-3, 2, len(signals.words))
    common = AnswerRegression.common(made_regression(signals, 1))
    own = AnswerRegression({kind: made_regression(signals, seed) for seed, kind in enumerate(RowKind)})
    assert set(common.to_json()) == {"bias", "inputs"}
    assert set(own.to_json()) == {"questions", "summaries", "records"}
    for one in (common, own):
        again = AnswerRegression.from_json(json.loads(json.dumps(one.to_json())))
        for kind in RowKind:
            row = replace(signals, kind=kind)
            assert again.log_odds(row, odds, CLAIMS) == pytest.approx(one.log_odds(row, odds, CLAIMS))


def test_file_that_lacks_a_kind_is_refused(signals: Signals) -> None:
    found = AnswerRegression({kind: made_regression(signals, seed) for seed, kind in enumerate(RowKind)}).to_json()
    del found["records"]
    with pytest.raises(ValueError, match="records"):
        AnswerRegression.from_json(found)


STUMP = {"columns": [0, 0, 0], "thresholds": [1.5, 0, 0], "left": [1, 0, 0], "right": [2, 0, 0], "values": [0, -1, 2]}
DEEP = {
    "columns": [1, 0, 0, 0, 0], "thresholds": [0.0, 0, 5.0, 0, 0], "left": [1, 0, 3, 0, 0], "right": [2, 0, 4, 0, 0],
    "values": [0, 10, 0, 20, 30],
}  # fmt: skip


def test_leaves_of_all_trees_add_up() -> None:
    trees = BoostedTrees.from_json(trees_json(bias=0.5, depth=2, trees=[STUMP, DEEP]))
    rows = np.array([[1.5, -1], [2, 1], [6, 1]], dtype=np.float32)
    assert trees.log_odds(rows) == pytest.approx([0.5 - 1 + 10, 0.5 + 2 + 20, 0.5 + 2 + 30])
    assert trees.log_odds(np.empty((0, 2), dtype=np.float32)).shape == (0,)


def test_parts_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="one item per node"):
        BoostedTrees.from_json(trees_json(bias=0.0, depth=1, trees=[STUMP | {"values": [1.0]}]))
