"""Cuts a model down to layers 1 to L* of its text model, and drops weights that no forward pass reaches.

A config may nest the text model beside others, such as an image encoder. Most models use their number of layers only
to build them, so the layers above the captured one can be left out of the config. Some models scale every layer by
that number (MiniCPM, ESM C), or use it to decide which layers share keys (Gemma 3n); their source code shows this.
Weights after the captured attention, which no forward pass reaches, are released after the first pass.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from transformers import MODEL_MAPPING, PreTrainedConfig

from attribeam.attribution.models.layer_choice import without_layers_above

_NESTED_PREFIX = r"^(model\.)?(language_model|text_model)\.(model\.)?"


def text_model_config(config: PreTrainedConfig, layer: int) -> PreTrainedConfig:
    """The config of layers 1 to ``layer`` of the text model alone, with the dtype of the whole model.

    If transformers has no class for the text model alone, it is the whole config with its text model cut.
    """
    whole = without_layers_above(config, layer)
    text = whole.get_text_config()
    if text is whole or type(text) not in MODEL_MAPPING:
        return whole
    if getattr(text, "dtype", None) is None:
        text.dtype = whole.dtype
    if getattr(whole, "quantization_config", None) is not None:
        text.quantization_config = whole.quantization_config
    return text


def nested_names(config: PreTrainedConfig, text: PreTrainedConfig) -> dict[str, str] | None:
    """How transformers should rename tensors of the ``config`` model for the ``text`` model; None if not at all."""
    return None if type(text) is type(config) else {_NESTED_PREFIX: ""}


_DEPTH_NAMES = frozenset({"num_hidden_layers", "n_layer", "n_layers", "num_layers"})


def depth_matters(config: PreTrainedConfig) -> bool:
    """Whether the text model's code uses its number of layers for more than building them; True if unknown.

    Allowed uses are as the end of a ``range`` or a slice, and anywhere in ``_init_weights``.
    """
    text_config = config.get_text_config()
    if type(text_config) not in MODEL_MAPPING:
        return True
    model = MODEL_MAPPING[type(text_config)]
    classes = model if isinstance(model, tuple) else (model,)
    return any(_file_uses_depth(one.__module__) for one in classes)


@cache
def _file_uses_depth(module: str) -> bool:
    return _uses_depth(ast.parse(inspect.getsource(sys.modules[module])))


def _uses_depth(node: ast.AST) -> bool:
    """Whether ``node`` reads a number of layers other than to build or count layers."""
    if isinstance(node, ast.Attribute) and node.attr in _DEPTH_NAMES and isinstance(node.ctx, ast.Load):
        return True
    return any(_uses_depth(child) for child in ast.iter_child_nodes(node) if not _only_builds(node, child))


def _only_builds(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id == "range"
    if isinstance(child, ast.FunctionDef):
        return child.name == "_init_weights"
    return isinstance(parent, ast.Slice) or isinstance(child, ast.Slice)


_LAYER_PATH = re.compile(r"^(?P<list>(?:.*?\.)?)(?P<index>\d+)\.")


class _TouchedParameters(TorchFunctionMode):
    """Records every parameter that is passed to a torch function."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[int] = set()

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in (*args, *(kwargs or {}).values()):
            if isinstance(value, torch.nn.Parameter):
                self.ids.add(id(value))
        return function(*args, **(kwargs or {}))


@contextmanager
def drop_unused_weights(model: torch.nn.Module, layer: int) -> Iterator[None]:
    """Run one forward pass inside; afterwards, untouched weights of layer ``layer`` and above are released.

    The pass ends at the attention of the 1-based ``layer``. Everything that ran or was touched stays, and so do all
    layers below, where other tokens may take other routes (mixtures of experts).
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
    for module, name in _parameters_from_layer(model, layer):
        if id(module._parameters[name]) not in touched.ids:
            module._parameters[name] = None


def _parameters_from_layer(model: torch.nn.Module, layer: int) -> Iterator[tuple[torch.nn.Module, str]]:
    """The parameters of layer ``layer`` and above, each as its module and its name in that module."""
    modules = dict(model.named_modules())
    lists = {name + "." for name, module in modules.items() if isinstance(module, torch.nn.ModuleList)}
    for path, module in modules.items():
        place = _LAYER_PATH.match(path + ".")
        if place and place["list"] in lists and int(place["index"]) >= layer - 1:
            yield from ((module, name) for name, value in module._parameters.items() if value is not None)
