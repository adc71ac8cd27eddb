"""Which weights of a model are held, the memory that they need, and the free memory of a device.

A config is cut down to layers 1 to L* of its text model; it may nest that beside others, such as an image encoder. Most
models use their number of layers only to build them. Some scale every layer by that number (MiniCPM, ESM C), or use it
to decide which layers share keys (Gemma 3n); their source code shows this. Weights are counted from the config, before
anything is loaded. Those after the captured attention, which no forward pass reaches, are released after the first
pass.

A pass frees states of many megabytes. glibc returns them to the system at once, and each page has to be cleared when
it is taken again: with a float32 model of Qwen2-0.5B's shape this took 7 % of the time of a row of 900 tokens.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from transformers import MODEL_MAPPING, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from attribeam.attribution.models.layer_choice import without_layers_above
from attribeam.attribution.options import Quantization

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


_LAYER_NUMBER = re.compile(r"(?:^|\.)(\d+)\.")
_MATRIX_LAYERS = (torch.nn.Linear, Conv1D)
_NF4_BLOCK, _NF4_OUTER_BLOCK = 64, 256


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """Weights that belong together.

    Attributes:
        matrix_weights: number of weights in matrices of linear layers, which quantisation covers.
        matrix_rows: number of outputs of these matrices; LLM.int8 has a scale for each.
        other_weights: number of all other weights: embeddings, norms, biases, experts in one tensor.
    """

    name: str
    matrix_weights: int = 0
    matrix_rows: int = 0
    other_weights: int = 0

    @property
    def weights(self) -> int:
        """The number of all weights."""
        return self.matrix_weights + self.other_weights

    def __add__(self, other: WeightGroup) -> WeightGroup:
        return WeightGroup(
            self.name,
            self.matrix_weights + other.matrix_weights,
            self.matrix_rows + other.matrix_rows,
            self.other_weights + other.other_weights,
        )

    def size(self, dtype: torch.dtype, quantization: Quantization) -> int:
        """Size of the group in bytes.

        NF4 takes half a byte per weight, one byte per block of 64 for its scale, and 4 bytes per 256 scales. LLM.int8
        takes one byte per weight and 4 bytes per row.
        """
        other = self.other_weights * dtype.itemsize
        if quantization is Quantization.NF4:
            blocks = -(-self.matrix_weights // _NF4_BLOCK)
            return other + -(-self.matrix_weights // 2) + blocks + 4 * -(-blocks // _NF4_OUTER_BLOCK)
        if quantization is Quantization.INT8:
            return other + self.matrix_weights + 4 * self.matrix_rows
        return other + self.matrix_weights * dtype.itemsize


def weight_groups(config: PreTrainedConfig, layer: int, *, trust_remote_code: bool = False) -> tuple[WeightGroup, ...]:
    """The weights loaded for the 1-based ``layer``: embedding table, layers below L*, L* itself, and the rest.

    Builds the model on the meta device, which takes no memory.

    Raises:
        ValueError, KeyError: if transformers has no such model.
    """
    with torch.device("meta"):
        model = AutoModel.from_config(  # type: ignore[no-untyped-call]
            text_model_config(config, layer), trust_remote_code=trust_remote_code
        )
    names = ("embedding table", f"layers 1 to {layer - 1}", f"layer {layer}", "rest")
    groups = {name: WeightGroup(name) for name in names}
    for place, group in _grouped_parameters(model, layer):
        groups[names[place]] += group
    return tuple(group for group in groups.values() if group.weights)


def total_size(groups: Iterable[WeightGroup], dtype: torch.dtype, quantization: Quantization) -> int:
    """Size of all groups together, in bytes."""
    return sum(group.size(dtype, quantization) for group in groups)


def held_size(model: torch.nn.Module) -> int:
    """Bytes of a model's weights, including quantisation scales; on a GPU, its forward pass must have run."""
    weights = sum(parameter.nbytes for parameter in model.parameters())
    return weights + sum(_scale_size(module) for module in model.modules())


def _scale_size(module: torch.nn.Module) -> int:
    """Bytes of the scales of a bitsandbytes layer.

    NF4 keeps them with the weights, and so does LLM.int8 on the CPU; elsewhere its first pass moves them to the layer.
    """
    weight = getattr(module, "weight", None)
    blocks = getattr(weight, "quant_state", None)
    if blocks is not None:
        return int(blocks.absmax.nbytes + (blocks.state2.absmax.nbytes if blocks.nested else 0))
    held = (getattr(place, "SCB", None) for place in (weight, getattr(module, "state", None)))
    return sum(int(rows.nbytes) for rows in held if isinstance(rows, torch.Tensor))


def _grouped_parameters(model: PreTrainedModel, layer: int) -> Iterator[tuple[int, WeightGroup]]:
    """Every parameter once, as a group of its own, with the index of the group that it belongs to."""
    table = model.get_input_embeddings().weight
    rows_of = {
        id(module.weight): _matrix_rows(module) for module in model.modules() if isinstance(module, _MATRIX_LAYERS)
    }
    for name, parameter in model.named_parameters():
        place = 0 if parameter is table else _group_place(name, layer)
        rows = rows_of.get(id(parameter))
        if rows is None:
            yield place, WeightGroup(name, other_weights=parameter.numel())
        else:
            yield place, WeightGroup(name, matrix_weights=parameter.numel(), matrix_rows=rows)


def _group_place(name: str, layer: int) -> int:
    """1 below L*, 2 in L*, 3 elsewhere; the first number in a parameter's name is that of its layer, from 0."""
    number = _LAYER_NUMBER.search(name)
    if number is None or int(number[1]) >= layer:
        return 3
    return 1 if int(number[1]) < layer - 1 else 2


def _matrix_rows(module: torch.nn.Module) -> int:
    return int(module.nf if isinstance(module, Conv1D) else module.out_features)  # type: ignore[arg-type]


_MEMORY_INFO = Path("/proc/meminfo")
_CONTROL_GROUP = Path("/sys/fs/cgroup")


def free_memory(device: torch.device) -> int | None:
    """Bytes free on ``device``; a CPU counts its control group's limit. None if unknown.

    A GPU counts what torch holds there without using it. That of earlier models would else be missing.
    """
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    if device.type != "cpu":
        return None
    return min((size for size in (_available_memory(), _left_in_control_group()) if size is not None), default=None)


def _available_memory() -> int | None:
    try:
        lines = _MEMORY_INFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kilobytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kilobytes is None else int(kilobytes) * 1024


def _left_in_control_group() -> int | None:
    """A container's limit, less what its processes hold; cached files do not count as held."""
    try:
        limit = (_CONTROL_GROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((_CONTROL_GROUP / "memory.current").read_text(encoding="ascii"))
        numbers = (_CONTROL_GROUP / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    cached = sum(int(line.split()[1]) for line in numbers if line.split()[0] in ("active_file", "inactive_file"))
    return None if limit == "max" else max(0, int(limit) - used + cached)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""``M_TRIM_THRESHOLD`` and ``M_MMAP_THRESHOLD`` of glibc's ``malloc.h``."""

_KEPT = 2**27
"""How much may stay free at the end of the heap, in bytes: a layer frees about half of it, rows of 900 tokens."""

_LARGEST_CHUNK = 2**25
"""The size in bytes from which chunks are mapped on their own and handed back; the largest that glibc takes."""

_SMALL_MODEL = 2**27
"""Size in bytes of the weights below which a model's states are too small to matter."""


def keep_freed_memory(network: nn.Module) -> None:
    """Let this process keep up to 128 MiB of freed memory, if ``network`` is on the CPU and not small.

    It sets two of glibc's thresholds, see mallopt(3). This does nothing with another C library, and nothing where a
    user has set one of them (``MALLOC_TRIM_THRESHOLD_`` and others, or ``GLIBC_TUNABLES``).
    """
    on_cpu = all(weight.device.type == "cpu" for weight in network.parameters())
    if on_cpu and held_size(network) >= _SMALL_MODEL and platform.libc_ver()[0] == "glibc" and not _set_by_user():
        glibc = ctypes.CDLL(None)
        glibc.mallopt(_MMAP_THRESHOLD, _LARGEST_CHUNK)
        glibc.mallopt(_TRIM_THRESHOLD, _KEPT)


def _set_by_user() -> bool:
    return "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") and name.endswith("_") for name in os.environ
    )
