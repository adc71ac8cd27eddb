"""Keeps memory that a model's pass has freed with the process, for the next pass, where glibc would hand it back.

A pass frees states of many megabytes. glibc returns them to the system at once, and each page has to be cleared when
it is taken again: with a float32 model of Qwen2-0.5B's shape this took 7 % of the time of a row of 900 tokens.
"""

from __future__ import annotations

import torch
from torch import nn

from attribeam.attribution.models.weight_memory import held_size

_LARGEST_THRESHOLD = 32 * 2**20
"""The size from which 64-bit glibc lets a freed chunk change nothing (``DEFAULT_MMAP_THRESHOLD_MAX``)."""

_SMALL_MODEL = 2**27
"""Size in bytes of the weights below which a model's states are too small to matter."""


def keep_freed_memory(network: nn.Module) -> None:
    """Let this process keep up to 64 MiB of freed memory, if ``network`` is on the CPU and not small.

    It relies on what mallopt(3) says of glibc: whoever frees a chunk that was mapped on its own raises the size from
    which chunks are mapped (``M_MMAP_THRESHOLD``) to its size, and what may stay free at the top of the heap
    (``M_TRIM_THRESHOLD``) to twice that. So a chunk just below the largest such size is taken and freed; it is never
    written to, and takes no memory. This does nothing with another C library, and nothing where a user has set one of
    glibc's thresholds (``MALLOC_TRIM_THRESHOLD_`` and others), because they stay fixed then.
    """
    on_cpu = all(weight.device.type == "cpu" for weight in network.parameters())
    if on_cpu and held_size(network) >= _SMALL_MODEL:
        torch.empty(_LARGEST_THRESHOLD - 2**16, dtype=torch.uint8, device="cpu")
