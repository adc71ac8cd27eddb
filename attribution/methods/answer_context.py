"""What a method is given of one answer, and the models behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import CharRange, QARecord, RowFault

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.answers.answer_parser import AnswerParser
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.language_models.language_model import LanguageModel
    from attribeam.attribution.options import MethodOptions
    from attribeam.attribution.verifiers.verdict_reader import VerdictReader

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
