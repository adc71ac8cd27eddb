"""Can this model serve? What its config says before anything is loaded, then loading, speed and one worked example."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from attribution.attention.attention_layer import LayerChoice
from attribution.attention.attention_model import AttentionModel
from attribution.attention.model_parts import layer_of
from attribution.models.free_memory import free_memory
from attribution.models.model_directory import ModelDirectory, read_model_directory
from attribution.models.model_errors import ModelLoadError, errors_named
from attribution.models.model_options import ModelOptions
from attribution.models.placement import choose_device, choose_dtype
from attribution.models.weight_loading import check_fits, settled_dtype
from attribution.models.weight_memory import WeightGroup, weight_groups
from attribution.prompts.row_encoder import RowEncoder
from attribution.token_attribution import EncodedRow
from schemas import Passage, QARecord, RowFault, RowSource

_SENTENCES = (
    "The lighthouse at Brigg Point was finished in 1874, after three winters of work on the rock.",
    "Its builder, Ada Thorne, had drawn two harbours before, and she lived in the tower while it rose.",
    "The lamp burned oil until 1931; since then it has been electric, and nobody sleeps there any more.",
    "On clear nights it is seen from twelve miles away, which the fishermen of three villages rely on.",
    "A storm in 1902 broke the gallery, and the repair took longer than the first building of it.",
)
EXAMPLE = QARecord(
    "example",
    "Who built the lighthouse at Brigg Point, and until when did its lamp burn oil?",
    (Passage(text=_SENTENCES[2]), Passage(text=" ".join(_SENTENCES[:2])), Passage(text=_SENTENCES[4])),
    "Ada Thorne built the lighthouse. Its lamp burned oil until 1931.",
    RowSource("", 0),
)
_SECONDS = 2.0
_LONGEST_SECONDS = 5.0
_MOST_ROWS = 64


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What is known before the weights are read.

    Attributes:
        max_tokens: longest row, None where there is no limit.
        dtype: of everything that is not quantised.
        groups: the weights that will be loaded.
        free: bytes left on ``device``, None where nobody says.
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
    """Tokens a second over ``rows`` rows of about ``row_tokens`` tokens, after one row to warm up."""

    tokens_per_second: float
    rows: int
    row_tokens: int


def describe_model(options: ModelOptions) -> ModelDescription:
    """Config, tokenizer, layer and memory of a model, without its weights.

    Raises:
        ModelLoadError: if it cannot serve; the message says why, and the way out.
    """
    directory = read_model_directory(options)
    encoder = RowEncoder(directory)
    device = choose_device(options.device)
    layer = layer_of(directory)
    dtype = settled_dtype(directory, choose_dtype(directory, device))
    check_fits(directory, layer=layer.layer, dtype=dtype, device=device)
    with errors_named(options.model):
        groups = weight_groups(directory.config, layer.layer, trust_remote_code=options.trust_remote_code)
    return ModelDescription(directory, layer, encoder.max_tokens, device, dtype, groups, free_memory(device))


def measure_speed(model: AttentionModel) -> Speed:
    """Run rows of some 2,000 characters for a few seconds, no two of which share their prompt.

    Where one such row would take too long, a short one is run.

    Raises:
        ModelLoadError: if a row cannot be encoded or attributed.
    """
    short = _sample_rows(model, 1, repeats=1)
    rate = short[0].token_count / min(_timed(model, short), _timed(model, short))
    (long,) = _sample_rows(model, 1, repeats=4)
    if long.token_count > _LONGEST_SECONDS * rate:
        return Speed(rate, 1, short[0].token_count)
    count = max(1, min(_MOST_ROWS, int(_SECONDS * rate / long.token_count)))
    rows = _sample_rows(model, count, repeats=4)
    return Speed(sum(row.token_count for row in rows) / _timed(model, rows), count, long.token_count)


def _sample_rows(model: AttentionModel, count: int, *, repeats: int) -> list[EncodedRow]:
    try:
        return [model.encode(_sample(number, repeats)) for number in range(count)]
    except RowFault as fault:
        raise ModelLoadError(f"the model cannot take a sample row: {fault}") from fault


def _sample(number: int, repeats: int) -> QARecord:
    """A row whose first words are its own; its passages say the same ``repeats`` times."""
    passages = tuple(Passage(text=" ".join([f"{number}: {text}"] * repeats)) for text in _SENTENCES)
    return QARecord(str(number), f"{number}: {EXAMPLE.question}", passages, EXAMPLE.answer, EXAMPLE.source)


def _timed(model: AttentionModel, rows: Sequence[EncodedRow]) -> float:
    """Seconds, at least a microsecond."""
    start = time.perf_counter()
    outcomes = model.attribute(rows, [len(_SENTENCES)] * len(rows))
    seconds = time.perf_counter() - start
    fault = next((outcome for outcome in outcomes if isinstance(outcome, RowFault)), None)
    if fault is not None:
        raise ModelLoadError(f"the model cannot attribute a sample row: {fault}")
    return max(seconds, 1e-6)
