"""The figures of ``attribeam models suggest``: speed and memory by size of model, precision and method.

python -m attribeam.lab.benchmarks.model_sizes --output lab/model_choice/measured_models.json
python -m attribeam.lab.benchmarks.model_sizes --output FILE --device cuda --sizes qwen2-0.5b qwen2-7b \\
    --dtypes bfloat16 --quantizations none nf4
python -m attribeam.lab.benchmarks.model_sizes --output FILE --add DIR/measured_models.json

Each model is measured in a process of its own, with one thread. Each result is written as soon as it is known, in the
place of what the file had for the same model. The third command measures nothing: it adds the figures that
``gpu_report --output DIR`` found.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import torch

from attribeam.attribution.options import ATTN_UNION_DEP
from attribeam.lab.benchmarks.machine import machine_description
from attribeam.lab.benchmarks.model_size_measurement import BUNDLED, MINILM, SizedModel, measure_size
from attribeam.lab.benchmarks.random_model import SHAPES
from attribeam.lab.model_choice.measured_models import Measurements
from attribeam.schemas.errors import AttribeamError

SIZES = (BUNDLED, MINILM, *SHAPES)
_FLOAT32_ONLY = (BUNDLED, MINILM)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write and print; returns 1 if a model failed, 2 if there is nothing to add or to add it to, else 0."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.add is not None:
        return _add(args.add, args.output) if args.output else parser.error("--add needs --output")
    torch.set_num_threads(1)
    if args.one is not None:
        found = measure_size(SizedModel(*json.loads(args.one)), seconds=args.seconds, limit=args.limit)
        print(json.dumps(asdict(found)))
        return 0
    print(machine_description(), flush=True)
    done = [_measure_and_write(one, args) for one in _wanted(args)]
    return 0 if all(done) else 1


def _add(found: Path, output: Path) -> int:
    try:
        _with_found(output, Measurements.from_file(found)).write(output)
    except AttribeamError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _wanted(args: argparse.Namespace) -> Iterator[SizedModel]:
    for size, dtype, quantization, method in product(args.sizes, args.dtypes, args.quantizations, args.methods):
        if size not in _FLOAT32_ONLY or (dtype, quantization) == ("float32", "none"):
            yield SizedModel(size, dtype, quantization, method, args.device)


def _measure_and_write(wanted: SizedModel, args: argparse.Namespace) -> bool:
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
        _with_found(args.output, Measurements.from_values(found)).write(args.output)
    return True


def _with_found(path: Path, found: Measurements) -> Measurements:
    """What the file holds, with what was found."""
    known = Measurements.from_file(path) if path.is_file() else Measurements()
    for model in found.models:
        known = known.with_model(model)
    return known if found.other_stages is None else replace(known, other_stages=found.other_stages)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=[BUNDLED, MINILM, "qwen2-0.5b", "qwen2-1.5b"])
    parser.add_argument("--dtypes", nargs="+", default=["float32"], choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--quantizations", nargs="+", default=["none"], choices=("none", "nf4", "int8"))
    parser.add_argument("--methods", nargs="+", default=[ATTN_UNION_DEP], metavar="NAME")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1 (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=15.0, help="time per length of row (default: %(default)s)")
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        help="leave out longer rows where one may take more seconds (default: %(default)s)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="write the figures into this file")
    parser.add_argument("--add", type=Path, metavar="FOUND.json", help="add these figures to --output, measure nothing")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
