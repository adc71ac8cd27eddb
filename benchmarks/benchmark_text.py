"""Text for generated QA logs: pages of a file, or pages of a made-up language with Zipf's law."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

PASSAGE_WORDS = 90
_ONSETS = ("b", "br", "d", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "v", "w")
_VOWELS = ("a", "e", "i", "o", "u", "ea", "ou")
_CODAS = ("", "", "n", "r", "s", "t", "l", "m", "rd", "nt", "ck")
_FREQUENT_TEXT = """
the of and in to a was is for as on with by at from that his it were an which are this be had also first has its but
their not he who they after or have one new other during two been when all into there more between later may most
about would time such some over only years up used under many then made year where became three part through called
state no can before while since city early known number including world season out than being use until several
second both group team played national war area school church work university following film around town well family
life district company system county found south north government river won name day built small large born published
public long band music house album member same general however set because each people located station end history
home local held started near line original high population road building could led main four village party game
within took form law back water final based old production president service every king along games club center
community died major five age island international land power now court order place single white left right great
next million army art east west side run show species site women men
"""
_FREQUENT_WORDS = tuple(_FREQUENT_TEXT.split())
_NEVER_A_NAME = 120


@dataclass(frozen=True, slots=True)
class Page:
    """One page: at least ``PASSAGE_WORDS`` words, punctuation attached to them."""

    title: str
    words: tuple[str, ...]


def read_pages(path: Path) -> tuple[Page, ...]:
    """The pages of a ``.jsonl`` or ``.jsonl.xz`` file of ``{"title": ..., "paras": [...]}``; short pages are left out.

    Raises:
        ValueError: if no page is long enough.
    """
    pages = []
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
        for line in file:
            page = json.loads(line)
            words = tuple(" ".join(page["paras"]).split())
            if len(words) >= PASSAGE_WORDS:
                pages.append(Page(page["title"], words))
    if not pages:
        raise ValueError(f"{path} should have a page of at least {PASSAGE_WORDS} words, has none")
    return tuple(pages)


def made_up_pages(
    *, seed: int, pages: int = 2000, words_a_page: int = 400, vocabulary: int = 20_000
) -> tuple[Page, ...]:
    """Pages of sentences whose words follow Zipf's law, with names and numbers in between; equal seeds, equal pages."""
    rng = random.Random(seed)
    words = _vocabulary(rng, vocabulary)
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return tuple(_made_up_page(rng, words, weights, words_a_page) for _ in range(pages))


def _vocabulary(rng: random.Random, size: int) -> list[str]:
    words = dict.fromkeys(_FREQUENT_WORDS)
    while len(words) < size:
        syllables = rng.choice((1, 2, 2, 3))
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(syllables)) + rng.choice(_CODAS)
        words[word] = None
    return list(words)


def _made_up_page(rng: random.Random, words: Sequence[str], weights: Sequence[float], length: int) -> Page:
    title = " ".join(word.capitalize() for word in rng.choices(words[_NEVER_A_NAME:], k=2))
    text: list[str] = []
    while len(text) < length:
        sentence = rng.choices(words, cum_weights=weights, k=rng.randint(8, 25))
        sentence = [_with_names_and_numbers(rng, word) for word in sentence]
        text += [sentence[0].capitalize(), *sentence[1:-1], sentence[-1] + "."]
    return Page(title, tuple(text[:length]))


def _with_names_and_numbers(rng: random.Random, word: str) -> str:
    chance = rng.random()
    if chance < 0.03:
        return str(rng.randint(2, 2020))
    if chance < 0.12 and word not in _FREQUENT_WORDS[:_NEVER_A_NAME]:
        return word.capitalize()
    return word + "," if chance > 0.96 else word
