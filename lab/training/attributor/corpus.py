"""Pages of running text, split into sentences, and the passages that training rows take from them.

Passages are pieces of pages, single sentences, or twins: copies of other passages with names and numbers exchanged.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.data_files import PageText, read_page_file

SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"(])")


@dataclass(frozen=True, slots=True)
class Page:
    """A title and its paragraphs, each a list of sentences."""

    title: str
    paragraphs: list[list[str]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pages to sample from; every method takes its randomness only from the generator that it is given."""

    pages: list[Page]

    def random_page(self, rng: random.Random) -> Page:
        """A random page, all equally likely."""
        return self.pages[rng.randrange(len(self.pages))]

    def random_words(self, rng: random.Random, count: int) -> list[str]:
        """Up to ``count`` consecutive words of a random paragraph."""
        words = " ".join(rng.choice(self.random_page(rng).paragraphs)).split()
        start = rng.randrange(max(1, len(words) - count))
        return words[start : start + count]

    def texts(self) -> Iterator[str]:
        """Every paragraph as one string, in the order of the file."""
        for page in self.pages:
            for sentences in page.paragraphs:
                yield " ".join(sentences)


def read_pages(path: Path) -> Corpus:
    """The pages of a file that have text (see ``read_page_file``).

    Raises:
        ValueError: if no page has text.
    """
    return make_corpus(read_page_file(path))


def make_corpus(texts: Iterable[PageText]) -> Corpus:
    """Split the paragraphs of pages into sentences.

    Raises:
        ValueError: if no page has text.
    """
    pages = []
    for page in texts:
        paragraphs = [SENTENCE_BREAK.split(" ".join(text.split())) for text in page.paragraphs if text.strip()]
        if paragraphs:
            pages.append(Page(title=page.title, paragraphs=paragraphs))
    if not pages:
        raise ValueError("expected at least one page with text, found none")
    return Corpus(pages)


def split_held_out(corpus: Corpus, *, share: float = 0.02) -> tuple[Corpus, Corpus]:
    """Training pages and held-out pages; the last ``share`` of the pages, at least one page, is held out."""
    count = max(1, round(len(corpus.pages) * share))
    return Corpus(corpus.pages[:-count] or corpus.pages), Corpus(corpus.pages[-count:])


NON_WORD = re.compile(r"\W")
NOT_NAMES = {
    "After", "Also", "Although", "Because", "Before", "Both", "Despite", "During", "Each", "From",
    "Having", "However", "Many", "More", "Most", "Other", "Since", "Some", "Such", "That", "Their",
    "Then", "There", "These", "They", "This", "Those", "Though", "Under", "Unlike", "Until", "Upon",
    "What", "When", "Where", "Which", "While", "With", "The", "And", "But", "For", "Not", "His", "Her",
    "Its", "She", "Our", "You", "One", "Two", "All", "How", "Who", "Why",
}  # fmt: skip


def names_in(words: Iterable[str]) -> list[str]:
    """The capitalised words of more than two letters, without punctuation, except common sentence openers."""
    cores = [NON_WORD.sub("", word) for word in words if word[:1].isupper()]
    return [core for core in cores if len(core) > 2 and core not in NOT_NAMES]


TWIN_SHARE = 0.35
TITLED_SHARE = 0.7
CITATION_MARK_SHARE = 0.06


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of a prompt; ``title`` is None if it has none, and ``page`` is the page it was taken from."""

    title: str | None
    sentences: tuple[str, ...]
    page: Page

    @property
    def text(self) -> str:
        """The passage's body as the prompt shows it."""
        return " ".join(self.sentences)


def draw_passages(corpus: Corpus, rng: random.Random, *, char_budget: int) -> list[Passage]:
    """At least two passages in random order, with about ``char_budget`` characters in total.

    In two out of five cases, long rows consist of one-sentence passages in the order of their page.
    """
    if char_budget > 3000 and rng.random() < 0.4:
        return draw_sentence_passages(corpus, rng, char_budget=char_budget)
    passages: list[Passage] = []
    chars = 0
    base, most_sentences = corpus.random_page(rng), rng.choice([1, 2, 3, 3, 4, 6])
    titled_share = rng.choice([0.0, TITLED_SHARE, 1.0, 1.0])
    while len(passages) < 2 or chars < char_budget:
        if passages and rng.random() < TWIN_SHARE:
            passages.append(twin_of(rng.choice(passages), corpus, rng))
        else:
            page = base if rng.random() < 0.6 else corpus.random_page(rng)
            title = page.title if rng.random() < titled_share else None
            passages.append(Passage(title, draw_sentences(page, rng, most=most_sentences), page))
        chars += len(passages[-1].text) + len(passages[-1].title or "") + 3
    rng.shuffle(passages)
    return passages


def draw_sentences(page: Page, rng: random.Random, *, most: int) -> tuple[str, ...]:
    """1 to ``most`` consecutive sentences of one paragraph."""
    sentences = rng.choice(page.paragraphs)
    count = rng.randint(1, most)
    start = rng.randrange(max(1, len(sentences) - count + 1))
    return tuple(with_citation_mark(sentence, rng) for sentence in sentences[start : start + count])


def draw_sentence_passages(corpus: Corpus, rng: random.Random, *, char_budget: int) -> list[Passage]:
    """Untitled passages of one sentence each, taken in order from one page after another."""
    passages: list[Passage] = []
    chars = 0
    while chars < char_budget:
        page = corpus.random_page(rng)
        for sentence in (sentence for paragraph in page.paragraphs for sentence in paragraph):
            if chars >= char_budget or rng.random() < 0.01:
                break
            passages.append(Passage(None, (with_citation_mark(sentence, rng),), page))
            chars += len(sentence)
            if rng.random() < 0.05:
                passages.append(twin_of(passages[-1], corpus, rng))
                chars += len(sentence)
    return passages if len(passages) > 1 else [*passages, twin_of(passages[0], corpus, rng)]


def with_citation_mark(sentence: str, rng: random.Random) -> str:
    """The sentence, sometimes preceded by a mark such as ``[3]``."""
    return f"[{rng.randint(1, 30)}] {sentence}" if rng.random() < CITATION_MARK_SHARE else sentence


def twin_of(passage: Passage, corpus: Corpus, rng: random.Random) -> Passage:
    """A passage that says the same about others: names and numbers are exchanged, consistently within the passage."""
    donors = names_in(corpus.random_words(rng, 120))
    exchanged: dict[str, str] = {}
    names, numbers = rng.choice([(0.6, 0.8), (0.9, 0.9), (0.3, 0.5), (0.0, 1.0)])

    def exchange(text: str) -> str:
        return " ".join(exchange_word(word, rng, exchanged, donors, (names, numbers)) for word in text.split(" "))

    title = None if passage.title is None else exchange(passage.title)
    return Passage(title, tuple(exchange(sentence) for sentence in passage.sentences), passage.page)


def exchange_word(
    word: str, rng: random.Random, exchanged: dict[str, str], donors: list[str], shares: tuple[float, float]
) -> str:
    """``word``, with its core replaced at random if it is a name or a number; ``shares`` are the two probabilities."""
    if word.islower():
        return word
    core = NON_WORD.sub("", word)
    if core.isdecimal() and rng.random() < shares[1]:
        return word.replace(core, exchanged.setdefault(core, other_number(core, rng)))
    if len(core) > 3 and core[0].isupper() and core not in NOT_NAMES and donors and rng.random() < shares[0]:
        return word.replace(core, exchanged.setdefault(core, rng.choice(donors)))
    return word


def other_number(number: str, rng: random.Random) -> str:
    """A number with the same number of digits; a year stays a year."""
    if len(number) == 4:
        return str(rng.randrange(1500, 2025))
    return str(rng.randrange(10 ** min(len(number) - 1, 8), 10 ** min(len(number), 9)))
