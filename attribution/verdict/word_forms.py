"""Words as the verdict compares them: stems, content, clauses, negations, and how rare or alike English words are."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from safetensors import SafetensorError
from safetensors.numpy import load

from attribeam.attribution.answers.parsed_answer import ParsedAnswer, sentence_bounds, sentence_tree
from attribeam.attribution.answers.plain_text import FUNCTION_WORDS
from attribeam.schemas.errors import DataError
from attribeam.schemas.json_file import Form, read_form, read_regular

WORD_OR_MARK = re.compile(r"(?:\d+(?:[.,]\d+)+|\d{1,2}:(?!00)\d\d)(?![^\W_])|[^\W_]+(?:['’][^\W_]+)?|[^\w\s]|_")

_STEM_LETTERS = 6
_KNOWN_WORDS = 2**15
"""How many words' forms are remembered: texts repeat their words."""
_POSSESSIVES = ("'s", "’s")
_AMOUNT = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


def word_set(text: str) -> frozenset[str]:
    """The words of a text that are separated by white space."""
    return frozenset(text.split())


NEGATIONS = word_set("not no never n't without none neither nor unable lack lacks")
_OPPOSITES = """
up upper above over higher high: down lower below under beneath low; before earlier early: after later late; first:
last; more most many all every: less fewer least few none; rise rises rose risen rising increase increases increased
increasing grow grows grew grown growing climb climbs climbed gain gains gained raise raises raised up: fall falls
fell fallen falling decrease decreases decreased decreasing decline declines declined declining drop drops dropped
shrink shrinks shrank lose loses lost cut cuts down; expand expands expanded: shrink shrinks shrank contract contracts
contracted; win wins won: lose loses lost; profit profits: loss losses; open opens opened: close closes closed shut;
include includes included including: exclude excludes excluded excluding; allowed permitted allows permits may:
forbidden prohibited banned forbids prohibits; with: without; always often: never rarely seldom; everyone everybody:
nobody; free: paid; cheap cheaper cheapest: expensive dearer dearest; large larger largest big bigger biggest: small
smaller smallest; long longer longest: short shorter shortest; old older oldest: young younger youngest new newer
newest; fast faster fastest quick quicker quickly: slow slower slowest slowly; loud louder: quiet quieter; hot hotter
warm warmer: cold colder cool cooler; north northern: south southern; east eastern: west western; left: right; buy
buys bought: sell sells sold; accept accepts accepted: reject rejects rejected refuse refuses refused; agree agrees
agreed: disagree disagrees disagreed; approve approves approved: reject rejects rejected; safe: dangerous unsafe;
strong stronger: weak weaker; heavy heavier: light lighter; wet: dry; full: empty; male man men: female woman women;
father: mother; son: daughter; brother: sister; husband: wife; start starts started begin begins began: end ends ended
stop stops stopped finish finishes finished; enter enters entered: leave leaves left exit exits; arrive arrives
arrived: leave leaves left depart departs departed; day: night; morning: evening; summer: winter; spring: autumn;
indoor indoors inside: outdoor outdoors outside; import imports imported: export exports exported; maximum: minimum;
majority: minority; same: different; possible: impossible; required mandatory compulsory: optional voluntary; known:
unknown; likely: unlikely; legal: illegal; public: private; success: failure; succeed succeeds succeeded: fail fails
failed; pass passes passed: fail fails failed; improve improves improved better best: worsen worsens worsened worse
worst; positive: negative; support supports supported: oppose opposes opposed; remember: forget; add adds added:
remove removes removed; enable enables enabled: disable disables disabled; lend lends lent: borrow borrows borrowed;
sunrise: sunset; strengthen strengthens strengthened: weaken weakens weakened; employer: employee
"""


def _both_ways(text: str) -> dict[str, frozenset[str]]:
    found: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for entry in text.split(";"):
        sides = [*map(word_set, entry.split(":"))]
        for words, opposites in (sides, sides[::-1]):
            for word in words:
                found[word] |= opposites
    return dict(found)


OPPOSITES = _both_ways(_OPPOSITES)
"""Words of opposite meaning, each with its opposites."""
MODALS = word_set("can could may might should must will would")


@lru_cache(maxsize=_KNOWN_WORDS)
def stem(word: str) -> str:
    """The first six letters in lower case, without a possessive ending; of a number what it amounts to.

    So "1,250.50" is "1250.5", and "4.8.2" stays as it is.
    """
    word = word.lower()
    if word[:1].isdigit():
        return _amount(word)
    return (word[:-2] if word.endswith(_POSSESSIVES) else word)[:_STEM_LETTERS]


def _amount(number: str) -> str:
    if _AMOUNT.fullmatch(number) is None:
        return number
    whole, _, decimals = number.replace(",", "").partition(".")
    decimals = decimals.rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


@lru_cache(maxsize=_KNOWN_WORDS)
def carries_content(word: str) -> bool:
    """True for words of three letters and more that are no function words, and for everything with a digit."""
    word = word.lower()
    if any(one.isdigit() for one in word):
        return True
    return len(word) > 2 and word[0].isalpha() and word not in FUNCTION_WORDS


_BREAKS = frozenset(["but", "however", "although", "though", "while", "whereas", "yet", "despite", ";"])
_SUBJECTS = word_set("the it they there customers he she we this its their")
_AFTER_AND = _SUBJECTS | word_set("has have is are does do offers offer provides provide takes accepts features")
DENIALS = NEGATIONS | word_set("unavailable absent absence closed cannot except excluding lacking limited")


class AnswerWords:
    """One parsed answer.

    Attributes:
        texts, lowered, stems: each word as it is written, in lower case, and its stem.
        content: whether each word carries content.
        bounds: half-open word ranges of the sentences.
        sentences: the sentence that each word stands in.
        clauses: the words of each clause: those whose closest predicate is the same.
        clause_of: the clause that each word belongs to.
        heads: the head of each word, with conjuncts on the first conjunct.
        is_word: False for marks.
    """

    def __init__(self, parsed: ParsedAnswer, answer: str) -> None:
        self.parsed = parsed
        self.answer = answer
        self.texts = [chars.of(answer) for chars in parsed.words]
        self.lowered = [text.lower() for text in self.texts]
        self.stems = [stem(text) for text in self.texts]
        self.is_word = [any(one.isalnum() for one in text) for text in self.texts]
        self.content = [carries_content(text) for text in self.texts]
        self.bounds = sentence_bounds(parsed)
        self.sentences = [0] * len(self.texts)
        self.heads = list(range(len(self.texts)))
        self.clause_of = [0] * len(self.texts)
        clauses: dict[tuple[int, int | None], list[int]] = {}
        for sentence, (start, end) in enumerate(self.bounds):
            tree = sentence_tree(parsed, start, end)
            for word in range(start, end):
                self.sentences[word] = sentence
                self.heads[word] = tree.heads[word - start] + start
                clauses.setdefault((sentence, tree.closest_predicate(word - start)), []).append(word)
        self.clauses = list(clauses.values())
        for index, words in enumerate(self.clauses):
            for word in words:
                self.clause_of[word] = index

    def __len__(self) -> int:
        return len(self.texts)

    def content_of(self, words: range | list[int]) -> list[int]:
        """Those of the words that carry content."""
        return [word for word in words if self.content[word]]

    def content_head(self, word: int) -> int | None:
        """The closest ancestor that carries content, None if there is none."""
        head = self.heads[word]
        while not self.content[head] and self.heads[head] != head:
            head = self.heads[head]
        return head if head != word and self.content[head] else None

    def denied_words(self) -> list[bool]:
        """Whether each word stands in a part of a sentence that denies something.

        A part ends at a conjunction of contrast, and before a new subject or verb after a comma or "and".
        """
        part = 0
        parts = [0] * len(self.texts)
        for start, end in self.bounds:
            part += 1
            for word in range(start, end):
                part += self._begins_part(word, end)
                parts[word] = part
        denying: defaultdict[int, bool] = defaultdict(bool)
        for word, text in enumerate(self.lowered):
            denying[parts[word]] |= text in DENIALS
        return [denying[one] for one in parts]

    def _begins_part(self, word: int, end: int) -> bool:
        text = self.lowered[word]
        following = self.lowered[word + 1] if word + 1 < end else ""
        return (
            text in _BREAKS or (text == "," and following in _SUBJECTS) or (text == "and" and following in _AFTER_AND)
        )


_STEMS, _VECTORS = WORD_FILES = "word_table.json", "word_vectors.safetensors"
_EVERY_WORD_COUNTS = 0.5
_MOST_DOCUMENTS = 10**12


class TableForm(Form):
    """Words and stems in a file: those with vectors in the order of the vectors, stems by their document frequency."""

    documents: Annotated[int, Field(ge=1, le=_MOST_DOCUMENTS)]
    words: str
    frequencies: dict[Annotated[str, Field(pattern="^[0-9]{1,13}$")], str]

    @model_validator(mode="after")
    def _check(self) -> Self:
        most = max(map(int, self.frequencies), default=0)
        if most > self.documents:
            raise ValueError(f"frequencies should be at most {self.documents}, the number of documents, has {most}")
        return self


class WordTable:
    """Document frequencies of stems, and unit vectors of words.

    Attributes:
        vectors: float32, (words, dimensions), rows of length 1.
    """

    def __init__(
        self, *, documents: int, frequencies: Mapping[str, int], words: Sequence[str], vectors: npt.NDArray[np.float32]
    ) -> None:
        self.vectors = vectors
        self._documents = documents
        self._rarities = {one: self._rarity_of(count) for one, count in frequencies.items()}
        self._rarest = self._rarity_of(1)
        self._weights = {one: rarity + _EVERY_WORD_COUNTS for one, rarity in self._rarities.items()}
        self._rows = {word: row for row, word in enumerate(words) if carries_content(word)}

    def rarity(self, word_stem: str) -> float:
        """The inverse document frequency of a stem: ln((documents + 1) / (documents with it + 1))."""
        return self._rarities.get(word_stem, self._rarest)

    def weight(self, word_stem: str) -> float:
        """What a stem counts in a share of words: its rarity plus one half."""
        return self._weights.get(word_stem, self._rarest + _EVERY_WORD_COUNTS)

    def _rarity_of(self, documents: int) -> float:
        return math.log((self._documents + 1) / (documents + 1))

    def rows(self, words: Iterable[str]) -> npt.NDArray[np.int64]:
        """int64 [words]: the row of each word in lower case, -1 if it has no vector or carries no content."""
        return np.array([*map(self._rows.get, words, repeat(-1))], dtype=np.int64)

    @classmethod
    def from_directory(cls, directory: Path) -> WordTable:
        """Read a table that ``save`` wrote.

        Raises:
            DataError: if a file is missing, or does not hold what it should.
        """
        form = read_form(directory / _STEMS, TableForm)
        words = form.words.split()
        scaled = _read_vectors(directory / _VECTORS, len(words))
        return cls(
            documents=form.documents,
            frequencies={one: int(count) for count, stems in form.frequencies.items() for one in stems.split()},
            words=words,
            vectors=scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-6),
        )


def _read_vectors(file: Path, count: int) -> npt.NDArray[np.float32]:
    """A row of small whole numbers for each of the ``count`` words."""
    try:
        found = load(read_regular(file))["vectors"]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file} should be a safetensors file with the tensor 'vectors': {error}") from error
    if found.dtype != np.int8 or found.ndim != 2 or len(found) != count:
        raise DataError(
            f"{file} should have int8 vectors of {count} words, has {found.dtype} of the shape {found.shape}; copy it "
            f"again, together with {_STEMS}"
        )
    return found.astype(np.float32)


@lru_cache(maxsize=4)
def word_table(directory: Path) -> WordTable:
    """The table of a directory, read once."""
    return WordTable.from_directory(directory)
