"""A model that gives token-wise attributions: texts to encoded rows, encoded rows to top-k columns."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import lru_cache

import torch
import transformers
from transformers import PreTrainedModel

from attribution.attention.attention_layer import LayerChoice, choose_layer
from attribution.attention.capture_pass import Capture
from attribution.attention.forward_pass import end_to_end_pass, padded_pass
from attribution.attention.head_weights import HeadWeights
from attribution.attention.out_of_memory import run_halving
from attribution.attention.packing import pack_by_token_budget, pack_end_to_end
from attribution.attention.rope_lengths import groups_by_border, rope_border
from attribution.attention.row_attention import RowRequest
from attribution.attention.row_layout import RowLayout, choose_layout
from attribution.attention.row_requests import Job, row_requests
from attribution.attention.transfers import RowsOnTheirWay
from attribution.attention.varlen_attention import kernel_name
from attribution.models.attribution_config import merge_settings
from attribution.models.depth_dependence import depth_matters
from attribution.models.model_directory import (
    ModelDirectory,
    ModelLoadError,
    read_model_directory,
    runs_own_code,
)
from attribution.models.model_options import MethodOptions, ModelOptions
from attribution.models.model_revision import revision_of
from attribution.models.placement import choose_device, choose_dtype
from attribution.models.quantization import quantization_provenance
from attribution.models.unused_weights import without_unused_weights
from attribution.models.weight_loading import load_weights
from attribution.prompts.row_encoder import RowEncoder
from attribution.prompts.window_merge import attribute_with_windows
from attribution.settings import QueryPosition, SoftmaxOver, UnionSettings
from attribution.token_attribution import EncodedRow, TokenAttribution
from schemas import Passage, QARecord, Reason, RowFault, RowSource

_TOKEN_BUDGETS = {"cpu": 2048, "cuda": 16384}
_EVERY_COLUMN = 2**31 - 1
_PROBES = (
    ("Which word?", "One word.", "A word."),
    ("Which of them was the last?", "First came the one, then came the other, and nobody counted.", "The other."),
    ("Which of them was the last?", "First came the one, then came the other, and nobody counted.", "Nobody knows."),
)
"""Question, passage and answer of rows that every model is tried on; the last two have one prompt."""
_RowOnItsWay = tuple[RowsOnTheirWay, int]
"""The rows of a pass, and the place of one of them."""


class AttentionModel:
    """One layer's attention of one model, reduced to what the union needs; holds no state between calls.

    Attributes:
        settings: the settings of the union in force: the user's, else the model directory's, else the paper's.
        layer: 1-based L*.
        layer_count: L, of the whole model.
        query_position: whose attention row i of S is.
        softmax_over: which columns a row of the attention is normalised over.
        template: the prompt.
        max_tokens: longest row, or window of a row, None where there is no limit.
        device, dtype: where and in which precision the layers run (the captured layer always in float32).
        token_budget: tokens of one batch, padding included.
        layout: whether the rows of a batch lie end to end or are padded.
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
        self.layout = self._choose_layout()
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
        if runs_own_code(directory) or depth_matters(directory.config):
            loaded = len(layer.kinds)
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

        The windows of a long row are rows of their own here; ``attribution.prompts.window_merge`` puts them together.

        Raises:
            ValueError: if there is not one passage count a row.
        """
        top_k = self.settings.top_k
        return attribute_with_windows(rows, passage_counts, top_k=top_k, attribute=self._attribute_whole)

    def _attribute_whole(
        self, rows: Sequence[EncodedRow], passage_counts: Sequence[int]
    ) -> list[TokenAttribution | RowFault]:
        jobs = list(zip(rows, passage_counts, strict=True))
        launched: dict[int, _RowOnItsWay | RowFault] = {}
        for batch in self._batches(rows):
            found = run_halving([jobs[index] for index in batch], self._run)
            launched.update(zip(batch, found, strict=True))
        return [self._outcome(job, launched[index]) for index, job in enumerate(jobs)]

    def _outcome(self, job: Job, launched: _RowOnItsWay | RowFault) -> TokenAttribution | RowFault:
        """What came of a row; one that is not finite is tried alone, as a neighbour's NaN may have reached it."""
        outcome = _outcome(launched)
        if isinstance(outcome, RowFault) and outcome.reason is Reason.NON_FINITE_ATTENTION:
            return _outcome(run_halving([job], self._run)[0])
        return outcome

    def _batches(self, rows: Sequence[EncodedRow]) -> Iterator[list[int]]:
        """Indices of the rows of each batch."""
        lengths = [len(row.token_ids) for row in rows]
        for group in groups_by_border(lengths, self._rope_border):
            if self.layout is RowLayout.PADDED:
                packed = pack_by_token_budget([lengths[index] for index in group], self.token_budget)
            else:
                token_ids = [rows[index].token_ids for index in group]
                packed = pack_end_to_end(token_ids, self.token_budget, share=not self._bidirectional)
            yield from ([group[place] for place in batch] for batch in packed)

    def provenance(self) -> dict[str, str]:
        """What the attributions depend on, for file metadata and the run manifest."""
        config = self._directory.config
        return {
            "model": self._directory.options.model,
            "model_revision": revision_of(self._directory, layer=self.layer),
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
            "prompt_template_name": self._encoder.template_name,
            "max_tokens": str(self.max_tokens),
            "token_budget": str(self.token_budget),
            "attention_backend": kernel_name(self.device, self.dtype)
            if self.layout is RowLayout.END_TO_END
            else "sdpa",
            "row_layout": str(self.layout),
            **quantization_provenance(self._directory.options.quantization, config),
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type,
            "torch_version": torch.__version__,
            "transformers_version": transformers.__version__,
        }

    def _run(self, jobs: Sequence[Job]) -> list[_RowOnItsWay]:
        """One forward pass; its rows are on their way to the host."""
        capture = self._capture(jobs, self.layout, self.settings.top_k)
        found = RowsOnTheirWay(capture.captured)
        return [(found, place) for place in range(len(jobs))]

    def _capture(self, jobs: Sequence[Job], layout: RowLayout, top_k: int) -> Capture:
        rows = [row for row, _ in jobs]
        capture = Capture(
            layer_index=self.layer - 1,
            top_k=top_k,
            rows=self._requests(jobs),
            head_weights=self.head_weights,
            bidirectional=self._bidirectional,
        )
        if layout is RowLayout.PADDED:
            padded_pass(self._model, rows, capture)
        else:
            end_to_end_pass(self._model, rows, capture, share=not self._bidirectional)
        return capture

    def request(self, row: EncodedRow, passage_count: int) -> RowRequest:
        """What of a layer's attention is S of this row."""
        return self._requests([(row, passage_count)])[0]

    def _requests(self, jobs: Sequence[Job]) -> list[RowRequest]:
        return row_requests(
            jobs, query_position=self.query_position, softmax_over=self.softmax_over, device=self.device
        )

    def _probe(self) -> bool:
        """Take the attention of one small row; True if the captured layer sees to the right as well.

        Raises:
            ModelLoadError: if that does not work, so that a run fails before it starts.
        """
        model = self._directory.options.model
        try:
            capture = self._capture(self._probe_jobs()[:1], RowLayout.PADDED, self.settings.top_k)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise ModelLoadError(f"model {model!r} does not give its attention: {error}; choose another") from error
        if isinstance(_outcome((RowsOnTheirWay(capture.captured), 0)), RowFault):
            raise ModelLoadError(f"model {model!r} gives NaN or infinity in {self.dtype}; choose another --dtype")
        return capture.bidirectional

    def _choose_layout(self) -> RowLayout:
        jobs = self._probe_jobs()
        return choose_layout(
            self._model,
            self._layer_choice.kinds[: self.layer],
            padded=lambda: self._capture(jobs, RowLayout.PADDED, _EVERY_COLUMN),
            end_to_end=lambda: self._capture(jobs, RowLayout.END_TO_END, _EVERY_COLUMN),
        )

    def _probe_jobs(self) -> list[Job]:
        records = [
            QARecord("probe", question, (Passage(text=passage),), answer, RowSource("", 0))
            for question, passage, answer in _PROBES
        ]
        return [(self._encoder.encode_any_length(record), 1) for record in records]


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


def _outcome(launched: _RowOnItsWay | RowFault) -> TokenAttribution | RowFault:
    if isinstance(launched, RowFault):
        return launched
    found, place = launched
    return found.outcome(place)


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
        found.check_fits(revision=revision_of(directory, layer=layer), layer=layer, attention_heads=attention_heads)
    except ValueError as error:
        raise ModelLoadError(f"{error}; see --head-weights") from error
    return torch.tensor(found.weights, dtype=torch.float32, device=device)


def _in_words(head_weights: torch.Tensor | None) -> str:
    return "equal" if head_weights is None else " ".join(f"{weight:.6g}" for weight in head_weights.tolist())
