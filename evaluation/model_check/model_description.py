"""Checks whether a model can serve: its config before anything is loaded, then loading, speed and a worked example.

The worked example shows how much attention goes to the passages; a layer that hardly looks at them is of no use.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.models.model_directory import (
    LayerChoice,
    ModelDirectory,
    configured_layer,
    read_model_directory,
)
from attribeam.attribution.models.precision import choose_device, choose_dtype, resolve_dtype
from attribeam.attribution.models.row_encoder import RowEncoder
from attribeam.attribution.models.weight_loading import WeightGroup, check_fits, free_memory
from attribeam.attribution.options import ModelOptions, Quantization
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import Passage, QARecord, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError

_SENTENCES = (
    "The lighthouse at Brigg Point was finished in 1874, after three winters of work on the rock.",
    "Its builder, Ada Thorne, had drawn two harbours before, and she lived in the tower while it rose.",
    "The lamp burned oil until 1931; since then it has been electric, and nobody sleeps there any more.",
    "On clear nights it is seen from twelve miles away, which the fishermen of three villages rely on.",
    "A storm in 1902 broke the gallery, and the repair took longer than the first building of it.",
)
EXAMPLE_RECORD = QARecord(
    "example",
    "Who built the lighthouse at Brigg Point, and until when did its lamp burn oil?",
    (Passage(text=_SENTENCES[2]), Passage(text=" ".join(_SENTENCES[:2])), Passage(text=_SENTENCES[4])),
    "Ada Thorne built the lighthouse. Its lamp burned oil until 1931.",
    RowSource("", 0),
)
_COMPARED_ROWS = 8
_COMPARED_COLUMNS = 2
_MEASURED_SECONDS = 2.0
_LONGEST_ROW_SECONDS = 5.0
_MOST_ROWS = 64


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What is known before the weights are read.

    Attributes:
        max_tokens: length of the longest row; None if there is no limit.
        dtype: the precision of everything that is not quantised.
        groups: the weights that will be loaded.
        free: bytes free on ``device``; None if unknown.
    """

    directory: ModelDirectory
    layer: LayerChoice
    max_tokens: int | None
    device: torch.device
    dtype: torch.dtype
    groups: tuple[WeightGroup, ...]
    free: int | None


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second over ``rows`` rows of about ``row_tokens`` tokens each, after one warm-up row."""

    tokens_per_second: float
    rows: int
    row_tokens: int


def describe_model(options: ModelOptions) -> ModelDescription:
    """Config, tokenizer, layer and memory of a model, without its weights.

    Raises:
        ModelLoadError: if it cannot serve; the message says why, and what to do.
    """
    directory = read_model_directory(options)
    encoder = RowEncoder(directory)
    device = choose_device(options.device)
    layer = configured_layer(directory)
    dtype = resolve_dtype(directory, choose_dtype(directory, device))
    groups = check_fits(directory, layer=layer.layer, dtype=dtype, device=device)
    return ModelDescription(directory, layer, encoder.max_tokens, device, dtype, groups, free_memory(device))


def measure_speed(model: AttentionModel) -> Speed:
    """Run rows of about 2,000 characters, no two with the same prompt, for a few seconds.

    If one such row would take too long, a short row is run instead.

    Raises:
        ModelLoadError: if a row cannot be encoded or attributed.
    """
    short = _sample_rows(model, 1, repeats=1)
    rate = short[0].token_count / min(_seconds_for(model, short), _seconds_for(model, short))
    (long,) = _sample_rows(model, 1, repeats=4)
    if long.token_count > _LONGEST_ROW_SECONDS * rate:
        return Speed(rate, 1, short[0].token_count)
    count = max(1, min(_MOST_ROWS, int(_MEASURED_SECONDS * rate / long.token_count)))
    rows = _sample_rows(model, count, repeats=4)
    return Speed(sum(row.token_count for row in rows) / _seconds_for(model, rows), count, long.token_count)


def _sample_rows(model: AttentionModel, count: int, *, repeats: int) -> list[EncodedRow]:
    try:
        return [model.encode(_sample_record(number, repeats)) for number in range(count)]
    except RowFault as fault:
        raise ModelLoadError(f"the model cannot take a sample row: {fault}") from fault


def _sample_record(number: int, repeats: int) -> QARecord:
    """A record with unique first words, whose passages repeat their text ``repeats`` times."""
    passages = tuple(Passage(text=" ".join([f"{number}: {text}"] * repeats)) for text in _SENTENCES)
    return QARecord(
        str(number), f"{number}: {EXAMPLE_RECORD.question}", passages, EXAMPLE_RECORD.answer, EXAMPLE_RECORD.source
    )


def _seconds_for(model: AttentionModel, rows: Sequence[EncodedRow]) -> float:
    """The seconds taken, at least one microsecond."""
    start = time.perf_counter()
    _attributed(model, rows)
    return max(time.perf_counter() - start, 1e-6)


def _attributed(model: AttentionModel, rows: Sequence[EncodedRow]) -> list[TokenAttribution]:
    """The attributions of sample rows.

    Raises:
        ModelLoadError: if there is none of a row.
    """
    outcomes = model.attribute(rows, [len(_SENTENCES)] * len(rows))
    found = [outcome for outcome in outcomes if isinstance(outcome, TokenAttribution)]
    fault = next((outcome for outcome in outcomes if isinstance(outcome, RowFault)), None)
    if fault is not None:
        raise ModelLoadError(f"the model cannot attribute a sample row: {fault}")
    return found


def is_exact(model: AttentionModel, options: ModelOptions) -> bool:
    """Whether the model runs in float32 with weights as they are, so that there is nothing to compare it with."""
    return model.dtype == torch.float32 and options.quantization is Quantization.NONE


def agreement_with_float32(model: AttentionModel, options: ModelOptions, *, threads: int | None = None) -> float:
    """``top_columns_agreement`` on a few sample rows with the same model in float32, which is loaded beside it.

    Raises:
        ModelLoadError: if there is no room for it, or a row cannot be encoded or attributed.
    """
    rows = _sample_rows(model, _COMPARED_ROWS, repeats=1)
    found = _attributed(model, rows)
    exact = AttentionModel.from_pretrained(options.replaced(dtype="float32", quantization=None), threads=threads)
    return top_columns_agreement(found, _attributed(exact, rows))


def top_columns_agreement(found: Sequence[TokenAttribution], expected: Sequence[TokenAttribution]) -> float:
    """The share of answer tokens, from 0 to 1, whose two best columns are the same in whatever order.

    Raises:
        ValueError: if the attributions are not of the same rows.
    """
    pairs = [(_best(one), _best(other)) for one, other in zip(found, expected, strict=True)]
    same = np.concatenate([(one == other).all(axis=1) for one, other in pairs])
    return float(same.mean())


def _best(tokens: TokenAttribution) -> npt.NDArray[np.int32]:
    return np.sort(tokens.top_columns[:, :_COMPARED_COLUMNS], axis=1)


@dataclass(frozen=True, slots=True)
class AttentionShares:
    """Shares of the attention of an answer's tokens, each from 0 to 1, averaged over the tokens.

    Attributes:
        passages: the share on the passages, titles included.
        outside: the share on the rest of the prompt: special tokens, template, question.
        rest: the remaining share: on the answer itself, and on a model's learned sinks.
        passage_tokens: the share of the prompt's tokens that lie in passages, which even attention would give them.
    """

    passages: float
    outside: float
    rest: float
    passage_tokens: float


def attention_shares(model: AttentionModel, record: QARecord) -> AttentionShares:
    """The attention shares of one row; for a row in windows, the mean over its windows.

    Raises:
        ModelLoadError: if the row cannot be encoded or attributed.
    """
    try:
        row = model.encode(record)
    except RowFault as fault:
        raise ModelLoadError(f"the model cannot take the row of its worked example: {fault}") from fault
    (tokens,) = model.attribute([row], [len(record.passages)])
    if isinstance(tokens, RowFault):
        raise ModelLoadError(f"the model cannot attribute the row of its worked example: {tokens}")
    passages = float(tokens.passage_mass.sum(1).mean()) / max(1, len(row.windows))
    outside = float(tokens.sink_mass.mean())
    return AttentionShares(passages, outside, max(0.0, 1 - passages - outside), float((row.column_passage >= 0).mean()))
