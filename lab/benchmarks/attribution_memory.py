"""Peak memory of AttnUnion for rows of growing length, each length in a separate process.

python -m attribeam.lab.benchmarks.attribution_memory
python -m attribeam.lab.benchmarks.attribution_memory --shape qwen2-7b --device cuda --dtype bfloat16
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import numpy as np
import torch

from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.lab.benchmarks.machine import machine_description, peak_bytes
from attribeam.lab.benchmarks.random_model import SHAPES, RandomModel

_RESPONSES = 100
_PASSAGES = 8


def main() -> int:
    """Measure and print; returns 1 if a length failed, else 0."""
    args = _parser().parse_args()
    torch.set_num_threads(args.threads)
    random_model = RandomModel(args.shape, args.device, args.dtype, args.quantization)
    if args.one is not None:
        print(*_measured(random_model, args.one))
        return 0
    print(machine_description())
    print(f"{random_model}, L* = {random_model.layer}, {_RESPONSES} response tokens, one row at a time")
    print("| tokens | before MiB | peak MiB | added MiB | added KiB/token |\n| ---: | ---: | ---: | ---: | ---: |")
    for tokens in args.tokens:
        line = _in_process(tokens)
        if line is None:
            return 1
        before, peak = (int(part) for part in line.split())
        print(_cells(tokens, before, peak), flush=True)
    return 0


def _cells(tokens: int, before: int, peak: int) -> str:
    added = peak - before
    sizes = " | ".join(f"{size / 2**20:,.0f}" for size in (before, peak, added))
    return f"| {tokens:,} | {sizes} | {added / tokens / 1024:.1f} |"


def _in_process(tokens: int) -> str | None:
    command = [sys.executable, "-m", "attribeam.lab.benchmarks.attribution_memory", *sys.argv[1:], "--one", str(tokens)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode:
        print(f"{tokens} tokens: ended with exit code {process.returncode}", file=sys.stderr)
        return None
    return process.stdout.splitlines()[-1]


def _measured(random_model: RandomModel, tokens: int) -> tuple[int, int]:
    """Memory in bytes with the model loaded and warmed up, and the peak with one row of ``tokens``.

    On a CPU the first is the peak of the process so far. On a GPU it is what torch has allocated at that point, because
    the peak would be that of creating the weights.
    """
    model = random_model.attributor()
    before = _bytes_before(random_model.device)
    (found,) = model.attribute([_row(tokens, random_model.config.vocab_size)], [_PASSAGES])
    if not isinstance(found, TokenAttribution):
        raise found
    return before, peak_bytes(random_model.device)


def _row(tokens: int, vocabulary: int) -> EncodedRow:
    """A row of random tokens: passages of equal length, then ``_RESPONSES`` response tokens."""
    prompt_length = tokens - _RESPONSES
    places = np.arange(tokens, dtype=np.int32)
    return EncodedRow(
        token_ids=np.random.default_rng(0).integers(0, vocabulary, tokens, dtype=np.int32),
        prompt_length=prompt_length,
        column_passage=(places[:prompt_length] * _PASSAGES // prompt_length).astype(np.int32),
        column_in_title=np.zeros(prompt_length, dtype=np.bool_),
        column_char_start=places[:prompt_length],
        column_char_end=places[:prompt_length] + 1,
        response_char_start=places[:_RESPONSES],
        response_char_end=places[:_RESPONSES] + 1,
    )


def _bytes_before(device: str) -> int:
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    return peak_bytes(device)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 4096, 16_384, 32_768])
    parser.add_argument("--shape", choices=SHAPES, default="thin", help="shape of the model (default: %(default)s)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--quantization", default="none", choices=("none", "nf4"))
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of torch (default: %(default)s)")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
