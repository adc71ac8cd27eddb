"""A model that gives token-wise attributions: texts to encoded rows, encoded rows to top-k columns."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from transformers import PreTrainedModel

from attribeam.attribution.attention import model_provenance
from attribeam.attribution.attention.batching import rope_border, row_batches
from attribeam.attribution.attention.forward_pass import LayerCapture, attribute_jobs
from attribeam.attribution.attention.layer_choice import LayerChoice
from attribeam.attribution.attention.model_setup import load_parts, try_model
from attribeam.attribution.attention.reduction import RowRequest
from attribeam.attribution.models.model_directory import ModelDirectory
from attribeam.attribution.option_declaration import option_texts
from attribeam.attribution.options import MethodOptions, ModelOptions, QueryPosition, SoftmaxOver
from attribeam.attribution.prompts.passage_windows import attribute_with_windows
from attribeam.attribution.prompts.row_encoder import RowEncoder, load_row_encoder
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import QARecord, RowFault

_TOKEN_BUDGETS = {"cpu": 2048, "cuda": 16384}


class AttentionModel:
    """One layer's attention of one model, reduced to what the union needs; holds no state between calls.

    Attributes:
        settings: the settings of the union in force: the user's, else the model directory's, else the paper's.
        layer: 1-based L*.
        layer_count: L, of the whole model.
        template: the prompt.
        max_tokens: longest row, or window of a row, None where there is no limit.
        device, dtype: where and in which precision the layers run (the captured layer always in float32).
        token_budget: tokens of one batch, padding included.
        layout: whether the rows of a batch lie end to end or are padded.
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
        self.settings = method.with_model(directory.defaults.method)
        self.layer = layer.layer
        self.layer_count = len(layer.kinds)
        self.template = encoder.template
        self.max_tokens = encoder.max_tokens
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        asked = directory.options.token_budget
        self.token_budget = asked or _TOKEN_BUDGETS.get(self.device.type, _TOKEN_BUDGETS["cuda"])
        self._directory, self._encoder, self._layer_choice = directory, encoder, layer
        self._rope_border = rope_border(directory.config.get_text_config())
        self._capture, self.layout = try_model(directory, model, encoder=encoder, layer=layer)

    @classmethod
    def from_pretrained(
        cls,
        options: ModelOptions | None = None,
        *,
        method: MethodOptions | None = None,
        threads: int | None = None,
        encoder: RowEncoder | None = None,
    ) -> AttentionModel:
        """Load a model and try it on one small row.

        ``threads`` is the number of CPU threads of torch, for the whole process. ``encoder`` is the model's own, where
        it is loaded already.

        Raises:
            ModelLoadError: if it cannot be loaded, or its attention cannot be taken.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        parts = load_parts(options or ModelOptions(), encoder=encoder)
        return cls(
            directory=parts.directory,
            model=parts.model,
            encoder=parts.encoder,
            layer=parts.layer,
            method=method or MethodOptions(),
        )

    @property
    def network(self) -> PreTrainedModel:
        """The loaded layers, for a forward pass of one's own; their attention goes through ``capture_attention``."""
        return self._capture.network

    @property
    def capture(self) -> LayerCapture:
        """How the attention of L* is taken."""
        return self._capture

    @property
    def query_position(self) -> QueryPosition:
        """Whose attention row i of S is."""
        return self._capture.query_position

    @property
    def softmax_over(self) -> SoftmaxOver:
        """Which columns a row of the attention is normalised over."""
        return self._capture.softmax_over

    @property
    def head_weights(self) -> torch.Tensor | None:
        """float32 [attention heads] that sum to 1, None for the mean over attention heads."""
        return self._capture.head_weights

    def with_method(self, method: MethodOptions) -> AttentionModel:
        """The same model, weights shared, under other options of the method."""
        other = copy.copy(self)
        other.settings = self.union_settings(method)
        return other

    def union_settings(self, method: MethodOptions) -> MethodOptions:
        """The settings that ``method`` gives with this model: the user's, else the directory's, else the paper's."""
        return method.with_model(self._directory.defaults.method)

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

        The windows of a long row are rows of their own here; ``prompts.passage_windows`` puts them together.

        Raises:
            ValueError: if there is not one passage count a row.
        """
        top_k = self.settings.top_k
        return attribute_with_windows(rows, passage_counts, top_k=top_k, attribute=self._attribute_whole)

    def batches(self, rows: Sequence[EncodedRow]) -> Iterator[list[int]]:
        """Indices of the rows that go through the model together, none of which has windows; each row in one batch."""
        return row_batches(
            rows,
            layout=self.layout,
            token_budget=self.token_budget,
            rope_border=self._rope_border,
            share=not self._capture.bidirectional,
        )

    def request(self, row: EncodedRow, passage_count: int) -> RowRequest:
        """What of a layer's attention is S of this row."""
        return self._capture.requests([(row, passage_count)])[0]

    def provenance(self) -> dict[str, str]:
        """What the attributions depend on, for file metadata and the run manifest."""
        return {
            **model_provenance.of_model(self._directory, self._layer_choice),
            **model_provenance.of_capture(self._capture),
            **option_texts(self.settings),
            **model_provenance.of_prompt(self._encoder),
            **model_provenance.of_batches(self._capture.network, layout=self.layout, token_budget=self.token_budget),
            **model_provenance.of_machine(self._capture.network, self._directory),
        }

    def _attribute_whole(
        self, rows: Sequence[EncodedRow], passage_counts: Sequence[int]
    ) -> list[TokenAttribution | RowFault]:
        jobs = list(zip(rows, passage_counts, strict=True))
        return attribute_jobs(self._capture, jobs, self.batches(rows), layout=self.layout, top_k=self.settings.top_k)


def load_attention_model(
    options: ModelOptions, *, method: MethodOptions | None = None, threads: int | None = None
) -> AttentionModel:
    """``AttentionModel.from_pretrained``, but the last model stays loaded for the next call with the same options.

    Its encoder is that of ``load_row_encoder``.

    Raises:
        ModelLoadError: as there.
    """
    return _load(options, threads).with_method(method or MethodOptions())


@lru_cache(maxsize=1)
def _load(options: ModelOptions, threads: int | None) -> AttentionModel:
    return AttentionModel.from_pretrained(options, threads=threads, encoder=load_row_encoder(options))
