"""What ``attribeam models check`` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import torch

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.models.model_check import AttentionShares, ModelDescription, Speed
from attribeam.attribution.models.model_directory import runs_own_code
from attribeam.attribution.models.quantization import stored_quantization
from attribeam.attribution.models.weight_files import revision_of
from attribeam.attribution.models.weight_loading import format_size
from attribeam.attribution.models.weight_memory import WeightGroup, held_size, total_size
from attribeam.attribution.options import Quantization
from attribeam.schemas import QARecord, RowFault, SpanEvidence
from attribeam.schemas.errors import ModelLoadError

_PRECISIONS = {
    "float32": (torch.float32, Quantization.NONE),
    "bfloat16": (torch.bfloat16, Quantization.NONE),
    "int8": (torch.bfloat16, Quantization.INT8),
    "nf4": (torch.bfloat16, Quantization.NF4),
}


def description_lines(model: ModelDescription) -> Iterator[str]:
    """Lines about what is known before the weights are read."""
    directory, layer = model.directory, model.layer
    kinds = Counter(layer.kinds)
    yield _line("model", f"{directory.options.model} ({directory.config.model_type})")
    yield _line("revision", revision_of(directory, layer=layer.layer))
    yield _line("code", "of its own repository" if runs_own_code(directory) else "of transformers")
    yield _line("layers", f"{len(layer.kinds)}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    yield _line("attention", layer.provenance()["layer_choice"])
    yield _line("context", _context(model.max_tokens))
    free = "" if model.free is None else f", {format_size(model.free)} free"
    yield _line("device", f"{model.device}{free}")
    yield ""
    yield from _table(model.groups)
    yield ""
    yield _line("weights", _weights(model))


def loaded_line(model: AttentionModel, seconds: float) -> str:
    """The memory that the loaded model holds, and on a GPU the peak while loading."""
    text = f"in {seconds:.1f} s; {format_size(held_size(model.network))} of weights are kept"
    if model.device.type == "cuda":
        text += f", at most {format_size(torch.cuda.max_memory_allocated(model.device))} were in use"
    return _line("loaded", text)


def speed_line(speed: Speed) -> str:
    """The speed to three digits, and the rows it was measured on."""
    rows = "1 row" if speed.rows == 1 else f"{speed.rows} rows"
    rate = float(f"{speed.tokens_per_second:.3g}")
    return _line("speed", f"{rate:,.0f} tokens/s on {rows} of {speed.row_tokens} tokens")


def agreement_line(agreement: float | ModelLoadError) -> str:
    """How much of what float32 finds is found in the model's precision, or why that is not known."""
    if isinstance(agreement, ModelLoadError):
        return _line("agreement", f"with float32 was not measured: {agreement}")
    return _line("agreement", f"{agreement:.1%} of the answer tokens of a few rows have float32's two best columns")


def example_lines(record: QARecord, outcome: Sequence[SpanEvidence] | RowFault) -> Iterator[str]:
    """The worked example: texts, and each target span with its passage, support and best evidence.

    Raises:
        ModelLoadError: if the example could not be attributed.
    """
    if isinstance(outcome, RowFault):
        raise ModelLoadError(f"the worked example could not be attributed: {outcome}")
    yield ""
    yield _line("question", record.question)
    for index, passage in enumerate(record.passages):
        yield _line(f"passage {index}", passage.text)
    yield _line("answer", record.answer)
    yield ""
    for span in outcome:
        place = "no passage" if span.top_passage_index is None else f"passage {span.top_passage_index}"
        best = max(span.evidence, key=lambda piece: piece.score, default=None)
        evidence = "" if best is None else f": {best.text}"
        yield f"{span.support:<12}{span.text}  <-  {place}{evidence}"


def shares_line(shares: AttentionShares) -> str:
    """Where the attention of the example's answer goes, which shows whether the layer is any good."""
    return _line(
        "shares",
        f"{shares.passages:.0%} of the answer's attention on the passages ({shares.passage_tokens:.0%} of the prompt's "
        f"tokens), {shares.outside:.0%} on the rest of the prompt, {shares.rest:.0%} on the answer itself",
    )


def _table(groups: Sequence[WeightGroup]) -> Iterator[str]:
    """Memory by group and precision; int8 and nf4 keep what they do not quantise in bfloat16."""
    width = max(len(group.name) for group in groups)
    yield f"{'':{width}}  {'weights':>16}" + "".join(f"{name:>11}" for name in _PRECISIONS)
    for group in groups:
        sizes = [group.size(*precision) for precision in _PRECISIONS.values()]
        yield f"{group.name:{width}}  {group.weights:>16,}" + "".join(f"{format_size(size):>11}" for size in sizes)
    totals = [total_size(groups, *precision) for precision in _PRECISIONS.values()]
    weights = sum(group.weights for group in groups)
    yield f"{'all':{width}}  {weights:>16,}" + "".join(f"{format_size(size):>11}" for size in totals)


def _context(max_tokens: int | None) -> str:
    return "no limit" if max_tokens is None else f"{max_tokens:,} tokens; longer rows are read in windows"


def _weights(model: ModelDescription) -> str:
    options = model.directory.options
    stored = stored_quantization(model.directory.config)
    if stored is not None:
        return f"stored as {stored}; the table is of unquantised weights"
    needed = total_size(model.groups, model.dtype, options.quantization)
    return f"{format_size(needed)} as {_precision(model.dtype, options.quantization)}"


def _precision(dtype: torch.dtype, quantization: Quantization) -> str:
    name = str(dtype).removeprefix("torch.")
    return name if quantization is Quantization.NONE else f"{quantization}, the rest {name}"


def _line(name: str, text: str) -> str:
    return f"{name:<11}{text}"
