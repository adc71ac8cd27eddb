"""The memory that a model's weights need, by group and precision, and the free memory of a device.

Both are known before anything is loaded, because the weights are counted from the model's config.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from attribeam.attribution.models.truncated_model import text_model_config
from attribeam.attribution.options import Quantization

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
