"""Passages that a log stores cut are told from a sample, and others are not."""

from __future__ import annotations

import random

import pytest

from attribeam.schemas.passage_sample import CutPassages, cut_passages, merge_samples, sample_passages

WORDS = "the ferry leaves for an island at noon while harbour staff mend nets and count crates of herring".split()  # noqa: SIM905


def _texts(count: int, *, words: int = 60, seed: int = 1) -> list[str]:
    """Texts of sentences, of lengths that vary."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        sentences = []
        for _ in range(chance.randint(words // 12, words // 6)):
            sentences.append(" ".join(chance.choices(WORDS, k=chance.randint(6, 14))).capitalize() + ".")
        made.append(" ".join(sentences))
    return made


WHOLE = _texts(40)
LONG = [text for text in _texts(40, words=120) if len(text.split()) > 60]


def _bytes_cut(text: str, size: int) -> str:
    return text.replace("a", "á").encode()[:size].decode(errors="ignore")


@pytest.mark.parametrize(
    ("texts", "unit", "length"),
    [
        ([text[:150] for text in LONG], "characters", 150),
        ([text[:200] for text in WHOLE], "characters", 200),
        ([text[:197] + "..." for text in LONG], "characters", 200),
        ([text[:120] + " […]" for text in LONG], "characters", 124),
        ([" ".join(text.split()[:40]) for text in LONG], "words", 40),
        ([" ".join(text.split()[:40]) + "…" for text in LONG], "words", 40),
        ([text[: text.rfind(" ", 0, 180 + 7 * place)] + " [...]" for place, text in enumerate(LONG)], None, None),
        ([text.replace(" ", "")[:90] for text in LONG], "characters", 90),
        ([text[:200] for text in LONG[:12]] + WHOLE[:12], "characters", 200),
    ],
)
def test_texts_of_one_length_that_end_inside_a_sentence_are_cut(
    texts: list[str], unit: str | None, length: int | None
) -> None:
    found = cut_passages(sample_passages(texts))
    assert found is not None
    assert (found.unit, found.length) == (unit, length)
    assert 0 < found.passages <= found.sampled == len(set(texts))
    assert "log whole passages" in str(found)


def test_texts_that_are_cut_after_bytes_are_told_apart_from_those_cut_after_characters() -> None:
    texts = [text for text in (_bytes_cut(one, 160) for one in LONG) if len(text.encode()) == 160]
    found = cut_passages(sample_passages(texts))
    assert found is not None
    assert (found.unit, found.length) == ("bytes", 160)


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(WHOLE, id="whole"),
        pytest.param([text.rstrip(".") for text in WHOLE], id="no full stops"),
        pytest.param([text[: 100 + 9 * place] for place, text in enumerate(LONG)], id="lengths that vary"),
        pytest.param([f"{text[:199]}." for text in LONG], id="sentence ends of one length"),
        pytest.param([f"Deck {one // 26}{chr(97 + one % 26)}" for one in range(40)], id="short texts"),
        pytest.param([f"Invoice {4000 + one} of the harbour office, due within 30 days of 2031-04-{one + 10}"
                      for one in range(20)], id="records"),
        pytest.param([LONG[0][:200]] * 50 + WHOLE[:20], id="one text again and again"),
        pytest.param([LONG[0][:200], LONG[1][:200], LONG[2][:200]], id="three"),
        pytest.param([*WHOLE, "And so on ...", "There it ends …"], id="two that trail off"),
        pytest.param([], id="none"),
    ],
)  # fmt: skip
def test_other_texts_are_not_cut(texts: list[str]) -> None:
    assert cut_passages(sample_passages(texts)) is None


def test_the_sample_does_not_depend_on_how_the_texts_were_divided_or_ordered() -> None:
    texts = _texts(500)
    whole = sample_passages(texts)
    assert len(whole) == 64
    assert merge_samples([sample_passages(texts[300:]), sample_passages(texts[:350])]) == whole
    assert sample_passages(texts[:350], sample_passages(reversed(texts[300:]))) == whole


def test_the_note_says_what_the_passages_have_in_common() -> None:
    assert str(CutPassages(9, 12, "words", 40)).startswith("9 of 12 passages that were sampled end after 40 words, ")
    assert str(CutPassages(9, 12)).startswith('9 of 12 passages that were sampled end in "...": the log seems')
