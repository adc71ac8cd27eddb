"""Training rows of the attributor: passages, reworded answers, and the source of each answer token."""

import json
import random

import pytest
from tokenizers import Tokenizer

from lab.training.attributor import training_rows as attributor_wording
from lab.training.attributor.corpus import Corpus, Page, Passage, read_pages, twin_of
from lab.training.attributor.network import BOS_ID
from lab.training.attributor.training_rows import (
    PROMPT_TEMPLATE,
    AnswerWriter,
    TrainingRow,
    alternative_wording,
    draw_batch,
    render_passages,
)


def draw_rows(corpus: Corpus, tokenizer: Tokenizer, steps: int) -> list[TrainingRow]:
    return [row for step in range(steps) for row in draw_batch(corpus, tokenizer, seed=5, step=step, token_budget=256)]


def token_text(row: TrainingRow, column: int) -> str:
    return row.text[slice(*row.offsets[column])]


def test_gold_columns_hold_the_text_that_was_copied(corpus: Corpus, tokenizer: Tokenizer, monkeypatch) -> None:
    monkeypatch.setattr(attributor_wording, "OTHER_WORDING_SHARE", 0.0)
    unlike = compared = 0
    for row in draw_rows(corpus, tokenizer, 30):
        for place, columns in enumerate(row.gold):
            if not columns or columns == (BOS_ID,):
                continue
            said = token_text(row, row.answer_start + place).lower()
            shown = row.text[row.offsets[columns[0]][0] : row.offsets[columns[-1]][1]].lower()
            compared += 1
            unlike += not (said in shown or shown in said)
            assert columns[-1] < row.answer_start
    assert compared > 1000
    assert unlike / compared < 0.02  # a changed ending points at the end of the word that it replaces


def test_gold_columns_lie_in_passages_never_in_the_question(corpus: Corpus, tokenizer: Tokenizer) -> None:
    for row in draw_rows(corpus, tokenizer, 10):
        for columns in row.gold:
            assert all(column == BOS_ID or row.offsets[column][1] <= row.passages_end for column in columns)


def test_rows_depend_only_on_seed_and_step(corpus: Corpus, tokenizer: Tokenizer) -> None:
    random.seed(1)
    first = draw_batch(corpus, tokenizer, seed=3, step=7, token_budget=256)
    random.seed(2)
    assert draw_batch(corpus, tokenizer, seed=3, step=7, token_budget=256) == first
    assert draw_batch(corpus, tokenizer, seed=3, step=8, token_budget=256) != first
    assert draw_batch(corpus, tokenizer, seed=4, step=7, token_budget=256) != first


def test_rendered_passages_match_the_prompt_template_and_their_ranges() -> None:
    page = Page("Arvik", [])
    passages = [Passage("Arvik", ("It is old.", "It is small."), page), Passage(None, ("Nobody knows.",), page)]
    context, ranges = render_passages(passages)
    assert context == "Arvik\nIt is old. It is small.\n\nNobody knows.\n\n"
    pieces = [[context[start:end] for start, end in one] for one in ranges]
    assert pieces == [["Arvik", "It is old.", "It is small."], ["Nobody knows."]]


def test_row_is_passages_then_question_then_answer_tokenised_once(corpus: Corpus, tokenizer: Tokenizer) -> None:
    for row in draw_rows(corpus, tokenizer, 5):
        lead, answer_mark = PROMPT_TEMPLATE["question"].split("{question}")
        assert row.text[row.passages_end :].startswith(lead)
        assert answer_mark in row.text[row.passages_end :]
        assert row.token_ids == tokenizer.encode(row.text).ids
        assert row.token_ids.count(BOS_ID) == 1
        assert row.token_ids[0] == BOS_ID
        assert len(row.gold) == len(row.token_ids) - row.answer_start
        prompt_end = row.text.index(answer_mark, row.passages_end) + len(answer_mark)
        assert row.offsets[row.answer_start - 1][1] <= prompt_end < row.offsets[row.answer_start][1]


def test_every_character_of_an_answer_has_a_source_or_says_that_it_has_none(corpus: Corpus) -> None:
    passage = Passage("Arvik", ("Arvik is old.", "Ice covers the bay in 1702."), Page("Arvik", []))
    prompt, ranges = render_passages([passage])
    for seed in range(50):
        writer = AnswerWriter(prompt, ranges, unquoted=["Bears swim."], corpus=corpus, rng=random.Random(seed))
        answer = writer.write(char_budget=200)
        assert len(answer.sources) == len(answer.text) >= 200
        for char_start, char_end, _ in answer.claims:
            assert answer.text[char_start:char_end].strip()


def test_twin_differs_in_names_and_numbers_only(corpus: Corpus) -> None:
    passage = Passage("Arvik", ("In 1702 the bay of Arvik froze for 12 days.",), Page("Arvik", []))
    for seed in range(20):
        words = twin_of(passage, corpus, random.Random(seed)).text.split()
        assert [words[place] for place in (2, 3, 4, 6, 7, 9)] == ["the", "bay", "of", "froze", "for", "days."]


def test_column_passages_are_where_the_passages_stand(corpus: Corpus, tokenizer: Tokenizer) -> None:
    for row in draw_rows(corpus, tokenizer, 5):
        found = [passage for passage in row.column_passage if passage >= 0]
        assert len(row.column_passage) == row.answer_start
        assert row.column_passage[0] == -1
        assert found == sorted(found)
        assert set(found) == set(range(max(found) + 1))


@pytest.mark.parametrize(
    ("word", "expected"),
    [("12,500", "12500"), ("12500", "12,500"), ("40%", "40 percent"), ("three", "3"), ("3,", "three,"), ("zorb", None)],
)
def test_rewording_keeps_the_meaning(word: str, expected: str | None) -> None:
    assert alternative_wording(word, random.Random(0)) == expected


def test_pages_without_any_text_are_refused(tmp_path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_text(json.dumps({"title": "Arvik", "paras": ["  "]}) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="at least one page"):
        read_pages(path)
