"""What all methods share about one answer: parsed once, encoded once, one forward pass, matched once.

A method names its needs. Only these are loaded and computed, each when a method first asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, sentence_bounds
from attribeam.attribution.answers.parser_output import WordTokenAlignment
from attribeam.attribution.evidence.union import ResponseWeights
from attribeam.attribution.methods.method import Need
from attribeam.attribution.prompts.passage_windows import attribute_with_windows
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import CharRange, QARecord, RowFault

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.answers.answer_parser import AnswerParser
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.attention.hidden_states import HiddenSimilarity
    from attribeam.attribution.attention.reduction import RowAttention
    from attribeam.attribution.language_models.decoder import Decoder
    from attribeam.attribution.language_models.language_model import LanguageModel
    from attribeam.attribution.methods.language_context import LanguageContext
    from attribeam.attribution.options import MethodOptions
    from attribeam.attribution.verdict.verified import Verifier


Counts = npt.NDArray[np.int64]


class AnswerTokens:
    """The tokens of one answer; tokens that cover no character never count.

    Attributes:
        covering: intp [tokens], positions among the row's response tokens of those that cover a character. All counts
            below are over them.
    """

    def __init__(self, *, encoded: EncodedRow, parsed: ParsedAnswer) -> None:
        self.covering = np.flatnonzero(encoded.response_char_start < encoded.response_char_end)
        self._parsed = parsed
        self._alignment = WordTokenAlignment(
            words=parsed.words,
            token_char_start=encoded.response_char_start[self.covering],
            token_char_end=encoded.response_char_end[self.covering],
        )

    def of_spans(self, spans: Sequence[CharRange]) -> Counts:
        """int64 [spans, tokens]: 1 for a span's own tokens."""
        counts = np.zeros((len(spans), len(self.covering)), dtype=np.int64)
        for row, first, end in zip(counts, *self.runs_of(spans), strict=True):
            row[first:end] = 1
        return counts

    def runs_of(self, spans: Sequence[CharRange]) -> tuple[list[int], list[int]]:
        """The half-open run of each span's own tokens: first tokens, ends."""
        firsts, ends = self._alignment.tokens_of_ranges(spans)
        return firsts.tolist(), ends.tolist()

    def of_facts(self, spans: Sequence[CharRange], *, own_token_weight: int = 1) -> Counts:
        """int64 [spans, tokens]: how many of the span's tokens have each token in their atomic facts (Section 3.3)."""
        weights = ResponseWeights(
            alignment=self._alignment, facts=AtomicFacts(self._parsed), own_token_weight=own_token_weight
        ).of_spans(spans)
        return weights.unions[weights.union_of_span] * np.array(weights.factors, dtype=np.int64)[:, None]

    def of_sentences(self, spans: Sequence[CharRange]) -> Counts:
        """int64 [spans, tokens]: 1 for the tokens of the sentences that a span stands in, and the span's own."""
        words = self._parsed.words
        sentences = [
            CharRange(words[start].char_start, words[end - 1].char_end) for start, end in sentence_bounds(self._parsed)
        ]
        in_sentence = self.of_spans(sentences)
        own = self.of_spans(spans)
        touched = np.array([[sentence.overlaps(span) for sentence in sentences] for span in spans], dtype=np.int64)
        return np.maximum(own, (touched.reshape(len(spans), len(sentences)) @ in_sentence > 0).astype(np.int64))


@dataclass(frozen=True, slots=True)
class ModelInternals:
    """One row's token-wise attributions, those to the response's own tokens, and similarities of hidden states.

    A field is None if the chosen methods do not need it. ``attributed`` is bool [responses, responses]: whether the
    row's token is attributed to the column's, which is an earlier one.
    """

    attention: TokenAttribution | None = None
    attributed: npt.NDArray[np.bool_] | None = None
    hidden: HiddenSimilarity | None = None


def take_internals(
    model: AttentionModel, row: EncodedRow, *, passage_count: int, needs: frozenset[Need], hidden_layer: int | None
) -> ModelInternals:
    """Take what ``needs`` asks for; ``hidden_layer`` is 1-based, 0 is the embeddings, None is floor(L/2).

    If the hidden states lie below the captured layer, as they do by default, one forward pass gives everything and ends
    at the captured layer. Otherwise the states take a second pass, which ends at their layer.

    Raises:
        RowFault: if the row does not fit into memory, or has NaN or infinity.
    """
    pass_ = _ForwardPass(model, passage_count, response=Need.RESPONSE_ATTENTION in needs)
    if Need.HIDDEN_STATES in needs:
        pass_.hidden_layer = model.layer_count // 2 if hidden_layer is None else hidden_layer
    asked = needs & {Need.ATTENTION, Need.RESPONSE_ATTENTION}
    attention = pass_.attention(row) if asked or pass_.shares_states else None
    if pass_.hidden_layer is not None and not pass_.states:
        pass_.take_states(row)
    return ModelInternals(attention if asked else None, pass_.attributed(), pass_.hidden(row))


@dataclass(slots=True)
class _ForwardPass:
    """The forward pass over a row, or over each of its windows, and what it left besides the attribution."""

    model: AttentionModel
    passage_count: int
    response: bool
    hidden_layer: int | None = None
    states: list[torch.Tensor] = field(default_factory=list)
    similarities: list[torch.Tensor] = field(default_factory=list)

    def attention(self, row: EncodedRow) -> TokenAttribution:
        """The attributions as in the audit; windows are read one by one if more than these is asked for."""
        if not self.response and not self.shares_states:
            (found,) = self.model.attribute([row], [self.passage_count])
        else:
            top_k = self.model.settings.top_k
            (found,) = attribute_with_windows(
                [row], [self.passage_count], top_k=top_k, attribute=lambda rows, _: [*map(self._one, rows)]
            )
        if isinstance(found, RowFault):
            raise found
        return found

    def take_states(self, row: EncodedRow) -> None:
        """Take the hidden states in a separate pass that ends at their layer."""
        from attribeam.attribution.attention.batching import run_halving
        from attribeam.attribution.attention.hidden_states import hidden_states

        layer = 0 if self.hidden_layer is None else self.hidden_layer
        for part in [window.row for window in row.windows] or [row]:
            (states,) = run_halving(
                [part], lambda rows: [hidden_states(self.model.network, one.token_ids, layer=layer) for one in rows]
            )
            if isinstance(states, RowFault):
                raise states
            self.states.append(states)

    def attributed(self) -> npt.NDArray[np.bool_] | None:
        from attribeam.attribution.attention.observed_attention import attributed_tokens

        return attributed_tokens(self.similarities, top_k=self.model.settings.top_k) if self.similarities else None

    def hidden(self, row: EncodedRow) -> HiddenSimilarity | None:
        from attribeam.attribution.attention.hidden_states import HiddenSimilarity

        if self.hidden_layer is None:
            return None
        return HiddenSimilarity(self.states, encoded=row, passage_count=self.passage_count)

    @property
    def shares_states(self) -> bool:
        """Whether the states lie below the captured layer: the audit's own pass, built for long rows, yields them."""
        return self.hidden_layer is not None and self.hidden_layer < self.model.layer

    def _one(self, part: EncodedRow) -> TokenAttribution | RowFault:
        """One row without windows."""
        from attribeam.attribution.attention.capture import observing
        from attribeam.attribution.attention.hidden_states import keeping_hidden_states

        def observe(layer_index: int, attention: RowAttention) -> None:
            if layer_index == self.model.layer - 1:
                self._keep_response(part, attention)

        with ExitStack() as stack:
            if self.response:
                stack.enter_context(observing(observe))
            if self.shares_states and self.hidden_layer is not None:
                stack.enter_context(keeping_hidden_states(self.model.network, self.states, layer=self.hidden_layer))
            (found,) = self.model.attribute([part], [self.passage_count])
        return found

    def _keep_response(self, part: EncodedRow, attention: RowAttention) -> None:
        from attribeam.attribution.attention.observed_attention import response_similarity

        self.similarities.append(
            response_similarity(
                attention,
                query_positions=self.model.request(part, self.passage_count).query_positions,
                prompt_length=part.prompt_length,
            )
        )


_Internal = TypeVar("_Internal")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LoadedModels:
    """The models that the chosen methods need; None for a model that no method needs.

    ``hidden_layer`` is the 1-based layer of the hidden states; 0 is the embeddings, None is floor(L/2). ``decoder`` is
    what the verdict's probe reads; it shares its weights with ``language`` where both are needed. ``verifier`` is that
    of the verdict.
    """

    parser: AnswerParser | None = None
    attention: AttentionModel | None = None
    hidden_layer: int | None = None
    language: LanguageModel | None = None
    decoder: Decoder | None = None
    verifier: Verifier | None = None

    @property
    def device(self) -> torch.device:
        """Where they run.

        Raises:
            ValueError: if only a parser is loaded, or nothing.
        """
        model = self.attention or self.language or self.decoder or self.verifier
        if model is None:
            raise ValueError("a device has only a model of attention or language, none is loaded")
        return model.device


class AnswerContext:
    """One answer and everything computed from it, each part when a method first asks for it.

    ``needs`` combines the needs of all methods that will ask, so that the model runs once for all of them. The caller
    may pass what it already has: the parsed answer, the encoded row, its token-wise attributions, and the method's
    options merged with the model's.

    Attributes:
        record: question, passages and answer.
        spans: the target spans, ranges of the answer.
    """

    def __init__(
        self,
        record: QARecord,
        spans: Sequence[CharRange],
        models: LoadedModels,
        needs: frozenset[Need] = frozenset({Need.ATTENTION}),
        *,
        parsed: ParsedAnswer | None = None,
        encoded: EncodedRow | None = None,
        attention: TokenAttribution | None = None,
        settings: MethodOptions | None = None,
    ) -> None:
        self.record = record
        self.spans = tuple(spans)
        self._models = models
        self._needs = needs
        self._settings = settings
        given = {"parsed": parsed, "encoded": encoded, "_attention": attention}
        vars(self).update({name: part for name, part in given.items() if part is not None})

    def settings_in_force(self, options: MethodOptions) -> MethodOptions:
        """The user's options merged with the model's: the user's, else the model directory's, else the paper's."""
        return self._settings or self.model.union_settings(options)

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
        return self._models.parser.parse(self.record.answer, self.record.passages)

    @cached_property
    def encoded(self) -> EncodedRow:
        """The encoded row.

        Raises:
            RowFault: if the model refuses the row.
        """
        return self.model.encode(self.record)

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
        return self.encoded, self._attention

    @property
    def attributed_tokens(self) -> npt.NDArray[np.bool_]:
        """bool [responses, responses]: whether the row's token is attributed to the column's, an earlier one.

        Raises:
            RowFault: if the model refuses the row.
        """
        return _require(self._internals.attributed, Need.RESPONSE_ATTENTION)

    @property
    def hidden_similarity(self) -> HiddenSimilarity:
        """The similarities of hidden states.

        Raises:
            RowFault: if the model refuses the row.
        """
        return _require(self._internals.hidden, Need.HIDDEN_STATES)

    @cached_property
    def language(self) -> LanguageContext:
        """What a causal language model says about the answer.

        Raises:
            RuntimeError: if no language model was loaded.
        """
        from attribeam.attribution.methods.language_context import LanguageContext

        if self._models.language is None:
            raise RuntimeError("a method asked for a language model, but says that it needs none")
        return LanguageContext(self.record, self._models.language)

    @cached_property
    def _attention(self) -> TokenAttribution:
        return _require(self._internals.attention, Need.ATTENTION)

    @cached_property
    def _internals(self) -> ModelInternals:
        return take_internals(
            self.model,
            self.encoded,
            passage_count=len(self.record.passages),
            needs=self._needs,
            hidden_layer=self._models.hidden_layer,
        )


def _require(taken: _Internal | None, need: Need) -> _Internal:
    """What was taken from the model; an error if no method declared the need."""
    if taken is None:
        raise RuntimeError(f"a method asked for {need}, but no method says that it needs it")
    return taken
