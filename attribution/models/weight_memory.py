"""What a model's weights need in memory, by group and precision, computed from its config without any weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from attribution.models.model_options import Quantization
from attribution.models.text_model import text_model_config

_LAYER_NUMBER = re.compile(r"(?:^|\.)(\d+)\.")
_MATRICES = (torch.nn.Linear, Conv1D)
_NF4_BLOCK, _NF4_OUTER_BLOCK = 64, 256


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """Weights that belong together.

    Attributes:
        matrix_weights: weights in matrices of linear layers, which a quantisation covers.
        matrix_rows: outputs of these matrices; LLM.int8 has a scale for each.
        other_weights: all others: embeddings, norms, biases, experts in one tensor.
    """

    name: str
    matrix_weights: int = 0
    matrix_rows: int = 0
    other_weights: int = 0

    @property
    def weights(self) -> int:
        """All weights."""
        return self.matrix_weights + self.other_weights

    def __add__(self, other: WeightGroup) -> WeightGroup:
        return WeightGroup(
            self.name,
            self.matrix_weights + other.matrix_weights,
            self.matrix_rows + other.matrix_rows,
            self.other_weights + other.other_weights,
        )

    def size(self, dtype: torch.dtype, quantization: Quantization) -> int:
        """Bytes of the group.

        NF4: half a byte a weight, a byte a block of 64 for its scale, and 4 bytes for 256 such scales. LLM.int8: a
        byte a weight and 4 a row.
        """
        other = self.other_weights * dtype.itemsize
        if quantization is Quantization.NF4:
            blocks = -(-self.matrix_weights // _NF4_BLOCK)
            return other + -(-self.matrix_weights // 2) + blocks + 4 * -(-blocks // _NF4_OUTER_BLOCK)
        if quantization is Quantization.INT8:
            return other + self.matrix_weights + 4 * self.matrix_rows
        return other + self.matrix_weights * dtype.itemsize


def weight_groups(config: PreTrainedConfig, layer: int, *, trust_remote_code: bool = False) -> tuple[WeightGroup, ...]:
    """Embedding table, layers below L*, L* itself, and the rest, of what is loaded for the 1-based ``layer``.

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
    for place, group in _parameters(model, layer):
        groups[names[place]] += group
    return tuple(group for group in groups.values() if group.weights)


def total_size(groups: Iterable[WeightGroup], dtype: torch.dtype, quantization: Quantization) -> int:
    """Bytes of all groups together."""
    return sum(group.size(dtype, quantization) for group in groups)


def held_size(model: torch.nn.Module) -> int:
    """Bytes of the weights that a model holds, with the scales of quantised ones; its forward pass must have run."""
    weights = sum(parameter.nbytes for parameter in model.parameters())
    return weights + sum(_scale_size(module) for module in model.modules())


def _scale_size(module: torch.nn.Module) -> int:
    """Bytes of the scales of one of bitsandbytes' layers: NF4's lie at the weights, LLM.int8's at the layer."""
    blocks = getattr(getattr(module, "weight", None), "quant_state", None)
    if blocks is not None:
        return int(blocks.absmax.nbytes + (blocks.state2.absmax.nbytes if blocks.nested else 0))
    rows = getattr(getattr(module, "state", None), "SCB", None)
    return 0 if rows is None else int(rows.nbytes)


def _parameters(model: PreTrainedModel, layer: int) -> Iterator[tuple[int, WeightGroup]]:
    """Every parameter once, as a group of its own, with the place of the group that it belongs to."""
    table = model.get_input_embeddings().weight
    rows_of = {id(module.weight): _rows(module) for module in model.modules() if isinstance(module, _MATRICES)}
    for name, parameter in model.named_parameters():
        place = 0 if parameter is table else _place(name, layer)
        rows = rows_of.get(id(parameter))
        if rows is None:
            yield place, WeightGroup(name, other_weights=parameter.numel())
        else:
            yield place, WeightGroup(name, matrix_weights=parameter.numel(), matrix_rows=rows)


def _place(name: str, layer: int) -> int:
    """1 below L*, 2 in L*, 3 elsewhere; the first number in a parameter's name is that of its layer, from 0."""
    number = _LAYER_NUMBER.search(name)
    if number is None or int(number[1]) >= layer:
        return 3
    return 1 if int(number[1]) < layer - 1 else 2


def _rows(module: torch.nn.Module) -> int:
    return int(module.nf if isinstance(module, Conv1D) else module.out_features)  # type: ignore[arg-type]
