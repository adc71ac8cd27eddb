"""One model in memory at a time, kept for the steps that share it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable
from typing import Any

import torch


class OneLoaded:
    """Keeps what was loaded last; before something else is loaded, it is released."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._value: Any = None

    def get(self, key: Hashable, load: Callable[[], Any]) -> Any:
        """What ``load`` gives; loaded once for successive calls with the same key."""
        if key != self._key:
            self.release()
            self._value = load()
            self._key = key
        return self._value

    def release(self) -> None:
        """Give the memory back."""
        self._key = self._value = None
        release_memory()


def release_memory() -> None:
    """Give the device back what nothing refers to."""
    gc.collect()
    torch.cuda.empty_cache()  # does nothing if CUDA was never used
