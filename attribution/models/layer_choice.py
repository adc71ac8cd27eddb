"""Chooses the layer whose attention is taken, and cuts the layers above it out of a config."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

CAPTURE_IMPLEMENTATION = "attribeam_capture"
"""The name of the attention that is captured, among those that transformers can be told to use."""
_FULL = "full_attention"
_SLIDING = "sliding_attention"
_SEES_ALL = (_FULL, "hybrid")
_SEES_SOME = (_SLIDING, "chunked_attention", "hybrid_sliding", "indexed_attention")


@dataclass(frozen=True, slots=True)
class LayerChoice:
    """The layer whose attention is taken, and the reason for the choice.

    Attributes:
        layer: 1-based L*.
        default: floor(L/2) + 1 (Section 4.1).
        kinds: the kind of each layer of the model, by transformers' names.
        reason: the reason in words.
    """

    layer: int
    default: int
    kinds: tuple[str, ...]
    reason: str

    @property
    def kind(self) -> str:
        """The kind of L*."""
        return self.kinds[self.layer - 1]

    def provenance(self) -> dict[str, str]:
        """The choice, as recorded in file metadata and the run manifest."""
        counts = Counter(self.kinds)
        return {
            "layer": str(self.layer),
            "layer_count": str(len(self.kinds)),
            "layer_type": self.kind,
            "layer_default": str(self.default),
            "layer_kinds": ", ".join(f"{kind} {counts[kind]}" for kind in sorted(counts)),
            "layer_choice": f"layer {self.layer} of {len(self.kinds)}: {self.reason}",
        }


def choose_layer(config: PreTrainedConfig, requested: int | None) -> LayerChoice:
    """L*: the requested layer, else the layer nearest to floor(L/2) + 1 whose tokens see everything.

    Ties go to the lower layer (Section 4.1; a layer with a sliding window may not see the passages, and a recurrent
    layer has no attention). If no layer sees everything, it is the nearest layer with any attention.

    Raises:
        ValueError: if the requested layer does not exist or has no attention, or if no layer has attention.
    """
    kinds = layer_types(config)
    capturable = layers_with_attention(kinds)
    default = len(kinds) // 2 + 1
    if requested is not None:
        if requested not in capturable:
            raise ValueError(f"layer should be one of the layers with attention, {capturable}, was: {requested}")
        return LayerChoice(requested, default, kinds, "as configured" + _window_warning(kinds[requested - 1]))
    if not capturable:
        raise ValueError(f"the model should have a layer with attention, but has only: {', '.join(sorted(set(kinds)))}")
    candidates = [layer for layer in capturable if kinds[layer - 1] in _SEES_ALL] or capturable
    layer = min(candidates, key=lambda layer: (abs(layer - default), layer))
    kind = kinds[layer - 1]
    reason = "the default"
    if layer != default:
        reason = f"nearest {kind} layer to the default {default} ({kinds[default - 1]})"
    return LayerChoice(layer, default, kinds, reason + _window_warning(kind))


def layers_with_attention(kinds: Sequence[str]) -> list[int]:
    """The 1-based layers with attention; ``kinds`` are transformers' names."""
    return [index + 1 for index, kind in enumerate(kinds) if kind in (*_SEES_ALL, *_SEES_SOME)]


def layer_types(config: PreTrainedConfig) -> tuple[str, ...]:
    """The kind of each layer, by transformers' names; sliding for all if the config gives only a window.

    Raises:
        ValueError: if the config does not say how many layers there are.
    """
    text_config = config.get_text_config()
    types = getattr(text_config, "layer_types", None)
    if types is not None:
        return tuple(types)
    layer_count = getattr(text_config, "num_hidden_layers", None)
    if not isinstance(layer_count, int) or layer_count < 1:
        raise ValueError(
            f"config.json ({config.model_type}) should have a num_hidden_layers of at least 1, but has none"
        )
    return (_FULL if getattr(text_config, "sliding_window", None) is None else _SLIDING,) * layer_count


def without_layers_above(config: PreTrainedConfig, layer: int) -> PreTrainedConfig:
    """A copy of ``config`` with ``layer`` layers, so that weights above them are neither read nor kept.

    Every list with one item per layer is cut, too. If the config nests a text model's config, that one is cut.
    """
    trimmed = copy.deepcopy(config)
    text_config = trimmed.get_text_config()
    layer_count = text_config.num_hidden_layers
    for name, value in vars(text_config).items():
        if isinstance(value, list) and len(value) == layer_count:
            setattr(text_config, name, value[:layer])
    text_config.num_hidden_layers = layer
    return trimmed


def _window_warning(kind: str) -> str:
    return "" if kind in _SEES_ALL else f"; a {kind} layer, which may not see all passages"
