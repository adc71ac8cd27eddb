"""Weights of their own for each kind of row, in the regression of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import LogisticRegression
from tests.lab.training.verdict.test_verdict_recipe import made_answers

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.verdict.answer_regression import answer_numbers
from attribeam.attribution.verdict.row_kind import RowKind
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.attribution.verdict.word_table import word_table
from attribeam.lab.training.verdict.answer_fitting import fit_answers
from attribeam.lab.training.verdict.fitting import fit_regression
from attribeam.lab.training.verdict.verdict_rows import VerdictRow, verdict_rows

Odds = Sequence[npt.NDArray[np.float64]]


@pytest.fixture(scope="module")
def rows() -> list[VerdictRow]:
    """Rows of three kinds; high odds speak for a mark in two of them, and against it in records."""
    parser = AnswerParser.from_pretrained("bundled")
    made = verdict_rows(made_answers(90), parser, word_table(BUNDLED_VERDICT))
    kinds = [*RowKind] * 30
    return [replace(row, signals=replace(row.signals, kind=kind)) for row, kind in zip(made, kinds, strict=True)]


@pytest.fixture(scope="module")
def odds(rows: list[VerdictRow]) -> Odds:
    draw = np.random.default_rng(0)
    high = [row.is_marked is not (row.signals.kind is RowKind.RECORD) for row in rows]
    return [draw.normal(size=len(row.signals.words)) + 3 * one - 2 for row, one in zip(rows, high, strict=True)]


def test_own_weights_are_those_of_a_fit_with_products_of_numbers_and_kinds(rows: list[VerdictRow], odds: Odds) -> None:
    found = fit_answers(rows, odds)
    numbers = np.concatenate([answer_numbers(row.signals, one)[1] for row, one in zip(rows, odds, strict=True)])
    scaled = (numbers - numbers.mean(axis=0)) / (numbers.std(axis=0) + 1e-6)
    columns = [scaled]
    for kind in RowKind:
        inside = np.array([[row.signals.kind is kind] for row in rows])
        columns += [2 * scaled * inside, inside]
    whole = np.concatenate(columns, axis=1)
    naive = LogisticRegression(C=0.02, max_iter=5000).fit(whole, [row.is_marked for row in rows])
    by_hand = naive.decision_function(whole)
    assert [found.log_odds(row.signals, one) for row, one in zip(rows, odds, strict=True)] == pytest.approx(by_hand)


def test_each_kind_is_ranked_in_its_own_direction(rows: list[VerdictRow], odds: Odds) -> None:
    found = fit_answers(rows, odds)
    for kind in RowKind:
        risks: dict[bool, list[float]] = {True: [], False: []}
        for row, one in zip(rows, odds, strict=True):
            if row.signals.kind is kind:
                risks[row.is_marked].append(found.log_odds(row.signals, one))
        assert np.mean(risks[True]) > np.mean(risks[False]) + 0.5


def test_for_rows_of_one_kind_the_weights_are_common(rows: list[VerdictRow], odds: Odds) -> None:
    alike = [replace(row, signals=replace(row.signals, kind=RowKind.QUESTION)) for row in rows]
    found = [answer_numbers(row.signals, one) for row, one in zip(alike, odds, strict=True)]
    numbers, labels = np.concatenate([one for _, one in found]), np.array([row.is_marked for row in alike])
    expected = fit_regression(found[0][0], numbers, labels, strength=0.02).to_json()
    assert fit_answers(alike, odds).to_json() == expected


def test_kind_without_rows_follows_the_others(rows: list[VerdictRow], odds: Odds) -> None:
    kept = [place for place, row in enumerate(rows) if row.signals.kind is not RowKind.RECORD]
    found = fit_answers([rows[place] for place in kept], [odds[place] for place in kept])
    risks: dict[bool, list[float]] = {True: [], False: []}
    for place in kept:
        unknown = replace(rows[place].signals, kind=RowKind.RECORD)
        risks[rows[place].is_marked].append(found.log_odds(unknown, odds[place]))
    assert np.mean(risks[True]) > np.mean(risks[False]) + 0.5
