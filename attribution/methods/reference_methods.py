"""The two ends of every comparison: a passage drawn by lot, and the labelled one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attribeam.attribution.methods.answer_context import AnswerContext, Need
from attribeam.attribution.methods.method import SpanResult


@dataclass(frozen=True, slots=True)
class RandomPassage:
    """``random``: one passage a span, all equally likely; the same for the same seed, draw, row and span."""

    seed: int = 0
    draw: int = 0
    name: str = "random"
    needs: frozenset[Need] = frozenset()

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """A score of 1 for the passage that is drawn; no evidence within it."""
        record = context.labelled.record
        count, row = len(record.passages), record.source.source_row
        drawn = [
            int(np.random.default_rng([self.seed, self.draw, row, index]).integers(count))
            for index in range(len(context.labelled.spans))
        ]
        return [SpanResult(tuple(float(index == one) for index in range(count)), evidence=()) for one in drawn]


@dataclass(frozen=True, slots=True)
class OraclePassage:
    """``oracle``: the labelled passages of each span; in log-probability drops the passage with the largest drop.

    Its accuracy is 100 by definition.
    """

    name: str = "oracle"
    needs: frozenset[Need] = frozenset()

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """A score of 1 for every labelled passage, none where nothing is labelled; no evidence within them."""
        count = len(context.labelled.record.passages)
        labelled = context.labelled
        golds = labelled.gold_passages or (frozenset[int](),) * len(labelled.spans)
        return [SpanResult(tuple(float(index in gold) for index in range(count)), evidence=()) for gold in golds]
