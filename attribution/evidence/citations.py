"""Which passages an answer cites for each of its claims, and whether its evidence lies there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attribeam.attribution.answers.citation_marks import CitationMark
from attribeam.attribution.answers.markup import hide_ranges
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, sentence_bounds
from attribeam.attribution.answers.passage_references import passage_references
from attribeam.attribution.verdict.verbatim import LiteralIndex
from attribeam.schemas import CharRange, QARecord, SpanEvidence

_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class _Group:
    """Marks with nothing but punctuation between them; ``leads`` is True before the first word of a line."""

    chars: CharRange
    passages: tuple[int, ...]
    leads: bool = False


def with_citations(
    record: QARecord, parsed: ParsedAnswer, found: Sequence[SpanEvidence]
) -> tuple[SpanEvidence, ...]:
    """The records with what the answer cites for their claims, and whether their best passages include one of these.

    The best passages of a claim are the one with the largest score and those that repeat the claim word by word. A
    record that takes its verdict from a claim has what its claim has; one without a claim cites nothing.
    """
    claims = {one.span_index: one for one in found if one.claim_index == one.span_index}
    cited = {index: cited_passages(record, parsed, one.chars) for index, one in claims.items()} if claims else {}
    if not any(cited.values()):
        return tuple(found)
    stated, literal = hide_ranges(record.answer, parsed.marked), LiteralIndex(record.passages)
    agrees = {
        index: any(
            one in passages
            for one in (claims[index].top_passage_index, *literal.literal_passages(claims[index].chars.of(stated)))
        )
        for index, passages in cited.items()
        if passages
    }
    return tuple(
        replace(one, cited_passages=cited[one.claim_index], citation_agrees=agrees.get(one.claim_index))
        if one.claim_index is not None
        else one
        for one in found
    )
