"""Fitting one weight per attention head, following AT2 (Cohen-Wang et al., 2025).

An example holds the attention masses of a span and its log-probabilities under random ablations of the passages.
Without a language model, labels take its place: whether an ablation keeps a passage that the span comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.observed_attention import head_masses
from attribeam.attribution.models.language_model import LanguageModel, ablated_row
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import CharRange, QARecord, RowFault
from attribeam.schemas.labelled_answer import LabelledAnswer


@dataclass(frozen=True, slots=True)
class HeadExample:
    """One target span under random ablations of its passages.

    Attributes:
        masses: float32 [attention heads, passages], the attention mass on each passage, averaged over span tokens.
        kept: bool [ablations, passages], whether the passage was in the prompt.
        log_probabilities: float64 [ablations], the log-probability of the span given that prompt; from labels, 1 where
            a labelled passage was kept and 0 elsewhere.
    """

    masses: torch.Tensor
    kept: torch.Tensor
    log_probabilities: torch.Tensor

    @property
    def is_informative(self) -> bool:
        """Whether attention heads could explain it: both the ablations and their log-probabilities vary."""
        return bool(self.log_probabilities.std() > 0) and bool((self.kept.float().std(0) > 0).any())


@dataclass(frozen=True, slots=True)
class FitPlan:
    """AT2's schedule: Adam with cosine decay, clipped gradients and random batches of examples."""

    steps: int = 1000
    rate: float = 1e-3
    batch: int = 512
    clip: float = 1.0
    seed: int = 0


def fit_head_weights(examples: Sequence[HeadExample], plan: FitPlan | None = None) -> tuple[float, ...]:
    """Nonnegative weights with sum 1 that maximise the mean Pearson correlation over the examples; deterministic.

    The prediction for an ablation is the weighted attention mass on the kept passages. Fitting starts from equal
    weights, and weights that would become negative are set to 0.

    Raises:
        ValueError: if no example is informative.
    """
    plan = plan or FitPlan()
    batches = _InformativeExamples(examples)
    weights = torch.full((batches.attention_heads,), 1 / batches.attention_heads, dtype=torch.float64)
    weights.requires_grad_()
    optimizer = torch.optim.Adam([weights], lr=plan.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, plan.steps)
    generator = torch.Generator().manual_seed(plan.seed)
    for _ in tqdm(range(plan.steps), desc="fit", unit="step", disable=None):
        loss = -batches.correlations(weights, batches.draw(plan.batch, generator)).mean()
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_([weights], plan.clip)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            weights.clamp_(min=0)
    found = weights.detach()
    return tuple((found / found.sum()).tolist())


def mean_correlation(examples: Sequence[HeadExample], weights: Sequence[float]) -> float:
    """The mean Pearson correlation of predictions and log-probabilities over the informative examples.

    Raises:
        ValueError: if no example is informative.
    """
    batches = _InformativeExamples(examples)
    return float(batches.correlations(torch.tensor(weights, dtype=torch.float64)).mean())


def pearson(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """The correlation along the last dimension; 0 if one side does not vary."""
    first = first - first.mean(-1, keepdim=True)
    second = second - second.mean(-1, keepdim=True)
    scale = (first.square().sum(-1) * second.square().sum(-1)).clamp_min(1e-30).sqrt()
    return (first * second).sum(-1) / scale


class _InformativeExamples:
    """The informative examples: each attention head's prediction for every ablation, and the outcomes."""

    def __init__(self, examples: Sequence[HeadExample]) -> None:
        groups: dict[int, list[HeadExample]] = {}
        for example in examples:
            if example.is_informative:
                groups.setdefault(len(example.kept), []).append(example)
        if not groups:
            raise ValueError("at least one span should have a log-probability that changes with its passages, none has")
        if len(groups) > 1:
            raise ValueError(f"all examples should have the same number of ablations, they have: {sorted(groups)}")
        (kept,) = groups.values()
        self.attention_heads = kept[0].masses.shape[0]
        self._predictions = torch.stack([one.kept.double() @ one.masses.double().T for one in kept])
        self._outcomes = torch.stack([one.log_probabilities.double() for one in kept])

    def draw(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """The places of ``count`` examples, drawn without replacement, or of all examples if there are fewer."""
        return torch.randperm(len(self._outcomes), generator=generator)[:count]

    def correlations(self, weights: torch.Tensor, places: torch.Tensor | slice = slice(None)) -> torch.Tensor:
        """The correlation of each example, float64 [examples]."""
        return pearson(self._predictions[places] @ weights, self._outcomes[places])


def random_ablations(passages: int, *, ablations: int, seed: int, row: int) -> npt.NDArray[np.bool_]:
    """bool [ablations, passages]: every passage is kept with probability one half; deterministic."""
    return np.random.default_rng([seed, row]).random((ablations, passages)) < 0.5


def row_examples(
    record: QARecord, *, attention: AttentionModel, language: LanguageModel, ablations: int, seed: int
) -> list[HeadExample]:
    """One example per target span of the record, or for its whole answer if it has none.

    Spans without a token are left out.

    Raises:
        RowFault: if one of the models refuses the row.
    """
    kept = random_ablations(len(record.passages), ablations=ablations, seed=seed, row=record.source.source_row)
    row = language.encode(record)
    rows = [ablated_row(language, record, kept=set(np.flatnonzero(one).tolist()), response_of=row) for one in kept]
    token_log_probabilities = np.stack([_raise_fault(outcome) for outcome in language.token_log_probabilities(rows)])
    encoded = attention.encode(record)
    masses = head_masses(attention, encoded, len(record.passages))
    examples = []
    for span in record.target_spans or (CharRange(0, len(record.answer)),):
        attended, written = _overlapping_tokens(span, encoded), _overlapping_tokens(span, row)
        if len(attended) and len(written):
            log_probabilities = token_log_probabilities[:, written].sum(1)
            of_span = masses[:, torch.from_numpy(attended)].mean(1)
            examples.append(HeadExample(of_span, torch.from_numpy(kept), torch.from_numpy(log_probabilities)))
    return examples


def labelled_examples(
    labelled: LabelledAnswer, *, attention: AttentionModel, ablations: int, seed: int
) -> list[HeadExample]:
    """One example per labelled span of the answer, from its labels alone: no row is ablated, and none is run twice.

    Spans without a token are left out.

    Raises:
        RowFault: if the model refuses the row.
    """
    record = labelled.record
    kept = random_ablations(len(record.passages), ablations=ablations, seed=seed, row=record.source.source_row)
    encoded = attention.encode(record)
    masses = head_masses(attention, encoded, len(record.passages))
    examples = []
    for span, gold in zip(labelled.spans, labelled.gold_passages, strict=True):
        attended = _overlapping_tokens(span, encoded)
        if len(attended):
            is_kept = kept[:, sorted(gold)].any(axis=1).astype(np.float64)
            of_span = masses[:, torch.from_numpy(attended)].mean(1)
            examples.append(HeadExample(of_span, torch.from_numpy(kept), torch.from_numpy(is_kept)))
    return examples


def save_examples(path: Path, examples: list[HeadExample]) -> None:
    """Write the examples of one row atomically."""
    partial = path.with_name(f".{path.name}.partial")
    torch.save([(one.masses, one.kept, one.log_probabilities) for one in examples], partial)
    partial.replace(path)


def load_examples(path: Path) -> list[HeadExample]:
    """Read the examples that ``save_examples`` wrote."""
    return [HeadExample(*tensors) for tensors in torch.load(path, map_location="cpu", weights_only=True)]


def _overlapping_tokens(span: CharRange, row: EncodedRow) -> npt.NDArray[np.intp]:
    starts, ends = row.response_char_start, row.response_char_end
    return np.flatnonzero((starts < ends) & (starts < span.char_end) & (ends > span.char_start))


def _raise_fault(outcome: npt.NDArray[np.float64] | RowFault) -> npt.NDArray[np.float64]:
    if isinstance(outcome, RowFault):
        raise outcome
    return outcome
