"""How much of an answer its passages do not support, by the evidence of an audit."""

from __future__ import annotations

from collections.abc import Sequence

from attribeam.lab.evaluation.support.judged_parts import visible
from attribeam.schemas import ClaimKind, SpanEvidence


def ungrounded_share(found: Sequence[SpanEvidence], answer: str) -> float | None:
    """The share, 0 to 1, of what an answer claims or refuses that no passage supports, counted in visible characters.

    A claim counts with 1 - ``support_score``, and where claims overlap, the largest counts. A refusal counts with 1: it
    says nothing that is in the passages. Headings, words about the answer and what was not judged are left out.

    Returns:
        None if there is neither a claim with a score nor a refusal.
    """
    ungrounded: dict[int, float] = {}
    for span in found:
        if span.claim_kind is ClaimKind.REFUSAL:
            share = 1.0
        elif span.is_claim and span.support_score is not None:
            share = 1 - span.support_score
        else:
            continue
        for place in visible([span.chars], answer):
            ungrounded[place] = max(ungrounded.get(place, 0.0), share)
    return sum(ungrounded.values()) / len(ungrounded) if ungrounded else None
