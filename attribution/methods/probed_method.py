"""A method in an audit whose verdict also reads the hidden states of a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.evidence.span_result import SpanResult
from attribeam.attribution.methods.answer_states import read_answers
from attribeam.attribution.methods.method import Method, Need
from attribeam.attribution.verdict.state_probe import StateProbe
from attribeam.schemas import QARecord, Reason, RowFault

if TYPE_CHECKING:
    from attribeam.attribution.methods.answer_context import AnswerContext
    from attribeam.attribution.models.decoder import Decoder

_LANGUAGE_MODEL = frozenset({"language_model", "language_model_dtype", "language_model_quantization"})


@dataclass(frozen=True, slots=True)
class ProbedMethod:
    """``method``, and beside it the verdict's ``probe``, which needs a decoder."""

    method: Method
    probe: StateProbe

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def needs(self) -> frozenset[Need]:
        return self.method.needs | {Need.DECODER_STATES}

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

    def word_log_odds(
        self, decoder: Decoder, answers: Sequence[tuple[QARecord, ParsedAnswer]]
    ) -> list[tuple[float, ...] | RowFault | None]:
        """What the probe says of each word of each answer; a ``RowFault`` for an answer that the decoder refuses.

        None for an answer that is too long for the decoder, even with one passage at a time.
        """
        words = [parsed.words for _, parsed in answers]
        records = [record for record, _ in answers]
        found = read_answers(decoder, records, lambda place, states: self.probe.word_log_odds(states, words[place]))
        return [None if _is_too_long(one) else one for one in found]


def _is_too_long(found: tuple[float, ...] | RowFault) -> bool:
    return isinstance(found, RowFault) and found.reason is Reason.TOO_MANY_TOKENS


def own_method(method: Method) -> Method:
    """The method without the probe beside it."""
    return method.method if isinstance(method, ProbedMethod) else method
