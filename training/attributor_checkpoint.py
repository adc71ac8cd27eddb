"""Checkpoints of an attributor training run: enough to go on as if nothing had happened."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import ModernBertModel

FILE_NAME = "checkpoint.pt"


@dataclass
class History:
    """Means over the steps between two marks, for the loss curve."""

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    source_mass: list[float] = field(default_factory=list)


def save_checkpoint(
    directory: Path,
    model: ModernBertModel,
    optimizer: torch.optim.Optimizer,
    *,
    step: int,
    plan: dict[str, int],
    history: History,
) -> None:
    """Write the state after ``step`` steps; a reader sees the old file or the new one, never half of either."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "plan": plan,
        "history": vars(history),
    }
    temporary = directory / (FILE_NAME + ".partial")
    torch.save(state, temporary)
    temporary.replace(directory / FILE_NAME)


def load_checkpoint(
    directory: Path, *, model: ModernBertModel, optimizer: torch.optim.Optimizer, plan: dict[str, int]
) -> tuple[int, History]:
    """Fill model and optimizer from the directory's checkpoint; (steps done, history), (0, empty) without one.

    Raises ``ValueError`` where the checkpoint belongs to a run with other settings.
    """
    path = directory / FILE_NAME
    if not path.exists():
        return 0, History()
    state = torch.load(path, map_location="cpu", weights_only=True)
    if state["plan"] != plan:
        raise ValueError(
            f"the checkpoint in the output directory was written with {state['plan']}, this run has {plan}; "
            "use the same settings or another output directory"
        )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], History(**state["history"])
