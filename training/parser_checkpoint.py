"""What a killed training run needs to go on exactly where it stood."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from thinc.api import Optimizer

ParameterKey = tuple[int, str]
Floats = NDArray[numpy.float32]
MOMENTS = ("mom1", "mom2", "averages")


@dataclass
class History:
    """The step reached, the best selection score, and the curves with one value for each evaluation."""

    step: int = 0
    best: float = float("-inf")
    steps: list[int] = field(default_factory=list)
    series: dict[str, list[float]] = field(default_factory=dict)

    @property
    def steps_since_evaluation(self) -> int:
        """How many steps the losses of the coming evaluation were summed over."""
        return self.step - (self.steps[-1] if self.steps else 0)

    def add(self, values: dict[str, float]) -> None:
        """Append one value to every curve, at the present step."""
        self.steps.append(self.step)
        for name, value in values.items():
            self.series.setdefault(name, []).append(float(value))


@dataclass(frozen=True)
class Checkpoint:
    """One ``.npz`` file with parameters, optimizer state and history, replaced whole or not at all."""

    path: Path

    def save(self, nlp: Language, optimizer: Optimizer, history: History) -> None:
        """Write everything; a process killed meanwhile leaves the former file as it was."""
        arrays = {"history": numpy.array(json.dumps(asdict(history)))}
        for name, (key, value) in named_parameters(nlp).items():
            arrays[f"{name}/value"] = value
            arrays[f"{name}/updates"] = numpy.array(optimizer.nr_update[key])
            for moment in MOMENTS:
                if key in getattr(optimizer, moment):
                    arrays[f"{name}/{moment}"] = getattr(optimizer, moment)[key]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        with partial.open("wb") as stream:
            numpy.savez(stream, **arrays)  # type: ignore[arg-type]
        partial.replace(self.path)

    def load(self, nlp: Language, optimizer: Optimizer) -> History:
        """Put the saved state into ``nlp`` and ``optimizer``; an empty history where nothing was saved yet."""
        if not self.path.exists():
            return History()
        with numpy.load(self.path) as arrays:
            for name, (key, value) in named_parameters(nlp).items():
                value[...] = arrays[f"{name}/value"]
                optimizer.nr_update[key] = int(arrays[f"{name}/updates"])
                for moment in MOMENTS:
                    if f"{name}/{moment}" in arrays:
                        getattr(optimizer, moment)[key] = arrays[f"{name}/{moment}"]
            return History(**json.loads(arrays["history"].item()))


def named_parameters(nlp: Language) -> dict[str, tuple[ParameterKey, Floats]]:
    """Every parameter by a name that is the same in each process, with its key in the optimizer."""
    found: dict[str, tuple[ParameterKey, Floats]] = {}
    trainable = ((name, pipe) for name, pipe in nlp.pipeline if isinstance(pipe, TrainablePipe))
    for component, pipe in trainable:
        for position, node in enumerate(pipe.model.walk()):
            for name in node.param_names:
                if node.has_param(name):
                    found[f"{component}/{position}/{name}"] = ((node.id, name), cast(Floats, node.get_param(name)))
    return found
