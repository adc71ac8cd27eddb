"""Whether ``torch.compile`` makes a model's layers faster on a CPU, for rows of many lengths.

    python -m attribeam.lab.benchmarks.compiled_layers --shape qwen2-0.5b --layers 2

Compiling needs a C++ compiler.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from attribeam.lab.benchmarks.machine import machine_description
from attribeam.lab.benchmarks.random_model import SHAPES, RandomModel

_LENGTHS = (300, 317, 512, 640, 128, 901, 333, 77)
_Forward = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class CompiledLayers:
    """What compiling cost and gave.

    Attributes:
        first_seconds, second_seconds: wall seconds of the first compiled call, and of the first with another length.
        gain: processor seconds of the layers as they are, per processor second of the compiled ones, over all lengths.
        largest_difference: between hidden states of the two, over all lengths.
    """

    first_seconds: float
    second_seconds: float
    gain: float
    largest_difference: float


@torch.inference_mode()
def measure_compiled_layers(
    model: RandomModel, *, layers: int, lengths: Sequence[int], rounds: int, backend: str = "inductor"
) -> CompiledLayers:
    """Run rows of ``lengths`` tokens, at least two, in turn through the first ``layers`` layers, compiled and not."""
    network = model.base(layers=layers)
    torch.manual_seed(0)
    rows = [torch.randint(0, network.config.vocab_size, (1, length)) for length in lengths]

    def plain(row: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = network(input_ids=row, use_cache=False).last_hidden_state
        return found

    compiled: _Forward = torch.compile(plain, dynamic=True, backend=backend)
    first, second = (_wall_seconds(compiled, row) for row in rows[:2])
    difference = max(float((plain(row) - compiled(row)).abs().max()) for row in rows)
    spent = {plain: 0.0, compiled: 0.0}
    for _ in range(rounds):
        for row in rows:
            for forward in (plain, compiled):
                start = time.process_time()
                forward(row)
                spent[forward] += time.process_time() - start
    return CompiledLayers(first, second, spent[plain] / spent[compiled], difference)


def _wall_seconds(forward: _Forward, row: torch.Tensor) -> float:
    start = time.perf_counter()
    forward(row)
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one shape and print it in one line, under the machine."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--shape", choices=sorted(SHAPES), default="qwen2-0.5b")
    parser.add_argument("--layers", type=int, default=2, help="how many layers run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each row runs (default: %(default)s)")
    parser.add_argument("--backend", default="inductor", help="of torch.compile (default: %(default)s)")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(machine_description())
    found = measure_compiled_layers(
        RandomModel(args.shape), layers=args.layers, lengths=_LENGTHS, rounds=args.rounds, backend=args.backend
    )
    print(
        f"{args.shape}, {args.layers} layers, {len(_LENGTHS)} lengths: first call {found.first_seconds:.1f} s, next "
        f"length {found.second_seconds:.1f} s; {found.gain:.2f} times as fast by processor time; largest difference "
        f"{found.largest_difference:.1e}"
    )


if __name__ == "__main__":
    main()
