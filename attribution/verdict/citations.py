"""Which passages an answer cites for each of its claims, and whether its evidence lies there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attribeam.attribution.answers.citation_pointers import passage_references
from attribeam.attribution.answers.markup import hide_ranges
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.verdict.verbatim import LiteralIndex
from attribeam.schemas import CharRange, QARecord, SpanEvidence


@dataclass(frozen=True, slots=True)
class _Group:
    """Marks with nothing but punctuation between them, and the passages that they name."""

    chars: CharRange
    passages: tuple[int, ...]


def with_citations(record: QARecord, parsed: ParsedAnswer, found: Sequence[SpanEvidence]) -> tuple[SpanEvidence, ...]:
    """The records with what the answer cites for their claims, and whether their best passages include one of these.

    The best passages of a claim are the one with the largest score and those that repeat the claim word by word. A
    record that takes its verdict from a claim has what its claim has; one without a claim cites nothing.
    """
    citations = _Citations(record, parsed)
    claims = [one for one in found if one.claim_index == one.span_index]
    cited = {one.span_index: citations.of(one.chars) for one in claims}
    if not any(cited.values()):
        return tuple(found)
    literal = LiteralIndex(record.passages)
    agrees: dict[int, bool] = {}
    for one in claims:
        if cited[one.span_index]:
            best = (one.top_passage_index, *literal.literal_passages(one.chars.of(citations.stated)))
            agrees[one.span_index] = any(passage in best for passage in cited[one.span_index])
    return tuple(
        one
        if one.claim_index is None
        else replace(one, cited_passages=cited[one.claim_index], citation_agrees=agrees.get(one.claim_index))
        for one in found
    )


class _Citations:
    """The marks of one answer, and its words that name a passage ("passage 3"), by where they stand.

    Attributes:
        stated: the answer with blanks for its marks.
    """

    def __init__(self, record: QARecord, parsed: ParsedAnswer) -> None:
        self.stated = hide_ranges(record.answer, parsed.marked)
        self._starts = [parsed.words[start].char_start for start in parsed.sentence_starts] if parsed.words else []
        marks = [_Group(one.chars, one.passages) for one in parsed.marks if not one.closes]
        self._groups = self._grouped(marks)
        references = passage_references(self.stated, len(record.passages))
        self._references = self._grouped([_Group(one.chars, (one.passage_index,)) for one in references])
        self._closing = [_Group(one.chars, one.passages) for one in parsed.marks if one.closes]

    def of(self, claim: CharRange) -> tuple[int, ...]:
        """The passages that the claim's own marks name, else words of its sentence, else a list behind it.

        A claim's own marks lie within it, or are the first behind it in its sentence or right behind that; where there
        are none, a mark before the sentence's first word counts.
        """
        start, end = self._sentence(claim)
        own = self._between(self._groups, start, end)
        within = [one for one in own if one.chars.overlaps(claim)]
        behind = [one for one in own if one.chars.char_start >= claim.char_end][:1]
        found = [*within, *behind] or [one for one in own if self._leads(one, start)]
        if not found:
            named = self._between(self._references, start, end)
            before = [one for one in named if one.chars.char_start < claim.char_end]
            found = list(before[-1:] or named[:1])
        if not found:
            place = bisect_left(self._closing, claim.char_end, key=lambda one: one.chars.char_start)
            found = [one for one in self._closing[place : place + 1] if not self._groups]
        return tuple(dict.fromkeys(passage for one in found for passage in one.passages))

    def _sentence(self, claim: CharRange) -> tuple[int, int]:
        """From behind the sentence before the claim to the first word behind its own sentence.

        What stands between two sentences belongs to the first, unless a line break stands before it: then it leads the
        second.
        """
        first = bisect_right(self._starts, claim.char_start) - 1
        last = bisect_left(self._starts, claim.char_end) - 1
        start = 0 if first <= 0 else self._border(self._starts[first])
        end = len(self.stated) if last + 1 >= len(self._starts) else self._border(self._starts[last + 1])
        return start, end

    def _border(self, start: int) -> int:
        """Where what leads the sentence that begins at ``start`` begins: behind the last line break before it."""
        gap = len(self.stated[:start].rstrip())
        line = self.stated.rfind("\n", gap, start)
        return start if line < 0 else line + 1

    def _leads(self, group: _Group, start: int) -> bool:
        return not any(map(str.isalnum, self.stated[start : group.chars.char_start]))

    @staticmethod
    def _between(groups: Sequence[_Group], start: int, end: int) -> Sequence[_Group]:
        first = bisect_left(groups, start, key=lambda one: one.chars.char_start)
        return groups[first : bisect_left(groups, end, lo=first, key=lambda one: one.chars.char_start)]

    def _grouped(self, marks: Sequence[_Group]) -> list[_Group]:
        groups: list[_Group] = []
        for one in marks:
            between = self.stated[groups[-1].chars.char_end : one.chars.char_start] if groups else "-"
            if groups and "\n" not in between and not any(map(str.isalnum, between)):
                passages = tuple(dict.fromkeys((*groups[-1].passages, *one.passages)))
                chars = CharRange(groups[-1].chars.char_start, max(groups[-1].chars.char_end, one.chars.char_end))
                groups[-1] = _Group(chars, passages)
            else:
                groups.append(one)
        return groups
