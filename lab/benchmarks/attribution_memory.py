"""Peak memory of AttnUnion for rows of growing length.

python -m lab.benchmarks.attribution_memory
python -m lab.benchmarks.attribution_memory --shape qwen2-7b --device cuda --dtype bfloat16

On a CPU, where a process cannot forget its peak, each length runs in a separate process. On a GPU all of them run in
one, beside the model that is loaded once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.schemas.errors import RunError
from lab.benchmarks.machine import machine_description, peak_bytes
from lab.benchmarks.random_model import SHAPES, BenchmarkModel, NamedModel, RandomModel

_HEADER = ("tokens", "before MiB", "peak MiB", "added MiB", "added KiB/token")
_RESPONSES = 100
_PASSAGES = 8


@dataclass(frozen=True, slots=True)
class MemoryMeasurement:
    """Memory of one row of ``tokens``, in bytes.

    Attributes:
        before: with the model loaded and warmed up. On a CPU it is the peak of the process so far; on a GPU it is what
            torch has allocated at that point, because the peak would be that of creating the weights.
        peak: the peak with the row.
    """

    tokens: int
    before: int
    peak: int

    def cells(self) -> tuple[str, ...]:
        """The measurement's line in the table, below ``_HEADER``."""
        added = self.peak - self.before
        sizes = (f"{size / 2**20:,.0f}" for size in (self.before, self.peak, added))
        return (f"{self.tokens:,}", *sizes, f"{added / self.tokens / 1024:.1f}")


def main() -> int:
    """Measure and print; returns 1 if a length failed, else 0."""
    args = _parser().parse_args()
    torch.set_num_threads(args.threads)
    kind = NamedModel if args.model else RandomModel
    model: BenchmarkModel = kind(args.model or args.shape, args.device, args.dtype, args.quantization)
    if args.one is not None:
        print(json.dumps(asdict(measure_row(model.attributor(), model, args.one))))
        return 0
    print(machine_description())
    print(f"{model}, L* = {model.layer}, {_RESPONSES} response tokens, one row at a time")
    print(f"| {' | '.join(_HEADER)} |\n|{' ---: |' * len(_HEADER)}")
    for measurement in measure_lengths(model, args.tokens, threads=args.threads):
        print(f"| {' | '.join(measurement.cells())} |", flush=True)
    return 0


def measure_lengths(model: BenchmarkModel, lengths: Sequence[int], *, threads: int = 1) -> Iterator[MemoryMeasurement]:
    """The memory of one row of each length; ``threads`` are torch's in the processes that run on a CPU.

    Raises:
        RunError: if one of these processes failed.
    """
    if torch.device(model.device).type == "cpu":
        yield from (_measure_in_process(model, tokens, threads) for tokens in lengths)
        return
    attributor = model.attributor()
    yield from (measure_row(attributor, model, tokens) for tokens in lengths)


def _measure_in_process(model: BenchmarkModel, tokens: int, threads: int) -> MemoryMeasurement:
    named = ["--model", model.name] if isinstance(model, NamedModel) else ["--shape", getattr(model, "shape", "")]
    precision = ["--dtype", model.dtype, "--quantization", model.quantization]
    command = [sys.executable, "-m", "lab.benchmarks.attribution_memory", *named, *precision]
    options = ["--device", model.device, "--threads", str(threads), "--one", str(tokens)]
    process = subprocess.run([*command, *options], stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode:
        raise RunError(f"{tokens} tokens: the process ended with exit code {process.returncode}")
    return MemoryMeasurement(**json.loads(process.stdout.splitlines()[-1]))


def measure_row(attributor: AttentionModel, model: BenchmarkModel, tokens: int) -> MemoryMeasurement:
    """The memory of one row of ``tokens`` in this process, beside the loaded ``attributor`` of ``model``."""
    before = _bytes_before(model.device)
    (outcome,) = attributor.attribute([random_row(tokens, model.config.get_text_config().vocab_size)], [_PASSAGES])
    if not isinstance(outcome, TokenAttribution):
        raise outcome
    return MemoryMeasurement(tokens, before, peak_bytes(model.device))


def random_row(tokens: int, vocabulary: int, *, seed: int = 0) -> EncodedRow:
    """A row of random tokens: passages of equal length, then 100 response tokens."""
    prompt_length = tokens - _RESPONSES
    positions = np.arange(tokens, dtype=np.int32)
    return EncodedRow(
        token_ids=np.random.default_rng(seed).integers(0, vocabulary, tokens, dtype=np.int32),
        prompt_length=prompt_length,
        column_passage=(positions[:prompt_length] * _PASSAGES // prompt_length).astype(np.int32),
        column_in_title=np.zeros(prompt_length, dtype=np.bool_),
        column_char_start=positions[:prompt_length],
        column_char_end=positions[:prompt_length] + 1,
        response_char_start=positions[:_RESPONSES],
        response_char_end=positions[:_RESPONSES] + 1,
    )


def _bytes_before(device: str) -> int:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    return peak_bytes(device)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 4096, 16_384, 32_768])
    parser.add_argument("--shape", choices=SHAPES, default="thin", help="shape of the model (default: %(default)s)")
    parser.add_argument("--model", help="a hub id or a directory instead of a shape")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--quantization", default="none", choices=("none", "nf4"))
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of torch (default: %(default)s)")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
