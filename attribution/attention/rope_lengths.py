"""Which rows may share a forward pass where the rotary frequencies follow the longest row of the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedConfig

_CHOSEN_BY_LENGTH = "longrope"


def rope_border(config: PreTrainedConfig) -> int | None:
    """The longest row, in tokens, that is turned with the short frequencies; None where length chooses nothing.

    Longrope (Phi-3 and others) turns a whole batch with the long frequencies as soon as one of its rows is longer than
    the original context. A row's attention must not depend on its neighbours, so rows on both sides of the border go
    through the model apart. Dynamic scaling changes nothing up to the model's context, and longer rows are refused.
    """
    parameters = getattr(config.get_text_config(), "rope_parameters", None)
    chosen = [one for one in _of_each_kind(parameters or {}) if one.get("rope_type") == _CHOSEN_BY_LENGTH]
    return min((int(one["original_max_position_embeddings"]) for one in chosen), default=None)


def groups_by_border(lengths: Sequence[int], border: int | None) -> list[list[int]]:
    """Indices of the rows of at most ``border`` tokens, and of the longer ones; none of the two lists is empty."""
    if border is None:
        return [[*range(len(lengths))]] if lengths else []
    short = [index for index, length in enumerate(lengths) if length <= border]
    long = [index for index, length in enumerate(lengths) if length > border]
    return [group for group in (short, long) if group]


def _of_each_kind(parameters: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parameters as they are, or those of every kind of layer where there is one set for each."""
    nested: list[Mapping[str, Any]] = [one for one in parameters.values() if isinstance(one, dict)]
    return nested if nested and "rope_type" not in parameters else [parameters]
