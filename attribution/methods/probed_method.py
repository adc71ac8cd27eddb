"""A method in an audit whose verdict has a model of its own: a decoder that a probe reads, or a verifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.answer_states import read_answers
from attribeam.attribution.methods.method import Method, Need
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.state_probe import UNREAD, StateProbe
from attribeam.attribution.verdict.verified import VerifiedAnswer, Verifier, answer_to_verify
from attribeam.schemas import QARecord, Reason, RowFault, SpanEvidence

if TYPE_CHECKING:
    from attribeam.attribution.language_models.decoder import Decoder
    from attribeam.attribution.methods.answer_context import AnswerContext

_LANGUAGE_MODEL = frozenset({"language_model", "language_model_dtype", "language_model_quantization"})


@dataclass(frozen=True, slots=True)
class ProbedMethod:
    """``method``, and beside it what the verdict reads: a decoder, by its ``probe``, or a verifier where that is None.

    ``options`` are those of the audit, with the verdict and its band.
    """

    method: Method
    probe: StateProbe | None
    options: MethodOptions

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def needs(self) -> frozenset[Need]:
        return self.method.needs | {Need.VERIFIER if self.probe is None else Need.DECODER_STATES}

    @property
    def gives_mass(self) -> bool:
        return self.method.gives_mass

    @property
    def calibrated(self) -> bool:
        return self.method.calibrated

    @property
    def reads(self) -> frozenset[str] | None:
        return None if self.method.reads is None else self.method.reads | _LANGUAGE_MODEL

    @property
    def judges_first(self) -> bool:
        """Whether the bundled verdict judges an answer before: what a verifier reads, and what lies in a band."""
        return self.probe is None or self.options.verdict_band is not None

    def asks_about(self, judged: Sequence[SpanEvidence] | None) -> bool:
        """Whether an answer is read, given what the bundled verdict says of it, if it was asked.

        Without a span there is nothing to read, and a band leaves out answers without a risk.
        """
        band = self.options.verdict_band
        if judged is None or band is None:
            return judged is None or bool(judged)
        risk = judged[0].answer_risk if judged else None
        return risk is not None and band[0] <= risk <= band[1]

    def span_results(self, context: AnswerContext) -> Sequence[SpanResult]:
        return self.method.span_results(context)

    def word_log_odds(
        self, decoder: Decoder, answers: Sequence[tuple[QARecord, ParsedAnswer]]
    ) -> list[tuple[float, ...] | RowFault]:
        """What the probe says of each word of each answer; a ``RowFault`` for an answer that the decoder refuses.

        ``UNREAD`` for an answer that is too long for the decoder, even with one passage at a time.

        Raises:
            RuntimeError: if there is no probe.
        """
        if self.probe is None:
            raise RuntimeError("a decoder was asked to read answers, but the verdict has no probe")
        probe = self.probe
        words = [parsed.words for _, parsed in answers]
        records = [record for record, _ in answers]
        found = read_answers(decoder, records, lambda place, states: probe.word_log_odds(states, words[place]))
        return [UNREAD if _is_too_long(one) else one for one in found]


def verified_answers(
    verifier: Verifier, answers: Sequence[tuple[QARecord, Sequence[SpanEvidence]]]
) -> list[VerifiedAnswer | tuple[float, ...] | RowFault | None]:
    """What the verifier says of each answer, given with the bundled verdict's records, in order.

    None for an answer without a claim, ``UNREAD`` for one that is too long for it, a ``RowFault`` for one that it
    refuses.
    """
    asked = [answer_to_verify(record, judged) for record, judged in answers]
    said = iter(verifier.verify([one for one in asked if one is not None]))
    found = [None if one is None else next(said) for one in asked]
    return [UNREAD if _is_too_long(one) else one for one in found]


def _is_too_long(found: object) -> bool:
    return isinstance(found, RowFault) and found.reason is Reason.TOO_MANY_TOKENS


def own_method(method: Method) -> Method:
    """The method without what the verdict reads beside it."""
    return method.method if isinstance(method, ProbedMethod) else method
