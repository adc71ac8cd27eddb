"""What a model is and does: its config before anything is loaded, memory, speed, and attention to a worked example.

All raise a ``ModelLoadError`` if the model cannot serve, or cannot encode or attribute a row; it says what to do.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.models import model_directory
from attribeam.attribution.models.precision import choose_device, choose_dtype, resolve_dtype, stored_quantization
from attribeam.attribution.models.weight_files import revision_of
from attribeam.attribution.models.weight_loading import (
    check_fits,
    format_size,
    free_memory,
    held_size,
    total_size,
)
from attribeam.attribution.options import ModelOptions, Quantization
from attribeam.attribution.rows import EncodedRow, TokenAttribution
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
_MEASURED_SECONDS = 2.0
_LONGEST_ROW_SECONDS = 5.0
_MOST_ROWS = 64
_PRECISIONS = {
    "float32": (torch.float32, Quantization.NONE),
    "bfloat16": (torch.bfloat16, Quantization.NONE),
    "int8": (torch.bfloat16, Quantization.INT8),
    "nf4": (torch.bfloat16, Quantization.NF4),
}


def line(name: str, text: str) -> str:
    return f"{name:<11}{text}"


def describe_model(
    options: ModelOptions,
) -> tuple[model_directory.ModelDirectory, model_directory.LayerChoice, list[str]]:
    """Directory and layer of a model, and config, tokenizer, layer and memory in lines, without its weights.

    int8 and nf4 keep what they do not quantise in bfloat16.
    """
    directory = model_directory.read_model_directory(options)
    limit, device = model_directory.RowEncoder(directory).max_tokens, choose_device(options.device)
    layer = model_directory.configured_layer(directory)
    dtype = resolve_dtype(directory, choose_dtype(directory, device))
    groups = check_fits(directory, layer=layer.layer, dtype=dtype, device=device)
    free, width = free_memory(device), max(len(group.name) for group in groups)
    lines = [
        line("model", f"{options.model} ({directory.config.model_type})"),
        line("revision", revision_of(directory, layer=layer.layer)),
        line("code", "of its own repository" if model_directory.runs_own_code(directory) else "of transformers"),
        line("layers", f"{len(layer.kinds)}: " + ", ".join(f"{n} {kind}" for kind, n in Counter(layer.kinds).items())),
        line("attention", layer.provenance()["layer_choice"]),
        line("context", "no limit" if limit is None else f"{limit:,} tokens; longer rows are read in windows"),
        line("device", f"{device}{'' if free is None else f', {format_size(free)} free'}"),
        "",
        f"{'':{width}}  {'weights':>16}" + "".join(f"{name:>11}" for name in _PRECISIONS),
    ]
    for name, some in [*((group.name, [group]) for group in groups), ("all", list(groups))]:
        sizes = [total_size(some, *precision) for precision in _PRECISIONS.values()]
        weights = sum(group.weights for group in some)
        lines.append(f"{name:{width}}  {weights:>16,}" + "".join(f"{format_size(size):>11}" for size in sizes))
    if (stored := stored_quantization(directory.config)) is not None:
        kept = f"stored as {stored}; the table is of unquantised weights"
    else:
        needed, name = format_size(total_size(groups, dtype, options.quantization)), str(dtype).removeprefix("torch.")
        precision = name if options.quantization is Quantization.NONE else f"{options.quantization}, the rest {name}"
        kept = f"{needed} as {precision}"
    return directory, layer, [*lines, "", line("weights", kept)]


def trial_lines(model: AttentionModel, options: ModelOptions, *, seconds: float, threads: int | None) -> Iterator[str]:
    """The memory that the loaded model holds, its speed, and how far it agrees with itself in float32."""
    loaded = f"in {seconds:.1f} s; {format_size(held_size(model.network))} of weights are kept"
    if model.device.type == "cuda":
        loaded += f", at most {format_size(torch.cuda.max_memory_allocated(model.device))} were in use"
    yield line("loaded", loaded)
    rate, count, row_tokens = measure_speed(model)
    rows = "1 row" if count == 1 else f"{count} rows"
    yield line("speed", f"{float(f'{rate:.3g}'):,.0f} tokens/s on {rows} of {row_tokens} tokens")
    if is_exact(model, options):
        return
    try:
        agreement = agreement_with_float32(model, options, threads=threads)
        yield line("agreement", f"{agreement:.1%} of the answer tokens of a few rows have float32's two best columns")
    except ModelLoadError as error:
        yield line("agreement", f"with float32 was not measured: {error}")


def measure_speed(model: AttentionModel) -> tuple[float, int, int]:
    """Tokens per second, the number of rows and the tokens of one: rows of about 2,000 characters for a few seconds.

    If one such row would take too long, a short row is run instead.
    """
    short = _sample_rows(model, 1, repeats=1)
    rate = short[0].token_count / min(_seconds_for(model, short), _seconds_for(model, short))
    (long,) = _sample_rows(model, 1, repeats=4)
    if long.token_count > _LONGEST_ROW_SECONDS * rate:
        return rate, 1, short[0].token_count
    count = max(1, min(_MOST_ROWS, int(_MEASURED_SECONDS * rate / long.token_count)))
    rows = _sample_rows(model, count, repeats=4)
    return sum(row.token_count for row in rows) / _seconds_for(model, rows), count, long.token_count


def _sample_rows(model: AttentionModel, count: int, *, repeats: int) -> list[EncodedRow]:
    """Rows with unique first words, whose passages repeat their text ``repeats`` times."""
    question, answer, source = EXAMPLE_RECORD.question, EXAMPLE_RECORD.answer, EXAMPLE_RECORD.source
    rows = []
    for number in range(count):
        passages = tuple(Passage(text=" ".join([f"{number}: {text}"] * repeats)) for text in _SENTENCES)
        try:
            rows.append(model.encode(QARecord(str(number), f"{number}: {question}", passages, answer, source)))
        except RowFault as fault:
            raise ModelLoadError(f"the model cannot take a sample row: {fault}") from fault
    return rows


def _seconds_for(model: AttentionModel, rows: Sequence[EncodedRow]) -> float:
    """The seconds taken, at least one microsecond."""
    start = time.perf_counter()
    _attributed(model, rows)
    return max(time.perf_counter() - start, 1e-6)


def _attributed(model: AttentionModel, rows: Sequence[EncodedRow]) -> list[TokenAttribution]:
    outcomes = model.attribute(rows, [len(_SENTENCES)] * len(rows))
    if fault := next((outcome for outcome in outcomes if isinstance(outcome, RowFault)), None):
        raise ModelLoadError(f"the model cannot attribute a sample row: {fault}")
    return [outcome for outcome in outcomes if not isinstance(outcome, RowFault)]


def is_exact(model: AttentionModel, options: ModelOptions) -> bool:
    return model.dtype == torch.float32 and options.quantization is Quantization.NONE


def agreement_with_float32(model: AttentionModel, options: ModelOptions, *, threads: int | None = None) -> float:
    """``top_columns_agreement`` on a few sample rows with the same model in float32, which is loaded beside it."""
    rows = _sample_rows(model, 8, repeats=1)
    own = _attributed(model, rows)
    exact = AttentionModel.from_pretrained(options.replaced(dtype="float32", quantization=None), threads=threads)
    return top_columns_agreement(own, _attributed(exact, rows))


def top_columns_agreement(actual: Sequence[TokenAttribution], expected: Sequence[TokenAttribution]) -> float:
    """The share of answer tokens, from 0 to 1, whose two best columns are the same in whatever order."""
    pairs = zip(actual, expected, strict=True)
    best = [[np.sort(tokens.top_columns[:, :2], axis=1) for tokens in pair] for pair in pairs]
    return float(np.concatenate([(columns == exact).all(axis=1) for columns, exact in best]).mean())


@dataclass(frozen=True, slots=True)
class AttentionShares:
    """Shares of the attention of an answer's tokens, each from 0 to 1, averaged over the tokens.

    ``passages`` includes titles, ``outside`` is the rest of the prompt, and ``rest`` the answer itself and learned
    sinks. ``passage_tokens`` is the share of the prompt's tokens in passages, which even attention would give them.
    """

    passages: float
    outside: float
    rest: float
    passage_tokens: float


def attention_shares(model: AttentionModel, record: QARecord) -> AttentionShares:
    """The attention shares of one row; for a row in windows, the mean over its windows."""
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
