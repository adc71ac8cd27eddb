"""Models that read an answer beside the attention model: causal ones, whole or up to one layer.

A ``LanguageModel`` is loaded in full, with its head, and scores how probable each token of an answer is, also after a
prompt that lacks some of its passages. A ``Decoder`` is loaded up to the layer whose hidden states are read. Its rows
run in shared batches: end to end without padding, and with each shared beginning once, where the model allows it as the
attention model does; else padded on the right, where causality hides the padding. Models that see later tokens are
refused.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
import transformers
from tokenizers import Tokenizer
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM, PreTrainedModel

from attribeam.attribution.attention.batching import (
    RowLayout,
    choose_layout,
    end_to_end_inputs,
    is_exact,
    padded_token_ids,
    row_batches,
    run_batches,
    run_halving,
    token_budget_on,
)
from attribeam.attribution.attention.capture import CAPTURE_IMPLEMENTATION
from attribeam.attribution.attention.end_to_end_attention import rows_end_to_end
from attribeam.attribution.attention.hidden_states import layer_states
from attribeam.attribution.models import as_load_errors
from attribeam.attribution.models.model_directory import (
    ModelDirectory,
    RowEncoder,
    layer_types,
    load_fast_tokenizer,
    read_model_directory,
    rope_border,
)
from attribeam.attribution.models.precision import (
    choose_device,
    choose_dtype,
    quantization_config,
    quantization_name,
    resolve_dtype,
)
from attribeam.attribution.models.weight_files import revision_of, weights_digest
from attribeam.attribution.models.weight_loading import (
    drop_unused_weights,
    keep_freed_memory,
    layers_to_load,
    load_weights,
    read_network,
    weights_to_load,
)
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.prompts.token_offsets import windows_or_whole
from attribeam.attribution.rows import EncodedRow
from attribeam.attribution.verdict.fitted_parts import AnswerStates, StateProbe
from attribeam.attribution.verdict.verified import AnswerToRead, Reading, or_unread
from attribeam.schemas import QARecord, Reason, RowFault
from attribeam.schemas.errors import ModelLoadError

_NOT_FINITE = "log-probabilities should be finite, are not; see --dtype"
_GREEDY_SETTINGS = {
    "do_sample": False, "num_beams": 1, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "temperature": 1.0,
    "top_p": 1.0, "top_k": 50,
}  # fmt: skip
"""transformers' defaults; they override the model's generation_config.json."""

_Outcome = npt.NDArray[np.float64] | RowFault


class LanguageModel:
    """A causal language model with its tokenizer and prompt; keeps no state between calls.

    Probabilities are always computed in float32. Rows are at most ``max_tokens`` long, None is no limit, and share a
    batch of up to ``token_budget`` tokens, padding included.
    """

    def __init__(self, *, directory: ModelDirectory, model: PreTrainedModel, encoder: RowEncoder) -> None:
        self.directory, self.encoder, self._model = directory, encoder, model
        self.max_tokens = encoder.max_tokens
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.token_budget = token_budget_on(self.device, directory.options.token_budget)
        self._tokenizer: Tokenizer = load_fast_tokenizer(directory).backend_tokenizer
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._probe()

    @classmethod
    def from_pretrained(cls, options: ModelOptions, *, threads: int | None = None) -> LanguageModel:
        """Load a model and try it on one small row; ``options`` as for the attention model, except for its layer.

        ``threads`` sets torch's CPU threads for the whole process. Raises ``NotCausalError`` if the model does not
        predict a next token; ``ModelLoadError`` if it cannot be loaded for another reason.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        with as_load_errors(options.model):
            directory = read_model_directory(options)
            return cls(directory=directory, model=load_causal_weights(directory), encoder=RowEncoder(directory))

    @property
    def network(self) -> PreTrainedModel:
        """The model without its language-model head."""
        return cast(PreTrainedModel, self._model.base_model)

    def encode(self, record: QARecord) -> EncodedRow:
        """The record's tokens and the characters that each covers.

        Raises ``RowFault`` as for ``RowEncoder.encode_whole``; INVALID_VALUE if no token precedes the answer.
        """
        row = self.encoder.encode_whole(record)
        if row.prompt_length == 0:
            raise RowFault(
                Reason.INVALID_VALUE, "at least one token should precede the answer; use another prompt template"
            )
        return row

    def token_log_probabilities(self, rows: Sequence[EncodedRow]) -> list[_Outcome]:
        """log p(r_i | prompt, r_1 ... r_{i-1}) of every response token: float64 [responses] per row, in row order.

        Rows are batched by ``token_budget``; a batch that does not fit into memory is halved. A row that fails on its
        own gets a ``RowFault``: OUT_OF_MEMORY or NON_FINITE_ATTENTION.
        """
        border, budget = rope_border(self.directory.config), self.token_budget
        batches = row_batches(rows, layout=RowLayout.PADDED, token_budget=budget, rope_border=border, share=False)
        return run_batches(rows, batches, self._batch_log_probabilities)

    @torch.inference_mode()
    def next_token_log_probabilities(self, row: EncodedRow) -> torch.Tensor:
        """The full distribution that predicts each response token: float32 [responses, vocabulary], on the device.

        Raises ``RowFault`` OUT_OF_MEMORY or NON_FINITE_ATTENTION.
        """
        (distribution,) = run_halving([row], lambda rows: [self.response_logits(rows)[0].log_softmax(-1)])
        if isinstance(distribution, RowFault):
            raise distribution
        if bool(distribution.isnan().any()):
            raise RowFault(Reason.NON_FINITE_ATTENTION, _NOT_FINITE)
        return distribution

    def response_logits(
        self, rows: Sequence[EncodedRow], *, embeddings: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        """The logits that predict each response token of one batch: float32 [responses, vocabulary] per row.

        ``embeddings`` [rows, longest, size], if given, replace the token ids. Rows are padded on the right, where
        causality hides the padding. Gradients flow if the caller enables them.
        """
        token_ids = self.token_ids(rows)
        inputs = {"input_ids": token_ids} if embeddings is None else {"inputs_embeds": embeddings}
        width = token_ids.shape[1]
        first = min(row.prompt_length for row in rows) - 1
        keep = {"logits_to_keep": width - first} if self._keeps_logits else {}
        logits = self._model(**inputs, use_cache=False, **keep).logits
        first = first if self._keeps_logits else 0
        return [
            logits[index, row.prompt_length - 1 - first : len(row.token_ids) - 1 - first].float()
            for index, row in enumerate(rows)
        ]

    def token_ids(self, rows: Sequence[EncodedRow]) -> torch.Tensor:
        """int64 [rows, longest], each row padded with its own last token."""
        return padded_token_ids(rows, self.device)

    def embeddings(self, row: EncodedRow) -> torch.Tensor:
        """The input embeddings of one row's tokens: [1, tokens, size]."""
        embedded: torch.Tensor = self._model.get_input_embeddings()(self.token_ids([row]))
        return embedded

    def generate(self, record: QARecord, *, max_new_tokens: int = 256) -> str:
        """The answer by greedy decoding, stripped of surrounding white space; ignores the record's own answer.

        It ends at the limit of the model's context at the latest. The model's own settings for sampling, beams and
        repetition are ignored. Raises ``RowFault`` OUT_OF_MEMORY, or a fault of ``encode``.
        """
        prompt = self.encode(replace(record, answer="?"))
        if self.max_tokens is not None:
            max_new_tokens = min(max_new_tokens, self.max_tokens - prompt.prompt_length)
        ids = self.token_ids([prompt])[:, : prompt.prompt_length]
        mask = torch.ones_like(ids)

        @torch.inference_mode()
        def greedy(_: Sequence[EncodedRow]) -> list[torch.Tensor]:
            make: Any = self._model.generate
            return [make(input_ids=ids, attention_mask=mask, max_new_tokens=max_new_tokens, **_GREEDY_SETTINGS)]

        (generated,) = run_halving([prompt], greedy)
        if isinstance(generated, RowFault):
            raise generated
        return self._tokenizer.decode(generated[0, prompt.prompt_length :].tolist()).strip()

    def provenance(self) -> dict[str, str]:
        """Everything that the probabilities depend on, for the report."""
        return language_model_provenance(self.directory, self.encoder, self._model)

    @torch.inference_mode()
    def _batch_log_probabilities(self, rows: Sequence[EncodedRow]) -> list[_Outcome]:
        outcomes: list[_Outcome] = []
        for logits, row in zip(self.response_logits(rows), rows, strict=True):
            targets = torch.from_numpy(row.token_ids[row.prompt_length :].astype(np.int64)).to(logits.device)
            scores = logits.gather(1, targets[:, None])[:, 0].double() - logits.logsumexp(-1).double()
            is_finite = bool(scores.isfinite().all())
            outcomes.append(scores.cpu().numpy() if is_finite else RowFault(Reason.NON_FINITE_ATTENTION, _NOT_FINITE))
        return outcomes

    @torch.inference_mode()
    def _probe(self) -> None:
        """Try one small row twice: later tokens must not change what is predicted before them.

        Raises ``ModelLoadError`` if they do, or if probabilities are not finite.
        """
        row = self.encoder.probes()[0]
        other = replace(row, token_ids=np.append(row.token_ids[:-1], row.token_ids[0]))
        first, second = self._batch_log_probabilities([row])[0], self._batch_log_probabilities([other])[0]
        name = self.directory.options.model
        if isinstance(first, RowFault) or isinstance(second, RowFault):
            raise ModelLoadError(f"model {name!r} gives NaN or infinity in {self.dtype}; choose another --dtype")
        if not np.allclose(first[:-1], second[:-1], atol=1e-2):
            raise NotCausalError(f"model {name!r} should be a causal language model, but sees later tokens")


def language_model_provenance(directory: ModelDirectory, encoder: RowEncoder, model: PreTrainedModel) -> dict[str, str]:
    """What identifies a language model and how it runs; the revision of a local one counts all of its weights."""
    return {
        "language_model": directory.options.model,
        "language_model_revision": revision_of(directory),
        "language_model_prompt_template": encoder.template.digest,
        "language_model_dtype": str(model.dtype).removeprefix("torch."),
        "language_model_device": model.device.type,
        "language_model_quantization": quantization_name(directory.options.quantization, directory.config),
        "torch_version": torch.__version__,
        "transformers_version": transformers.__version__,
    }


class NotCausalError(ModelLoadError):
    """The model does not predict a next token: it is an encoder, or has no language-model head."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"{fault}; name one with --language-model")


def load_causal_weights(directory: ModelDirectory) -> PreTrainedModel:
    """Load all layers and the language-model head, in evaluation mode.

    All weights but the head are quantised if the options say so. Raises ``NotCausalError`` if the model is not a causal
    language model, or lacks its head; ``ModelLoadError`` if the weights are missing, damaged, incomplete or not in
    safetensors files.
    """
    options = directory.options
    check_causal(directory)
    dtype = resolve_dtype(directory, choose_dtype(directory, choose_device(options.device)))
    quantised = quantization_config(options.quantization, directory.config, dtype, but=["lm_head"])
    needed = sum(group.weights for group in weights_to_load(directory, len(layer_types(directory.config))))
    model, missing = read_network(
        AutoModelForCausalLM, directory, needed=needed, quantised=quantised, trust_remote_code=options.trust_remote_code
    )
    if missing:
        raise NotCausalError(
            f"model {options.model!r} should have all weights of a causal language model, lacks {len(missing)}: "
            f"{', '.join(missing[:3])}"
        )
    return model


def check_causal(directory: ModelDirectory) -> None:
    """Check by its config that transformers, or the model's own code, has a causal language model of its kind.

    Raises ``NotCausalError`` if it does not.
    """
    auto_map = getattr(directory.config, "auto_map", None) or {}
    if type(directory.config) not in MODEL_FOR_CAUSAL_LM_MAPPING and "AutoModelForCausalLM" not in auto_map:
        raise NotCausalError(
            f"model {directory.options.model!r} should be a causal language model, is an encoder "
            f"({directory.config.model_type})"
        )


def ablated_row(
    model: LanguageModel, record: QARecord, *, kept: Collection[int], response_of: EncodedRow
) -> EncodedRow:
    """The row with its prompt rendered again from the ``kept`` passages only, renumbered; ``kept`` may be empty.

    The answer's tokens and their characters come from ``response_of``, the whole record's row, so they never change
    with the prompt. Raises ``RowFault`` a fault of ``LanguageModel.encode``; ``ValueError`` if ``kept`` names a passage
    that the record does not have.
    """
    passages = range(len(record.passages))
    if not set(kept) <= set(passages):
        raise ValueError(f"kept passages should lie in [0, {len(passages)}), were: {sorted(kept)}")
    left = tuple(record.passages[index] for index in passages if index in kept)
    prompt = model.encode(replace(record, passages=left))
    token_ids = (prompt.token_ids[: prompt.prompt_length], response_of.token_ids[response_of.prompt_length :])
    return replace(
        prompt,
        token_ids=np.concatenate(token_ids),
        response_char_start=response_of.response_char_start,
        response_char_end=response_of.response_char_end,
    )


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
