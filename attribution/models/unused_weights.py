"""Letting go of the weights behind the captured attention, which no forward pass ever reaches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

_NUMBERED = re.compile(r"^(?P<list>(?:.*?\.)?)(?P<index>\d+)\.")


class _TouchedParameters(TorchFunctionMode):
    """Notes every parameter that is handed to a function of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[int] = set()

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in (*args, *(kwargs or {}).values()):
            if isinstance(value, torch.nn.Parameter):
                self.ids.add(id(value))
        return function(*args, **(kwargs or {}))


@contextmanager
def without_unused_weights(model: torch.nn.Module, layer: int) -> Iterator[None]:
    """Run one forward pass inside; weights of layer ``layer`` and above that it did not touch are gone afterwards.

    ``layer`` is the 1-based number of the layer at whose attention the pass ends. What ran or was touched stays, and
    so does everything below, where other tokens may take other ways (mixtures of experts).
    """
    touched = _TouchedParameters()

    def note(module: torch.nn.Module, _: Any) -> None:
        touched.ids.update(map(id, module.parameters(recurse=False)))

    hook = register_module_forward_pre_hook(note)
    try:
        with touched:
            yield
    finally:
        hook.remove()
    for module, name in _from_layer(model, layer):
        if id(module._parameters[name]) not in touched.ids:
            module._parameters[name] = None


def _from_layer(model: torch.nn.Module, layer: int) -> Iterator[tuple[torch.nn.Module, str]]:
    """The parameters of layer ``layer`` and above, each as its module and its name there."""
    modules = dict(model.named_modules())
    lists = {name + "." for name, module in modules.items() if isinstance(module, torch.nn.ModuleList)}
    for path, module in modules.items():
        place = _NUMBERED.match(path + ".")
        if place and place["list"] in lists and int(place["index"]) >= layer - 1:
            yield from ((module, name) for name, value in module._parameters.items() if value is not None)
