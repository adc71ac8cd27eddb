"""What a method is, what it is given of one answer, and the methods of an audit by name.

These are the two unions of attention, and the user's own. Options that contradict the verdict are refused here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.evidence.union_results import SpanResult, union_results
from attribeam.attribution.option_declaration import Value, WholeNumber, option
from attribeam.attribution.options import UNIONS, MethodOptions
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.attribution.verdict.judge import judge_of, probe_of
from attribeam.schemas import CharRange, QARecord, RowFault, SpanEvidence
from attribeam.schemas.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.answers.answer_parser import AnswerParser
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.language_models.language_model import LanguageModel
    from attribeam.attribution.methods.user_method import UserMethod
    from attribeam.attribution.verdict.verified import VerdictReader

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LoadedModels:
    """The models that an audit or some methods need; None for a model that none needs.

    ``hidden_layer`` is the 1-based layer of the hidden states; 0 is the embeddings, None is floor(L/2). ``verdict`` is
    the verdict's own model; a decoder shares its weights with ``language`` where both are needed.
    """

    parser: AnswerParser | None = None
    attention: AttentionModel | None = None
    hidden_layer: int | None = None
    language: LanguageModel | None = None
    verdict: VerdictReader | None = None

    @property
    def device(self) -> torch.device:
        """Where they run.

        Raises:
            ValueError: if only a parser is loaded, or nothing.
        """
        model = self.attention or self.language or self.verdict
        if model is None:
            raise ValueError("a device has only a model of attention or language, none is loaded")
        return model.device


class AnswerContext:
    """One answer; whatever the caller does not give of it is computed when a method first asks, once for all methods.

    Attributes:
        record: question, passages and answer.
        spans: the target spans, ranges of the answer.
        models: the loaded models.
    """

    def __init__(
        self,
        record: QARecord,
        spans: Sequence[CharRange],
        models: LoadedModels,
        *,
        parsed: ParsedAnswer | None = None,
        encoded: EncodedRow | None = None,
        attention: TokenAttribution | None = None,
        settings: MethodOptions | None = None,
    ) -> None:
        """``settings`` are the method's options merged with the model's."""
        self.record = record
        self.spans = tuple(spans)
        self.models = models
        self._settings = settings
        self._made: dict[Callable[[Any], Any], Any] = {}
        given = {"parsed": parsed, "encoded": encoded, "attention": attention}
        vars(self).update({name: part for name, part in given.items() if part is not None})

    def settings_in_force(self, options: MethodOptions) -> MethodOptions:
        """The user's options merged with the model's: the user's, else the model directory's, else the paper's."""
        return self._settings or self.model.union_settings(options)

    def once(self, make: Callable[[Self], _T]) -> _T:
        """What ``make`` computes of this answer, computed once for all methods that ask for it."""
        if make not in self._made:
            self._made[make] = make(self)
        made: _T = self._made[make]
        return made

    @property
    def model(self) -> AttentionModel:
        """The attention model.

        Raises:
            RuntimeError: if none was loaded.
        """
        return required(self.models.attention, "attention")

    @cached_property
    def parsed(self) -> ParsedAnswer:
        """The parsed answer.

        Raises:
            RuntimeError: if no parser was loaded.
        """
        return required(self.models.parser, "parser").parse(self.record.answer, self.record.passages)

    @cached_property
    def encoded(self) -> EncodedRow:
        """The encoded row.

        Raises:
            RowFault: if the model refuses the row.
        """
        return self.model.encode(self.record)

    @cached_property
    def attention(self) -> TokenAttribution:
        """The token-wise attributions of the encoded row.

        Raises:
            RowFault: if the model refuses the row.
        """
        (found,) = self.model.attribute([self.encoded], [len(self.record.passages)])
        if isinstance(found, RowFault):
            raise found
        return found


def required(model: _T | None, need: str) -> _T:
    """The model, which a method asked for.

    Raises:
        RuntimeError: if it was not loaded, because the method does not say that it needs it.
    """
    if model is None:
        raise RuntimeError(f"a method asked for {need}, but does not say that it needs it; add it to its needs")
    return model


class Need(StrEnum):
    """What a method reads of an answer that takes a model."""

    PARSER = "parser"
    ATTENTION = "attention"
    RESPONSE_ATTENTION = "response attention"
    HIDDEN_STATES = "hidden states"
    LANGUAGE_MODEL = "language model"


class Method(Protocol):
    """A way to say which passage each span of an answer comes from.

    Attributes:
        name: as given to ``--method``.
        needs: what it reads; this decides which models are loaded.
        gives_mass: whether its results have a mass, a share of the span's attention.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> frozenset[Need]: ...

    @property
    def gives_mass(self) -> bool: ...

    def span_results(self, context: AnswerContext) -> Sequence[SpanResult]:
        """One result per target span of the context, in their order.

        Raises:
            RowFault: if the answer cannot be attributed.
        """
        ...


class PassageScore(StrEnum):
    """The sum of all of a passage's evidence (Section 4.1), or the mean of its five best tokens (AttnTrace).

    A token that is not evidence scores 0. A passage of fewer than five tokens scores the mean of all of them.
    """

    SUM = "sum"
    TOP5_MEAN = "top5-mean"


SCORE = "score"
"""The group of ``--passage-score``, see ``add_options``."""


class MethodSettings(MethodOptions):
    """The options of all methods: those of the audit, and those that only a comparison needs."""

    passage_score: Value[PassageScore] = option(
        default=PassageScore.SUM, group=SCORE, paper="4.1",
        help="how the scores of a passage's tokens become its own, in the union methods",
    )  # fmt: skip
    seed: Value[WholeNumber] = option(default=0, help="seed of the passages that are drawn at random")

    @classmethod
    def of(cls, options: MethodOptions) -> MethodSettings:
        """The audit's options, with defaults for those that only a comparison needs."""
        return options if isinstance(options, cls) else cls().replaced(**options.explicit())

    def union_options(self, method: str) -> MethodOptions:
        """The audit's options among these, for the union of ``method``."""
        return self.only(MethodOptions).replaced(method=method)


_Method = TypeVar("_Method")


@dataclass(frozen=True, slots=True)
class AttentionUnion:
    """``attn-union`` and ``attn-union-dep``, under the options given on the command line."""

    name: str
    settings: MethodSettings
    needs: frozenset[Need] = frozenset({Need.PARSER, Need.ATTENTION})
    gives_mass: bool = True

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Passage scores and evidence of ``evidence.union_results``."""
        return union_results(
            answer=context.record.answer,
            passages=context.record.passages,
            parsed=context.parsed,
            spans=context.spans,
            encoded=context.encoded,
            tokens=context.attention,
            settings=context.settings_in_force(self.settings.union_options(self.name)),
        )


def resolve_method(options: MethodOptions) -> Method:
    """The method that ``options.method`` names: one of the unions, or the user's own ``module:Name``.

    Raises:
        UsageError: if there is no such method, or the verdict contradicts its options.
        ModelLoadError: if the verdict's directory cannot be read.
    """
    settings = MethodSettings.of(options)
    unions: dict[str, Method] = {name: AttentionUnion(name, settings) for name in UNIONS}
    method = method_named(options.method, unions, settings)
    check_verdict(options)
    return method


def method_named(name: str, known: Mapping[str, _Method], settings: MethodSettings) -> _Method | UserMethod:
    """The method of this name, from ``known`` or the user's own.

    Raises:
        UsageError: if there is no method of this name.
    """
    if name in known:
        return known[name]
    if ":" in name:
        from attribeam.attribution.methods.user_method import load_user_method  # it builds on this module

        return load_user_method(name, settings)
    hint, names = did_you_mean(name, known), ", ".join(known)
    others = "or module:Name of your own, or of one of those in docs/evaluation.md"
    raise UsageError(f"--method {name!r}: unknown; {hint + ' ' * bool(hint)}there are: {names}; {others}")


def has_own_model(options: MethodOptions) -> bool:
    """Whether the verdict reads a decoder or is a verifier's."""
    return options.has_verifier or probe_of(options) is not None


def judges_first(options: MethodOptions) -> bool:
    """Whether the bundled verdict judges an answer before: what a verifier reads, and what lies in a band."""
    return options.has_verifier or options.verdict_band is not None


def is_asked_about(judged: Sequence[SpanEvidence] | None, options: MethodOptions) -> bool:
    """Whether an answer is read, given what the bundled verdict says of it, if it was asked.

    Without a span there is nothing to read, and a band leaves out answers without a risk.
    """
    band = options.verdict_band
    if judged is None or band is None:
        return judged is None or bool(judged)
    risk = judged[0].answer_risk if judged else None
    return risk is not None and band[0] <= risk <= band[1]


def check_verdict(options: MethodOptions) -> None:
    """Refuse options that contradict the verdict.

    Raises:
        UsageError: if the verdict is a verifier's and has a strictness or prior, or has a band, but no model of its own
            or a threshold outside it.
        ModelLoadError: if the verdict's directory cannot be read.
    """
    if options.has_verifier and (options.strictness is not None or options.prior is not None):
        raise UsageError(
            f"--strictness and --prior are for a fitted verdict, not for the verifier {options.verdict}; leave them "
            "out, and fit its thresholds with attribeam calibrate"
        )
    has_model = has_own_model(options)
    if options.verdict_band is None:
        return
    if not has_model:
        raise UsageError(
            f"--verdict-band says which answers a verifier or decoder is asked about, --verdict {options.verdict} has "
            "none; name one with --verdict, or leave the band out"
        )
    low, high = options.verdict_band
    flagging = [_flagging_risk(one) for one in (options.first_verdict, options)]
    if not all(low <= one <= high for one in flagging):
        raise UsageError(
            f"--verdict-band should hold the risks from which answers are flagged, {flagging[0]:g} by the bundled "
            f"verdict and {flagging[1]:g} by --verdict {options.verdict}, was: {low:g},{high:g}"
        )


def _flagging_risk(options: MethodOptions) -> float:
    from attribeam.attribution.verdict.verified import calibration_texts

    judge = judge_of(options.asked_verdict)
    found = calibration_texts(options.verdict) if options.has_verifier or judge is None else judge.provenance()
    return float(found["answer_risk_threshold"])
