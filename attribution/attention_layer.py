"""Which layer's attention is taken, and what of a model need not be loaded above it."""

from __future__ import annotations

import copy

from transformers import PreTrainedConfig

_FULL = "full_attention"
_LIMITED = ("sliding_attention", "chunked_attention")


def choose_layer(config: PreTrainedConfig, requested: int | None) -> int:
    """The 1-based layer L*: the requested one, else the layer with full attention nearest to floor(L/2) + 1.

    Ties go to the lower layer (Section 4.1; a layer with a sliding window may not see the passages). Where no layer
    has full attention, the nearest one with any attention.

    Raises:
        ValueError: if the requested layer does not exist or has no attention.
    """
    types = layer_types(config)
    capturable = [index + 1 for index, kind in enumerate(types) if kind in (_FULL, *_LIMITED)]
    if requested is not None:
        if requested not in capturable:
            raise ValueError(f"layer should be one of the layers with attention, {capturable}, was: {requested}")
        return requested
    candidates = [layer for layer in capturable if types[layer - 1] == _FULL] or capturable
    if not candidates:
        raise ValueError(f"the model should have a layer with attention, has only: {sorted(set(types))}")
    default = len(types) // 2 + 1
    return min(candidates, key=lambda layer: (abs(layer - default), layer))


def layer_types(config: PreTrainedConfig) -> tuple[str, ...]:
    """The kind of every layer, in transformers' words; sliding for all where the config knows only a window."""
    text_config = config.get_text_config()
    types = getattr(text_config, "layer_types", None)
    if types is not None:
        return tuple(types)
    kind = _FULL if getattr(text_config, "sliding_window", None) is None else _LIMITED[0]
    return (kind,) * int(text_config.num_hidden_layers)


def only_local_below(config: PreTrainedConfig, layer: int) -> bool:
    """Whether every layer below the 1-based ``layer`` sees a window only, and ``layer`` sees everything."""
    types = layer_types(config)
    return all(kind == _LIMITED[0] for kind in types[: layer - 1]) and types[layer - 1] == _FULL


def without_layers_above(config: PreTrainedConfig, layer: int) -> PreTrainedConfig:
    """A copy of ``config`` with ``layer`` layers, so that the weights above are neither read nor kept.

    Every list with one item a layer is cut. A config that nests its text model's is returned as it is: its layers
    above are loaded but never run.
    """
    if config.get_text_config() is not config:
        return config
    trimmed = copy.deepcopy(config)
    layer_count = config.num_hidden_layers
    for name, value in vars(config).items():
        if isinstance(value, list) and len(value) == layer_count:
            setattr(trimmed, name, value[:layer])
    trimmed.num_hidden_layers = layer
    return trimmed
