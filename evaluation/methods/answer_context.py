"""What all methods share about one answer: parsed once, encoded once, one forward pass, matched once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from attribution.answers.parsed_answer import ParsedAnswer
from attribution.token_attribution import EncodedRow, TokenAttribution
from evaluation.datasets.labelled_answer import LabelledAnswer
from evaluation.methods.answer_tokens import AnswerTokens
from evaluation.methods.model_internals import ModelInternals, take_internals
from evaluation.methods.need import Need
from evaluation.methods.word_overlap import WordMatches, match_words

if TYPE_CHECKING:
    from attribution.answers.answer_parser import AnswerParser
    from attribution.attention.attention_model import AttentionModel
    from attribution.attention.hidden_similarity import HiddenSimilarity
    from attribution.models.language_model import LanguageModel
    from evaluation.methods.language_context import LanguageContext

_Taken = TypeVar("_Taken")


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """The models that the chosen methods need; None where none of them does.

    ``hidden_layer`` is the 1-based layer of the hidden states, 0 the embeddings; None is floor(L/2).
    """

    parser: AnswerParser | None = None
    attention: AttentionModel | None = None
    hidden_layer: int | None = None
    language: LanguageModel | None = None


class AnswerContext:
    """One labelled answer and what is computed from it, each when a method first asks for it.

    ``needs`` are those of all methods that will ask: what they need of the model is taken at once.
    """

    def __init__(
        self, labelled: LabelledAnswer, models: LoadedModels, needs: frozenset[Need] = frozenset({Need.ATTENTION})
    ) -> None:
        self.labelled = labelled
        self._models = models
        self._needs = needs

    @property
    def model(self) -> AttentionModel:
        """The attention model.

        Raises:
            RuntimeError: if none was loaded.
        """
        if self._models.attention is None:
            raise RuntimeError("a method asked for attention, but says that it needs no model")
        return self._models.attention

    @cached_property
    def parsed(self) -> ParsedAnswer:
        """The parsed answer.

        Raises:
            RuntimeError: if no parser was loaded.
        """
        if self._models.parser is None:
            raise RuntimeError("a method asked for the parsed answer, but says that it needs no parser")
        return self._models.parser.parse(self.labelled.record.answer)

    @cached_property
    def encoded(self) -> EncodedRow:
        """The encoded row.

        Raises:
            RowFault: if the model refuses the row.
        """
        return self.model.encode(self.labelled.record)

    @cached_property
    def answer_tokens(self) -> AnswerTokens:
        """The answer's tokens under its parse.

        Raises:
            RowFault: if the model refuses the row.
        """
        return AnswerTokens(encoded=self.encoded, parsed=self.parsed)

    @property
    def attended(self) -> tuple[EncodedRow, TokenAttribution]:
        """The encoded row and its token-wise attributions.

        Raises:
            RowFault: if the model refuses the row.
        """
        return self.encoded, _asked_for(self._internals.attention, Need.ATTENTION)

    @property
    def attributed_tokens(self) -> npt.NDArray[np.bool_]:
        """bool [responses, responses]: whether the row's token is attributed to the column's, an earlier one.

        Raises:
            RowFault: if the model refuses the row.
        """
        return _asked_for(self._internals.attributed, Need.RESPONSE_ATTENTION)

    @property
    def hidden_similarity(self) -> HiddenSimilarity:
        """The similarities of hidden states.

        Raises:
            RowFault: if the model refuses the row.
        """
        return _asked_for(self._internals.hidden, Need.HIDDEN_STATES)

    @cached_property
    def language(self) -> LanguageContext:
        """What a causal language model says about the answer.

        Raises:
            RuntimeError: if no language model was loaded.
        """
        from evaluation.methods.language_context import LanguageContext

        if self._models.language is None:
            raise RuntimeError("a method asked for a language model, but says that it needs none")
        return LanguageContext(self.labelled.record, self._models.language)

    @cached_property
    def word_matches(self) -> WordMatches:
        """The answer's words and their best matches in the passages."""
        return match_words(self.labelled.record.answer, self.labelled.record.passages)

    @cached_property
    def _internals(self) -> ModelInternals:
        return take_internals(
            self.model,
            self.encoded,
            passage_count=len(self.labelled.record.passages),
            needs=self._needs,
            hidden_layer=self._models.hidden_layer,
        )


def _asked_for(taken: _Taken | None, need: Need) -> _Taken:
    """What was taken of the model; an error where no method said that it needs it."""
    if taken is None:
        raise RuntimeError(f"a method asked for {need}, but no method says that it needs it")
    return taken
