"""Held-out rows with labelled claims, on pages written for this test."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from lab.benchmarks.support_check import SpanTruth, load_support_rows
from lab.data_files import PageText
from lab.training.attributor.corpus import Corpus, Passage, make_corpus, split_held_out
from lab.training.attributor.network import save_tokenizer, train_tokenizer
from lab.training.attributor.support_rows import (
    claim_kind,
    draw_support_rows,
    main,
    occurrence_at,
    support_spans,
)
from lab.training.attributor.training_rows import TrainingRow

TREES = ["alder", "beech", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "yew"]


def pages() -> list[PageText]:
    """Pages on gardens that do not exist; each names a tree that no other page names."""
    return [
        PageText(
            f"Garden of {tree.title()}",
            [
                f"The {tree} garden was laid out in {1700 + 11 * index} by Greta {tree.title()}man for the town. "
                f"It has {40 + index} beds, and its wall was built by Otto Brandt after the flood.",
                f"In {1900 + 3 * index} a storm felled the great {tree}. Visitors from Norwich paid for a new one.",
            ],
        )
        for index, tree in enumerate(TREES)
    ]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_corpus(pages())


@pytest.fixture(scope="module")
def tokenizer(corpus: Corpus) -> Tokenizer:
    return train_tokenizer(corpus.texts(), vocabulary_size=500)


@pytest.fixture(scope="module")
def written(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("rows")
    source, output = directory / "pages.jsonl", directory / "rows.jsonl"
    lines = [json.dumps({"title": page.title, "paras": page.paragraphs}) for page in pages()]
    source.write_text("\n".join(lines), encoding="utf-8")
    save_tokenizer(tokenizer, directory, max_tokens=2048)
    main(["--pages", str(source), "--count", "40", "--output", str(output), "--tokenizer", str(directory)])
    return output


def test_written_rows_are_read_by_the_check_and_have_both_kinds_of_claims(written: Path) -> None:
    answers = load_support_rows(written)
    truths = {truth for answer in answers for truth in answer.truths}
    assert len(answers) == 40
    assert {SpanTruth.SUPPORTED, SpanTruth.PARAPHRASE, SpanTruth.INVENTED_CLAUSE} <= truths
    assert all(len(answer.record.passages) >= 2 for answer in answers)


def test_only_held_out_pages_are_quoted(written: Path, corpus: Corpus) -> None:
    _, held_out = split_held_out(corpus)
    assert [page.title for page in held_out.pages] == ["Garden of Yew"]
    others = [tree for tree in TREES if tree != "yew"]
    for answer in load_support_rows(written):
        text = " ".join(passage.text for passage in answer.record.passages).lower()
        assert not any(f"the {tree} garden" in text or f"great {tree}" in text for tree in others)


def test_rows_depend_only_on_the_seed(corpus: Corpus, tokenizer: Tokenizer) -> None:
    first, second = ([*draw_support_rows(corpus, tokenizer, count=3, seed=4)] for _ in range(2))
    assert first == second
    assert first != [*draw_support_rows(corpus, tokenizer, count=3, seed=5)]


def row_of(answer: str, *claims: tuple[int, int, bool]) -> TrainingRow:
    """A row whose prompt is one passage, "A red kite." """
    prompt = "A red kite.\n\n"
    whole = f"{prompt}Question: What?\nAnswer: "
    shifted = [(len(whole) + start, len(whole) + end, supported) for start, end, supported in claims]
    passages = [Passage(None, ("A red kite.",), make_corpus(pages()).pages[0])]
    return TrainingRow(whole + answer, [], [], 0, [], shifted, len(prompt), [], question="What?", passages=passages)


def test_claim_is_found_at_its_own_place_among_equal_texts() -> None:
    (span,) = support_spans(row_of("red kite, red kite", (10, 18, True)))
    assert span == {"text": "red kite", "occurrence": 2, "supported": True, "kind": "supported"}


def test_short_and_repeated_claims_are_left_out() -> None:
    spans = support_spans(row_of("It flew far", (0, 2, False), (3, 7, True), (3, 7, True)))
    assert [span["text"] for span in spans] == ["flew"]


@pytest.mark.parametrize(
    ("text", "supported", "kind"),
    [
        ("red kite", True, "supported"),
        ("red kites", True, "paraphrase"),
        ("1874", False, "wrong number"),
        ("Brandt", False, "wrong name"),
        ("paid in 1874", False, "invented clause"),
    ],
)
def test_kind_of_a_claim(text: str, supported: bool, kind: str) -> None:
    assert claim_kind(text, "A red kite.", supported=supported) == kind


def test_overlapping_places_count_as_occurrences() -> None:
    assert occurrence_at("aa", 1, "aaa") == 2
