"""The figures of ``attribeam models suggest``: speed and memory by size of model, precision and method.

python -m attribeam.lab.benchmarks.model_sizes --output lab/model_choice/measured_models.json
python -m attribeam.lab.benchmarks.model_sizes --output FILE --device cuda --sizes qwen2-0.5b qwen2-7b \\
    --dtypes bfloat16 --quantizations none nf4

Each model is measured in a process of its own, with one thread, on rows of about 600, 900 and 2,200 tokens. The time is
that of the model alone, from tokens to the columns that each token keeps: processor time on a CPU, wall time on a GPU.
The bundled model on a CPU also shows what everything else costs per row. Each result is written as soon as it is known,
in the place of what the file had for the same model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import torch

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.methods.answer_context import LoadedModels, take_internals
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.registry import resolve_method
from attribeam.attribution.options import ATTN_UNION_DEP, MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.lab.benchmarks.generated_rows import LATENCY_SHAPES, latency_records
from attribeam.lab.benchmarks.latency_measurement import StopWatch
from attribeam.lab.benchmarks.machine import machine_description
from attribeam.lab.benchmarks.random_encoder import random_minilm
from attribeam.lab.benchmarks.random_model import SHAPES, RandomModel
from attribeam.lab.evaluation.measures.cost import Cost, CostMeter, machine_words
from attribeam.lab.model_choice.measured_models import MeasuredModel, Measurements, OtherStages, RowFigure
from attribeam.schemas import QARecord

BUNDLED, MINILM = "bundled", "minilm"
SIZES = (BUNDLED, MINILM, *SHAPES)
_FLOAT32_ONLY = (BUNDLED, MINILM)
_MOST_ROWS = 32
_HEAD = "python -m attribeam.lab.benchmarks.model_sizes"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One model to measure, and with which method."""

    size: str
    dtype: str
    quantization: str
    method: str
    device: str

    def model(self) -> AttentionModel:
        """The model up to L*; the bundled one has its own weights, the others random ones."""
        if self.size == BUNDLED:
            return AttentionModel.from_pretrained(ModelOptions(model=BUNDLED, device=self.device))
        if self.size == MINILM:
            return random_minilm(device=self.device, dtype=self.dtype)
        return RandomModel(self.size, self.device, self.dtype, self.quantization).attributor()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write and print; returns 1 if a model failed, else 0."""
    args = _parser().parse_args(argv)
    torch.set_num_threads(1)
    if args.one is not None:
        print(json.dumps(_measured(Wanted(*json.loads(args.one)), seconds=args.seconds, limit=args.limit)))
        return 0
    print(machine_description(), flush=True)
    found = [_measure_and_write(one, args) for one in _wanted(args)]
    return 0 if all(found) else 1


def _wanted(args: argparse.Namespace) -> Iterator[Wanted]:
    for size, dtype, quantization, method in product(args.sizes, args.dtypes, args.quantizations, args.methods):
        if size not in _FLOAT32_ONLY or (dtype, quantization) == ("float32", "none"):
            yield Wanted(size, dtype, quantization, method, args.device)


def _measure_and_write(wanted: Wanted, args: argparse.Namespace) -> bool:
    """Measure in a process of its own; whether it worked."""
    asked = ["--one", json.dumps([*asdict(wanted).values()])]
    limits = ["--seconds", str(args.seconds), "--limit", str(args.limit)]
    process = subprocess.run(
        [sys.executable, "-m", "attribeam.lab.benchmarks.model_sizes", *asked, *limits],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if process.returncode:
        print(f"{wanted}: ended with exit code {process.returncode}", flush=True)
        return False
    found = json.loads(process.stdout.splitlines()[-1])
    print(found, flush=True)
    if args.output is not None:
        _with_found(args.output, found).write(args.output)
    return True


def _with_found(path: Path, found: dict[str, list[dict[str, object]]]) -> Measurements:
    """What the file holds, with what was found."""
    known = Measurements.from_file(path) if path.is_file() else Measurements()
    new = Measurements.from_values({"other_stages": None, **found})
    for model in new.models:
        known = known.with_model(model)
    return known if new.other_stages is None else replace(known, other_stages=new.other_stages)


def _measured(wanted: Wanted, *, seconds: float, limit: float) -> dict[str, object]:
    """What ``Measurements`` holds of one model, as plain data."""
    model, parser = wanted.model(), AnswerParser.from_pretrained("bundled")
    attributor = Attributor(
        parser=parser, model=model, spans=DEFAULT_SPAN_KINDS, options=MethodOptions(method=wanted.method)
    )
    run = _pass_over_model(model, wanted.method)
    shows_others = wanted.size == BUNDLED and wanted.device == "cpu" and wanted.method == ATTN_UNION_DEP
    cost, figures, others = Cost(), [], []
    with CostMeter(LoadedModels(attention=model)).measuring(cost):
        for shape in LATENCY_SHAPES:
            records = [replace(one, target_spans=None) for one in latency_records(shape, _MOST_ROWS)]
            figure = _figure(records, model, run, device=wanted.device, seconds=seconds)
            figures.append(figure)
            others += [_others(records[: figure.rows], attributor, figure)] if shows_others else []
            if 4 * figure.seconds > limit:
                break
    entry = MeasuredModel(
        **asdict(wanted),
        machine=_machine(wanted.device),
        command=_command(wanted),
        layer=model.layer,
        layer_count=model.layer_count,
        peak_bytes=cost.peak_bytes or 0,
        figures=tuple(figures),
    )
    models = Measurements(models=(entry,))
    other = OtherStages(entry.machine, entry.command, tuple(others)) if shows_others else None
    return asdict(replace(models, other_stages=other))


def _machine(device: str) -> str:
    return machine_description() if device == "cpu" else f"{machine_words()}; {machine_description()}"


def _command(wanted: Wanted) -> str:
    return (
        f"{_HEAD} --device {wanted.device} --sizes {wanted.size} --dtypes {wanted.dtype} "
        f"--quantizations {wanted.quantization} --methods {wanted.method}"
    )


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
    device: str,
    seconds: float,
) -> RowFigure:
    """As many of the records as take about ``seconds``, at least one; one row warms up."""
    rows = [model.encode(one) for one in records]
    counts = [len(one.passages) for one in records]
    for _ in range(2):
        with StopWatch(device) as watch:
            run(rows[:1], counts[:1])
    count = max(1, min(len(rows), int(seconds / max(watch.seconds, 1e-6))))
    with StopWatch(device) as watch:
        run(rows[:count], counts[:count])
    tokens = sum(len(row.token_ids) for row in rows[:count]) / count
    return RowFigure(round(tokens), count, round(watch.seconds / count, 6))


def _others(records: Sequence[QARecord], attributor: Attributor, model: RowFigure) -> RowFigure:
    """What the rows cost besides the model: encoding, parsing, evidence and verdict, in processor seconds of one."""
    attributor.attribute_many(records[:1])
    with StopWatch("cpu") as watch:
        attributor.attribute_many(records)
    rest = max(0.0, watch.seconds / len(records) - model.seconds)
    return RowFigure(model.row_tokens, len(records), round(rest, 6))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=[BUNDLED, MINILM, "qwen2-0.5b", "qwen2-1.5b"])
    parser.add_argument("--dtypes", nargs="+", default=["float32"], choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--quantizations", nargs="+", default=["none"], choices=("none", "nf4"))
    parser.add_argument("--methods", nargs="+", default=[ATTN_UNION_DEP], metavar="NAME")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seconds", type=float, default=15.0, help="time per length of row (default: %(default)s)")
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        help="leave out longer rows where one may take more seconds (default: %(default)s)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="write the figures into this file")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
