"""The method: attention-union attribution with dependency augmentation. Knows nothing of Beam.

Names are loaded on first use, so that importing this package loads neither torch nor spaCy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attribution.attributor import Attributor

__all__ = ["Attributor"]


def __getattr__(name: str) -> object:
    if name == "Attributor":
        return import_module("attribution.attributor").Attributor
    raise AttributeError(f"module 'attribution' has no attribute {name!r}")
