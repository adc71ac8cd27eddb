"""The answers that were made up for the verdict: how they are read, what they are like, and what they count for."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.lab.training.verdict.test_verdict_recipe import made_answers

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.option_types import VERDICT_FILE
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.attribution.verdict.word_table import word_table
from attribeam.lab.evaluation.support.support_rows import EVERYDAY_ROWS, SHIPPED_ROWS, load_support_rows
from attribeam.lab.training.verdict import recipe
from attribeam.lab.training.verdict.cross_validation import cross_validated, scored
from attribeam.lab.training.verdict.made_answers import load_made_answers
from attribeam.lab.training.verdict.verdict_rows import VerdictRow, verdict_rows
from attribeam.lab.training.verdict.word_fitting import fit_words
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import JudgedDataset

ROW = {
    "record_id": "lamp-1",
    "question": "How many lamps are there?",
    "passages": [{"passage_id": "p", "title": None, "text": "Ten lamps line the pier."}],
    "answer": "The pier has ten lamps and two bells.",
    "unsupported": [{"text": "and two bells", "occurrence": 1, "kind": "invented detail"}],
}


def written(directory: Path, **fields: object) -> Path:
    file = directory / "made.jsonl"
    file.write_text(json.dumps(ROW | fields) + "\n", encoding="utf-8")
    return file


def test_a_row_is_an_answer_with_its_marks(tmp_path: Path) -> None:
    (answer,) = load_made_answers(written(tmp_path))
    assert answer.unsupported is not None
    (mark,) = answer.unsupported
    assert (mark.chars.of(answer.record.answer), mark.kind) == ("and two bells", "invented detail")
    assert [passage.text for passage in answer.record.passages] == ["Ten lamps line the pier."]


def test_a_faithful_answer_is_judged_and_has_no_mark(tmp_path: Path) -> None:
    (answer,) = load_made_answers(written(tmp_path, unsupported=[]))
    assert answer.unsupported == ()


def test_a_mark_that_is_not_in_the_answer_is_refused_with_its_row(tmp_path: Path) -> None:
    marks = [{"text": "three bells", "occurrence": 1, "kind": "wrong number"}]
    with pytest.raises(DataError, match=r"made\.jsonl, line 1, unsupported\[0\]: field 'text'"):
        load_made_answers(written(tmp_path, unsupported=marks))


def test_shipped_answers_differ_and_about_half_of_them_are_faithful() -> None:
    answers = load_made_answers()
    assert len(answers) >= 400
    for key in ("record_id", "answer", "passages"):
        values = [getattr(one.record, key) for one in answers if getattr(one.record, key)]
        assert len(set(values)) >= 0.98 * len(values), key
    marks = [one.unsupported or () for one in answers]
    assert 0.4 <= np.mean([bool(one) for one in marks]) <= 0.6
    kinds = Counter(mark.kind for one in marks for mark in one)
    assert min(kinds.values()) >= 5


def test_rows_that_figures_are_measured_on_are_not_among_them() -> None:
    made = [twelve_words_each(passage.text) for one in load_made_answers() for passage in one.record.passages]
    rows = [*load_support_rows(SHIPPED_ROWS), *load_support_rows(EVERYDAY_ROWS)]
    measured = [twelve_words_each(passage.text) for one in rows for passage in one.record.passages]
    assert not set().union(*made) & set().union(*measured)


def twelve_words_each(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[start:] for start in range(12)), strict=False))


@pytest.fixture(scope="module")
def rows() -> list[VerdictRow]:
    parser = AnswerParser.from_pretrained("bundled")
    return list(verdict_rows(made_answers(), parser, word_table(BUNDLED_VERDICT)))


def test_rows_beside_are_fitted_on_in_every_fold_and_judged_in_none(rows: list[VerdictRow]) -> None:
    some = rows[:24]
    others = [replace(row, record_id=f"b{row.record_id}") for row in rows[24:] if row.is_marked]
    found = cross_validated(some, folds=2, seed=0, beside=others)
    assert len(found.scores) == len(found.folds) == len(some)
    for fold, parts in enumerate(found.parts):
        own = [some[place] for place in found.others(fold)]
        assert parts.words.trees == fit_words([*own, *others], seed=0).trees
        base = np.mean([row.is_marked for row in own])
        risks = [1 / (1 + np.exp(-one.answer)) for one in scored(parts, own)]
        assert np.mean(risks) == pytest.approx(base, abs=0.15)


def test_recipe_with_made_answers_fits_another_verdict_with_figures_of_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(recipe.JUDGED_LOADERS, "ragtruth", lambda _: JudgedDataset(tuple(made_answers())))
    monkeypatch.setattr(recipe, "load_made_answers", lambda: load_made_answers()[:12])
    for name, options in (("plain", []), ("more", ["--made-answers"])):
        recipe.main(["--data", str(tmp_path), "--output", str(tmp_path / name), "--share-words", *options])
    plain, more = (json.loads((tmp_path / name / VERDICT_FILE).read_text()) for name in ("plain", "more"))
    assert plain["words"] != more["words"]
    assert plain["measured_on"] == more["measured_on"] == "40 answers of ragtruth"
    assert plain["thresholds"]["unmatched"] == more["thresholds"]["unmatched"]


def test_the_decoder_reads_made_up_answers_but_not_their_variants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StoppedError(Exception):
        pass

    def stop(_: object, *, beside: Sequence[VerdictRow], **__: object) -> None:
        seen.update({row.record_id: row.states is not None for row in beside})
        raise StoppedError

    seen: dict[str, bool] = {}
    monkeypatch.setitem(recipe.JUDGED_LOADERS, "ragtruth", lambda _: JudgedDataset(tuple(made_answers())))
    made = sorted(
        load_made_answers(), key=lambda one: sum(map(len, (one.record.answer, *(p.text for p in one.record.passages))))
    )[:4]
    monkeypatch.setattr(recipe, "load_made_answers", lambda: made)
    monkeypatch.setattr(recipe, "cross_validated", stop)
    options = ["--decoder", str(save_tiny_model(tmp_path / "decoder")), "--decoder-layer", "2", "--made-answers"]
    with pytest.raises(StoppedError):
        recipe.main(["--data", str(tmp_path), "--output", str(tmp_path / "own"), *options])
    assert len(seen) > 3 * 4
    assert {name for name, is_read in seen.items() if is_read} == {one.record.record_id for one in made}
