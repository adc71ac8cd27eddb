"""What a method under comparison is, and what it says about a span."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from evaluation.methods.answer_context import AnswerContext
from evaluation.methods.need import Need as Need
from evaluation.methods.scored_range import ScoredRange


@dataclass(frozen=True, slots=True)
class SpanResult:
    """What a method says about one span.

    Attributes:
        passage_scores: one a passage, not negative; all zero where nothing was found.
        evidence: the passage characters that it names as evidence, with their scores; titles apart.
    """

    passage_scores: tuple[float, ...]
    evidence: tuple[ScoredRange, ...]

    def evidence_of_best_passage(self) -> tuple[ScoredRange, ...]:
        """The evidence in the passage with the largest score, of equal ones the first."""
        best = self.passage_scores.index(max(self.passage_scores))
        return tuple(piece for piece in self.evidence if piece.where.passage_index == best)


class Method(Protocol):
    """A way to say which passage each span of an answer comes from.

    Attributes:
        name: as ``--method`` gives it.
        needs: what it reads of the context.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> frozenset[Need]: ...

    def span_results(self, context: AnswerContext) -> Sequence[SpanResult]:
        """One result a target span of ``context.labelled``, in their order.

        Raises:
            RowFault: if the answer cannot be attributed.
        """
        ...


def needs_of(methods: Iterable[Method]) -> frozenset[Need]:
    """What the methods need together."""
    return frozenset[Need]().union(*(method.needs for method in methods))
