"""The paper's latency table on equal terms in one run: milliseconds per target span, tokens per second, memory.

python -m lab.benchmarks.attribution_latency
python -m lab.benchmarks.attribution_latency --shape qwen2-7b --device cuda --dtype bfloat16 --rows 200

Methods run one after the other, each in a separate process, on the same rows and the same random weights. The time of
a row runs from its texts to the results for its spans: processor time on a CPU, else wall time. Loading does not count,
nor does one row per shape to warm up; CCI, which is slow, is not warmed up. A method that takes longer than --limit on
the rows of one shape is stopped, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from importlib.util import find_spec
from itertools import product
from typing import NoReturn

import torch
from transformers import PreTrainedConfig

from attribeam.attribution.attention.batching import pack_by_token_budget
from attribeam.schemas import QARecord
from lab.benchmarks.latency_methods import (
    CCI,
    LATENCY_SHAPES,
    AttnUnion,
    AttnUnionDep,
    DecoderStates,
    HSSAvg,
    LatencyMethod,
    LatencyShape,
    TwoStageUnion,
    latency_records,
)
from lab.benchmarks.machine import machine_description, markdown_table, peak_bytes
from lab.benchmarks.random_model import SHAPES, BenchmarkModel, NamedModel, RandomModel


class TimeIsUpError(Exception):
    """The block inside ``time_limit`` took too long and was stopped."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Stop the block after ``seconds`` of wall time, as soon as the current call into torch returns; None is no limit.

    It works only in the main thread, and not inside another limit.

    Raises:
        TimeIsUpError: if the block was stopped.
    """
    if seconds is None:
        yield
        return
    earlier = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def _stop(*_: object) -> NoReturn:
    raise TimeIsUpError


_SIZES = {"cpu": 2048, "cuda": 8192}
_REPEATS = {"cpu": 3, "cuda": 20}


def measured_peak(device: str, dtype: str) -> float:
    """Floating-point operations per second of a large square matrix product; the best of five measurements."""
    kind = torch.device(device).type
    size, repeats = _SIZES.get(kind, 8192), _REPEATS.get(kind, 20)
    left, right = (torch.randn(size, size, device=device).to(getattr(torch, dtype)) for _ in range(2))
    best = min(mean_seconds(lambda: left @ right, repeats=repeats, device=device) for _ in range(5))
    return 2 * size**3 / best


def mean_seconds(run: Callable[[], object], *, repeats: int, device: str) -> float:
    """Mean seconds per call, after one call that does not count."""
    run()
    with StopWatch(device) as watch:
        for _ in range(repeats):
            run()
    return watch.seconds / repeats


class StopWatch:
    """Seconds between entering and leaving the block.

    On a CPU this is processor time, so that other programs matter less; on a GPU it is wall time including its work.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self.seconds = 0.0

    def __enter__(self) -> StopWatch:
        self._start = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = self._now() - self._start

    def _now(self) -> float:
        if self._device.type == "cpu":
            return time.process_time()
        torch.cuda.synchronize(self._device)
        return time.perf_counter()


def forward_operations(config: PreTrainedConfig, *, tokens: int, layer: int) -> float:
    """Operations that AttnUnion needs for one row of ``tokens``, apart from S itself.

    These are the matrix products of the layers below ``layer``, and its projections to queries, keys and values.
    """
    return layer_operations(config, tokens=tokens, layers=layer - 1) + 2.0 * tokens * _projection_weights(config)


def layer_operations(config: PreTrainedConfig, *, tokens: int, layers: int) -> float:
    """Operations in the matrix products of whole layers, for one row of ``tokens``."""
    return float(layers * (2 * tokens * _layer_weights(config) + _attention_operations(config, tokens)))


def head_share(config: PreTrainedConfig) -> float:
    """The language-model head's share of the weights that every token is multiplied with."""
    head = config.vocab_size * config.hidden_size
    return float(head / (head + config.num_hidden_layers * _layer_weights(config)))


def _projection_weights(config: PreTrainedConfig) -> int:
    """The number of weights that project to queries, keys and values in one layer."""
    size = config.hidden_size // config.num_attention_heads
    return int(config.hidden_size * size * (config.num_attention_heads + 2 * (config.num_key_value_heads or 0)))


def _layer_weights(config: PreTrainedConfig) -> int:
    width = int(config.hidden_size)
    return _projection_weights(config) + width * width + 3 * width * int(config.intermediate_size)


def _attention_operations(config: PreTrainedConfig, tokens: int) -> int:
    """Operations of queries with keys and of weights with values, halved by causality."""
    return 2 * tokens * tokens * int(config.hidden_size)


class Mode(StrEnum):
    """Rows one by one as in the paper, or in batches."""

    SINGLE = "single"
    BATCHES = "batches"


_BOTH = (Mode.SINGLE, Mode.BATCHES)
_TWO_STAGE = ("two_stage", "two_stage_headless")
MODES: dict[str, tuple[Mode, ...]] = {
    "attn_union": _BOTH,
    "two_stage": _BOTH,
    "two_stage_headless": _BOTH,
    "attn_union_dep": _BOTH,
    "decoder": _BOTH,
    "hss_avg": (Mode.SINGLE,),
    "cci": (Mode.SINGLE,),
}


@dataclass(frozen=True, slots=True)
class LatencyMeasurement:
    """One method on the rows of one shape.

    Attributes:
        rows, spans: number of rows and of their target spans.
        tokens: tokens of all rows, prompt and response.
        seconds: time of all rows; processor time on a CPU.
        operations: operations in the matrix products of the layers that the method runs; 0 if they are not counted.
        peak_bytes: peak memory of the process so far, or on a GPU of torch's allocations for this shape.
        stopped: whether the time limit stopped the method; ``seconds`` is then that limit.
    """

    method: str
    mode: str
    shape: str
    rows: int
    spans: int
    tokens: int
    seconds: float
    operations: float
    peak_bytes: int
    stopped: bool = False


def method_names() -> list[str]:
    """The names of the methods in the order in which they run."""
    return [*MODES]


@dataclass(frozen=True, slots=True)
class LatencyRun:
    """One method in one mode on the rows of all shapes.

    Attributes:
        rows: number of rows per shape.
        token_budget: tokens per batch; None is 2,048 on a CPU and 16,384 on a GPU.
        limit: seconds of wall time after which a shape is stopped; None is no limit.
    """

    name: str
    mode: Mode
    model: BenchmarkModel
    rows: int
    token_budget: int | None = None
    limit: float | None = None

    def load(self) -> LatencyMethod:
        """The method, with its model in memory."""
        if self.name == "attn_union":
            return AttnUnion(self.model, self.token_budget)
        if self.name == "attn_union_dep":
            return AttnUnionDep(self.model, self.token_budget)
        if self.name == "decoder":
            return DecoderStates(self.model, self.token_budget)
        if self.name in _TWO_STAGE:
            return TwoStageUnion(self.model, lm_head=self.name == "two_stage")
        return HSSAvg(self.model) if self.name == "hss_avg" else CCI(self.model)

    def measure(self, method: LatencyMethod) -> list[LatencyMeasurement]:
        """Time a loaded method on the rows of every shape; CCI, which is slow, only on the first span of each row."""
        return [self._measure_shape(method, shape.name, self._records(shape)) for shape in LATENCY_SHAPES]

    def _records(self, shape: LatencyShape) -> list[QARecord]:
        records = latency_records(shape, self.rows)
        if self.name != "cci":
            return records
        return [replace(record, target_spans=(record.target_spans or ())[:1]) for record in records]

    def _measure_shape(self, method: LatencyMethod, shape: str, records: Sequence[QARecord]) -> LatencyMeasurement:
        lengths = [len(method.encode(record).token_ids) for record in records]
        device = self.model.device
        batches = _batches(records, lengths, self.name, self.mode, self.token_budget or _budget(device))
        seconds = _seconds(method, batches, device, warm_up=self._warm_up(batches), limit=self.limit)
        return LatencyMeasurement(
            method=self.name,
            mode=str(self.mode),
            shape=shape,
            rows=len(records),
            spans=sum(len(record.target_spans or ()) for record in records),
            tokens=sum(lengths),
            seconds=(self.limit or 0.0) if seconds is None else seconds,
            operations=_operations(self.name, self.model, lengths),
            peak_bytes=peak_bytes(device),
            stopped=seconds is None,
        )

    def _warm_up(self, batches: Sequence[Sequence[QARecord]]) -> Sequence[QARecord]:
        """One row; on a GPU the largest batch, whose kernels are loaded and whose memory is taken when first used."""
        if self.name == "cci":  # a row takes minutes on a CPU
            return ()
        return batches[0][:1] if torch.device(self.model.device).type == "cpu" else max(batches, key=len)


def measure(run: LatencyRun) -> list[LatencyMeasurement]:
    """Load a method and time it on the rows of every shape."""
    return run.measure(run.load())


def _seconds(
    method: LatencyMethod,
    batches: Sequence[Sequence[QARecord]],
    device: str,
    *,
    warm_up: Sequence[QARecord],
    limit: float | None,
) -> float | None:
    """Seconds of all batches after the warm-up, None if the limit stopped them."""
    try:
        with time_limit(limit):
            if warm_up:
                method.run(warm_up)
            if torch.device(device).type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)
            with StopWatch(device) as watch:
                for batch in batches:
                    method.run(batch)
    except TimeIsUpError:
        return None
    return watch.seconds


def _batches(
    records: Sequence[QARecord], lengths: Sequence[int], name: str, mode: Mode, token_budget: int
) -> list[list[QARecord]]:
    """The rows that are passed on together; our own methods form their own batches."""
    if mode is Mode.SINGLE:
        return [[record] for record in records]
    if name in _TWO_STAGE:
        return [[records[index] for index in batch] for batch in pack_by_token_budget(lengths, token_budget)]
    return [list(records)]


_COUNTED_KINDS = frozenset({"qwen2", "llama", "mistral"})
"""Kinds of models whose layers have the products that ``forward_operations`` counts."""


def _operations(name: str, model: BenchmarkModel, lengths: Sequence[int]) -> float:
    config = model.config
    if name == "cci" or config.model_type not in _COUNTED_KINDS:
        return 0.0
    if name == "decoder":
        return sum(layer_operations(config, tokens=length, layers=model.layer) for length in lengths)
    layer = config.num_hidden_layers + 1 if name in _TWO_STAGE else model.layer
    return sum(forward_operations(config, tokens=length, layer=layer) for length in lengths)


def _budget(device: str) -> int:
    return 2_048 if torch.device(device).type == "cpu" else 16_384


_HEADER = ("rows", "method", "mode", "tokens/row", "spans/row", "ms/span", "ms/row", "tokens/s", "of peak", "peak MiB")
_METHOD_NAMES = {
    "attn_union": "AttnUnion",
    "attn_union_dep": "AttnUnionDep",
    "two_stage": "AttnUnion, two stages",
    "two_stage_headless": "two stages, no LM head",
    "decoder": "decoder states",
    "hss_avg": "HSSAvg",
    "cci": "CCI",
}


def table(results: Sequence[LatencyMeasurement], peak: float) -> str:
    """One line per shape, method and mode; ``peak`` is in operations per second."""
    shapes = dict.fromkeys(result.shape for result in results)
    lines = [_cells(result, peak) for shape in shapes for result in results if result.shape == shape]
    return markdown_table(_HEADER, lines, padded=True)


def ratios(results: Sequence[LatencyMeasurement]) -> str:
    """How many times as fast AttnUnion is as the two-stage implementations, unless either was stopped."""
    seconds = {(result.method, result.mode, result.shape): result.seconds for result in results if not result.stopped}
    shapes = dict.fromkeys(result.shape for result in results)
    wanted = product(shapes, ("single", "batches"), ("two_stage", "two_stage_headless"))
    return "\n".join(
        f"{shape}, {mode}: AttnUnion is {seconds[other, mode, shape] / seconds['attn_union', mode, shape]:.2f} times "
        f"as fast as {_METHOD_NAMES[other]!r}"
        for shape, mode, other in wanted
        if (other, mode, shape) in seconds and ("attn_union", mode, shape) in seconds
    )


def _cells(result: LatencyMeasurement, peak: float) -> tuple[str, ...]:
    """The measurement's line in the table, below ``_HEADER``; ``peak`` is in operations per second."""
    return (
        result.shape,
        _METHOD_NAMES[result.method],
        result.mode,
        f"{result.tokens / result.rows:.0f}",
        f"{result.spans / result.rows:.1f}",
        *((f"stopped after {result.seconds:.0f} s", "-", "-", "-") if result.stopped else _times(result, peak)),
        f"{result.peak_bytes / 2**20:,.0f}",
    )


def _times(result: LatencyMeasurement, peak: float) -> tuple[str, ...]:
    return (
        f"{1000 * result.seconds / result.spans:.1f}",
        f"{1000 * result.seconds / result.rows:.1f}",
        f"{result.tokens / result.seconds:,.0f}",
        f"{100 * result.operations / result.seconds / peak:.0f} %" if result.operations else "-",
    )


def main() -> int:
    """Measure and print; returns 1 if a method failed, else 0."""
    args = _parser().parse_args()
    torch.set_num_threads(args.threads)
    kind = NamedModel if args.model else RandomModel
    model: BenchmarkModel = kind(args.model or args.shape, args.device, args.dtype, args.quantization)
    if args.one:
        _run_one(args, model)
        return 0
    print(machine_description())
    print(f"{model}, {head_share(model.config):.0%} of its products in the LM head")
    print(f"threads {args.threads}, rows per shape {args.rows}, for CCI {args.cci_rows} with the first span only")
    peak = measured_peak(args.device, args.dtype)
    print(f"measured peak of a matrix product: {peak / 1e12:.3f} TFLOP/s", flush=True)
    runs = [_run_in_process(name, mode) for name, mode in _wanted(args.methods)]
    results = [result for measured in runs if measured is not None for result in measured]
    print(table(results, peak))
    print(ratios(results))
    return 1 if None in runs else 0


def _wanted(names: list[str]) -> list[tuple[str, Mode]]:
    wanted = [(name, mode) for name in names for mode in MODES[name]]
    if find_spec("spacy") is None:
        print("spaCy is not installed, so AttnUnionDep is left out")
        return [(name, mode) for name, mode in wanted if name != "attn_union_dep"]
    return wanted


def _run_in_process(name: str, mode: Mode) -> list[LatencyMeasurement] | None:
    """The measurements of a new process, None if it fails."""
    command = [
        sys.executable,
        "-m",
        "lab.benchmarks.attribution_latency",
        *sys.argv[1:],
        "--one",
        name,
        "--mode",
        mode,
    ]
    print(f"{name}, {mode}", file=sys.stderr, flush=True)
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode:
        print(f"{name}, {mode}: ended with exit code {process.returncode}", file=sys.stderr)
        return None
    return [LatencyMeasurement(**fields) for fields in json.loads(process.stdout.splitlines()[-1])]


def _run_one(args: argparse.Namespace, model: BenchmarkModel) -> None:
    rows = args.cci_rows if args.one == "cci" else args.rows
    run = LatencyRun(args.one, args.mode, model, rows, args.token_budget, args.limit)
    print(json.dumps([asdict(result) for result in measure(run)]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="small", help="shape of the model (default: %(default)s)")
    parser.add_argument("--model", help="a hub id or a directory instead of a shape")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--quantization", default="none", choices=("none", "nf4", "int8"))
    parser.add_argument("--rows", type=int, default=10, help="rows per shape (default: %(default)s)")
    parser.add_argument("--cci-rows", type=int, default=1, help="rows per shape for CCI (default: %(default)s)")
    parser.add_argument(
        "--limit",
        type=float,
        default=900.0,
        help="seconds after which a method on one shape is stopped (default: %(default)s)",
    )
    parser.add_argument("--token-budget", type=int, help="tokens per batch (default: 2,048 on a CPU, 16,384 on a GPU)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of torch (default: %(default)s)")
    parser.add_argument("--methods", nargs="+", choices=method_names(), default=method_names())
    parser.add_argument("--one", choices=method_names(), help=argparse.SUPPRESS)
    parser.add_argument("--mode", choices=list(Mode), type=Mode, default=Mode.SINGLE, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
