"""A decoder up to one layer, for the hidden states of answers' tokens.

The layers above and the language-model head are not loaded. Rows run in shared batches: end to end without padding, and
with each shared beginning once, where the model allows it as the attention model does; else padded on the right, where
causality hides the padding. A decoder that sees later tokens is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from transformers import PreTrainedModel

from attribeam.attribution.attention.batching import (
    RowLayout,
    choose_layout,
    end_to_end_inputs,
    is_exact,
    padded_token_ids,
    row_batches,
    run_halving,
    token_budget_on,
)
from attribeam.attribution.attention.capture import CAPTURE_IMPLEMENTATION
from attribeam.attribution.attention.end_to_end_attention import rows_end_to_end
from attribeam.attribution.attention.hidden_states import layer_states
from attribeam.attribution.language_models import (
    LanguageModel,
    NotCausalError,
    check_causal,
    language_model_provenance,
)
from attribeam.attribution.models import as_load_errors
from attribeam.attribution.models.model_directory import (
    ModelDirectory,
    RowEncoder,
    layer_types,
    read_model_directory,
    rope_border,
)
from attribeam.attribution.models.weight_files import weights_digest
from attribeam.attribution.models.weight_loading import (
    drop_unused_weights,
    keep_freed_memory,
    layers_to_load,
    load_weights,
)
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.prompts.token_offsets import windows_or_whole
from attribeam.attribution.rows import EncodedRow
from attribeam.attribution.verdict.fitted_parts import AnswerStates, StateProbe
from attribeam.attribution.verdict.verified import AnswerToRead, Reading, or_unread
from attribeam.schemas import QARecord, Reason, RowFault
from attribeam.schemas.errors import ModelLoadError

_EXACT, _ROUGH = 1e-4, 0.1
"""How far a token's states may differ between two ways to compute them, relative to their norm: float32, and others."""

StatesOrFault: TypeAlias = torch.Tensor | RowFault
_Taken = TypeVar("_Taken")


class Decoder:
    """The layers of a decoder up to one, whose states are read; keeps no state between calls.

    Attributes:
        layer: after which the states are taken, 1-based; 0 means the embeddings.
        max_tokens: length of the longest row, or window of a row; None if there is no limit.
        device, dtype: where it runs, and in which precision; states come back in float32.
        token_budget: tokens per batch, padding included.
        layout: whether the rows of a batch lie end to end or are padded.
    """

    def __init__(
        self,
        *,
        directory: ModelDirectory,
        network: PreTrainedModel,
        encoder: RowEncoder,
        layer: int,
        is_shared: bool = False,
    ) -> None:
        """``is_shared`` says that others use the network, too, so that nothing in it may be changed.

        Raises ``NotCausalError`` if it sees later tokens; ``ModelLoadError`` if its states are not finite.
        """
        self.layer = layer
        self.max_tokens = encoder.max_tokens
        self.device: torch.device = network.device
        self.dtype: torch.dtype = network.dtype
        self.token_budget = token_budget_on(self.device, directory.options.token_budget)
        self.layout = RowLayout.PADDED
        self._directory, self._network, self._encoder = directory, network, encoder
        self._rope_border = rope_border(directory.config)
        self._try(is_shared=is_shared)

    @classmethod
    def from_pretrained(cls, options: ModelOptions, *, layer: int, threads: int | None = None) -> Decoder:
        """Load the layers up to ``layer`` and try them on a few small rows; ``options`` as for a language model.

        ``threads`` sets torch's CPU threads for the whole process. Raises ``NotCausalError`` if the model does not
        predict a next token; ``ModelLoadError`` if it has no such layer, or cannot be loaded for another reason.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        with as_load_errors(options.model):
            directory = read_model_directory(options)
            check_causal(directory)
            _check_layer(directory, layer)
            network = load_weights(directory, layer=layers_to_load(directory, max(layer, 1)), attention=None)
            return cls(directory=directory, network=network, encoder=RowEncoder(directory), layer=layer)

    @classmethod
    def of_language_model(cls, model: LanguageModel, *, layer: int) -> Decoder:
        """The same weights as a whole language model's, which others need.

        Raises ``ModelLoadError`` if it has no such layer.
        """
        _check_layer(model.directory, layer)
        return cls(directory=model.directory, network=model.network, encoder=model.encoder, layer=layer, is_shared=True)

    def encode(self, record: QARecord) -> EncodedRow:
        """The record's tokens and the characters that each covers, with windows if it is longer than the context.

        Raises ``RowFault`` as for ``RowEncoder.encode``.
        """
        return self._encoder.encode(record)

    def response_states(self, rows: Sequence[EncodedRow]) -> Iterator[tuple[int, StatesOrFault]]:
        """The place of each row and the states of its response tokens, float32 [responses, size] on the host.

        No row may have windows, each of which is a row of its own here.

        Rows are batched by ``token_budget``, and come batch by batch, so that not all states are kept at once; a batch
        that does not fit into memory is halved. A row that fails on its own gets a ``RowFault``: OUT_OF_MEMORY or
        NON_FINITE_ATTENTION. What a row shares a batch with moves its states by rounding only.
        """
        batches = row_batches(
            rows, layout=self.layout, token_budget=self.token_budget, rope_border=self._rope_border, share=True
        )
        for batch in batches:
            outcomes = run_halving([rows[index] for index in batch], self._states)
            for index, states in zip(batch, outcomes, strict=True):
                if not _is_settled(states):  # taken again on their own, since a neighbour's NaN may have spread
                    (states,) = run_halving([rows[index]], self._states)
                fault = RowFault(Reason.NON_FINITE_ATTENTION, "hidden states should be finite, are not; see --dtype")
                yield index, states if _is_settled(states) else fault

    def provenance(self) -> dict[str, str]:
        """Everything that the states depend on: as of the whole language model, whose revision counts all weights.

        ``language_model_weights`` is a digest of the weights that are read, and of nothing else.
        """
        return {**self._provenance}

    @cached_property
    def _provenance(self) -> dict[str, str]:
        """Kept, because a local model's revision is a digest of its files."""
        return {
            **language_model_provenance(self._directory, self._encoder, self._network),
            "language_model_weights": weights_digest(self._directory, layer=self.layer),
            "language_model_layer": str(self.layer),
            "language_model_row_layout": str(self.layout),
        }

    @torch.inference_mode()
    def _states(self, rows: Sequence[EncodedRow]) -> list[torch.Tensor]:
        """The states of the response tokens of one batch: float32 [responses, size] per row."""
        if self.layout is RowLayout.PADDED:
            ids = padded_token_ids(rows, self.device)
            states = layer_states(self._network, layer=self.layer, input_ids=ids, use_cache=False)
            return [
                states[index, row.prompt_length : len(row.token_ids)].float().cpu() for index, row in enumerate(rows)
            ]
        packed, inputs = end_to_end_inputs(rows, self.device, share=True)
        with rows_end_to_end(packed):
            states = layer_states(self._network, layer=self.layer, **inputs, use_cache=False)[0]
        return [
            part.states(states, row.prompt_length).float().cpu() for part, row in zip(packed.places, rows, strict=True)
        ]

    def _try(self, *, is_shared: bool) -> None:
        """Try a few small rows: whether the decoder is causal, and in which layout and how fast its rows may run.

        Weights above the layer that one row does not need are released. Raises ``NotCausalError`` or ``ModelLoadError``
        see ``__init__``.
        """
        rows, name = self._encoder.probes(), self._directory.options.model
        with nullcontext() if is_shared else drop_unused_weights(self._network, self.layer + 1):
            expected = self._states(rows)
        if not all(bool(states.isfinite().all()) for states in expected):
            raise ModelLoadError(f"model {name!r} gives NaN or infinity in {self.dtype}; choose another --dtype")
        later = replace(rows[1], token_ids=np.append(rows[1].token_ids[:-1], rows[1].token_ids[0]))
        (changed,) = self._states([later])
        if not self._agree([changed[:-1]], [expected[1][:-1]]):
            raise NotCausalError(f"model {name!r} should be a causal language model, but sees later tokens")
        if is_shared:
            return
        before = self._network.config._attn_implementation

        def agree_end_to_end() -> bool:
            self._network.set_attn_implementation(CAPTURE_IMPLEMENTATION)
            self.layout = RowLayout.END_TO_END
            return self._agree(self._states(rows), expected)

        kinds = layer_types(self._directory.config)[: self.layer]
        self.layout = choose_layout(self._network, kinds, agree_end_to_end)
        if self.layout is RowLayout.PADDED and self._network.config._attn_implementation != before:
            self._network.set_attn_implementation(before)
        keep_freed_memory(self._network)

    def _agree(self, states: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
        """Whether the states of all tokens are the same within the precision of the network."""
        tolerance = _EXACT if is_exact(self._network) else _ROUGH
        return all(
            bool(((state - other).norm(dim=-1) <= tolerance * other.norm(dim=-1)).all())
            for state, other in zip(states, expected, strict=True)
        )


def _is_settled(states: StatesOrFault) -> bool:
    return isinstance(states, RowFault) or bool(states.isfinite().all())


def _check_layer(directory: ModelDirectory, layer: int) -> None:
    count = len(layer_types(directory.config))
    if not 0 <= layer <= count:
        raise ModelLoadError(
            f"model {directory.options.model!r} should have the layer whose hidden states are read, from 0 to {count}, "
            f"was: {layer}"
        )


def read_answers(
    decoder: Decoder, records: Sequence[QARecord], take: Callable[[int, Sequence[AnswerStates]], _Taken]
) -> list[_Taken | RowFault]:
    """What ``take`` makes of the states of each record's answer, given with its place in ``records``, in their order.

    A record that is longer than the decoder's context is read in windows of whole passages, as the attention model
    reads it, and its answer has states in each of them, in their order; any other has them once. They are dropped as
    soon as they are taken. A record that the decoder refuses gets its ``RowFault``: TOO_MANY_TOKENS if one passage with
    question and answer is longer than the context.
    """
    outcomes: dict[int, _Taken | RowFault] = {}
    parts: list[tuple[int, EncodedRow]] = []
    for number, record in enumerate(records):
        try:
            parts += [(number, part) for part in windows_or_whole(decoder.encode(record))]
        except RowFault as fault:
            outcomes[number] = fault
    left = Counter(number for number, _ in parts)
    read: dict[int, dict[int, AnswerStates]] = {number: {} for number in left}
    for index, states in decoder.response_states([part for _, part in parts]):
        number, part = parts[index]
        left[number] -= 1
        if isinstance(states, RowFault):
            outcomes.setdefault(number, states)
        else:
            covering = np.flatnonzero(part.response_char_start < part.response_char_end)
            chars = part.response_char_start[covering], part.response_char_end[covering]
            read[number][index] = AnswerStates(*chars, states.numpy()[covering])
        if not left[number]:
            windows = read.pop(number)
            if number not in outcomes:
                outcomes[number] = take(number, [windows[index] for index in sorted(windows)])
    return [outcomes[number] for number in range(len(records))]


@dataclass(frozen=True, slots=True)
class DecoderReader:
    """Reads with a decoder; its ``probe`` says of each word how likely it is unsupported."""

    decoder: Decoder
    probe: StateProbe

    @property
    def device(self) -> torch.device:
        return self.decoder.device

    def provenance(self) -> Mapping[str, str]:
        return self.decoder.provenance()

    def read(self, answers: Sequence[AnswerToRead]) -> Sequence[Reading | RowFault | None]:
        outcomes = read_answers(
            self.decoder,
            [answer.record for answer in answers],
            lambda index, states: self.probe.word_log_odds(states, answers[index].parsed.words),
        )
        return [or_unread(outcome) for outcome in outcomes]
