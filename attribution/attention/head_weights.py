"""Learned weights of one layer's attention heads: the JSON file that ``attribeam train head-weights`` writes."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path

_TOLERANCE = 1e-4
"""How far the sum of a file's weights may be from 1."""


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """How much each attention head of one layer counts in S; 1/H each is the paper's mean over heads (Section 3.4).

    Attributes:
        model, revision: the attention model that the weights were fitted for, as in a run's provenance.
        layer: 1-based L*.
        weights: one weight per attention head, each at least 0, summing to 1.

    Raises:
        ValueError: if the layer or the weights are out of range.
    """

    model: str
    revision: str
    layer: int
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.layer < 1:
            raise ValueError(f"'layer' should be at least 1, was: {self.layer}")
        if not self.weights or not all(math.isfinite(weight) and weight >= 0 for weight in self.weights):
            raise ValueError("'weights' should hold one number of at least 0 per attention head, but does not")
        if abs(sum(self.weights) - 1) > _TOLERANCE:
            raise ValueError(f"'weights' should sum to 1, but sum to: {sum(self.weights):g}")

    @classmethod
    def from_file(cls, path: str | Path) -> HeadWeights:
        """Read the weights from a file.

        Raises:
            ValueError: if it cannot be read, or is not a JSON object of these fields; the message names the file.
        """
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"head weights {path} should be a readable JSON file: {error}") from error
        names = [field.name for field in fields(cls)]
        if not isinstance(values, dict) or set(values) != set(names):
            found = sorted(values) if isinstance(values, dict) else type(values).__name__
            raise ValueError(f"head weights {path} should hold an object with the keys {names}, but holds: {found}")
        if not _has_field_types(values):
            raise ValueError(
                f"head weights {path}: 'model' and 'revision' should be strings, 'layer' a whole number and 'weights' "
                "a list of numbers, but are not"
            )
        try:
            return cls(values["model"], values["revision"], values["layer"], tuple(map(float, values["weights"])))
        except ValueError as error:
            raise ValueError(f"head weights {path}: {error}") from error

    def write(self, path: str | Path) -> None:
        """Write the file atomically, replacing any existing one.

        Raises:
            OSError: if it cannot be written.
        """
        path = Path(path)
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        partial.replace(path)

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
                    + "refit them with attribeam train head-weights"
                )


def _has_field_types(values: dict[str, object]) -> bool:
    weights = values["weights"]
    return (
        isinstance(values["model"], str)
        and isinstance(values["revision"], str)
        and type(values["layer"]) is int
        and isinstance(weights, list)
        and all(type(weight) in (int, float) for weight in weights)
    )
