"""The signals of an answer's words, on rows of our own."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.attribution.verdict.judged_rows import LANTERN, RECORD, parse, record

from attribeam.attribution.verdict import word_matches
from attribeam.attribution.verdict.claims import word_kinds
from attribeam.attribution.verdict.fitted_parts import BoostedTrees, LogisticRegression, word_table
from attribeam.attribution.verdict.signals import AnswerRow, answer_signals
from attribeam.attribution.verdict.texts import RowKind, stem
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, AnswerRegression, answer_numbers
from attribeam.attribution.verdict.word_matches import PassageWords, WordMatches
from attribeam.schemas import Passage

TABLE = word_table(BUNDLED_VERDICT)


def row_of(answer, *passages, question=""):
    row, parsed = record(answer, *passages, question=question), parse(answer)
    return AnswerRow.of(row, parsed, word_kinds(parsed, row))


def signals_of(*given, **named):
    (found,) = answer_signals([row_of(*given, **named)], TABLE)
    return found


def column(name, answer, *passages, question=""):
    """One signal of the judged words, by word."""
    found, parsed = signals_of(answer, *passages, question=question), parse(answer)
    values = found.values[:, found.names.index(name)]
    return {parsed.words[word].of(answer): float(one) for word, one in zip(found.words, values, strict=True)}


def test_a_value_is_unmatched_if_neither_passages_nor_question_have_it():
    answer = "The keeper of Windhaven trimmed the lamp 1731 times."
    assert column("word_unmatched_value", answer, LANTERN)["1731"] == 1
    asked = column("word_unmatched_value", answer, LANTERN, question="Who trimmed the lamp of Windhaven?")
    assert (asked["Windhaven"], asked["1731"]) == (0, 1)


def test_every_signal_of_every_judged_word_is_a_number():
    answer = "The keeper trimmed the lamp. His daughter sold the ledger in 1902."
    found = signals_of(answer, LANTERN, question="What did they do?")
    assert found.values.shape == (len(found.words), len(found.names)) == (7, 85)
    assert found.values.dtype == np.float32
    assert np.isfinite(found.values).all()


def test_words_that_only_lead_a_claim_change_nothing_but_their_share():
    plain = signals_of("Her daughter sold the ledger in 1902.", LANTERN)
    led = signals_of("According to the passage, her daughter sold the ledger in 1902.", LANTERN)
    differ = np.flatnonzero(np.abs(plain.values - led.values).max(axis=0) > 1e-6)
    assert [plain.names[column] for column in differ] == ["answer_discourse_share"]


def test_words_of_an_unmatched_date_are_unmatched_and_their_neighbours_are_not():
    answer = "The keeper trimmed the lamp on 7 March 1902, and his daughter wrote the ledger on 4 June 1911."
    found = column("word_unmatched_value", answer, LANTERN + " She began on 4 June 1911.")
    assert (found["7"], found["March"], found["1902"]) == (1, 1, 1)
    assert (found["lamp"], found["daughter"], found["June"], found["1911"]) == (0, 0, 0, 0)


@pytest.mark.parametrize("at_once", [1, 7, 40])
def test_similarities_that_are_too_many_to_keep_are_the_same(monkeypatch, at_once):
    answer = "The guard polished the lantern at dusk. A girl noted the storm in a book."
    names = ("word_similarity", "word_similarity_in_sentence", "word_similarity_in_clause")
    kept = [column(name, answer, LANTERN) for name in names]
    monkeypatch.setattr(word_matches, "_MOST_COSINES", at_once)
    for name, expected in zip(names, kept, strict=True):
        assert column(name, answer, LANTERN) == pytest.approx(expected, abs=1e-6)


def test_answers_that_are_measured_together_have_the_signals_of_each_alone():
    given = (
        ("The keeper trimmed the lamp. His daughter sold the ledger in 1902.", (LANTERN, "The lamp was sold."), "Who?"),
        ("Hello.", (LANTERN,), ""),
        ("The cafe has no outdoor seating, and it is open on Wednesday.", (RECORD,), ""),
        ("The keeper trimmed the lamp.", (LANTERN,), "What did the keeper trim in the evening?"),
    )
    read = [row_of(answer, *texts, question=question) for answer, texts, question in given]
    for together, one in zip(answer_signals(read, TABLE), read, strict=True):
        (alone,) = answer_signals([one], TABLE)
        assert (together.words, together.names, together.kind) == (alone.words, alone.names, alone.kind)
        assert np.array_equal(together.values, alone.values)


APART = "The lamp fell. " + "It rained and rained. " * 10 + "The lamp lit the ledger."


def matched(words, *texts):
    """The matches of one group of words, its groups and its columns."""
    stems = [*dict.fromkeys(map(stem, words))]
    matches = WordMatches([stems], PassageWords([[Passage(text=text) for text in texts]], TABLE), TABLE)
    return matches, np.zeros(len(words), np.int64), np.array([stems.index(stem(word)) for word in words], np.int64)


def coverage(words, *texts):
    matches, groups, columns = matched(words, *texts)
    return matches.coverage(groups, columns, 1)


def test_coverage_is_of_the_best_sentence_and_the_best_two():
    found = coverage(["keeper", "ledger"], LANTERN)
    assert 0 < found.best[0] < 1
    assert found.pair[0] == pytest.approx(1)
    assert coverage([], LANTERN).best[0] == 1
    assert coverage(["zebra"], LANTERN).best[0] == 0
    assert coverage(["zebra"], LANTERN).pair_start[0] == -1


@pytest.mark.parametrize(
    ("words", "share"), [(("lamp", "ledger"), 1), (("fell", "ledger"), 0), (("lamp",), -1), (("zebra", "lamp"), 0)]
)
def test_share_around_looks_at_every_place_of_a_stem(words, share):
    matches, groups, columns = matched(words, APART)
    assert matches.shares_around(groups, columns, 5)[0] == pytest.approx(share)


@pytest.mark.parametrize(("distance", "near"), [(2, False), (3, True), (4, True)])
def test_nearness_counts_both_sides(distance, near):
    matches, _, columns = matched(("keeper", "lamp", "zebra"), "The keeper trimmed lamps, the lamp of the keeper.")
    pairs = columns[[0, 1, 0]], columns[[1, 0, 2]]
    assert matches.stand_near(*pairs, distance).tolist() == [near, near, False]


ANSWER = "The keeper trimmed the lamp."
CLAIMS = np.array([-1.5])
"""The likelihood ratio of its only claim."""


@pytest.fixture
def signals():
    return signals_of(ANSWER, LANTERN)


def made_regression(signals, seed):
    names, _ = answer_numbers(signals, np.zeros(len(signals.words)), CLAIMS)
    draw = np.random.default_rng(seed)
    mean, scale, weights = draw.normal(size=(3, len(names)))
    return LogisticRegression(names, mean, np.abs(scale) + 0.1, weights, float(seed))


def test_each_kind_of_row_has_its_own_regression(signals):
    odds = np.linspace(-3, 2, len(signals.words))
    owns = {kind: made_regression(signals, seed) for seed, kind in enumerate(RowKind)}
    found = AnswerRegression(owns)
    for kind, own in owns.items():
        (expected,) = own.log_odds(*answer_numbers(signals, odds, CLAIMS))
        assert found.log_odds(replace(signals, kind=kind), odds, CLAIMS) == pytest.approx(expected)
    assert len({found.log_odds(replace(signals, kind=kind), odds, CLAIMS) for kind in RowKind}) == len(RowKind)


def test_both_forms_come_back_as_they_were_saved(signals):
    odds = np.linspace(-3, 2, len(signals.words))
    common = AnswerRegression(dict.fromkeys(RowKind, made_regression(signals, 1)))
    own = AnswerRegression({kind: made_regression(signals, seed) for seed, kind in enumerate(RowKind)})
    assert set(common.to_json()) == {"bias", "inputs"}
    assert set(own.to_json()) == {"questions", "summaries", "records"}
    for one in (common, own):
        again = AnswerRegression.from_json(json.loads(json.dumps(one.to_json())))
        for kind in RowKind:
            row = replace(signals, kind=kind)
            assert again.log_odds(row, odds, CLAIMS) == pytest.approx(one.log_odds(row, odds, CLAIMS))


def test_file_that_lacks_a_kind_is_refused(signals):
    found = AnswerRegression({kind: made_regression(signals, seed) for seed, kind in enumerate(RowKind)}).to_json()
    del found["records"]
    with pytest.raises(ValueError, match="records"):
        AnswerRegression.from_json(found)


STUMP = {"columns": [0, 0, 0], "thresholds": [1.5, 0, 0], "left": [1, 0, 0], "right": [2, 0, 0], "values": [0, -1, 2]}
DEEP = {
    "columns": [1, 0, 0, 0, 0], "thresholds": [0.0, 0, 5.0, 0, 0], "left": [1, 0, 3, 0, 0], "right": [2, 0, 4, 0, 0],
    "values": [0, 10, 0, 20, 30],
}  # fmt: skip


def test_leaves_of_all_trees_add_up():
    trees = BoostedTrees.from_json({"bias": 0.5, "depth": 2, "trees": [STUMP, DEEP]})
    rows = np.array([[1.5, -1], [2, 1], [6, 1]], dtype=np.float32)
    assert trees.log_odds(rows) == pytest.approx([0.5 - 1 + 10, 0.5 + 2 + 20, 0.5 + 2 + 30])
    assert trees.log_odds(np.empty((0, 2), dtype=np.float32)).shape == (0,)


def test_parts_of_different_length_are_refused():
    with pytest.raises(ValueError, match="one item per node"):
        BoostedTrees.from_json({"bias": 0.0, "depth": 1, "trees": [STUMP | {"values": [1.0]}]})
