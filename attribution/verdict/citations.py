"""Which passages an answer cites for a claim, whether its evidence lies there, and what stands literally in a text.

Texts are compared in any script and without a model, as sequences of units: words, or single characters in scripts that
put no space between words. Case, accents, vowel points, compatibility forms, marks and white space make no difference.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TypeAlias

from attribeam.attribution.answers.citation_marks import CitationMark
from attribeam.attribution.answers.citation_pointers import passage_references
from attribeam.attribution.answers.markup import hide_ranges
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.plain_text import FUNCTION_WORDS, remembered, visible
from attribeam.schemas import CharRange, Passage, QARecord, SpanEvidence

_WORDS_IN_A_RUN, _CHARACTERS_IN_A_RUN = 3, 6
_SEARCHES_WITHOUT_INDEX = 100
_SPACELESS = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U000323af"
)
"""Thai, Lao, Tibetan, Burmese, Khmer, kana and Han characters."""
_IS_SPACELESS = re.compile(f"[{_SPACELESS}]")
_ASCII_UNITS = bytes(code if chr(code).isalnum() else ord(" ") for code in range(128)).decode().lower()
"""What each ASCII character is in a unit: its lower case, a blank for those that stand in none."""
_ACCENTS = frozenset((*range(10, 36), *range(200, 241)))
"""Canonical combining classes of accents, and of Hebrew and Arabic vowel points."""

Run: TypeAlias = tuple[str, ...]


class LiteralIndex:
    """The passages of one row. The first spans are searched for in the texts; for more of them, or to find copied runs,
    the texts are indexed by their runs of units, and then every span is looked up in time of its length.

    A passage's title counts as part of it, but no run crosses from the title into the text.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages, self._searches = passages, 0

    @cached_property
    def _parts(self) -> list[tuple[tuple[list[str], str], ...]]:
        return [(_units_of_text(passage.title or ""), _units_of_text(passage.text)) for passage in self._passages]

    @cached_property
    def _joined(self) -> list[str]:
        return ["\n".join(joined for _, joined in parts) for parts in self._parts]

    @cached_property
    def _passages_of(self) -> dict[Run, int]:
        """For each run of units, and each unit, the passages that have it, as bits."""
        bits: dict[Run, int] = {}
        for index, parts in enumerate(self._parts):
            for run in {run for units, _ in parts for run in (*_runs(units), *zip(units)) if run}:
                bits[run] = bits.get(run, 0) | 1 << index
        return bits

    def literal_passages(self, text: str) -> tuple[int, ...]:
        """The passages in which all units of a text stand one after the other, ascending; none for a text without."""
        units = comparable_units(text)
        if not units:
            return ()
        self._searches += 1
        possible: Iterable[int] = range(len(self._joined))
        if self._searches > _SEARCHES_WITHOUT_INDEX:
            bits = (1 << len(self._joined)) - 1
            for run in (*filter(None, _runs(units)), *zip(units)):
                bits &= self._passages_of.get(run, 0)
            possible = _indices(bits)
        wanted = _joined(units)
        return tuple(index for index in possible if wanted in self._joined[index])

    def copied(self, text: str, *, preferred: int | None = None) -> tuple[float, int | None]:
        """How much of a text is copied, and from which passage; (0, None) where nothing is.

        That is the largest share of its units that lie in runs of three words (six characters) of one passage. A text
        that is shorter than a run is one run. Of passages with equal shares the ``preferred`` one is named, else the
        first.
        """
        units = comparable_units(text)
        runs = _runs(units)
        if not any(runs):
            literal = self.literal_passages(text)
            return (1.0, preferred if preferred in literal else literal[0]) if literal else (0.0, None)
        counts, ends = Counter[int](), Counter[int]()
        for start, run in enumerate(runs):
            end = start + len(run)
            for index in _indices(self._passages_of.get(run, 0)):
                counts[index] += end - max(start, ends[index])
                ends[index] = end
        best = min(counts, key=lambda index: (-counts[index], index != preferred, index), default=None)
        return (0.0, None) if best is None else (counts[best] / len(units), best)


def comparable_units(text: str) -> list[str]:
    """The words of a text, or characters where the script has no spaces, in the form in which they are compared."""
    text = visible(text)
    if text.isascii():
        return text.translate(_ASCII_UNITS).split()
    units: list[str] = []
    for chunk in text.split():
        if chunk.isascii():
            units += (chunk.lower(),) if chunk.isalnum() else chunk.translate(_ASCII_UNITS).split()
        else:
            units += map(_comparable, _units().findall(chunk))
    return units


@remembered
def _units_of_text(text: str) -> tuple[list[str], str]:
    """The units of a title or text, and these joined."""
    units = comparable_units(text)
    return units, _joined(units)


def _runs(units: Sequence[str]) -> list[Run]:
    """The run that begins at each unit, empty where the text ends before it."""
    spaceless = [unit[0] > "\u0e00" and _IS_SPACELESS.match(unit) is not None for unit in units]
    if not any(spaceless):
        rest = min(len(units), _WORDS_IN_A_RUN - 1)
        return [*zip(*(units[start:] for start in range(_WORDS_IN_A_RUN)), strict=False), *[()] * rest]
    ends = (start + (_CHARACTERS_IN_A_RUN if flag else _WORDS_IN_A_RUN) for start, flag in enumerate(spaceless))
    return [tuple(units[start:end]) if end <= len(units) else () for start, end in enumerate(ends)]


def _joined(units: Sequence[str]) -> str:
    return f" {' '.join(units)} "


def _indices(bits: int) -> list[int]:
    """The places of the bits that are set, ascending."""
    indices = []
    while bits:
        lowest = bits & -bits
        indices.append(lowest.bit_length() - 1)
        bits ^= lowest
    return indices


@lru_cache(maxsize=1)
def _units() -> re.Pattern[str]:
    """Words with their combining marks, which Python's own ``\\w`` leaves out, and characters of spaceless scripts."""
    marks = "".join(map(chr, (code for code in range(0x300, 0x1E000) if unicodedata.category(chr(code))[0] == "M")))
    return re.compile(rf"[{_SPACELESS}][{marks}]*|(?:(?![{_SPACELESS}])[^\W_]|[{marks}])+")


@lru_cache(maxsize=65_536)
def _comparable(unit: str) -> str:
    if unit.isascii():
        return unit.lower()
    letters = unicodedata.normalize("NFKD", unit.casefold())
    plain = (letter for letter in letters if unicodedata.combining(letter) not in _ACCENTS)
    return unicodedata.normalize("NFKC", "".join(plain)) or unit


def with_citations(record: QARecord, parsed: ParsedAnswer, spans: Sequence[SpanEvidence]) -> tuple[SpanEvidence, ...]:
    """The records with what the answer cites for their claims, and whether their best passages include one of these.

    The best passages of a claim are the one with the largest score and those that repeat the claim word by word. A
    record that takes its verdict from a claim has what its claim has; one without a claim cites nothing.
    """
    citations = _Citations(record, parsed)
    if not citations.cites:
        return tuple(spans)
    claims = [span for span in spans if span.claim_index == span.span_index]
    cited = {span.span_index: citations.of(span.chars) for span in claims}
    if not any(cited.values()):
        return tuple(spans)
    literal = LiteralIndex(record.passages)
    agrees: dict[int, bool] = {}
    for span in claims:
        if cited[span.span_index]:
            best = (span.top_passage_index, *literal.literal_passages(span.chars.of(citations.stated)))
            agrees[span.span_index] = any(passage in best for passage in cited[span.span_index])
    return tuple(
        span
        if span.claim_index is None
        else replace(span, cited_passages=cited[span.claim_index], citation_agrees=agrees.get(span.claim_index))
        for span in spans
    )


class _Citations:
    """The marks of one answer, and its words that name a passage ("passage 3"), by where they stand.

    Marks with nothing but punctuation between them are one. ``stated`` is the answer with blanks for its marks;
    ``cites`` says whether there is anything.
    """

    def __init__(self, record: QARecord, parsed: ParsedAnswer) -> None:
        self.stated = hide_ranges(record.answer, parsed.marked)
        self._starts = [parsed.words[start].char_start for start in parsed.sentence_starts] if parsed.words else []
        self._marks = self._grouped([mark for mark in parsed.marks if not mark.closes])
        references = passage_references(self.stated, record.passages)
        self._references = self._grouped([CitationMark(named.chars, (named.passage_index,)) for named in references])
        self._closing = [mark for mark in parsed.marks if mark.closes]
        self.cites = bool(parsed.marks or references)

    def of(self, claim: CharRange) -> tuple[int, ...]:
        """The passages that the claim's own marks name, else words of its sentence, else a list behind it.

        A claim's own marks lie within it, or are the first behind it in its sentence or right behind that; where there
        are none, a mark counts that stands before the sentence's first word, function words apart ("As in [1], ...").
        """
        start, end = self._sentence(claim)
        in_sentence = _between(self._marks, start, end)
        within = [mark for mark in in_sentence if mark.chars.overlaps(claim)]
        behind = [mark for mark in in_sentence if mark.chars.char_start >= claim.char_end][:1]
        marks = [*within, *behind] or [
            mark
            for mark in in_sentence
            if FUNCTION_WORDS.issuperset(comparable_units(self.stated[start : mark.chars.char_start]))
        ]
        if not marks:
            named = _between(self._references, start, end)
            before = [reference for reference in named if reference.chars.char_start < claim.char_end]
            marks = list(before[-1:] or named[:1])
        if not marks and not self._marks:
            marks = list(_between(self._closing, claim.char_end, len(self.stated))[:1])
        return tuple(dict.fromkeys(passage for mark in marks for passage in mark.passages))

    def _sentence(self, claim: CharRange) -> tuple[int, int]:
        """From behind the sentence before the claim to the first word behind its own sentence.

        What stands between two sentences belongs to the first, unless a line break stands before it, or marks lead the
        sentences of the line: then it leads the second.
        """
        borders = []
        first, last = bisect_right(self._starts, claim.char_start) - 1, bisect_left(self._starts, claim.char_end)
        for start in (self._starts[first] if first > 0 else 0, *self._starts[last : last + 1]):
            end = len(self.stated[:start].rstrip())
            line = self.stated.rfind("\n", end, start)
            borders.append(line + 1 if line >= 0 else end if self._marks_lead(start) else start)
        return borders[0], borders[1] if len(borders) > 1 else len(self.stated)

    def _marks_lead(self, char: int) -> bool:
        """Whether the line begins with a mark and ends without one: "[1] Dogs may stay. [2] Breakfast ends at ten."."""
        start, end = self.stated.rfind("\n", 0, char) + 1, self.stated.find("\n", char) % (len(self.stated) + 1)
        first = next((at for at in range(start, end) if self.stated[at].isalnum()), end)
        last = next((at for at in range(end - 1, start, -1) if self.stated[at].isalnum()), start)
        return bool(_between(self._marks, start, first)) and not _between(self._marks, last, end)

    def _grouped(self, marks: Sequence[CitationMark]) -> list[CitationMark]:
        groups: list[CitationMark] = []
        for mark in marks:
            between = self.stated[groups[-1].chars.char_end : mark.chars.char_start] if groups else "\n"
            if "\n" in between or any(map(str.isalnum, between)):
                groups.append(mark)
            else:
                passages = tuple(dict.fromkeys((*groups[-1].passages, *mark.passages)))
                end = max(groups[-1].chars.char_end, mark.chars.char_end)
                groups[-1] = CitationMark(CharRange(groups[-1].chars.char_start, end), passages)
        return groups


def _between(marks: Sequence[CitationMark], start: int, end: int) -> Sequence[CitationMark]:
    """Those that begin from ``start`` on, and before ``end``."""
    first = bisect_left(marks, start, key=lambda mark: mark.chars.char_start)
    return marks[first : bisect_left(marks, end, lo=first, key=lambda mark: mark.chars.char_start)]
