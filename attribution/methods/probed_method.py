"""A method in an audit whose verdict also reads the hidden states of a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attribeam.attribution.evidence.span_result import SpanResult
from attribeam.attribution.methods.method import Method, Need
from attribeam.attribution.verdict.state_probe import StateProbe

if TYPE_CHECKING:
    from attribeam.attribution.methods.answer_context import AnswerContext

_LANGUAGE_MODEL = frozenset({"language_model"})


@dataclass(frozen=True, slots=True)
class ProbedMethod:
    """``method``, and beside it the verdict's ``probe``, which needs a language model."""

    method: Method
    probe: StateProbe

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def needs(self) -> frozenset[Need]:
        return self.method.needs | {Need.LANGUAGE_MODEL}

    @property
    def gives_mass(self) -> bool:
        return self.method.gives_mass

    @property
    def calibrated(self) -> bool:
        return self.method.calibrated

    @property
    def reads(self) -> frozenset[str] | None:
        return None if self.method.reads is None else self.method.reads | _LANGUAGE_MODEL

    def span_results(self, context: AnswerContext) -> Sequence[SpanResult]:
        return self.method.span_results(context)

    def word_log_odds(self, context: AnswerContext) -> tuple[float, ...]:
        """What the probe says of each word of the answer.

        Raises:
            RowFault: if the decoder refuses the row.
        """
        return self.probe.word_log_odds(context.language.answer_states(self.probe.layer), context.parsed.words)


def own_method(method: Method) -> Method:
    """The method without the probe beside it."""
    return method.method if isinstance(method, ProbedMethod) else method
