"""Pages of running text, split into sentences once, that the attributor's training rows are cut from."""

import json
import lzma
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"(])")


@dataclass(frozen=True, slots=True)
class Page:
    """A title and its paragraphs, each a list of sentences."""

    title: str
    paragraphs: list[list[str]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pages to sample from; every method draws from the generator that it is handed and from nothing else."""

    pages: list[Page]

    def random_page(self, rng: random.Random) -> Page:
        """Any page, all equally likely."""
        return self.pages[rng.randrange(len(self.pages))]

    def random_words(self, rng: random.Random, count: int) -> list[str]:
        """Up to ``count`` neighbouring words of any paragraph."""
        words = " ".join(rng.choice(self.random_page(rng).paragraphs)).split()
        start = rng.randrange(max(1, len(words) - count))
        return words[start : start + count]

    def texts(self) -> Iterator[str]:
        """Every paragraph as one string, in the order of the file."""
        for page in self.pages:
            for sentences in page.paragraphs:
                yield " ".join(sentences)


def read_pages(path: Path) -> Corpus:
    """Read ``{"title": str, "paras": [str, ...]}`` lines, plain or ``.xz``; pages without text are left out.

    Raises ``ValueError`` where no page is left.
    """
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return make_corpus(json.loads(line) for line in lines)


def make_corpus(records: Iterable[dict[str, Any]]) -> Corpus:
    """Split the paragraphs of ``{"title", "paras"}`` records into sentences."""
    pages = []
    for record in records:
        paragraphs = [SENTENCE_BREAK.split(" ".join(text.split())) for text in record["paras"] if text.strip()]
        if paragraphs:
            pages.append(Page(title=record["title"], paragraphs=paragraphs))
    if not pages:
        raise ValueError("expected at least one page with text, found none")
    return Corpus(pages)


def split_held_out(corpus: Corpus, *, share: float = 0.02) -> tuple[Corpus, Corpus]:
    """(training pages, held-out pages); the last ``share`` of the pages, at least one, is held out."""
    count = max(1, round(len(corpus.pages) * share))
    return Corpus(corpus.pages[:-count] or corpus.pages), Corpus(corpus.pages[-count:])
