"""The speed and memory of one size of model in one precision, in the calling process.

The time is that of the model alone, from tokens to the columns that each token keeps: processor time on a CPU, wall
time on a GPU. The bundled model on a CPU also shows what everything else costs per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.methods.answer_context import LoadedModels, take_internals
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.registry import resolve_method
from attribeam.attribution.options import ATTN_UNION_DEP, MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.lab.benchmarks.latency_measurement import StopWatch
from attribeam.lab.benchmarks.latency_rows import LATENCY_SHAPES, latency_records
from attribeam.lab.benchmarks.machine import machine_description
from attribeam.lab.benchmarks.random_encoder import random_minilm
from attribeam.lab.benchmarks.random_model import RandomModel
from attribeam.lab.evaluation.measures.cost import Cost, CostMeter
from attribeam.lab.model_choice.measured_models import MeasuredModel, Measurements, OtherStages, RowFigure
from attribeam.schemas import QARecord

if TYPE_CHECKING:
    from attribeam.attribution.attributor import Attributor

BUNDLED, MINILM = "bundled", "minilm"
_MOST_ROWS = 32


@dataclass(frozen=True, slots=True)
class SizedModel:
    """A size of model, and the method that asks for its attention or states; ``device`` is "cpu", "cuda", "cuda:1"."""

    size: str
    dtype: str
    quantization: str
    method: str
    device: str

    def load(self) -> AttentionModel:
        """The model up to L*; the bundled one has its own weights, the others random ones."""
        if self.size == BUNDLED:
            return AttentionModel.from_pretrained(ModelOptions(model=BUNDLED, device=self.device))
        if self.size == MINILM:
            return random_minilm(device=self.device, dtype=self.dtype)
        return RandomModel(self.size, self.device, self.dtype, self.quantization).attributor()

    @property
    def device_kind(self) -> str:
        """Without the number of a GPU."""
        return torch.device(self.device).type

    @property
    def command(self) -> str:
        """What measures this model alone."""
        return (
            f"python -m attribeam.lab.benchmarks.model_sizes --device {self.device_kind} --sizes {self.size} "
            f"--dtypes {self.dtype} --quantizations {self.quantization} --methods {self.method}"
        )


def measure_size(wanted: SizedModel, *, seconds: float, limit: float) -> Measurements:
    """Measure a model on rows of about 600, 900 and 2,200 tokens, about ``seconds`` for each length.

    Longer rows are left out where one may take more than ``limit`` seconds.
    """
    model = wanted.load()
    attributor = _attributor(model, wanted.method) if wanted.device_kind == "cpu" else None
    run = _pass_over_model(model, wanted.method)
    shows_others = wanted.size == BUNDLED and wanted.method == ATTN_UNION_DEP
    cost, figures, others = Cost(), [], []
    with CostMeter(LoadedModels(attention=model)).measuring(cost):
        for shape in LATENCY_SHAPES:
            records = [replace(one, target_spans=None) for one in latency_records(shape, _MOST_ROWS)]
            figure = _figure(records, model, run, seconds=seconds)
            figures.append(figure)
            if attributor is not None and shows_others:
                others.append(_others(records[: figure.rows], attributor, figure))
            if 4 * figure.seconds > limit:
                break
    entry = MeasuredModel(
        size=wanted.size,
        dtype=wanted.dtype,
        quantization=wanted.quantization,
        method=wanted.method,
        device=wanted.device_kind,
        machine=_machine(model.device),
        command=wanted.command,
        layer=model.layer,
        layer_count=model.layer_count,
        peak_bytes=cost.peak_bytes or 0,
        figures=tuple(figures),
    )
    other = OtherStages(entry.machine, entry.command, tuple(others)) if others else None
    return Measurements(other_stages=other, models=(entry,))


def _machine(device: torch.device) -> str:
    gpu = "" if device.type == "cpu" else f"{torch.cuda.get_device_name(device)}; "
    return f"{gpu}{machine_description()}"


_Rows = Sequence[EncodedRow]


def _pass_over_model(model: AttentionModel, method: str) -> Callable[[_Rows, Sequence[int]], object]:
    """What the method asks of the model for rows with these numbers of passages."""
    needs = resolve_method(MethodOptions(method=method)).needs - {Need.PARSER}
    if needs == {Need.ATTENTION}:
        return model.attribute

    def row_by_row(rows: _Rows, counts: Sequence[int]) -> None:
        for row, count in zip(rows, counts, strict=True):
            found = take_internals(model, row, passage_count=count, needs=needs, hidden_layer=None)
            if found.hidden is not None:
                found.hidden.top_columns(model.settings.top_k)

    return row_by_row


def _figure(
    records: Sequence[QARecord],
    model: AttentionModel,
    run: Callable[[_Rows, Sequence[int]], object],
    *,
    seconds: float,
) -> RowFigure:
    """As many of the records as take about ``seconds``, at least one.

    One row warms up. On a GPU all of them do, since kernels are loaded and memory is taken when first used.
    """
    device = str(model.device)
    rows = [model.encode(one) for one in records]
    counts = [len(one.passages) for one in records]
    for _ in range(2):
        with StopWatch(device) as watch:
            run(rows[:1], counts[:1])
    count = max(1, min(len(rows), int(seconds / max(watch.seconds, 1e-6))))
    if model.device.type != "cpu":
        run(rows[:count], counts[:count])
    with StopWatch(device) as watch:
        run(rows[:count], counts[:count])
    tokens = sum(len(row.token_ids) for row in rows[:count]) / count
    return RowFigure(round(tokens), count, round(watch.seconds / count, 6))


def _attributor(model: AttentionModel, method: str) -> Attributor:
    """What a worker on a CPU holds in memory: the parser beside the model."""
    from attribeam.attribution.answers.answer_parser import AnswerParser  # needs spaCy, which a GPU machine may lack
    from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
    from attribeam.attribution.attributor import Attributor

    parser = AnswerParser.from_pretrained("bundled")
    return Attributor(parser=parser, model=model, spans=DEFAULT_SPAN_KINDS, options=MethodOptions(method=method))


def _others(records: Sequence[QARecord], attributor: Attributor, figure: RowFigure) -> RowFigure:
    """What the rows cost besides the model: encoding, parsing, evidence and verdict, in processor seconds of one."""
    attributor.attribute_many(records[:1])
    with StopWatch("cpu") as watch:
        attributor.attribute_many(records)
    rest = max(0.0, watch.seconds / len(records) - figure.seconds)
    return RowFigure(figure.row_tokens, len(records), round(rest, 6))
