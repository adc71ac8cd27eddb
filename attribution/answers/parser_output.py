"""From a parser's tokens to the words and sentences of an answer, and from these to the model's tokens and back.

1. A parser that reads characters attaches one to its neighbour as ``subtok``; such characters form one word.
2. Sentences are joined if no mark separates them, and each gets its closing quote. None grows too long.
3. The parses of an answer's blocks become one ``ParsedAnswer``.
4. The words of a token, and the tokens of a set of words, are found by code points (Appendix B).

No parser reads other texts than answers: their sentences are found by marks and lines alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.citation_marks import CitationMark
from attribeam.attribution.answers.markup import range_overlapping
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.plain_text import remembered
from attribeam.attribution.answers.target_spans import has_letter_or_digit
from attribeam.schemas import CharRange

SUBTOKEN_LABEL = "subtok"
"""The label of a token whose word goes on with the next token, as in spaCy's ``merge_subtokens``."""


@dataclass(frozen=True, slots=True)
class ParsedTokens:
    """The tokens of one block: parallel lists; ``starts`` are the first tokens of the sentences, ascending."""

    ranges: Sequence[CharRange]
    forms: Sequence[str]
    heads: Sequence[int]
    labels: Sequence[str]
    universal_tags: Sequence[str]
    fine_tags: Sequence[str]
    starts: Sequence[int]

    def whole_words(self) -> ParsedTokens:
        """The same with words in place of tokens: a run of ``subtok`` and the token behind it, within one sentence.

        The last token represents the word; a word whose head lies within itself is a root.
        """
        if SUBTOKEN_LABEL not in self.labels:
            return self
        runs = word_runs(self.labels, self.starts)
        word_of = [word for word, run in enumerate(runs) for _ in run]
        lasts = [run[-1] for run in runs]
        heads = [word_of[self.heads[last]] for last in lasts]
        return ParsedTokens(
            ranges=[CharRange(self.ranges[run[0]].char_start, self.ranges[run[-1]].char_end) for run in runs],
            forms=["".join(self.forms[token] for token in run) for run in runs],
            heads=heads,
            labels=["root" if heads[word] == word else self.labels[last] for word, last in enumerate(lasts)],
            universal_tags=[self.universal_tags[last] for last in lasts],
            fine_tags=[self.fine_tags[last] for last in lasts],
            starts=[word_of[start] for start in self.starts],
        )


def word_runs(labels: Sequence[str], starts: Sequence[int]) -> list[range]:
    """The tokens of each word; a word never continues in the next sentence."""
    ends = {end - 1 for _, end in pairwise((*starts, len(labels)))}
    runs, first = [], 0
    for token, label in enumerate(labels):
        if label != SUBTOKEN_LABEL or token in ends:
            runs.append(range(first, token + 1))
            first = token + 1
    return runs


_END_MARKS = frozenset(".!?:;…。！？：；।؟۔")
_WIDE_END_MARKS = frozenset("。！？…")
_WIDE_CLOSING = "」』）】》〉"
_AFTER_END = "\"'”’»)]}*_" + _WIDE_CLOSING
_BEFORE_MORE = frozenset(
    (
        "dr.", "mr.", "mrs.", "ms.", "prof.", "rev.", "gen.", "col.", "capt.", "lt.", "sgt.", "sen.", "rep.", "gov.",
        "hon.", "st.", "mt.", "messrs.", "mme.", "mlle.", "vs.", "cf.", "e.g.", "i.e.", "viz.", "ca.", "approx.",
        "fig.", "figs.", "eq.", "eqs.", "vol.", "vols.", "pp.",
    )
)  # fmt: skip
_BEFORE_NUMBERS = frozenset(
    (
        "no.", "nos.", "ch.", "sec.", "art.", "jan.", "feb.", "mar.", "apr.", "jun.", "jul.", "aug.", "sep.", "sept.",
        "oct.", "nov.", "dec.",
    )
)  # fmt: skip


def sentence_ends(words: Sequence[str]) -> list[bool]:
    """Whether a sentence may end with each word.

    It may if the word ends with a mark that ends sentences and is not a title or another abbreviation that needs a
    continuation ("Dr.", "e.g.", "No. 12"), even if the parser takes the full stop for a word of its own. A word of
    only closing quotes and brackets follows the word before it.
    """
    ends: list[bool] = []
    for place, word in enumerate(words):
        bare = word.rstrip(_AFTER_END)
        if not bare:
            ends.append(bool(ends) and ends[-1])
            continue
        if bare[-1] not in _END_MARKS:
            ends.append(False)
            continue
        whole = (words[place - 1] + bare if bare == "." and place else bare).lower()
        numbered = whole in _BEFORE_NUMBERS and "".join(words[place + 1 : place + 2])[:1].isdigit()
        ends.append(whole not in _BEFORE_MORE and not numbered)
    return ends


def closing_marks(words: Sequence[str], *, spaced: Sequence[bool]) -> list[bool]:
    """Whether each word consists only of closing quotes and brackets, bound to the word before and not to the next.

    In text without blanks the marks show this: a bracket that only closes, or a quote behind "。".

    Args:
        words: the words of one block.
        spaced: for each word whether white space follows it; the last one counts as spaced.
    """
    last = len(words) - 1
    return [
        place > 0
        and not spaced[place - 1]
        and not word.rstrip(_AFTER_END)
        and (spaced[place] or place == last or _closes_wide(words[place - 1], word))
        for place, word in enumerate(words)
    ]


def _closes_wide(before: str, word: str) -> bool:
    return before[-1] in _WIDE_END_MARKS or not word.rstrip(_WIDE_CLOSING)


LONGEST_SENTENCE = 256
"""Words. Of 10,636 sentences in real answers the longest has 116; text without marks may have any number."""


def cut_long_sentences(
    heads: Sequence[int], labels: Sequence[str], starts: Sequence[int], *, ended: Sequence[bool]
) -> tuple[list[int], list[str], list[int]]:
    """Heads, labels and sentence starts of a block, each sentence of the parser within ``LONGEST_SENTENCE`` words.

    A longer one is cut after the last word that may end a sentence, else after so many words. A word whose head is
    then in another piece becomes a root. The arguments are those of ``join_unended_sentences``.
    """
    cut: list[int] = []
    for start, end in pairwise((*starts, len(heads))):
        cut.append(start)
        while end - cut[-1] > LONGEST_SENTENCE:
            place = cut[-1] + LONGEST_SENTENCE
            cut.append(next((word + 1 for word in range(place - 1, cut[-1], -1) if ended[word]), place))
    if len(cut) == len(starts):
        return list(heads), list(labels), cut
    inside = heads_from_distances([head - word for word, head in enumerate(heads)], cut)
    roots = ["root" if head == word else label for word, (head, label) in enumerate(zip(inside, labels, strict=True))]
    return inside, roots, cut


def join_unended_sentences(
    heads: Sequence[int], labels: Sequence[str], starts: Sequence[int], *, ended: Sequence[bool]
) -> tuple[list[int], list[str], list[int]]:
    """The heads, labels and sentence starts of a block, with sentences joined if no word between them ends one.

    Args:
        heads: index of each word's head; a root is its own head.
        labels: one per word.
        starts: index of each sentence's first word, ascending.
        ended: for each word whether a sentence may end with it.

    If a sentence is joined to the one before it, its root becomes a ``parataxis`` of the earlier root. Sentences that
    would have more than ``LONGEST_SENTENCE`` words together stay apart.
    """
    joined_heads, joined_labels = list(heads), list(labels)
    kept: list[int] = []
    root = 0
    for start, end in zip(starts, (*starts[1:], len(heads)), strict=True):
        roots = [word for word in range(start, end) if heads[word] == word]
        if not kept or ended[start - 1] or end - kept[-1] > LONGEST_SENTENCE:
            kept.append(start)
            root = roots[0]
            continue
        for word in roots:
            joined_heads[word], joined_labels[word] = root, "parataxis"
    return joined_heads, joined_labels, kept


def attach_closing_marks(
    heads: Sequence[int], labels: Sequence[str], starts: Sequence[int], *, closing: Sequence[bool]
) -> tuple[list[int], list[str], list[int]]:
    """The same lists, with closing marks at the start of a sentence moved to the sentence before it.

    Args:
        heads, labels, starts: as of ``join_unended_sentences``.
        closing: for each word whether it is a closing mark.

    Such a mark becomes a ``punct`` of the earlier sentence's root; words that depended on it become roots.
    """
    moved_heads, moved_labels = list(heads), list(labels)
    kept: list[int] = []
    for start, end in zip(starts, (*starts[1:], len(heads)), strict=True):
        first = start
        while kept and first < end and closing[first]:
            first += 1
        root = next((word for word in range(kept[-1], start) if moved_heads[word] == word), start) if kept else start
        for word in range(start, end):
            if word < first:
                moved_heads[word], moved_labels[word] = root, "punct"
            elif start <= heads[word] < first:
                moved_heads[word], moved_labels[word] = word, "root"
        if first < end:
            kept.append(first)
    return moved_heads, moved_labels, kept


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """The fields of ``ParsedAnswer`` for one block; code points count within the answer, words within the block."""

    words: list[CharRange]
    dependency_heads: list[int]
    dependency_labels: list[str]
    universal_tags: list[str]
    fine_tags: list[str]
    sentence_starts: list[int]
    cut_starts: list[int]
    entities: list[CharRange]


def join_blocks(
    parsed: Sequence[ParsedBlock], *, label_scheme: str, marks: tuple[CitationMark, ...] = ()
) -> ParsedAnswer:
    """The answer made of all its blocks, which ascend and do not overlap, and its marks."""
    first_words = [0]
    for block in parsed:
        first_words.append(first_words[-1] + len(block.words))
    pairs = list(zip(first_words, parsed, strict=False))
    return ParsedAnswer(
        words=tuple(word for _, block in pairs for word in block.words),
        dependency_heads=tuple(first + head for first, block in pairs for head in block.dependency_heads),
        dependency_labels=tuple(label for _, block in pairs for label in block.dependency_labels),
        universal_tags=tuple(tag for _, block in pairs for tag in block.universal_tags),
        fine_tags=tuple(tag for _, block in pairs for tag in block.fine_tags),
        sentence_starts=tuple(first + start for first, block in pairs for start in block.sentence_starts),
        cut_starts=tuple(first + start for first, block in pairs for start in block.cut_starts),
        entities=tuple(entity for _, block in pairs for entity in block.entities),
        label_scheme=label_scheme,
        marks=marks,
    )


def heads_from_distances(distances: Sequence[int], starts: Sequence[int]) -> list[int]:
    """Index of each word's head from its distance; a word whose head is in another sentence becomes a root."""
    heads: list[int] = []
    for start, end in pairwise((*starts, len(distances))):
        for word in range(start, end):
            head = word + distances[word]
            heads.append(head if start <= head < end else word)
    return heads


def tag_code_as_names(tags: list[str], words: Sequence[CharRange], code: Sequence[CharRange]) -> list[str]:
    """The tags, with a name's tag for every word in a range of ``code``."""
    if not code:
        return tags
    return ["PROPN" if range_overlapping(word, code) else tag for tag, word in zip(tags, words, strict=True)]


_Places = npt.NDArray[np.intp]


class WordTokenAlignment:
    """phi and psi of Appendix B for one answer.

    Words ascend and do not overlap. Tokens ascend, cover at least one code point each, and may overlap (the bytes of
    one emoji). A token of only white space, or of a mark that is not a word, has no words.
    """

    def __init__(
        self,
        *,
        words: Sequence[CharRange],
        token_char_start: npt.NDArray[np.int32],
        token_char_end: npt.NDArray[np.int32],
    ) -> None:
        self._starts, self._ends = token_char_start, token_char_end
        self.token_count = len(token_char_start)
        word_starts, word_ends = _bounds(words)
        first_words = np.searchsorted(word_ends, self._starts, side="right").tolist()
        end_words = np.searchsorted(word_starts, self._ends, side="left").tolist()
        self.words_of_tokens: list[range] = [range(*run) for run in zip(first_words, end_words, strict=True)]
        """phi: for each token the smallest run of words that covers it, empty where it lies in none."""
        first_tokens, end_tokens = (places.tolist() for places in self._token_runs(word_starts, word_ends))
        self._tokens_of_words = [range(*run) for run in zip(first_tokens, end_tokens, strict=True)]

    def tokens_of_ranges(self, ranges: Sequence[CharRange]) -> tuple[_Places, _Places]:
        """For each range, the half-open run of tokens that share a code point with it: firsts and ends."""
        return self._token_runs(*_bounds(ranges))

    def tokens_of_words(self, words: Iterable[int]) -> list[int]:
        """psi: the smallest set of tokens that covers these words, ascending."""
        return sorted({token for word in words for token in self._tokens_of_words[word]})

    def _token_runs(self, starts: _Places, ends: _Places) -> tuple[_Places, _Places]:
        firsts = np.searchsorted(self._ends, starts, side="right")
        return firsts, np.maximum(firsts, np.searchsorted(self._starts, ends, side="left"))


def _bounds(ranges: Sequence[CharRange]) -> tuple[_Places, _Places]:
    starts = np.array([one.char_start for one in ranges], dtype=np.intp)
    return starts, np.array([one.char_end for one in ranges], dtype=np.intp)


_LINE = re.compile(r"[^\r\n]+")
_WORD = re.compile(r"""[^\s。！？；：]*[。！？；：]+["'”’»)\]」』）】]*|\S+""")
_CLAUSE_MARKS = (":", ";", "：", "；")
_CLOSING = "\"'”’»)]}*_」』）】"


@remembered
def text_sentences(text: str) -> tuple[CharRange, ...]:
    """The sentences of a text, ascending, without white space at their edges.

    They end where a parse ends sentences, at colons and semicolons, and at the end of each line.
    """
    return tuple(one for line in _LINE.finditer(text) for one in _line_sentences(text, line, at_clauses=True))


@remembered
def whole_sentences(text: str) -> tuple[CharRange, ...]:
    """Like ``text_sentences``, but no sentence ends at a colon or semicolon, and all contain a letter or digit."""
    found = [one for line in _LINE.finditer(text) for one in _line_sentences(text, line, at_clauses=False)]
    return tuple(one for one in found if has_letter_or_digit(one.of(text)))


def _line_sentences(text: str, line: re.Match[str], *, at_clauses: bool) -> Iterator[CharRange]:
    words = list(_WORD.finditer(text, line.start(), line.end()))
    forms = [word.group() for word in words]
    first = 0
    for place, ended in enumerate(sentence_ends(forms)):
        is_end = ended and (at_clauses or not forms[place].rstrip(_CLOSING).endswith(_CLAUSE_MARKS))
        if is_end or place == len(words) - 1:
            yield CharRange(words[first].start(), words[place].end())
            first = place + 1
