"""Context-sensitive tokens (CTI): where the passages change what the model would write next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from schemas import CharRange

_Floats = npt.NDArray[np.float64]


def context_divergences(with_passages: torch.Tensor, without_passages: torch.Tensor) -> _Floats:
    """KL(with || without) of every response token's next-token distribution, in nats: float64 [responses].

    Both are log-probabilities [responses, vocabulary].
    """
    found = np.empty(len(with_passages))
    for index, (own, other) in enumerate(zip(with_passages, without_passages, strict=True)):
        own, other = own.double(), other.double()
        terms = torch.where(own.isneginf(), 0.0, own.exp() * (own - other))
        found[index] = max(float(terms.sum()), 0.0)
    return found


def sensitive_tokens(divergences: _Floats) -> list[int]:
    """The tokens whose divergence reaches mean plus one standard deviation (of the population), ascending.

    A token that the passages do not change at all is never one.
    """
    if not len(divergences):
        return []
    threshold = float(divergences.mean() + divergences.std())
    return [index for index, value in enumerate(divergences.tolist()) if value >= threshold and value > 0]


def sensitive_spans(divergences: _Floats, characters: Sequence[CharRange | None]) -> tuple[CharRange, ...]:
    """One target span a context-sensitive token that stands for characters of the answer, ascending, each once.

    ``characters`` are those of every response token in the answer.
    """
    found = {characters[index] for index in sensitive_tokens(divergences)}
    return tuple(sorted((chars for chars in found if chars is not None), key=lambda chars: chars.char_start))
