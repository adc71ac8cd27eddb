"""The attributor's training loop: a schedule of steps, deterministic for a seed, resumable from checkpoints."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tqdm import tqdm
from transformers import ModernBertModel

from lab.training.attributor.corpus import Corpus
from lab.training.attributor.network import (
    DEFAULT_SHAPE,
    Shape,
    collate,
    initial_embeddings,
    new_model,
    source_loss,
)
from lab.training.attributor.training_rows import TrainingRow, draw_batch

CHECKPOINT_FILE = "checkpoint.pt"


@dataclass
class History:
    """Means over the steps since the previous record, for the loss curve."""

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
    """Write the state after ``step`` steps atomically."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "plan": plan,
        "history": vars(history),
    }
    temporary = directory / (CHECKPOINT_FILE + ".partial")
    torch.save(state, temporary)
    temporary.replace(directory / CHECKPOINT_FILE)


def load_checkpoint(
    directory: Path, *, model: ModernBertModel, optimizer: torch.optim.Optimizer, plan: dict[str, int]
) -> tuple[int, History]:
    """Load the directory's checkpoint into model and optimizer, and return the finished steps and the history.

    Without a checkpoint these are 0 and an empty history.

    Raises:
        ValueError: if the checkpoint belongs to a run with other settings.
    """
    path = directory / CHECKPOINT_FILE
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


PEAK_RATE = 2e-3
LAST_RATE = 1e-5
WARM_UP_STEPS = 100


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Everything that determines a training run, except for the pages; ``token_budget`` is in tokens per step."""

    steps: int = 5000
    seed: int = 0
    token_budget: int = 3072
    checkpoint_every: int = 200
    record_every: int = 20
    shape: Shape = DEFAULT_SHAPE

    def identity(self) -> dict[str, int]:
        """The settings that a resumed run must share."""
        settings = {"steps": self.steps, "seed": self.seed, "token_budget": self.token_budget}
        return settings | asdict(self.shape)


def train(
    corpus: Corpus,
    tokenizer: Tokenizer,
    *,
    plan: TrainingPlan,
    output: Path,
    device: torch.device,
    stop_at: int | None = None,
) -> tuple[ModernBertModel, History]:
    """Train to the plan's last step (or ``stop_at``), resuming from the checkpoint in ``output`` if there is one."""
    torch.manual_seed(plan.seed)
    model = new_model(plan.shape, vocabulary_size=tokenizer.get_vocab_size())
    with torch.no_grad():
        model.embeddings.tok_embeddings.weight.copy_(
            initial_embeddings(output, corpus.texts(), tokenizer, size=plan.shape.hidden_size, seed=plan.seed)
        )
    torch.nn.Module.to(model, device)
    optimizer = new_optimizer(model)
    done, history = load_checkpoint(output, model=model, optimizer=optimizer, plan=plan.identity())
    last = plan.steps if stop_at is None else stop_at
    recent: list[tuple[float, float]] = []
    with tqdm(total=plan.steps, initial=done, unit="step", dynamic_ncols=True, mininterval=5) as progress:
        for step in range(done, last):
            rows = draw_batch(corpus, tokenizer, seed=plan.seed, step=step, token_budget=plan.token_budget)
            recent.append(train_step(model, optimizer, rows, rate=learning_rate(step, plan.steps)))
            if is_due(step + 1, plan.record_every, last):
                progress.set_postfix(record_means(history, step + 1, recent))
            if is_due(step + 1, plan.checkpoint_every, last):
                save_checkpoint(output, model, optimizer, step=step + 1, plan=plan.identity(), history=history)
            progress.update()
    return model, history


def is_due(step: int, every: int, last: int) -> bool:
    """Whether ``step`` is a multiple of ``every``, or the last one."""
    return step % every == 0 or step == last


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up to the peak, then decay to the last rate with the remaining share of steps to the power of 0.7."""
    left: float = (1 - step / steps) ** 0.7
    return PEAK_RATE * min(1.0, (step + 1) / WARM_UP_STEPS) * left + LAST_RATE


def new_optimizer(model: ModernBertModel) -> torch.optim.Optimizer:
    """AdamW over every parameter; those without a gradient stay unchanged."""
    return torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True)


def train_step(
    model: ModernBertModel, optimizer: torch.optim.Optimizer, rows: list[TrainingRow], *, rate: float
) -> tuple[float, float]:
    """One update on ``rows``; returns the loss and the attention mass on the true source of copied tokens."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss, mass = source_loss(model, collate(rows))
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item(), mass.item()


def record_means(history: History, step: int, recent: list[tuple[float, float]]) -> dict[str, str]:
    """Add the means of ``recent`` to the history, clear it, and return the means for the progress bar."""
    loss, mass = (sum(values) / len(recent) for values in zip(*recent, strict=True))
    recent.clear()
    history.steps.append(step)
    history.loss.append(loss)
    history.source_mass.append(mass)
    return {"loss": f"{loss:.3f}", "source_mass": f"{mass:.3f}"}
