"""The recipe of the verdict on a small judged log of our own."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.models.decoder import Decoder
from attribeam.attribution.option_types import VERDICT_FILE
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.verdict.boosted_trees import BoostedTrees
from attribeam.attribution.verdict.row_kind import RowKind
from attribeam.attribution.verdict.state_probe import probed_odds, same_share
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, load_verdict_model
from attribeam.attribution.verdict.word_table import WordTable, save_word_table, word_table
from attribeam.lab.training.verdict import recipe
from attribeam.lab.training.verdict.cross_validation import cross_validated, fit_parts
from attribeam.lab.training.verdict.fitting import _FALLING, _RISING, fit_trees, word_log_odds
from attribeam.lab.training.verdict.signal_importance import signal_importance
from attribeam.lab.training.verdict.verdict_rows import VerdictRow, verdict_rows
from attribeam.lab.training.verdict.word_fitting import fit_words, with_states
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError, RunError
from attribeam.schemas.labelled_answer import JudgedAnswer, JudgedDataset, UnsupportedRange

THINGS = ("lamp", "ledger", "harbour", "bridge", "garden", "engine", "violin", "kettle", "ladder", "window")
DEEDS = ("painted", "mended", "carried", "sold", "measured", "cleaned")
INVENTED = "Zebras danced across frozen volcanoes"


def made_answers(count: int = 40) -> list[JudgedAnswer]:
    draw = random.Random(1)
    answers = []
    for number in range(count):
        things = draw.sample(THINGS, 3)
        passage = " ".join(f"The keeper {draw.choice(DEEDS)} the {thing} in the morning." for thing in things)
        answer = passage.split(". ")[0] + "."
        marks: tuple[UnsupportedRange, ...] = ()
        if number % 2:
            start = len(answer) + 1
            answer = f"{answer} {INVENTED} {number} times."
            marks = (UnsupportedRange(CharRange(start, len(answer) - 1)),)
        record = QARecord(
            record_id=str(number), question="", passages=(Passage(text=passage),), answer=answer,
            source=RowSource("log.parquet", number), generator=f"model {number % 3}",
        )  # fmt: skip
        answers.append(JudgedAnswer(record, marks, group="made"))
    return answers


@pytest.fixture(scope="module")
def rows() -> list[VerdictRow]:
    parser = AnswerParser.from_pretrained("bundled")
    return list(verdict_rows(made_answers(), parser, word_table(BUNDLED_VERDICT)))


def test_marks_are_given_to_words_and_claims(rows: list[VerdictRow]) -> None:
    clean, marked = rows[0], rows[1]
    assert not clean.is_marked
    assert not clean.marked_words.any()
    assert marked.is_marked
    assert marked.marked_words.sum() >= 4
    assert marked.marked_claims.any()
    assert not marked.marked_claims.all()
    assert set(marked.mark_sizes[marked.marked_words]) == {marked.marked_words.sum()}


def test_stored_trees_give_what_was_fitted(rows: list[VerdictRow]) -> None:
    trees = fit_trees(rows, seed=0)
    again = json.loads(json.dumps(trees))
    values = np.concatenate([row.signals.values for row in rows])
    assert np.array_equal(
        BoostedTrees.from_json(trees).log_odds(values), BoostedTrees.from_json(again).log_odds(values)
    )
    odds = np.concatenate(word_log_odds(trees, rows))
    marked = np.concatenate([row.marked_words for row in rows])
    assert odds[marked].mean() > odds[~marked].mean()


def test_no_source_is_judged_by_parts_fitted_on_it(rows: list[VerdictRow]) -> None:
    found = cross_validated(rows, folds=3, seed=0)
    scores, folds = found.scores, found.folds
    assert len(scores) == len(rows)
    assert all(set(found.of(fold)).isdisjoint(found.others(fold)) for fold in range(len(found.parts)))
    for source in {row.source for row in rows}:
        assert len({fold for row, fold in zip(rows, folds, strict=True) if row.source == source}) == 1
    marked = np.array([row.is_marked for row in rows])
    risks = np.array([one.answer for one in scores])
    assert risks[marked].mean() > risks[~marked].mean()


def test_a_signal_that_tells_words_apart_is_worth_something_and_a_constant_one_nothing(rows: list[VerdictRow]) -> None:
    every = [row.only(["word_seen", "word_letters"]) for row in rows] * 3
    found = {one.signal: one for one in signal_importance(every, ["word_field_truth", "word_seen"], folds=2, seed=0)}
    assert (found["word_field_truth"].words, found["word_field_truth"].answers) == (0.0, 0.0)
    assert found["word_seen"].words > 0
    states = [np.zeros((len(row.letters), 2), dtype=np.float16) for row in every]
    probed = [replace(row, states=one) for row, one in zip(every, states, strict=True)]
    (unheard,) = signal_importance(probed, ["word_seen"], folds=2, seed=0, probe_shares=same_share(1))
    assert (unheard.words, unheard.answers) == (0.0, 0.0)


def test_recipe_writes_what_the_audit_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recipe.JUDGED_LOADERS, "ragtruth", lambda _: JudgedDataset(tuple(made_answers())))
    recipe.main(["--data", str(tmp_path), "--output", str(tmp_path / "own"), "--measured-on", "rows of our own"])
    model = load_verdict_model(tmp_path / "own")
    assert model.measured_on == "rows of our own"
    assert 0 < model.thresholds.answer_risk < 1


def test_probe_learns_what_only_the_states_tell(rows: list[VerdictRow]) -> None:
    draw = np.random.default_rng(0)
    blind = [row.only([]) for row in rows]
    seeing = [
        replace(row, states=(draw.normal(size=(len(row.letters), 4)) + row.marked_words[:, None]).astype(np.float16))
        for row in blind
    ]
    marked = np.array([row.is_marked for row in rows])
    without, with_probe = (
        np.array([one.answer for one in cross_validated(some, folds=3, seed=0).scores]) for some in (blind, seeing)
    )
    assert with_probe[marked].mean() - with_probe[~marked].mean() > without[marked].mean() - without[~marked].mean()
    assert fit_words(blind, seed=0).probe is None
    whole = fit_words(seeing, seed=0, probe_shares=same_share(1))
    assert whole.probe is not None
    assert seeing[0].states is not None
    assert np.array_equal(whole.log_odds(seeing[:1])[0], probed_odds(whole.probe, seeing[0].states))


def test_share_of_the_probe_decides_how_a_fold_is_judged(rows: list[VerdictRow]) -> None:
    draw = np.random.default_rng(0)
    noisy = [replace(row, states=draw.normal(size=(len(row.letters), 4)).astype(np.float16)) for row in rows]
    plain = cross_validated(rows, folds=2, seed=0).scores
    unheard, heard = (
        cross_validated(noisy, folds=2, seed=0, probe_shares=same_share(one)).scores for one in (0.0, 0.9)
    )
    assert all(np.array_equal(one.words, other.words) for one, other in zip(plain, unheard, strict=True))
    assert not any(np.array_equal(one.words, other.words) for one, other in zip(plain, heard, strict=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.5", "should be a number from 0 to 1, was: '1.5'"),
        ("questions=-0.1", "should be a number from 0 to 1, was: '-0.1'"),
        ("half", "should be a number from 0 to 1, was: 'half'"),
        ("questions=0.5,poems=0.5", "should name questions, summaries, records, names 'poems'"),
    ],
)
def test_share_that_is_none_is_refused(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        recipe.main(["--data", str(tmp_path), "--output", str(tmp_path / "own"), f"--decoder-share={text}"])
    assert f"--decoder-share: {message}" in capsys.readouterr().err


def test_recipe_with_a_decoder_writes_its_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recipe.JUDGED_LOADERS, "ragtruth", lambda _: JudgedDataset(tuple(made_answers())))
    decoder = save_tiny_model(tmp_path / "decoder")
    options = ["--decoder", str(decoder), "--decoder-layer", "2", "--decoder-note", "ask Ada Thorne for it"]
    options += ["--decoder-share", "questions=0.75,records=1"]
    recipe.main(["--data", str(tmp_path), "--output", str(tmp_path / "own"), *options])
    probe = load_verdict_model(tmp_path / "own").probe
    assert probe is not None
    assert (probe.layer, len(probe.regression.names), probe.note) == (2, 32, "ask Ada Thorne for it")
    assert probe.shares == {RowKind.QUESTION: 0.75, RowKind.SUMMARY: 0.5, RowKind.RECORD: 1}
    probe.check(Decoder.from_pretrained(ModelOptions(model=str(decoder), device="cpu"), layer=2).provenance())


def test_answers_of_several_kinds_are_weighed_by_their_kind(rows: list[VerdictRow]) -> None:
    kinds = [RowKind.QUESTION, RowKind.SUMMARY]
    mixed = [replace(row, signals=replace(row.signals, kind=kinds[place // 2 % 2])) for place, row in enumerate(rows)]
    plain, by_kind = (fit_parts(some, folds=2, seed=0).answers.to_json() for some in (rows, mixed))
    assert "inputs" in plain
    assert set(by_kind) == set(RowKind)


def test_verdict_may_share_the_words_of_the_bundled_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recipe.JUDGED_LOADERS, "ragtruth", lambda _: JudgedDataset(tuple(made_answers())))
    recipe.main(["--data", str(tmp_path), "--output", str(tmp_path / "own"), "--share-words"])
    assert [one.name for one in (tmp_path / "own").iterdir()] == [VERDICT_FILE]
    load_verdict_model.cache_clear()  # other tests may have left a bundled verdict with an older table
    word_table.cache_clear()
    assert load_verdict_model(tmp_path / "own").table is load_verdict_model(BUNDLED_VERDICT).table


def narrowed(decoder: Path, tokens: int) -> Path:
    """The decoder with a context of so many tokens."""
    config = json.loads((decoder / "config.json").read_text(encoding="utf-8"))
    (decoder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": tokens}), encoding="utf-8")
    return decoder


def test_answers_beyond_the_decoders_context_are_left_to_the_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: list[VerdictRow]
) -> None:
    answers = made_answers()
    decoder = save_tiny_model(tmp_path / "decoder")
    whole = Decoder.from_pretrained(ModelOptions(model=str(decoder), device="cpu"), layer=2)
    lengths = [len(whole.encode(one.record).token_ids) for one in answers]
    narrow = Decoder.from_pretrained(
        ModelOptions(model=str(narrowed(decoder, sorted(lengths)[-5])), device="cpu"), layer=2
    )
    found = list(with_states(rows, [one.record for one in answers], narrow))
    unread = [row.record_id for row in found if row.states is None]
    assert unread == [
        one.record.record_id for one, length in zip(answers, lengths, strict=True) if length > narrow.max_tokens
    ]
    assert 0 < len(unread) <= 4
    fitted = fit_words(found, seed=0)
    assert fitted.probe is not None
    trees = word_log_odds(fitted.trees, found)
    for row, odds, of_trees in zip(found, fitted.log_odds(found), trees, strict=True):
        assert np.array_equal(odds, of_trees) is (row.states is None)
    monkeypatch.setitem(recipe.JUDGED_LOADERS, "ragtruth", lambda _: JudgedDataset(tuple(answers)))
    arguments = ["--data", str(tmp_path), "--output", str(tmp_path / "own"), "--decoder", str(decoder)]
    recipe.main([*arguments, "--decoder-layer", "2"])
    assert f"{len(unread)} of {len(answers)} answers are longer than the decoder's context" in capsys.readouterr().err
    narrowed(decoder, 20)
    with pytest.raises(RunError, match="none fits"):
        recipe.main([*arguments, "--decoder-layer", "2"])


def test_layer_that_the_decoder_lacks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recipe.JUDGED_LOADERS, "ragtruth", lambda _: JudgedDataset(tuple(made_answers())))
    decoder = save_tiny_model(tmp_path / "decoder")
    with pytest.raises(ModelLoadError, match="from 0 to 4, was: 5"):
        recipe.main(
            ["--data", str(tmp_path), "--cross-validate", "source", "--decoder", str(decoder), "--decoder-layer", "5"]
        )


def test_too_few_answers_are_refused_with_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recipe.JUDGED_LOADERS, "ragtruth", lambda _: JudgedDataset(tuple(made_answers(4))))
    with pytest.raises(RunError, match="has 2, 2 and 4"):
        recipe.main(["--data", str(tmp_path), "--output", str(tmp_path / "own")])


def test_word_table_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    vectors = np.array([[1, 0], [0.6, 0.8]], dtype=np.float32)
    save_word_table(tmp_path, documents=9, frequencies={"lamp": 4}, words=["lamp", "oil"], vectors=vectors)
    table = WordTable.from_directory(tmp_path)
    assert table.vectors[table.row("oil")] == pytest.approx([0.6, 0.8], abs=0.01)
    assert table.row("ink") == -1
    assert table.rarity("lamp") == pytest.approx(np.log(10 / 5))
    assert table.rarity("ink") == pytest.approx(np.log(10 / 2))


def test_better_match_never_makes_a_word_more_suspect(rows: list[VerdictRow]) -> None:
    upside_down = [replace(row, marked_words=~row.marked_words) for row in rows]
    trees = BoostedTrees.from_json(fit_trees(upside_down, seed=0))
    values = np.concatenate([row.signals.values for row in rows])
    names = rows[0].signals.names
    assert set(names) >= _FALLING | _RISING
    for name, better, worse in (("word_similarity", 1.0, -0.5), ("word_run", 8.0, 0.0), ("word_unmatched_value", 0, 1)):
        low, high = values.copy(), values.copy()
        low[:, names.index(name)], high[:, names.index(name)] = better, worse
        assert (trees.log_odds(low) <= trees.log_odds(high) + 1e-6).all(), name
