"""The attention model: encodes texts as rows, and attributes each token of a row to its top-k prompt columns."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

import torch

from attribeam.attribution.attention.batching import RowLayout, attribute_jobs, row_batches, token_budget_on
from attribeam.attribution.attention.end_to_end_attention import kernel_name
from attribeam.attribution.attention.modernbert_pass import FUSED_DTYPES, FusedCapture, fused_capture
from attribeam.attribution.attention.reduction import RowRequest
from attribeam.attribution.models import as_load_errors, loaded_once
from attribeam.attribution.models.model_directory import (
    LayerChoice,
    ModelDirectory,
    RowEncoder,
    configured_layer,
    load_row_encoder,
    read_light_directory,
    rope_border,
    runs_own_code,
)
from attribeam.attribution.models.precision import choose_device, choose_dtype, quantization_provenance
from attribeam.attribution.models.weight_files import revision_of
from attribeam.attribution.option_declaration import option_texts
from attribeam.attribution.options import MethodOptions, ModelOptions, QueryPosition, SoftmaxOver
from attribeam.attribution.prompts.token_offsets import attribute_with_windows
from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.schemas import QARecord, RowFault

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attribeam.attribution.attention.capture import LayerCapture


class AttentionModel:
    """The attention of one layer of a model, reduced to what the union needs; keeps no state between calls.

    Attributes:
        settings: the union's settings in force: the user's, else the model directory's, else the paper's.
        layer, layer_count: 1-based L*, and L, the number of layers of the whole model.
        max_tokens: length of the longest row, or window of a row; None if there is no limit.
        query_position, softmax_over: the position whose attention is row i of S, and the columns that sum to 1.
        device, dtype: where the layers run, and in which precision (the captured layer always runs in float32).
        token_budget: tokens per batch, padding included.
        layout: whether the rows of a batch lie end to end or are padded.
    """

    def __init__(
        self,
        *,
        directory: ModelDirectory,
        capture: LayerCapture | FusedCapture,
        layout: RowLayout,
        encoder: RowEncoder,
        layer: LayerChoice,
        method: MethodOptions,
    ) -> None:
        self._directory, self._encoder, self._layer_choice = directory, encoder, layer
        self._capture, self.layout = capture, layout
        self.settings = self.union_settings(method)
        self.layer = layer.layer
        self.layer_count = len(layer.kinds)
        self.template = encoder.template
        self.max_tokens = encoder.max_tokens
        self.device: torch.device = capture.device
        self.dtype: torch.dtype = capture.dtype
        self.token_budget = token_budget_on(self.device, directory.options.token_budget)
        self.query_position: QueryPosition = capture.query_position
        self.softmax_over: SoftmaxOver = capture.softmax_over
        self._rope_border = rope_border(directory.config)

    @classmethod
    def from_pretrained(
        cls,
        options: ModelOptions | None = None,
        *,
        method: MethodOptions | None = None,
        threads: int | None = None,
        encoder: RowEncoder | None = None,
        fused: bool = False,
    ) -> AttentionModel:
        """Load a model and try it on a few small rows.

        ``threads`` sets torch's CPU threads for the whole process. Pass ``encoder`` if the model's own row encoder is
        loaded already. With ``fused``, an encoder that the fused pass serves is loaded for it alone, without
        transformers, and has no ``network`` to look into. Raises ``ModelLoadError`` if the model cannot be loaded, or
        its attention cannot be taken.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        options = options or ModelOptions()
        with as_load_errors(options.model):
            directory = read_light_directory(options)
            device, layer = choose_device(options.device), configured_layer(directory)
            encoder = encoder or RowEncoder(directory)
            dtype = choose_dtype(directory, device)
            capture: LayerCapture | FusedCapture | None = None
            if fused and device.type == "cpu" and dtype in FUSED_DTYPES and options.loaded_layers is None:
                capture, layout = fused_capture(directory, layer.layer, dtype), RowLayout.END_TO_END
            if capture is None:
                from attribeam.attribution.attention.capture import load_capture

                capture, layout = load_capture(options, encoder=encoder, layer=layer)
            method = method or MethodOptions()
            return cls(directory=directory, capture=capture, layout=layout, encoder=encoder, layer=layer, method=method)

    @property
    def network(self) -> PreTrainedModel:
        """The loaded layers, for a forward pass of your own; their attention goes through ``capture_attention``."""
        return self.capture.network

    @property
    def capture(self) -> LayerCapture:
        """How to take the attention of L* from ``network``; RuntimeError if it was loaded for the fused pass."""
        if isinstance(self._capture, FusedCapture):
            raise RuntimeError("the model was loaded for the fused pass, and has no network; load it without fused")
        return self._capture

    def with_method(self, method: MethodOptions) -> AttentionModel:
        """The same model with other method options; the two share their weights."""
        other = copy.copy(self)
        other.settings = self.union_settings(method)
        return other

    def union_settings(self, method: MethodOptions) -> MethodOptions:
        """The settings in force with this model: those of ``method``, else the directory's, else the paper's."""
        return method.with_model(self._directory.defaults.method)

    def encode(self, record: QARecord) -> EncodedRow:
        """The record's tokens and the characters that each covers; raises as ``RowEncoder.encode``."""
        return self._encoder.encode(record)

    def attribute(self, rows: Sequence[EncodedRow], passage_counts: Sequence[int]) -> list[TokenAttribution | RowFault]:
        """Token-wise attributions: exactly one outcome per row, in the order of ``rows``.

        A batch that does not fit into memory is halved. A row that fails even on its own gets a ``RowFault``:
        OUT_OF_MEMORY or NON_FINITE_ATTENTION. Each window of a long row runs as a row of its own; the results are
        merged. Raises ``ValueError`` if ``passage_counts`` does not hold one count per row.
        """
        top_k = self.settings.top_k
        return attribute_with_windows(rows, passage_counts, top_k=top_k, attribute=self._attribute_whole)

    def batches(self, rows: Sequence[EncodedRow]) -> Iterator[list[int]]:
        """Indices of the rows of each batch, every row in exactly one batch; no row may have windows."""
        return row_batches(
            rows,
            layout=self.layout,
            token_budget=self.token_budget,
            rope_border=self._rope_border,
            share=self._capture.shares,
            context=self._capture.context,
        )

    def request(self, row: EncodedRow, passage_count: int) -> RowRequest:
        """Builds the capture request for one row."""
        return self.capture.requests([(row, passage_count)])[0]

    def provenance(self) -> dict[str, str]:
        """Everything that the attributions depend on, for file metadata and the run manifest."""
        directory, capture, encoder = self._directory, self._capture, self._encoder
        end_to_end = self.layout is RowLayout.END_TO_END
        return {
            "model": directory.options.model,
            "model_revision": revision_of(directory, layer=self.layer),
            "model_code": "of its repository" if runs_own_code(directory) else "of transformers",
            "model_type": str(directory.config.model_type),
            **self._layer_choice.provenance(),
            "query_position": str(capture.query_position),
            "softmax_over": str(capture.softmax_over),
            "forward_pass": capture.name,
            **option_texts(self.settings),
            "prompt_template": encoder.template.digest,
            "prompt_template_name": encoder.template_name,
            "max_tokens": str(encoder.max_tokens),
            "token_budget": str(self.token_budget),
            "attention_backend": kernel_name(capture.device, capture.dtype) if end_to_end else "sdpa",
            "row_layout": str(self.layout),
            **quantization_provenance(directory.options.quantization, directory.config),
            "dtype": str(capture.dtype).removeprefix("torch."),
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type,
            "torch_version": str(torch.__version__),  # a plain string, so that it unpickles without torch
            "transformers_version": version("transformers"),
        }

    def _attribute_whole(
        self, rows: Sequence[EncodedRow], passage_counts: Sequence[int]
    ) -> list[TokenAttribution | RowFault]:
        jobs = list(zip(rows, passage_counts, strict=True))
        take = partial(self._capture.take, layout=self.layout, top_k=self.settings.top_k)
        return attribute_jobs(take, jobs, self.batches(rows))


def load_attention_model(
    options: ModelOptions, *, method: MethodOptions | None = None, threads: int | None = None, fused: bool = False
) -> AttentionModel:
    """Like ``AttentionModel.from_pretrained``, but keeps the last model for the next call with the same options."""
    return _load(options, threads, fused).with_method(method or MethodOptions())


@loaded_once
def _load(options: ModelOptions, threads: int | None, fused: bool) -> AttentionModel:
    return AttentionModel.from_pretrained(options, threads=threads, encoder=load_row_encoder(options), fused=fused)
