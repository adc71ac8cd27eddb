"""Loads the weights of layers 1 to L* of a model onto its device, with transformers, quantised if requested.

Weights are counted from the config before anything is loaded; those that no pass reaches are released after the first.
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
from functools import cache, wraps
from logging import ERROR
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from transformers import MODEL_MAPPING, AutoModel, BitsAndBytesConfig, PreTrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging

from attribeam.attribution.models import CAPTURE_IMPLEMENTATION, as_load_errors
from attribeam.attribution.models.model_directory import (
    ModelDirectory,
    layer_types,
    rope_border,
    runs_own_code,
    without_layers_above,
)
from attribeam.attribution.models.precision import (
    choose_device,
    choose_dtype,
    keep_weights_as_loaded,
    quantization_config,
    resolve_dtype,
)
from attribeam.attribution.models.weight_files import weights_folder
from attribeam.attribution.options import Quantization
from attribeam.schemas.errors import ModelLoadError, ModelUnavailableError

_NESTED_PREFIX = r"^(model\.)?(language_model|text_model)\.(model\.)?"


def layers_to_load(directory: ModelDirectory, layer: int) -> int:
    """``layer``, or the number of all layers where the model's code needs them to compute the first ones."""
    if runs_own_code(directory) or depth_matters(directory.config):
        return len(layer_types(directory.config))
    return layer


def load_weights(
    directory: ModelDirectory, *, layer: int, attention: str | None = CAPTURE_IMPLEMENTATION
) -> PreTrainedModel:
    """Load layers 1 to ``layer`` of the text model (no language-model head), in evaluation mode.

    Tensors of other layers are not read, and files that hold nothing else need not exist. ``attention`` is one of those
    that transformers knows; None leaves the choice to the model. Raises ``ModelLoadError`` if the weights do not fit
    into the device's free memory, are missing, damaged, incomplete or not in safetensors files, or cannot be quantised
    as requested.
    """
    options, device = directory.options, choose_device(directory.options.device)
    dtype = resolve_dtype(directory, choose_dtype(directory, device))
    quantised = quantization_config(options.quantization, directory.config, dtype)
    needed = sum(group.weights for group in check_fits(directory, layer=layer, dtype=dtype, device=device))
    config = _text_model_config(directory.config, layer)
    renamed = None if type(config) is type(directory.config) else {_NESTED_PREFIX: ""}
    model, lacking = read_network(
        AutoModel,
        directory,
        needed=needed,
        layer=layer,
        quantised=quantised,
        config=config,
        key_mapping=renamed,
        trust_remote_code=options.trust_remote_code,
        attn_implementation=attention,
    )
    missing = [name for name in lacking if "pooler" not in name]
    if missing:
        raise ModelLoadError(
            f"model {options.model!r} should have all weights of its layers 1 to {layer}, but lacks {len(missing)}: "
            f"{', '.join(missing[:3])}; is the directory complete, and does config.json belong to these weights?"
        )
    return model


def read_network(
    kind: Any,
    directory: ModelDirectory,
    *,
    needed: int,
    layer: int | None = None,
    quantised: BitsAndBytesConfig | None = None,
    **reading: Any,
) -> tuple[PreTrainedModel, list[str]]:
    """A network of transformers' class ``kind``, in evaluation mode on its device, and the weights that no file has.

    ``needed`` and ``layer`` as for ``weights_folder``; ``reading`` are further arguments of ``from_pretrained``. Raises
    ``ModelLoadError`` if the weights are missing, damaged or not in safetensors files.
    """
    device = choose_device(directory.options.device)
    if quantised is not None:  # quantised weights are made directly on the device
        reading |= {"quantization_config": quantised, "device_map": {"": device}}
    with (
        as_load_errors(directory.options.model),
        weights_folder(directory, needed=needed, layer=layer) as folder,
        _quiet_transformers(),
    ):
        network, report = kind.from_pretrained(
            str(folder),
            use_safetensors=True,
            dtype=choose_dtype(directory, device),
            output_loading_info=True,
            **{"config": directory.config} | reading,
        )
        network.eval().requires_grad_(False)
        if quantised is None:
            network.to(device)
        keep_weights_as_loaded(network)
        _let_threads_take_turns(network)
    return network, sorted(report["missing_keys"])


def _let_threads_take_turns(model: PreTrainedModel) -> None:
    """Run one pass at a time where a pass keeps its frequencies, of short rows or of long ones, in the model."""
    if rope_border(model.config) is None:
        return
    network, turn = model.base_model, Lock()
    forward = network.forward

    @wraps(forward)
    def forward_in_turn(*arguments: Any, **options: Any) -> Any:
        with turn:
            return forward(*arguments, **options)

    network.forward = forward_in_turn


def _text_model_config(config: PreTrainedConfig, layer: int) -> PreTrainedConfig:
    """The config of layers 1 to ``layer`` of the text model alone, with the dtype of the whole model.

    Where transformers has no class for that, it is the whole config with its text model cut.
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


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Suppress progress bars and reports of omitted layers inside; afterwards both are as before."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(ERROR)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


_DEPTH_NAMES = frozenset({"num_hidden_layers", "n_layer", "n_layers", "num_layers"})


def depth_matters(config: PreTrainedConfig) -> bool:
    """Whether the text model's code uses its number of layers for more than building them; True if unknown.

    Some models scale every layer by it (MiniCPM, ESM C), or share keys by it (Gemma 3n). Allowed uses are as the end of
    a ``range`` or a slice, and anywhere in ``_init_weights``.
    """
    text_config = config.get_text_config()
    if type(text_config) not in MODEL_MAPPING:
        return True
    model = MODEL_MAPPING[type(text_config)]
    return any(_file_uses_depth(kind.__module__) for kind in (model if isinstance(model, tuple) else (model,)))


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
        values = (*args, *(kwargs or {}).values())
        self.ids.update(id(value) for value in values if isinstance(value, nn.Parameter))
        return function(*args, **(kwargs or {}))


@contextmanager
def drop_unused_weights(model: nn.Module, layer: int) -> Iterator[None]:
    """Run one forward pass inside; afterwards, untouched weights of layer ``layer`` and above are released.

    The pass ends at the attention of the 1-based ``layer``. Everything that ran or was touched stays, and so do all
    layers below, where other tokens may take other routes (mixtures of experts).
    """
    touched = _TouchedParameters()

    def note(module: nn.Module, _: Any) -> None:
        touched.ids.update(map(id, module.parameters(recurse=False)))

    hook = register_module_forward_pre_hook(note)
    try:
        with touched:
            yield
    finally:
        hook.remove()
    modules = dict(model.named_modules())
    lists = {name + "." for name, module in modules.items() if isinstance(module, nn.ModuleList)}
    for path, module in modules.items():
        match = _LAYER_PATH.match(path + ".")
        if match and match["list"] in lists and int(match["index"]) >= layer - 1:
            for name, value in module._parameters.items():
                if id(value) not in touched.ids:
                    module._parameters[name] = None


_LAYER_NUMBER = re.compile(r"(?:^|\.)(\d+)\.")
_MATRIX_LAYERS = (nn.Linear, Conv1D)
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
    matrix_weights: int
    matrix_rows: int
    other_weights: int

    @property
    def weights(self) -> int:
        """The number of all weights."""
        return self.matrix_weights + self.other_weights

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

    Builds the model on the meta device, which takes no memory; ValueError or KeyError if transformers does not know it.
    """
    with torch.device("meta"):
        model = AutoModel.from_config(  # type: ignore[no-untyped-call]
            _text_model_config(config, layer), trust_remote_code=trust_remote_code
        )
    table = model.get_input_embeddings().weight
    rows_of: dict[int, Any] = {
        id(module.weight): module.nf if isinstance(module, Conv1D) else module.out_features
        for module in model.modules()
        if isinstance(module, _MATRIX_LAYERS)
    }
    names = ("embedding table", f"layers 1 to {layer - 1}", f"layer {layer}", "rest")
    counts = {name: [0, 0, 0] for name in names}
    for path, parameter in model.named_parameters():
        number = _LAYER_NUMBER.search(path)
        index = layer if number is None else int(number[1])  # of its layer, from 0; what has none is of the rest
        part = 3 if index >= layer else 1 if index < layer - 1 else 2
        count, rows = counts[names[0 if parameter is table else part]], rows_of.get(id(parameter))
        count[2 if rows is None else 0] += parameter.numel()
        count[1] += int(rows or 0)
    groups = (WeightGroup(name, *count) for name, count in counts.items())
    return tuple(group for group in groups if group.weights)


def weights_to_load(directory: ModelDirectory, layer: int) -> tuple[WeightGroup, ...]:
    """``weight_groups`` of a model; ModelLoadError if transformers cannot make it."""
    options = directory.options
    with as_load_errors(options.model):
        return weight_groups(directory.config, layer, trust_remote_code=options.trust_remote_code)


def check_fits(
    directory: ModelDirectory, *, layer: int, dtype: torch.dtype, device: torch.device
) -> tuple[WeightGroup, ...]:
    """The groups of the weights, which are checked against the device's free memory without reading them.

    Raises ``ModelLoadError`` if they will not fit; the message names options that need less.
    """
    options = directory.options
    groups = weights_to_load(directory, layer)
    available = free_memory(device)
    needed = total_size(groups, dtype, options.quantization)
    is_stored_quantised = getattr(directory.config, "quantization_config", None) is not None
    if available is not None and needed > available and not is_stored_quantised:
        least = total_size(groups, torch.bfloat16, Quantization.NF4)
        raise ModelUnavailableError(
            f"model {options.model!r} is too large for the device: layers 1 to {layer} need {format_size(needed)} for "
            f"their weights, but {device} has {format_size(available)} left; with --quantization nf4 --dtype "
            f"bfloat16 they need {format_size(least)}; or choose another --model, --device or a lower layer"
        )
    return groups


def total_size(groups: Iterable[WeightGroup], dtype: torch.dtype, quantization: Quantization) -> int:
    """Size of all groups together, in bytes."""
    return sum(group.size(dtype, quantization) for group in groups)


def format_size(size: int) -> str:
    """A readable number of bytes: in units of 10**9, or of 10**6 for less than 10**8 bytes."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def held_size(model: nn.Module) -> int:
    """Bytes of a model's weights, including quantisation scales; on a GPU, its forward pass must have run."""
    weights = sum(parameter.nbytes for parameter in model.parameters())
    return weights + sum(_scale_size(module) for module in model.modules())


def _scale_size(module: nn.Module) -> int:
    """Bytes of the scales of a bitsandbytes layer; LLM.int8's first pass off the CPU moves them to the layer."""
    weight = getattr(module, "weight", None)
    blocks = getattr(weight, "quant_state", None)
    if blocks is not None:
        return int(blocks.absmax.nbytes + (blocks.state2.absmax.nbytes if blocks.nested else 0))
    scales = (getattr(holder, "SCB", None) for holder in (weight, getattr(module, "state", None)))
    return sum(int(rows.nbytes) for rows in scales if isinstance(rows, torch.Tensor))


_MEMORY_INFO = Path("/proc/meminfo")
_CONTROL_GROUP = Path("/sys/fs/cgroup")


def free_memory(device: torch.device) -> int | None:
    """Bytes free on ``device``, with what torch holds unused on a GPU, within the limit of a CPU's control group."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    if device.type != "cpu":
        return None
    return min(
        (size for size in (_available_memory(), _available_in_control_group()) if size is not None), default=None
    )


def _available_memory() -> int | None:
    try:
        found = re.search(r"^MemAvailable:\s*(\d+)", _MEMORY_INFO.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def _available_in_control_group() -> int | None:
    """A container's limit, less what its processes hold; cached files do not count as held."""
    try:
        limit, used, numbers = (
            (_CONTROL_GROUP / f"memory.{name}").read_text(encoding="ascii") for name in ("max", "current", "stat")
        )
    except OSError:
        return None
    stat = dict(line.split() for line in numbers.splitlines())
    cached = int(stat.get("active_file", 0)) + int(stat.get("inactive_file", 0))
    return None if limit.strip() == "max" else max(0, int(limit) - int(used) + cached)


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

    glibc returns the states of a pass to the system at once, and each page has to be cleared when it is taken again: 7
    % of the time of a row of 900 tokens. This sets two thresholds, see mallopt(3), unless a user has set one of them
    (``MALLOC_TRIM_THRESHOLD_`` and others, or ``GLIBC_TUNABLES``), and does nothing with another C library.
    """
    on_cpu = all(weight.device.type == "cpu" for weight in network.parameters())
    set_by_user = "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") and name.endswith("_") for name in os.environ
    )
    if on_cpu and held_size(network) >= _SMALL_MODEL and platform.libc_ver()[0] == "glibc" and not set_by_user:
        glibc = ctypes.CDLL(None)
        glibc.mallopt(_MMAP_THRESHOLD, _LARGEST_CHUNK)
        glibc.mallopt(_TRIM_THRESHOLD, _KEPT)
