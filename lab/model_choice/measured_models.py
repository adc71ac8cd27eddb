"""The measured speed and memory of models by size and precision, as ``measured_models.json`` holds them.

``attribeam.lab.benchmarks.model_sizes`` writes the file. Each entry names its machine and a command that measures it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from attribeam.schemas.errors import DataError
from attribeam.schemas.new_file import new_file

MEASURED_FILE = Path(__file__).parent / "measured_models.json"


@dataclass(frozen=True, slots=True)
class RowFigure:
    """Seconds per row of ``row_tokens`` tokens, mean of ``rows`` rows: of one core on a CPU, of wall time on a GPU."""

    row_tokens: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """One size of model in one precision on one kind of device.

    Attributes:
        size: "bundled", or the shape of a model with random weights.
        method: the method whose pass over the model was timed.
        device: "cpu" or "cuda".
        machine: processor or GPU, load and versions, in words.
        command: what measures it alone.
        layer, layer_count: L*, and the number of layers of the whole model.
        peak_bytes: peak memory: of the process on a CPU, parser and libraries included; of torch's allocations on a
            GPU.
        figures: the seconds of the model alone, from short rows to long ones.
    """

    size: str
    dtype: str
    quantization: str
    method: str
    device: str
    machine: str
    command: str
    layer: int
    layer_count: int
    peak_bytes: int
    figures: tuple[RowFigure, ...]

    @property
    def precision(self) -> str:
        """How the weights are stored: the quantisation, else the dtype."""
        return self.dtype if self.quantization == "none" else f"{self.quantization}, {self.dtype}"

    @property
    def key(self) -> tuple[str, ...]:
        """What the entry measures; a later measurement of the same takes its place."""
        return self.size, self.dtype, self.quantization, self.method, self.device


@dataclass(frozen=True, slots=True)
class OtherStages:
    """What a row costs besides the model, in seconds of one core: reading its tokens, parsing, evidence, verdict."""

    machine: str
    command: str
    figures: tuple[RowFigure, ...]


@dataclass(frozen=True, slots=True)
class Measurements:
    """Everything that was measured; ``other_stages`` is None until the bundled model was."""

    other_stages: OtherStages | None = None
    models: tuple[MeasuredModel, ...] = ()

    @classmethod
    def from_file(cls, path: Path = MEASURED_FILE) -> Measurements:
        """Read the file.

        Raises:
            DataError: if it cannot be read or is not in the format of ``write``.
        """
        try:
            return cls.from_values(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DataError(f"{path} should hold measured models as model_sizes writes them: {error!r}") from error

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Measurements:
        """From the plain data that ``asdict`` gives.

        Raises:
            TypeError, KeyError: if it is other data.
        """
        other = values["other_stages"]
        return cls(
            None if other is None else OtherStages(**{**other, "figures": _figures(other)}),
            tuple(MeasuredModel(**{**one, "figures": _figures(one)}) for one in values["models"]),
        )

    def with_model(self, model: MeasuredModel) -> Measurements:
        """These measurements with ``model`` in the place of what was measured for the same."""
        kept = [one for one in self.models if one.key != model.key]
        return replace(self, models=tuple(sorted([*kept, model], key=lambda one: one.key)))

    def write(self, path: Path) -> None:
        """Write the file; it is replaced atomically.

        Raises:
            OSError: if it cannot be written.
        """
        with new_file(path) as file:
            file.write((json.dumps(asdict(self), indent=1) + "\n").encode())


def seconds_per_row(figures: Sequence[RowFigure], row_tokens: float) -> float:
    """Seconds for a row of ``row_tokens``: on the line between the measured lengths next to it.

    A shorter row than every measured one costs its share of the shortest. For a longer one the last line is drawn on,
    which is too little, since attention grows with the square of the length: ``longest`` says from where on.

    Raises:
        ValueError: if nothing was measured.
    """
    if not figures:
        raise ValueError("figures should hold one length or more, hold none")
    ordered = sorted(figures, key=lambda one: one.row_tokens)
    first, last = ordered[0], ordered[-1]
    if row_tokens <= first.row_tokens or len(ordered) == 1:
        return first.seconds * row_tokens / first.row_tokens
    pairs = [*pairwise(ordered)]
    below, above = next((pair for pair in pairs if row_tokens <= pair[1].row_tokens), (pairs[-1][0], last))
    share = (row_tokens - below.row_tokens) / (above.row_tokens - below.row_tokens)
    return below.seconds + share * (above.seconds - below.seconds)


def longest(figures: Sequence[RowFigure]) -> int:
    """The tokens of the longest row that was measured; 0 if none was."""
    return max((one.row_tokens for one in figures), default=0)


def _figures(entry: Mapping[str, Any]) -> tuple[RowFigure, ...]:
    return tuple(RowFigure(**one) for one in entry["figures"])
