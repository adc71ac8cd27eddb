"""Learned weights of one layer's attention heads: the JSON file that ``--head-weights`` reads."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Self

import pydantic
from pydantic import Field, model_validator

from attribeam.schemas.file_digest import new_file
from attribeam.schemas.json_file import STRICT, Line, Share, read_form

_TOLERANCE = 1e-4
"""How far the sum of a file's weights may be from 1."""


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=STRICT)
class HeadWeights:
    """How much each attention head of one layer counts in S; 1/H each is the paper's mean over heads (Section 3.4).

    Attributes:
        model, revision: the attention model that the weights were fitted for, as in a run's provenance.
        layer: 1-based L*.
        weights: one weight per attention head, each from 0 to 1, summing to 1.

    Raises:
        ValueError: if the layer or the weights are out of range.
    """

    model: Line
    revision: Line
    layer: Annotated[int, Field(ge=1)]
    weights: Annotated[tuple[Share, ...], Field(min_length=1, max_length=2**16)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if abs(sum(self.weights) - 1) > _TOLERANCE:
            raise ValueError(f"weights should sum to 1, but sum to: {sum(self.weights):g}")
        return self

    @classmethod
    def from_file(cls, path: str | Path) -> HeadWeights:
        """Read the weights from a file.

        Raises:
            DataError: if it cannot be read, or does not hold these fields; the message names file and field.
        """
        return read_form(Path(path), cls)

    def write(self, path: str | Path) -> None:
        """Write the file atomically, replacing any existing one.

        Raises:
            OSError: if it cannot be written.
        """
        with new_file(Path(path)) as file:
            file.write((json.dumps(asdict(self), indent=2) + "\n").encode())

    def check_fits(self, *, revision: str, layer: int, attention_heads: int) -> None:
        """Check that the weights were fitted for this model, layer and number of attention heads.

        The layer comes first: a local model's revision is a digest of its layers up to that one, and differs with it.

        Raises:
            ValueError: if one of them differs; the message says which, and how to fix it.
        """
        found = {"layer": layer, "number of attention heads": attention_heads, "revision": revision}
        own = {"layer": self.layer, "number of attention heads": len(self.weights), "revision": self.revision}
        for name, value in found.items():
            if own[name] != value:
                raise ValueError(
                    f"head weights of model {self.model!r} have the {name} {own[name]}, but the model has {value}; "
                    + (f"give --layer {self.layer}, or " if name == "layer" else "")
                    + "refit them for this model"
                )
