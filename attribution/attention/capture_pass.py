"""One forward pass under capture: what it is asked for, who is shown its attention, and how it ends.

The pass ends at the captured layer, with a private exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NoReturn

import torch

from attribution.attention.attention_rule import AttentionRule
from attribution.attention.row_attention import CapturedRow, RowAttention, RowRequest, reduce_row


@dataclass(slots=True)
class _LayerCount:
    """Numbers the attention modules of one forward pass from 0."""

    unnumbered: int = 0

    def index_of(self, module: torch.nn.Module) -> int:
        """The 0-based layer whose attention ``module`` is; to be asked once a layer.

        Modules that do not know it (DistilBERT's, ALBERT's) are counted as the pass comes by.
        """
        index: int | None = getattr(module, "layer_idx", None)
        if index is None:
            self.unnumbered += 1
            return self.unnumbered - 1
        return index


@dataclass(slots=True)
class Capture:
    """One forward pass's request and result; ``layer_index`` is 0-based. ``bidirectional`` is set by the layer.

    ``head_weights`` float32 [attention heads] sum to 1; None is the mean over attention heads.
    """

    layer_index: int
    top_k: int
    rows: list[RowRequest]
    head_weights: torch.Tensor | None = None
    captured: list[CapturedRow] = field(default_factory=list)
    bidirectional: bool = False
    layers: _LayerCount = field(default_factory=_LayerCount)


class _ForwardPassEnds(Exception):  # noqa: N818 - a message to the caller, not a fault
    """Raised at the captured layer, caught in ``capturing``."""


Observer = Callable[[int, RowAttention], None]
"""Is shown the attention of every row, with the 0-based layer: of every layer, or, where rows lie end to end, of the
captured one."""


@dataclass(slots=True)
class _Observation:
    observer: Observer
    layers: _LayerCount = field(default_factory=_LayerCount)


_current: ContextVar[Capture | None] = ContextVar("attribeam_capture", default=None)
_observed: ContextVar[_Observation | None] = ContextVar("attribeam_observation", default=None)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Show the attention of the one forward pass inside to ``observer``, before anything is reduced.

    What the observer raises ends the pass.
    """
    token = _observed.set(_Observation(observer))
    try:
        yield
    finally:
        _observed.reset(token)


def is_observed() -> bool:
    """Whether an observer waits for the attention."""
    return _observed.get() is not None


@contextmanager
def capturing(capture: Capture) -> Iterator[None]:
    """Run the model's forward pass inside; it ends at the captured layer, and ``capture.captured`` is filled.

    Raises:
        RuntimeError: if the pass came to its end without reaching the layer through this implementation.
    """
    token = _current.set(capture)
    try:
        yield
    except _ForwardPassEnds:
        return
    finally:
        _current.reset(token)
    raise RuntimeError(
        f"the model should reach layer {capture.layer_index + 1} through transformers' attention interface, but did not"
    )


def show_or_end(module: torch.nn.Module, attentions: Iterator[RowAttention], rule: AttentionRule) -> None:
    """Show the attention of all rows to the observer, and end the pass where the layer is the captured one."""
    capture, observation = _current.get(), _observed.get()
    captured = capture is not None and capture.layers.index_of(module) == capture.layer_index
    if not captured and observation is None:
        return
    rows = list(attentions)
    if observation is not None:
        _show(observation, observation.layers.index_of(module), rows)
    if capture is not None and captured:
        capture.bidirectional = not rule.causal
        _end_pass(capture, rows)


def _show(observation: _Observation, layer_index: int, attentions: Sequence[RowAttention]) -> None:
    for attention in attentions:
        observation.observer(layer_index, attention)


def _end_pass(capture: Capture, attentions: Sequence[RowAttention]) -> NoReturn:
    for attention, request in zip(attentions, capture.rows, strict=True):
        capture.captured.append(reduce_row(attention, request, top_k=capture.top_k, head_weights=capture.head_weights))
    raise _ForwardPassEnds
