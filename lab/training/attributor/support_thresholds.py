"""How well evidence mass separates supported spans from invented ones, and the two thresholds."""

from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch.nn.functional import conv1d
from transformers import ModernBertModel

from attribeam.lab.training.attributor.corpus import Corpus
from attribeam.lab.training.attributor.network import answer_attention, collate
from attribeam.lab.training.attributor.training_rows import TrainingRow, draw_batch

TOP_K = 6
ISOLATION_TAU = 2
OWN_TOKEN_WEIGHT = 12
SENTENCE_WEIGHT = 0.4
EVIDENCE_WINDOW = 160
WORD_WEIGHT = 1.0
MISSED_SHARE = 0.05
HELD_OUT_BATCHES = 120


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of evidence mass: a span is supported from ``supported`` and weakly supported from ``weak``."""

    supported: float
    weak: float


@dataclass(frozen=True, slots=True)
class SpanMasses:
    """The evidence mass of the supported and of the unsupported held-out spans."""

    supported: torch.Tensor
    unsupported: torch.Tensor

    def auroc(self) -> float:
        """The probability that a supported span has more evidence mass than an unsupported one; ties count as half."""
        difference = self.supported[:, None] - self.unsupported[None]
        return ((difference > 0).double().mean() + 0.5 * (difference == 0).double().mean()).item()

    def thresholds(self) -> Thresholds:
        """The thresholds that these spans suggest.

        ``supported`` maximises the share of supported spans above it minus the share of unsupported ones; if several
        values do, it is their mean. 95% of the supported spans lie above ``weak``, which never exceeds ``supported``.
        """
        lines = torch.linspace(0, 1, 1001)
        gain = share_at_least(self.supported, lines) - share_at_least(self.unsupported, lines)
        supported = lines[gain >= gain.max() - 1e-6].mean().item()
        weak = self.supported.quantile(MISSED_SHARE).item()
        return Thresholds(round(supported, 2), round(min(weak, supported), 2))


def share_at_least(masses: torch.Tensor, lines: torch.Tensor) -> torch.Tensor:
    """The share of ``masses`` [spans] that reaches each line, [lines]."""
    return (masses[:, None] >= lines[None]).float().mean(0)


@torch.no_grad()
def held_out_masses(
    model: ModernBertModel, tokenizer: Tokenizer, corpus: Corpus, *, seed: int, batches: int, token_budget: int
) -> SpanMasses:
    """The evidence mass of spans in newly drawn rows; ``corpus`` must hold pages that were not trained on."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for step in range(batches):
        rows = draw_batch(corpus, tokenizer, seed=seed, step=10**6 + step, token_budget=token_budget)
        for row, attention in zip(rows, answer_attention(model, collate(rows)), strict=True):
            weights = attention.cpu()
            for start, end, supported in row.claims:
                found[supported].append(evidence_mass(weights, row, start, end))
    return SpanMasses(torch.tensor(found[True]), torch.tensor(found[False]))


def evidence_mass(weights: torch.Tensor, row: TrainingRow, char_start: int, char_end: int) -> float:
    """The share of a span's attention that lies on evidence tokens, averaged over the span's tokens (Section 3.2).

    The top k of ``weights`` [answer tokens, prompt tokens] are summed over the span's tokens. Isolated tokens are then
    removed, unless all are isolated.
    """
    answer = row.offsets[row.answer_start :]
    span = [index for index, (start, end) in enumerate(answer) if start < char_end and end > char_start]
    top = weights[span].topk(min(TOP_K, row.answer_start))
    scores = torch.zeros(len(span), row.answer_start).scatter(1, top.indices, top.values).sum(0)
    scores[~evidence_columns(row)] = 0.0
    kept = drop_isolated(scores)
    return ((kept if kept.any() else scores).sum() / len(span)).item()


def evidence_columns(row: TrainingRow) -> torch.Tensor:
    """bool [prompt tokens]: whether a token covers a character of a passage."""
    end = row.passages_end
    return torch.tensor([start < stop <= end for start, stop in row.offsets[: row.answer_start]])


def drop_isolated(scores: torch.Tensor) -> torch.Tensor:
    """``scores`` [tokens], with 0 for tokens that have no other token with a score within tau (Algorithm 1)."""
    scored = (scores > 0).to(scores.dtype)
    window = torch.ones(1, 1, 2 * ISOLATION_TAU + 1)
    neighbours = conv1d(scored[None, None], window, padding=ISOLATION_TAU)[0, 0] - scored
    return scores * (neighbours > 0.5)
