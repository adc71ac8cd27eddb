"""A metric for DeepEval (``pip install 'attribeam[deepeval]'``): faithfulness by attribeam's verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from deepeval.metrics import BaseMetric
from deepeval.metrics.utils import check_llm_test_case_params
from deepeval.test_case import LLMTestCase, SingleTurnParams

from attribeam.testing import bundled_attributor, faithfulness, support_problems

if TYPE_CHECKING:
    from attribeam.attribution.attributor import Attributor


class AttribeamFaithfulnessMetric(BaseMetric):
    """Faithfulness by attribeam's verdict, without a call of a language model.

    The score is the share of judged claims that are not unsupported, 0 to 1; 1 for an answer that claims nothing. The
    reason names each unsupported claim with its evidence. With the threshold of 1 no claim may be unsupported.
    """

    __name__ = "Attribeam Faithfulness"
    _required_params: ClassVar = [
        SingleTurnParams.INPUT,
        SingleTurnParams.ACTUAL_OUTPUT,
        SingleTurnParams.RETRIEVAL_CONTEXT,
    ]

    def __init__(self, threshold: float = 1.0, attributor: Attributor | None = None) -> None:
        """Without an attributor, the bundled one is loaded with the first answer."""
        self.threshold = threshold
        self.attributor = attributor

    def measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """The score of one test case.

        Raises ``MissingTestCaseParamsError`` if it has no input, actual output or retrieval context; ``ValueError`` if
        nothing in the answer can be judged, as in another language; ``RowFault`` or ``UsageError`` if the row or the
        model cannot be judged at all.
        """
        check_llm_test_case_params(test_case, self._required_params, None, None, self, None, test_case.multimodal)
        spans = (self.attributor or bundled_attributor()).explain(
            question=test_case.input, passages=test_case.retrieval_context, answer=test_case.actual_output
        )
        problems, score = support_problems(spans), faithfulness(spans)
        if problems and score is None:
            raise ValueError(problems)
        self.score = 1.0 if score is None else score
        self.reason = problems or "no claim is unsupported"
        self.success = self.is_successful()
        return self.score

    async def a_measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """As ``measure``."""
        return self.measure(test_case)
