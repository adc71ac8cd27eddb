"""What all methods share about one answer: parsed once, encoded once, one forward pass, matched once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from attribution.parsed_answer import ParsedAnswer
from attribution.token_attribution import EncodedRow, TokenAttribution
from evaluation.labelled_answer import LabelledAnswer
from evaluation.word_overlap import WordMatches, match_words
from schemas import RowFault

if TYPE_CHECKING:
    from attribution.answer_parser import AnswerParser
    from attribution.attention_model import AttentionModel


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """The models that the chosen methods need; None where none of them does."""

    parser: AnswerParser | None = None
    attention: AttentionModel | None = None


class AnswerContext:
    """One labelled answer and what is computed from it, each when a method first asks for it."""

    def __init__(self, labelled: LabelledAnswer, models: LoadedModels) -> None:
        self.labelled = labelled
        self._models = models

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
    def attended(self) -> tuple[EncodedRow, TokenAttribution]:
        """The encoded row and its token-wise attributions.

        Raises:
            RowFault: if the model refuses the row.
        """
        encoded = self.model.encode(self.labelled.record)
        tokens = self.model.attribute([encoded], [len(self.labelled.record.passages)])[0]
        if isinstance(tokens, RowFault):
            raise tokens
        return encoded, tokens

    @cached_property
    def word_matches(self) -> WordMatches:
        """The answer's words and their best matches in the passages."""
        return match_words(self.labelled.record.answer, self.labelled.record.passages)
