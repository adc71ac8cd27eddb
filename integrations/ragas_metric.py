"""A metric for ragas (``pip install 'attribeam[ragas]'``): faithfulness by attribeam's verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragas.metrics.collections.base import BaseMetric
from ragas.metrics.result import MetricResult

from attribeam.schemas import RowFault
from attribeam.testing import bundled_attributor, faithfulness, support_problems

if TYPE_CHECKING:
    from attribeam.attribution.attributor import Attributor


class AttribeamFaithfulness(BaseMetric):
    """Faithfulness by attribeam's verdict, without a call of a language model.

    The value is the share of judged claims that are not unsupported, 0 to 1. It is NaN, as that of ragas' own, where
    nothing is claimed, or nothing can be judged. The reason names each unsupported claim with its evidence.
    """

    def __init__(self, name: str = "attribeam_faithfulness", attributor: Attributor | None = None) -> None:
        """Without an attributor, the bundled one is loaded with the first answer."""
        super().__init__(name=name, allowed_values=(0.0, 1.0))
        self._attributor = attributor

    async def ascore(self, *, response: str, retrieved_contexts: Sequence[str], user_input: str = "") -> MetricResult:
        """The score of one answer; ``batch_score`` takes dicts of the same names.

        Raises ``DataError`` if a value is None or has another type than it should; ``UsageError`` if no thresholds are
        known for the attributor's model.
        """
        return await asyncio.to_thread(self._score, user_input, retrieved_contexts, response)

    def _score(self, question: str, passages: Sequence[str], answer: str) -> MetricResult:
        attributor = self._attributor or bundled_attributor()
        try:
            spans = attributor.explain(question=question, passages=passages, answer=answer)
        except RowFault as fault:
            return MetricResult(value=float("nan"), reason=str(fault))
        value = faithfulness(spans)
        reason = support_problems(spans) or "no claim is unsupported"
        return MetricResult(value=float("nan") if value is None else value, reason=reason)
