"""Taking the hidden states of a layer out of any Hugging Face model, by hooks on its layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn


class _StatesTaken(Exception):  # noqa: N818 - a message to the caller, not a fault
    """Raised behind the wanted layer, caught in ``hidden_states``."""


@torch.inference_mode()
def hidden_states(network: nn.Module, token_ids: npt.NDArray[np.int32], *, layer: int) -> torch.Tensor:
    """What ``layer`` puts out for one row: float32 [tokens, size]; the forward pass ends there.

    ``network`` is a base model without a language-model head, ``layer`` 1-based, 0 the embeddings. A final norm behind
    the last layer is not applied.

    Raises:
        ValueError: as ``layer_modules``, or if the layer is not among those that were loaded.
    """
    taken: list[torch.Tensor] = []

    def take_and_end(states: torch.Tensor) -> None:
        taken.append(states)
        raise _StatesTaken

    device = next(network.parameters()).device
    try:
        with _hooked(network, layer, take_and_end):
            network(input_ids=torch.from_numpy(token_ids.astype(np.int64))[None].to(device))
    except _StatesTaken:
        return taken[0]
    raise RuntimeError(f"the forward pass should go through layer {layer}, but did not")


@contextmanager
def keeping_hidden_states(network: nn.Module, kept: list[torch.Tensor], *, layer: int) -> Iterator[None]:
    """Append to ``kept`` the ``layer``'s states, as ``hidden_states``, of each forward pass inside over one row.

    The pass may end behind that layer, as it does where the next layer's attention is captured.

    Raises:
        ValueError: as ``hidden_states``.
    """
    with _hooked(network, layer, kept.append):
        yield


def layer_modules(network: nn.Module) -> nn.ModuleList:
    """The layers of a model, first to last: the list of ``num_hidden_layers`` modules that is found first.

    Raises:
        ValueError: if the model has no such list.
    """
    count = getattr(network, "config").get_text_config().num_hidden_layers  # noqa: B009 - every transformers model has it
    for module in network.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise ValueError(
        f"the model should hold its {count} layers in one list, {type(network).__name__} does not; its hidden states "
        "cannot be taken, choose another model"
    )


@contextmanager
def _hooked(network: nn.Module, layer: int, take: Callable[[torch.Tensor], None]) -> Iterator[None]:
    layers = layer_modules(network)
    if not 0 <= layer <= len(layers):
        raise ValueError(f"layer of the hidden states should be from 0 to {len(layers)}, was: {layer}")

    def before(_: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        take(_only_row(arguments[0] if arguments else options["hidden_states"]))

    def behind(_: nn.Module, __: tuple[Any, ...], output: torch.Tensor | tuple[torch.Tensor, ...]) -> None:
        take(_only_row(output if isinstance(output, torch.Tensor) else output[0]))

    if layer == 0:
        handle = layers[0].register_forward_pre_hook(before, with_kwargs=True)
    else:
        handle = layers[layer - 1].register_forward_hook(behind)
    try:
        yield
    finally:
        handle.remove()


def _only_row(states: torch.Tensor) -> torch.Tensor:
    if states.shape[0] != 1:
        raise ValueError(f"hidden states should be of one row at a time, were of {states.shape[0]}")
    return states[0].float()
