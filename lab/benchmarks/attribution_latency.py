"""The paper's latency table on equal terms in one run: milliseconds per target span, tokens per second, memory.

python -m attribeam.lab.benchmarks.attribution_latency
python -m attribeam.lab.benchmarks.attribution_latency --shape qwen2-7b --device cuda --dtype bfloat16 --rows 200

Methods run one after the other, each in a separate process, on the same rows and the same random weights. The time of
a row runs from its texts to the results for its spans: processor time on a CPU, else wall time. Loading does not count,
nor does one row per shape to warm up; CCI, which is slow, is not warmed up. A method that takes longer than --limit on
the rows of one shape is stopped, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from itertools import product

import torch

from attribeam.lab.benchmarks.benchmark_model import BenchmarkModel, NamedModel
from attribeam.lab.benchmarks.latency_measurement import (
    MODES,
    LatencyMeasurement,
    LatencyRun,
    Mode,
    head_share,
    measure,
    measured_peak,
    method_names,
)
from attribeam.lab.benchmarks.machine import machine_description
from attribeam.lab.benchmarks.random_model import SHAPES, RandomModel
from attribeam.lab.markdown_table import markdown_table

_HEADER = ("rows", "method", "mode", "tokens/row", "spans/row", "ms/span", "ms/row", "tokens/s", "of peak", "peak MiB")
_METHOD_NAMES = {
    "attn_union": "AttnUnion",
    "attn_union_dep": "AttnUnionDep",
    "two_stage": "AttnUnion, two stages",
    "two_stage_headless": "two stages, no LM head",
    "hss_avg": "HSSAvg",
    "cci": "CCI",
}


def table(found: Sequence[LatencyMeasurement], peak: float) -> str:
    """One line per shape, method and mode; ``peak`` is in operations per second."""
    shapes = dict.fromkeys(one.shape for one in found)
    lines = [_cells(one, peak) for shape in shapes for one in found if one.shape == shape]
    return markdown_table(_HEADER, lines, padded=True)


def ratios(found: Sequence[LatencyMeasurement]) -> str:
    """How many times as fast AttnUnion is as the two-stage implementations, unless either was stopped."""
    seconds = {(one.method, one.mode, one.shape): one.seconds for one in found if not one.stopped}
    shapes = dict.fromkeys(one.shape for one in found)
    wanted = product(shapes, ("single", "batches"), ("two_stage", "two_stage_headless"))
    return "\n".join(
        f"{shape}, {mode}: AttnUnion is {seconds[other, mode, shape] / seconds['attn_union', mode, shape]:.2f} times "
        f"as fast as {_METHOD_NAMES[other]!r}"
        for shape, mode, other in wanted
        if (other, mode, shape) in seconds and ("attn_union", mode, shape) in seconds
    )


def _cells(one: LatencyMeasurement, peak: float) -> tuple[str, ...]:
    """The measurement's line in the table, below ``_HEADER``; ``peak`` is in operations per second."""
    return (
        one.shape,
        _METHOD_NAMES[one.method],
        one.mode,
        f"{one.tokens / one.rows:.0f}",
        f"{one.spans / one.rows:.1f}",
        *((f"stopped after {one.seconds:.0f} s", "-", "-", "-") if one.stopped else _times(one, peak)),
        f"{one.peak_bytes / 2**20:,.0f}",
    )


def _times(one: LatencyMeasurement, peak: float) -> tuple[str, ...]:
    return (
        f"{1000 * one.seconds / one.spans:.1f}",
        f"{1000 * one.seconds / one.rows:.1f}",
        f"{one.tokens / one.seconds:,.0f}",
        f"{100 * one.operations / one.seconds / peak:.0f} %" if one.operations else "-",
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
    found = [one for measured in runs if measured is not None for one in measured]
    print(table(found, peak))
    print(ratios(found))
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
        "attribeam.lab.benchmarks.attribution_latency",
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
    return [LatencyMeasurement(**one) for one in json.loads(process.stdout.splitlines()[-1])]


def _run_one(args: argparse.Namespace, model: BenchmarkModel) -> None:
    rows = args.cci_rows if args.one == "cci" else args.rows
    run = LatencyRun(args.one, args.mode, model, rows, args.token_budget, args.limit)
    print(json.dumps([asdict(one) for one in measure(run)]))


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
