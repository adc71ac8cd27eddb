"""The recipe of the verdict on small judged sets of our own, and the answers that were made up for it."""

import json
import random
import re
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from attribeam.attribution.attributor import Attributor
from attribeam.attribution.option_declaration import VERDICT_FILE
from attribeam.attribution.verdict.claim_reader import READER_FILES, ClaimReader
from attribeam.attribution.verdict.fitted_parts import same_share, word_table
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, SCORE_NUMBERS, load_verdict_model
from attribeam.evaluation.datasets.dataset_file import JudgedAnswer, UnsupportedRange
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from lab.benchmarks.support_check import EVERYDAY_ROWS, load_support_rows
from lab.data_files import PageText
from lab.train import main
from lab.training.attributor.corpus import make_corpus
from lab.training.verdict import cross_encoder, fitting, reader, recipe, verdict_rows
from lab.training.verdict.decoder_states import KeptStates
from lab.training.verdict.edited_sentences import edited_claims
from lab.training.verdict.fitting import cross_validated, folds_of
from lab.training.verdict.operating_points import LIMITS, choose_thresholds, tables
from lab.training.verdict.shared_sets import TrainingAnswer, changes
from lab.training.verdict.verdict_rows import NOISE
from lab.training.verdict.written_sets import SCORED_SETS, load_made_answers, scored_sets

THINGS = ("lamp", "ledger", "harbour", "bridge", "garden", "engine", "violin", "kettle", "ladder", "window")
DEEDS = ("painted", "mended", "carried", "sold", "measured", "cleaned")
INVENTED = "Zebras danced across frozen volcanoes"
DECODER = {f"language_model_{name}": "1" for name in ("weights", "prompt_template", "layer", "dtype", "quantization")}


def made_answers(count=60):
    """Answers of which every other one has an invented sentence; every fourth is judged as a whole."""
    draw, answers = random.Random(1), []
    for number in range(count):
        things = draw.sample(THINGS, 4)
        passage = " ".join(f"The keeper {draw.choice(DEEDS)} the {thing} early in the morning." for thing in things)
        answer = passage.split(". ")[0] + "."
        marks = ()
        if number % 2:
            start = len(answer) + 1
            answer = f"{answer} {INVENTED} {number} times."
            marks = (UnsupportedRange(CharRange(start, len(answer) - 1)),)
        record = QARecord(str(number), "", (Passage(f"Note {number}. {passage}"),), answer, RowSource("log", number))
        whole = number % 4 >= 2
        answers.append(JudgedAnswer(record, None if whole else marks, answer_supported=not marks if whole else None))
    return answers


def training_answers():
    names = ("ragtruth", "trial", "begin", "summedits", "web")
    return [TrainingAnswer.of(one, names[place // 2 % 5]) for place, one in enumerate(made_answers())]


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict_rows, "_FEWEST_LETTERS", 10)
        attributor = Attributor.from_pretrained("bundled", verdict="mass")
        found = verdict_rows.verdict_rows(training_answers(), attributor, word_table(BUNDLED_VERDICT), seed=0)
        return list(found)


@pytest.fixture(scope="module")
def found(rows):
    return cross_validated(rows, seed=0, probe_shares=same_share(0.5))


@pytest.mark.parametrize(("before", "after", "marked"), [
    ("The mill grinds oats.", "The mill grinds rye.", ["rye"]),
    ("It opens at nine and shuts at five.", "It opens at ten and shuts at six.", ["ten", "six"]),
    ("The old mill runs.", "The mill runs.", ["mill"]), ("The mill runs at night.", "The mill runs", ["runs"]),
    ("The mill runs.", "The mill never runs.", ["never"]), ("The mill runs.", "The mill runs.", []),
    ("", "Rain.", ["Rain."]), ("Rain.", "", []),
])  # fmt: skip
def test_marks_of_an_edit_are_where_the_texts_differ(before, after, marked):
    assert [one.of(after) for one in changes(before, after)] == marked


def test_answers_with_one_passage_share_a_fold_in_all_sets(rows):
    moved = [replace(row, set_name="bump") for row in rows]
    assert np.array_equal(folds_of(rows, seed=3), folds_of(moved, seed=3))
    assert not np.array_equal(folds_of(rows, seed=3), folds_of(rows, seed=4))
    assert len({one.key for one in rows}) == 60


def test_an_answer_judged_as_a_whole_is_wrong_in_all_its_words_or_in_none(rows):
    for row in rows:
        if not row.has_marks:
            assert set(row.marked_words.tolist()) == set(row.marked_claims.tolist()) == {row.is_marked}
        elif row.set_name != NOISE and row.is_marked:
            assert 0 < row.marked_words.sum() < len(row.marked_words)
            assert row.word_weights[row.marked_words].max() < 1


def test_noise_is_wrong_and_points_elsewhere_than_the_row_that_it_was_made_of(rows):
    clean = {row.record.record_id: row for row in rows if row.set_name != NOISE}
    noisy = [row for row in rows if row.set_name == NOISE]
    assert noisy
    for row in noisy:
        first = clean[row.record.record_id]
        assert not first.is_marked
        assert row.is_marked
        assert row.marked_claims.all()
        assert row.key == first.key
        assert not np.array_equal(row.premises, first.premises)


def test_every_row_is_judged_by_parts_of_other_folds_and_ranked(rows, found):
    assert len(found.parts) == 6
    risks = np.array([one.answer for one in found.scores])
    marked, real = (
        np.array(one) for one in zip(*[(row.is_marked, row.set_name != NOISE) for row in rows], strict=True)
    )
    assert risks[marked & real].mean() > risks[~marked & real].mean()
    for one in found.scores:
        assert one.claims.max() == pytest.approx(one.answer)
    text = tables(rows, found.scores, choose_thresholds(rows, found.scores))
    assert "ragtruth" in text
    assert "1 claim" in text


def test_the_verdict_of_an_own_log_can_be_loaded_and_its_folds_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(recipe, "written_sets", lambda: iter(()))
    table = [
        {
            "record_id": one.record.record_id, "question": "", "passages": [one.record.passages[0].text],
            "answer": one.record.answer, "answer_supported": one.is_supported,
            "unsupported_spans": None if one.unsupported is None else [
                {"char_start": mark.chars.char_start, "char_end": mark.chars.char_end} for mark in one.unsupported
            ],
        }
        for one in made_answers()
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "own.parquet")
    asked = ["verdict", "--log", str(tmp_path / "own.parquet"), "--share-words"]
    assert main([*asked, "--output", str(tmp_path / "own"), "--measured-on", "rows of our own"]) == 0
    model = load_verdict_model(tmp_path / "own")
    assert model.measured_on == "rows of our own"
    assert model.thresholds.balanced == LIMITS.balanced
    assert main([*asked, "--cross-validate", "--output", str(tmp_path / "folds")]) == 0
    assert "balanced accuracy" in capsys.readouterr().out
    monkeypatch.setattr(recipe, "scored_sets", lambda: iter(()))
    first = json.loads((tmp_path / "folds" / VERDICT_FILE).read_text(encoding="utf-8"))
    asked = ["verdict", "--log", asked[2]]
    assert main([*asked, "--keep", str(tmp_path / "folds"), "--output", str(tmp_path / "kept")]) == 0
    kept = json.loads((tmp_path / "kept" / VERDICT_FILE).read_text(encoding="utf-8"))
    changed = {"claim_scores", "operating_points", "short_operating_points"}
    assert {name for name in kept if kept[name] != first[name]} <= changed
    assert main([*asked, "--keep", "bundled", "--output", str(tmp_path / "copy")]) == 0
    for name, has_reader in (("kept", False), ("copy", True)):
        model = load_verdict_model(tmp_path / name)
        assert model.measured_on == "60 answers of 1 sets"
        assert (model.reader is not None) is has_reader
        weight = dict(zip(model.claim_scores.names, model.claim_scores.weights, strict=True))["read"]
        assert bool(weight) is has_reader  # what is never read weighs nothing


@pytest.mark.parametrize(("asked", "complaint"), [
    ("--keep smollm2-135m", "--keep smollm2-135m needs --decoder and --decoder-layer 18"),
    ("--keep bundled --decoder d --decoder-layer 3", "--keep bundled reads no --decoder"),
])  # fmt: skip
def test_scores_beside_a_probe_need_its_decoder(asked, complaint, capsys):
    assert main(["verdict", *asked.split(), "--cross-validate"]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(("options", "complaint"), [
    ("--output o", "--data, --log or both are needed"), ("--data d", "--output, --cross-validate or both are needed"),
    ("--data d --output o --decoder m", "--decoder and --decoder-layer belong together"),
    ("--data d --output o --decoder-note n", "--decoder-note is for --decoder"),
    ("--data d --output o --encoder e", "--wordllama and --encoder need --pages"),
    ("--data d --output o --pages p", "--pages is for --wordllama or --encoder"),
    ("--keep k --data d --output o", "--keep excludes --data, --encoder, --wordllama and --share-words"),
    ("--data d --output o --encoder e --pages p --share-words", "--share-words and --encoder exclude each other"),
    ("--data d --output o --encoder e --pages p", "--encoder should be a folder with a model, e has"),
])  # fmt: skip
def test_options_that_do_not_belong_together_are_a_usage_error(options, complaint, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["verdict", *options.split()])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def pages():
    draw, found = random.Random(2), []
    for number in range(8):
        sentences = [
            f"Keeper {draw.choice(('Ada', 'Bruno', 'Clara'))} was born in {1800 + draw.randrange(90)} and "
            f"{draw.choice(DEEDS)} the large {draw.choice(THINGS)} in the harbour of Port {draw.choice('KLM')}une."
            for _ in range(9)
        ]
        found.append(PageText(f"Port {number}", [" ".join(sentences)]))
    return found


def test_edited_sentences_are_wrong_where_they_are_marked():
    tokenizer = Tokenizer.from_file(str(BUNDLED_VERDICT / READER_FILES[1]))
    claims = list(edited_claims(make_corpus(pages()), tokenizer, count=200, seed=4))
    again = list(edited_claims(make_corpus(pages()), tokenizer, count=200, seed=4))
    assert [one.read.sentence for one in claims] == [one.read.sentence for one in again]
    assert 60 < sum(one.is_wrong for one in claims) < 140
    for one in claims:
        assert np.array_equal(one.read.own, np.flatnonzero(one.marks >= 0))
        assert bool((one.marks == 1).any()) is one.is_wrong
        assert one.read.premise
    missing = [
        np.mean([one.read.sentence[place] not in one.read.premise for place in one.read.own]) for one in claims
    ]  # fmt: skip
    wrong = np.array([one.is_wrong for one in claims])
    assert np.mean(np.array(missing)[wrong]) > np.mean(np.array(missing)[~wrong])


def test_the_reader_learns_from_an_encoder_that_learned_from_other_sources(rows, tmp_path, monkeypatch):
    tokenizer = Tokenizer.from_file(str(BUNDLED_VERDICT / READER_FILES[1]))
    torch.manual_seed(0)
    shape = BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32,
    )  # fmt: skip
    BertModel(shape, add_pooling_layer=False).save_pretrained(tmp_path)
    for module, name, value in (
        (cross_encoder, "_PRETRAINING_STEPS", 2), (cross_encoder, "_STEPS", 40), (cross_encoder, "_WARM_UP", 5),
        (cross_encoder, "_BATCH", 8), (cross_encoder, "_RATE", 1e-2), (cross_encoder, "_HEAD_RATE", 1e-2),
        (reader, "_STEPS", 30), (reader, "_WARM_UP", 5), (reader, "_BATCH", 16), (reader, "_SIZE", 24),
        (reader, "_PARTS", 2), (reader, "_RATE", 1e-2),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    edited = list(edited_claims(make_corpus(pages()), tokenizer, count=40, seed=4))
    start = cross_encoder.pretrained(tmp_path, edited, seed=0)
    words = np.zeros(tokenizer.get_vocab_size(), dtype=np.bool_)
    words[[token for piece, token in tokenizer.get_vocab().items() if piece in THINGS]] = True
    odds = [np.zeros(len(row.claims)) for row in rows]
    read, weights = reader.with_readings(rows, odds, start, edited, words, seed=0)
    real = [row for row in read if row.set_name != NOISE]
    said, marked = np.concatenate([row.read for row in real]), np.concatenate([row.marked_claims for row in real])
    assert said[marked].mean() > said[~marked].mean() + 0.5
    shipped = ClaimReader({name: torch.from_numpy(one) for name, one in weights.items()}, tokenizer)
    told = np.concatenate([shipped.log_odds(row.inputs) for row in real])
    assert told[marked].mean() > told[~marked].mean() + 0.5


def test_probe_learns_what_only_the_states_tell(rows):
    draw = np.random.default_rng(0)
    blind = [replace(row, signals=replace(row.signals, values=0 * row.signals.values)) for row in rows]
    read = [row for row in blind if row.set_name in fitting.PROBE_SETS]
    seeing = [
        replace(row, states=(draw.normal(size=(len(row.chars), 4)) + 3 * row.marked_words[:, None]).astype(np.float16))
        for row in read
    ]
    whole = fitting.fit_words(seeing, seed=0, probe_shares=same_share(1))
    odds, marked = np.concatenate(whole.log_odds(seeing)), np.concatenate([row.marked_words for row in seeing])
    assert odds[marked].mean() > odds[~marked].mean() + 1
    assert fitting.fit_words(read, seed=0, probe_shares=same_share(1)).probe is None


def test_states_are_kept_by_all_that_decides_them(rows, tmp_path):
    kept, some = KeptStates(tmp_path / "new", DECODER), rows[:4]
    states = [None, *(np.ones((len(row.chars), 3), dtype=np.float16) for row in some[1:])]
    assert kept.read(some) is None
    kept.write(some, states)
    again = kept.read(some)
    assert again is not None
    assert [one is None for one in again] == [True, False, False, False]
    for name in DECODER:
        assert KeptStates(tmp_path / "new", DECODER | {name: "2"}).read(some) is None
    assert KeptStates(tmp_path / "new", DECODER | {"torch_version": "9"}).read(some) is not None
    changed = replace(some[0], record=replace(some[0].record, question="Who?"))
    assert kept.read([changed, *some[1:]]) is None
    (file,) = (tmp_path / "new").iterdir()
    file.write_bytes(file.read_bytes()[:97])
    assert kept.read(some) is None


def test_rows_that_figures_are_measured_on_are_not_among_them():
    made = [twelve_words_each(passage.text) for one in load_made_answers() for passage in one.record.passages]
    rows = load_support_rows(EVERYDAY_ROWS.with_name("newcomer_rows.jsonl"))
    made = [
        *made,
        *(twelve_words_each(passage.text) for one in scored_sets() for passage in one.judged.record.passages),
    ]
    measured = [twelve_words_each(passage.text) for one in rows for passage in one.record.passages]
    assert not set().union(*made) & set().union(*measured)


def test_scores_follow_what_people_said_of_the_claims_that_they_judged_one_by_one():
    ratio, rows, numbers = SCORE_NUMBERS.index("ratio"), [], []
    for number in range(40):
        marks = np.array([number % 2 == 0, False, False])  # the last claim was not judged
        given = SimpleNamespace(set_name="web", has_marks=True, is_marked=bool(marks.any()), claims=marks)
        given.marked_claims, given.claim_weights = marks, np.array([1.0, 1.0, 0.0])
        whole = SimpleNamespace(**{**vars(given), "has_marks": False, "marked_claims": ~marks})
        values = np.zeros((3, len(SCORE_NUMBERS)))
        values[:, ratio] = [*np.where(marks[:2], 2.0, -2.0), 9.0]
        rows, numbers = [*rows, given, whole], [*numbers, values, values]
    scores = fitting.fit_scores(rows, numbers)
    wrong, right = scores.log_odds(SCORE_NUMBERS, numbers[0][:2])
    assert wrong > 0 > right
    without_whole = fitting.fit_scores(rows[::2], numbers[::2])
    np.testing.assert_allclose(scores.weights, without_whole.weights)


def test_single_claims_of_benchmarks_stand_beside_copies_and_among_other_passages_too():
    answers = [*scored_sets()]
    assert [*dict.fromkeys(answer.set_name for answer in answers)] == [*SCORED_SETS]
    parts = {answer.part: answer for answer in answers if answer.set_name == "claim_rows" and answer.part}
    beside, among, together = parts.values()
    assert 2 <= len(together.judged.judged) <= 4
    assert len(together.judged.judged) == together.judged.record.answer.count(".")
    assert beside.judged.judged[0].of(beside.judged.record.answer)[:-1] in beside.judged.record.passages[0].text + "."
    assert len(among.judged.record.passages) >= 9
    assert len({answer.key for answer in parts.values()}) == 1


def test_variants_of_single_claims_keep_their_marks_their_passages_and_their_key():
    rows, answers = load_support_rows(EVERYDAY_ROWS.with_name("claim_rows.jsonl")), defaultdict(list)
    for answer in scored_sets():
        answers[answer.part].append(answer)
    wrong = {
        (row.record.passages, chars.of(row.record.answer)): not kind.supported
        for row in rows
        for chars, kind in row.truth_of.items()
    }
    for answer in [*answers["beside a copied sentence"], *answers["together"]]:
        record = answer.judged.record
        judged = [chars.of(record.answer) for chars in answer.judged.judged]
        marked = [mark.chars.of(record.answer) for mark in answer.judged.unsupported]
        assert marked == [text for text in judged if wrong.get((record.passages, text))]
        assert all((record.passages, text) in wrong for text in judged[answer.part != "together" :])
    single = [answer for answer in answers[""] if answer.set_name == "claim_rows"]
    for part in ("beside a copied sentence", "among other passages"):
        for old, new in zip(single, answers[part], strict=True):
            assert new.key == old.key
            assert {*new.judged.record.passages} >= {*old.judged.record.passages}


def twelve_words_each(text):
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[start:] for start in range(12)), strict=False))
