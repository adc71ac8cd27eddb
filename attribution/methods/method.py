"""What a method is, what it is given of one answer, and the methods of an audit by name.

These are the two unions of attention, and the user's own, ``module:Name``. Options that contradict the verdict are
refused here, too.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.evidence.union_results import MethodError, SpanResult, union_results
from attribeam.attribution.option_declaration import Value, WholeNumber, option
from attribeam.attribution.options import UNIONS, MethodOptions
from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.attribution.verdict.judge import judge_of, probe_of
from attribeam.schemas import CharRange, Passage, QARecord, RowFault
from attribeam.schemas.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.answers.answer_parser import AnswerParser
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.language_models import LanguageModel
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
        """Where they run; raises ``ValueError`` if only a parser is loaded, or nothing."""
        model = self.attention or self.language or self.verdict
        if model is None:
            raise ValueError("a device has only a model of attention or language, none is loaded")
        return model.device


class AnswerContext:
    """One answer; whatever the caller does not give of it is computed when a method first asks, once for all methods.

    ``spans`` are the target spans, ranges of the answer; ``settings`` the method's options merged with the model's.
    What needs a model that was not loaded raises RuntimeError, what the model refuses RowFault.
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
        """The attention model."""
        return required(self.models.attention, "attention")

    @cached_property
    def parsed(self) -> ParsedAnswer:
        """The parsed answer."""
        return required(self.models.parser, "parser").parse(self.record.answer, self.record.passages)

    @cached_property
    def encoded(self) -> EncodedRow:
        """The encoded row."""
        return self.model.encode(self.record)

    @cached_property
    def attention(self) -> TokenAttribution:
        """The token-wise attributions of the encoded row."""
        (outcome,) = self.model.attribute([self.encoded], [len(self.record.passages)])
        if isinstance(outcome, RowFault):
            raise outcome
        return outcome


def required(model: _T | None, need: str) -> _T:
    """The model, which a method asked for.

    Raises ``RuntimeError`` if it was not loaded, because the method does not say that it needs it.
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

    ``name`` is that of ``--method``; ``needs`` decide which models are loaded; ``gives_mass`` says whether its results
    have a mass, a share of the span's attention.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> frozenset[Need]: ...

    @property
    def gives_mass(self) -> bool: ...

    def span_results(self, context: AnswerContext) -> Sequence[SpanResult]:
        """One result per target span of the context, in their order.

        Raises ``RowFault`` if the answer cannot be attributed.
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


@dataclass(frozen=True)
class AttentionUnion:
    """``attn-union`` and ``attn-union-dep``, under the options given on the command line."""

    name: str
    settings: MethodSettings
    needs: frozenset[Need] = frozenset({Need.PARSER, Need.ATTENTION})
    gives_mass: bool = True

    @cached_property
    def options(self) -> MethodOptions:
        """Those of the audit that were given."""
        return self.settings.union_options(self.name)

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Passage scores and evidence of ``evidence.union_results``."""
        return union_results(
            answer=context.record.answer,
            passages=context.record.passages,
            parsed=context.parsed,
            spans=context.spans,
            encoded=context.encoded,
            tokens=context.attention,
            settings=context.settings_in_force(self.options),
        )


def resolve_method(options: MethodOptions) -> Method:
    """The method that ``options.method`` names: one of the unions, or the user's own ``module:Name``.

    Raises ``UsageError`` if there is no such method, or the verdict contradicts its options; ``ModelLoadError`` if the
    verdict's directory cannot be read.
    """
    settings = MethodSettings.of(options)
    unions: dict[str, Method] = {name: AttentionUnion(name, settings) for name in UNIONS}
    method = method_named(options.method, unions, settings)
    check_verdict(options)
    return method


def method_named(name: str, known: Mapping[str, _Method], settings: MethodSettings) -> _Method | UserMethod:
    """The method of this name, from ``known`` or the user's own.

    Raises ``UsageError`` if there is no method of this name.
    """
    if name in known:
        return known[name]
    if ":" in name:
        return load_user_method(name, settings)
    hint, names = did_you_mean(name, known), ", ".join(known)
    others = "or module:Name of your own, or of one of those in docs/evaluation.md"
    raise UsageError(f"--method {name!r}: unknown; {hint + ' ' * bool(hint)}there are: {names}; {others}")


class UserMethod:
    """The user's method under the name that ``--method`` gives it, with defaults for what it lacks of the protocol."""

    def __init__(self, name: str, instance: object) -> None:
        """Check the protocol.

        Raises ``UsageError`` if ``instance`` lacks ``needs`` or ``span_results``, or its needs are not values of
        ``Need``.
        """
        needs, kinds = getattr(instance, "needs", None), ", ".join(repr(str(need)) for need in Need)
        try:
            if needs is None or isinstance(needs, str):
                raise TypeError
            self.needs = frozenset(Need(need) for need in needs)
        except (TypeError, ValueError) as error:
            raise UsageError(f"--method {name!r}: needs should be a set of {kinds}, was: {needs!r}") from error
        self.name = name
        self.gives_mass = bool(getattr(instance, "gives_mass", False))
        self._instance = instance
        span_results = getattr(instance, "span_results", None)
        if not callable(span_results):
            has = type(span_results).__name__
            raise UsageError(f"--method {name!r}: should have span_results(context), has: {has}")
        self._span_results: Callable[[AnswerContext], Sequence[SpanResult]] = span_results

    def span_results(self, context: AnswerContext) -> Sequence[SpanResult]:
        """What the user's class says.

        Raises ``RowFault`` if it refuses the row; ``MethodError`` if it raises anything else, or a result cannot become
        an evidence record.
        """
        source = context.record.source
        where = f"row {source.source_row} of {source.source_file!r}"
        try:
            results = tuple(self._span_results(context))
            complaint = next(_complaints(results, context, gives_mass=self.gives_mass), None)
        except (RowFault, MethodError, MemoryError):
            raise
        except Exception as error:
            raise MethodError(
                f"method {self.name!r} raised {type(error).__name__} at {where}; it may refuse a row by raising "
                "attribeam.schemas.RowFault, --verbose shows where it failed"
            ) from error
        if complaint is not None:
            raise MethodError(f"method {self.name!r} gave a wrong result at {where}: {complaint}")
        return results

    @property
    def code(self) -> str:
        """Identifies the method's code: its own ``identity``, else the SHA-256 of the file that defines it.

        Raises ``UsageError`` if it has neither.
        """
        identity = getattr(self._instance, "identity", None)
        if isinstance(identity, str):
            return identity
        try:
            path = inspect.getsourcefile(type(self._instance))
        except TypeError:
            path = None
        if path is None or not Path(path).is_file():
            raise UsageError(f"--method {self.name!r}: should stand in a file, or have an `identity`; has neither")
        return "sha256:" + hashlib.sha256(Path(path).read_bytes()).hexdigest()


def load_user_method(name: str, settings: MethodSettings) -> UserMethod:
    """The method ``module:Name``, created by calling ``Name`` with the settings.

    Modules are looked for where Python looks, and then in the working directory. Raises ``UsageError`` if it cannot be
    imported or created, or is not a method.
    """
    module_name, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(
            f"--method {name!r}: module {module_name!r} could not be imported, {type(error).__name__}: {error}; it "
            f"should be installed or stand in {folder} (with --runner, ship it with --setup_file)"
        ) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        names = [
            key
            for key, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", "") == module.__name__
        ]
        classes = ", ".join(names) or "none"
        raise UsageError(f"--method {name!r}: module {module_name!r} has no class {attribute!r}; it has: {classes}")
    try:
        instance = factory(settings)
    except Exception as error:
        raise UsageError(
            f"--method {name!r}: {attribute} should take the options as its one argument, raised "
            f"{type(error).__name__}: {error}"
        ) from error
    return UserMethod(name, instance)


def _complaints(results: Sequence[SpanResult], context: AnswerContext, *, gives_mass: bool) -> Iterator[str]:
    """What is wrong with the results of a user's method, looked for as long as it is asked for."""
    if len(results) != len(context.spans):
        yield f"there should be one result per span, {len(context.spans)}, there were {len(results)}"
    for index, result in enumerate(results):
        for text in _span_complaints(result, context.record.passages, gives_mass=gives_mass):
            yield f"span {index}: {text}"


def _span_complaints(result: SpanResult, passages: Sequence[Passage], *, gives_mass: bool) -> Iterator[str]:
    if not isinstance(result, SpanResult):
        yield f"a result should be a SpanResult, was: {type(result).__name__}"
    if len(result.passage_scores) != len(passages):
        yield f"passage_scores should have one score per passage, {len(passages)}, had {len(result.passage_scores)}"
    if not all(0 <= score < math.inf for score in result.passage_scores):
        yield f"passage_scores should be finite and not negative, were: {result.passage_scores}"
    if (result.mass is not None) is not gives_mass:
        yield f"mass should be {'given' if gives_mass else 'None, as gives_mass says'}, was: {result.mass}"
    if result.mass is not None and not 0 <= result.mass <= 1:
        yield f"mass should be from 0 to 1, was: {result.mass}"
    for piece in result.evidence:
        if not 0 <= piece.passage_index < len(passages):
            yield f"passage_index of evidence should be from 0 to {len(passages) - 1}, was: {piece.passage_index}"
        passage = passages[piece.passage_index]
        text = (passage.title or "") if piece.in_title else passage.text
        if piece.chars.char_end > len(text) or piece.chars.of(text) != piece.text:
            where = f"passage {piece.passage_index}, {piece.chars.char_start} to {piece.chars.char_end}"
            yield f"the text of evidence should be what its passage has at its range, is not: {where} of {len(text)}"
        if not 0 < piece.score < math.inf:
            yield f"a score of evidence should be finite and positive, was: {piece.score}"


def has_own_model(options: MethodOptions) -> bool:
    """Whether the verdict reads a decoder or is a verifier's."""
    return options.has_verifier or probe_of(options) is not None


def check_verdict(options: MethodOptions) -> None:
    """Refuse options that contradict the verdict: for a verifier strictness and prior, and a band that does not fit.

    Raises ``UsageError`` if they do; ``ModelLoadError`` if the verdict's directory cannot be read.
    """
    if options.has_verifier and (options.strictness is not None or options.prior is not None):
        raise UsageError(
            f"--strictness and --prior are for a fitted verdict, not for the verifier {options.verdict}; leave them "
            "out, and fit its thresholds with attribeam calibrate"
        )
    if options.verdict_band is None:
        return
    if not has_own_model(options):
        raise UsageError(
            f"--verdict-band says which answers a verifier or decoder is asked about, --verdict {options.verdict} has "
            "none; name one with --verdict, or leave the band out"
        )
    low, high = options.verdict_band
    flagging = [_flagging_risk(choice) for choice in (options.first_verdict, options)]
    if not all(low <= risk <= high for risk in flagging):
        raise UsageError(
            f"--verdict-band should hold the risks from which answers are flagged, {flagging[0]:g} by the bundled "
            f"verdict and {flagging[1]:g} by --verdict {options.verdict}, was: {low:g},{high:g}"
        )


def _flagging_risk(options: MethodOptions) -> float:
    from attribeam.attribution.verdict.verified import calibration_texts

    judge = judge_of(options.asked_verdict)
    texts = calibration_texts(options.verdict) if options.has_verifier or judge is None else judge.provenance()
    return float(texts["answer_risk_threshold"])
