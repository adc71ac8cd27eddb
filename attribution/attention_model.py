"""A model that gives token-wise attributions: texts to encoded rows, encoded rows to top-k columns."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel

from attribution.attention_capture import Capture, CapturedRow, RowRequest, capturing
from attribution.attention_layer import LayerChoice, choose_layer, only_local_below
from attribution.attribution_config import merge_settings
from attribution.end_to_end_rows import EndToEndRows, rows_end_to_end
from attribution.head_weights import HeadWeights
from attribution.model_directory import (
    ModelDirectory,
    ModelLoadError,
    read_model_directory,
    revision_of,
    runs_own_code,
)
from attribution.model_options import MethodOptions, ModelOptions
from attribution.out_of_memory import run_halving
from attribution.packing import pack_by_token_budget
from attribution.placement import choose_device, choose_dtype
from attribution.quantization import quantization_provenance
from attribution.rope_lengths import groups_by_border, rope_border
from attribution.row_encoder import RowEncoder
from attribution.settings import QueryPosition, SoftmaxOver, UnionSettings
from attribution.token_attribution import EncodedRow, TokenAttribution
from attribution.unused_weights import without_unused_weights
from attribution.weight_loading import load_weights
from schemas import Passage, QARecord, Reason, RowFault, RowSource

_TOKEN_BUDGETS = {"cpu": 2048, "cuda": 16384}
_Job = tuple[EncodedRow, int]


class AttentionModel:
    """One layer's attention of one model, reduced to what the union needs; holds no state between calls.

    Attributes:
        settings: the settings of the union in force: the user's, else the model directory's, else the paper's.
        layer: 1-based L*.
        layer_count: L, of the whole model.
        query_position: whose attention row i of S is.
        softmax_over: which columns a row of the attention is normalised over.
        template: the prompt.
        max_tokens: longest row that is accepted, None where there is no limit.
        device, dtype: where and in which precision the layers run (the captured layer always in float32).
        token_budget: tokens of one batch, padding included.
        head_weights: float32 [attention heads] that sum to 1, None for the mean over attention heads.
    """

    def __init__(
        self,
        *,
        directory: ModelDirectory,
        model: PreTrainedModel,
        encoder: RowEncoder,
        layer: LayerChoice,
        method: MethodOptions,
    ) -> None:
        config = directory.config.get_text_config()
        options = directory.options
        self.settings: UnionSettings = merge_settings(method, directory.defaults)
        self.layer = layer.layer
        self.layer_count = len(layer.kinds)
        self.query_position = QueryPosition.PREDICTING
        self.softmax_over = directory.defaults.softmax_over or SoftmaxOver.VISIBLE
        self.template = encoder.template
        self.max_tokens = encoder.max_tokens
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.token_budget = options.token_budget or _TOKEN_BUDGETS.get(self.device.type, _TOKEN_BUDGETS["cuda"])
        self.head_weights = _head_weights(directory, self.layer, model.device)
        self._directory = directory
        self._model = model
        self._encoder = encoder
        self._layer_choice = layer
        self._rope_border = rope_border(config)
        self._bidirectional = False
        with nullcontext() if options.loaded_layers else without_unused_weights(model, self.layer):
            self._bidirectional = self._probe()
        self._end_to_end = self._bidirectional and only_local_below(config, self.layer)
        own_position = QueryPosition.SELF if self._bidirectional else QueryPosition.PREDICTING
        self.query_position = options.query_position or directory.defaults.query_position or own_position

    @classmethod
    def from_pretrained(
        cls, options: ModelOptions | None = None, *, method: MethodOptions | None = None, threads: int | None = None
    ) -> AttentionModel:
        """Load a model and try it on one small row.

        ``threads`` is the number of CPU threads of torch, for the whole process.

        Raises:
            ModelLoadError: if it cannot be loaded, or its attention cannot be taken.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        options = options or ModelOptions()
        directory = read_model_directory(options)
        device = choose_device(options.device)
        try:
            layer = choose_layer(directory.config, _first(options.layer, directory.defaults.layer))
        except ValueError as error:
            raise ModelLoadError(f"model {options.model!r}: {error}") from error
        encoder = RowEncoder(directory)
        loaded = max(layer.layer, options.loaded_layers or 0)
        model = load_weights(directory, layer=loaded, dtype=choose_dtype(directory, device), device=device)
        return cls(
            directory=directory,
            model=model,
            encoder=encoder,
            layer=layer,
            method=method or MethodOptions(),
        )

    @property
    def network(self) -> PreTrainedModel:
        """The loaded layers, for a forward pass of one's own; their attention goes through ``capture_attention``."""
        return self._model

    def with_method(self, method: MethodOptions) -> AttentionModel:
        """The same model, weights shared, under other options of the method."""
        other = copy.copy(self)
        other.settings = self.union_settings(method)
        return other

    def union_settings(self, method: MethodOptions) -> UnionSettings:
        """The settings that ``method`` gives with this model: the user's, else the directory's, else the paper's."""
        return merge_settings(method, self._directory.defaults)

    def encode(self, record: QARecord) -> EncodedRow:
        """The record's tokens and their characters.

        Raises:
            RowFault: as ``RowEncoder.encode``.
        """
        return self._encoder.encode(record)

    def attribute(self, rows: Sequence[EncodedRow], passage_counts: Sequence[int]) -> list[TokenAttribution | RowFault]:
        """Token-wise attributions, exactly one outcome a row, in the order of ``rows``.

        Rows are batched by ``token_budget``; a batch that does not fit into memory is halved. A row that fails alone
        gets a ``RowFault``: OUT_OF_MEMORY or NON_FINITE_ATTENTION. Rows on both sides of the border of ``longrope`` are
        never in one batch.

        Raises:
            ValueError: if there is not one passage count a row.
        """
        jobs = list(zip(rows, passage_counts, strict=True))
        outcomes: dict[int, TokenAttribution | RowFault] = {}
        lengths = [len(row.token_ids) for row in rows]
        for group in groups_by_border(lengths, self._rope_border):
            for packed in pack_by_token_budget([lengths[index] for index in group], self.token_budget):
                batch = [group[place] for place in packed]
                outcomes.update(zip(batch, run_halving([jobs[index] for index in batch], self._run), strict=True))
        return [outcomes[index] for index in range(len(rows))]

    def provenance(self) -> dict[str, str]:
        """What the attributions depend on, for file metadata and the run manifest."""
        config = self._directory.config
        return {
            "model": self._directory.options.model,
            "model_revision": revision_of(self._directory),
            "model_code": "of its repository" if runs_own_code(self._directory) else "of transformers",
            "model_type": str(config.model_type),
            **self._layer_choice.provenance(),
            "query_position": str(self.query_position),
            "softmax_over": str(self.softmax_over),
            "method": str(self.settings.method),
            "top_k": str(self.settings.top_k),
            "isolation_tau": f"{self.settings.isolation_tau:g}",
            "own_token_weight": str(self.settings.own_token_weight),
            "sentence_weight": f"{self.settings.sentence_weight:g}",
            "evidence_window": f"{self.settings.evidence_window:g}",
            "supported_threshold": f"{self.settings.supported_threshold:g}",
            "weak_threshold": f"{self.settings.weak_threshold:g}",
            "head_weights": _in_words(self.head_weights),
            "prompt_template": self.template.digest,
            "max_tokens": str(self.max_tokens),
            "token_budget": str(self.token_budget),
            "attention_backend": "sdpa",
            **quantization_provenance(self._directory.options.quantization),
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type,
            "torch_version": torch.__version__,
            "transformers_version": transformers.__version__,
        }

    def _run(self, jobs: Sequence[_Job]) -> list[TokenAttribution | RowFault]:
        """One forward pass over rows that lie end to end where the model allows it, else are padded on the right."""
        capture = self._capture_end_to_end(jobs) if self._end_to_end else self._capture(jobs)
        return [_outcome(row) for row in capture.captured]

    @torch.inference_mode()
    def _capture_end_to_end(self, jobs: Sequence[_Job]) -> Capture:
        capture = self._new_capture(jobs)
        rows = EndToEndRows.of_lengths([len(row.token_ids) for row, _ in jobs], self.device)
        token_ids = torch.from_numpy(np.concatenate([row.token_ids for row, _ in jobs]).astype(np.int64))
        with capturing(capture), rows_end_to_end(rows):
            self._model(input_ids=token_ids[None].to(self.device), position_ids=rows.positions()[None])
        return capture

    def _new_capture(self, jobs: Sequence[_Job]) -> Capture:
        requests = [self.request(row, passage_count) for row, passage_count in jobs]
        return Capture(
            layer_index=self.layer - 1, top_k=self.settings.top_k, rows=requests, head_weights=self.head_weights
        )

    @torch.inference_mode()
    def _capture(self, jobs: Sequence[_Job]) -> Capture:
        capture = self._new_capture(jobs)
        token_ids = _pad([row.token_ids for row, _ in jobs]).to(self.device)
        lengths = torch.tensor([len(row.token_ids) for row, _ in jobs], device=self.device)
        mask = None
        if self._bidirectional and int(lengths.min()) < token_ids.shape[1]:
            mask = torch.arange(token_ids.shape[1], device=self.device) < lengths[:, None]
        with capturing(capture):
            self._model(input_ids=token_ids, attention_mask=mask, use_cache=False)
        return capture

    def request(self, row: EncodedRow, passage_count: int) -> RowRequest:
        """What of a layer's attention is S of this row."""
        shift = 1 if self.query_position is QueryPosition.PREDICTING else 0
        positions = torch.arange(row.prompt_length - shift, len(row.token_ids) - shift, device=self.device)
        column_passage = torch.from_numpy(row.column_passage.astype(np.int64)).to(self.device)
        token_count = row.prompt_length if self.softmax_over is SoftmaxOver.PROMPT else len(row.token_ids)
        return RowRequest(positions, token_count, column_passage, passage_count)

    def _probe(self) -> bool:
        """Take the attention of one small row; True if the captured layer sees to the right as well.

        Raises:
            ModelLoadError: if that does not work, so that a run fails before it starts.
        """
        record = QARecord("probe", "Which word?", (Passage(text="One word."),), "A word.", RowSource("", 0))
        job = (self._encoder.encode_any_length(record), 1)
        model = self._directory.options.model
        try:
            capture = self._capture([job])
        except (RuntimeError, TypeError) as error:
            raise ModelLoadError(f"model {model!r} does not give its attention: {error}; choose another") from error
        if isinstance(_outcome(capture.captured[0]), RowFault):
            raise ModelLoadError(f"model {model!r} gives NaN or infinity in {self.dtype}; choose another --dtype")
        return capture.bidirectional


def load_attention_model(
    options: ModelOptions, *, method: MethodOptions | None = None, threads: int | None = None
) -> AttentionModel:
    """``AttentionModel.from_pretrained``, but the last model stays loaded for the next call with the same options.

    Raises:
        ModelLoadError: as there.
    """
    return _load(options, threads).with_method(method or MethodOptions())


@lru_cache(maxsize=1)
def _load(options: ModelOptions, threads: int | None) -> AttentionModel:
    return AttentionModel.from_pretrained(options, threads=threads)


def _outcome(row: CapturedRow) -> TokenAttribution | RowFault:
    if not row.finite.item():
        return RowFault(Reason.NON_FINITE_ATTENTION, "attention should be finite, has NaN or infinity; see --dtype")
    return TokenAttribution(
        top_columns=row.top_columns.to("cpu", torch.int32).numpy(),
        top_scores=row.top_scores.cpu().numpy(),
        passage_mass=row.passage_mass.cpu().numpy(),
    )


def _pad(rows: Sequence[np.typing.NDArray[np.int32]]) -> torch.Tensor:
    """int64 [rows, longest]; each row is continued with its own last token, which is valid in every vocabulary.

    Causality hides what stands to the right; bidirectional models get a mask.
    """
    width = max(len(row) for row in rows)
    padded = np.stack([np.pad(row, (0, width - len(row)), mode="edge") for row in rows])
    return torch.from_numpy(padded.astype(np.int64))


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _head_weights(directory: ModelDirectory, layer: int, device: torch.device) -> torch.Tensor | None:
    """The weights of the options' file, None where none is given.

    Raises:
        ModelLoadError: if they cannot be read, or were fitted for another model or layer.
    """
    if directory.options.head_weights is None:
        return None
    try:
        found = HeadWeights.from_file(directory.options.head_weights)
        attention_heads = int(directory.config.get_text_config().num_attention_heads)
        found.check_fits(revision=revision_of(directory), layer=layer, attention_heads=attention_heads)
    except ValueError as error:
        raise ModelLoadError(f"{error}; see --head-weights") from error
    return torch.tensor(found.weights, dtype=torch.float32, device=device)


def _in_words(head_weights: torch.Tensor | None) -> str:
    return "equal" if head_weights is None else " ".join(f"{weight:.6g}" for weight in head_weights.tolist())
