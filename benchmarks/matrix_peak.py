"""How fast the machine multiplies matrices, and how many products a forward pass needs."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from transformers import Qwen2Config

_SIZES = {"cpu": 2048, "cuda": 8192}
_REPEATS = {"cpu": 3, "cuda": 20}


def measured_peak(device: str, dtype: str) -> float:
    """Floating-point operations a second of a large square matrix product; the best of five measurements."""
    kind = torch.device(device).type
    size, repeats = _SIZES.get(kind, 8192), _REPEATS.get(kind, 20)
    left, right = (torch.randn(size, size, device=device).to(getattr(torch, dtype)) for _ in range(2))
    best = min(seconds_of(lambda: left @ right, repeats=repeats, device=device) for _ in range(5))
    return 2 * size**3 / best


def seconds_of(run: Callable[[], object], *, repeats: int, device: str) -> float:
    """Mean seconds of a call, after one that does not count."""
    run()
    with StopWatch(device) as watch:
        for _ in range(repeats):
            run()
    return watch.seconds / repeats


class StopWatch:
    """Seconds between entering and leaving: on a CPU of processor time, so that other programs on the machine count
    less, else of wall time, the GPU's work included."""

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


def forward_operations(config: Qwen2Config, *, tokens: int, layer: int) -> float:
    """Operations of the matrix products of one row of ``tokens`` in layers 1 to ``layer``, of the last one only the
    projections to query, key and value: what AttnUnion cannot do without, S itself left out."""
    whole = (layer - 1) * (2 * tokens * _layer_weights(config) + _attention_operations(config, tokens))
    return float(whole + 2 * tokens * _projection_weights(config))


def head_share(config: Qwen2Config) -> float:
    """Which part of the weights that every token is multiplied with is the language-model head's."""
    head = config.vocab_size * config.hidden_size
    return float(head / (head + config.num_hidden_layers * _layer_weights(config)))


def _projection_weights(config: Qwen2Config) -> int:
    """Of query, key and value."""
    size = config.hidden_size // config.num_attention_heads
    return config.hidden_size * size * (config.num_attention_heads + 2 * (config.num_key_value_heads or 0))


def _layer_weights(config: Qwen2Config) -> int:
    width = config.hidden_size
    return _projection_weights(config) + width * width + 3 * width * config.intermediate_size


def _attention_operations(config: Qwen2Config, tokens: int) -> int:
    """Queries with keys and weights with values, the half that causality leaves."""
    return 2 * tokens * tokens * config.hidden_size
