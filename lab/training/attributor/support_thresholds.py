"""How well evidence mass tells supported spans from invented ones, and where to draw the two lines."""

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
MISSED_SHARE = 0.05
HELD_OUT_BATCHES = 120


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Lines in evidence mass: supported from ``supported`` on, weakly supported from ``weak`` on."""

    supported: float
    weak: float


@dataclass(frozen=True, slots=True)
class SpanMasses:
    """Evidence mass of each held-out span, by what is true of it."""

    supported: torch.Tensor
    unsupported: torch.Tensor

    def auroc(self) -> float:
        """The chance that a supported span has more evidence mass than an unsupported one, ties counted half."""
        difference = self.supported[:, None] - self.unsupported[None]
        return ((difference > 0).double().mean() + 0.5 * (difference == 0).double().mean()).item()

    def thresholds(self) -> Thresholds:
        """Where telling the two kinds apart goes best, and below what all but 5% of the supported spans lie above.

        ``supported`` maximises the share of supported spans above it less the share of unsupported ones (the middle
        where several do); ``weak`` is never above it.
        """
        lines = torch.linspace(0, 1, 1001)
        gain = share_at_least(self.supported, lines) - share_at_least(self.unsupported, lines)
        supported = lines[gain >= gain.max() - 1e-6].mean().item()
        weak = self.supported.quantile(MISSED_SHARE).item()
        return Thresholds(round(supported, 2), round(min(weak, supported), 2))


def share_at_least(masses: torch.Tensor, lines: torch.Tensor) -> torch.Tensor:
    """[lines] the share of ``masses`` [spans] that is at least as large as each line."""
    return (masses[:, None] >= lines[None]).float().mean(0)


@torch.no_grad()
def held_out_masses(
    model: ModernBertModel, tokenizer: Tokenizer, corpus: Corpus, *, seed: int, batches: int, token_budget: int
) -> SpanMasses:
    """Evidence mass of the spans of freshly drawn rows; ``corpus`` must be pages that were not trained on."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for step in range(batches):
        rows = draw_batch(corpus, tokenizer, seed=seed, step=10**6 + step, token_budget=token_budget)
        for row, attention in zip(rows, answer_attention(model, collate(rows)), strict=True):
            weights = attention.cpu()
            for start, end, supported in row.claims:
                found[supported].append(evidence_mass(weights, row, start, end))
    return SpanMasses(torch.tensor(found[True]), torch.tensor(found[False]))


def evidence_mass(weights: torch.Tensor, row: TrainingRow, char_start: int, char_end: int) -> float:
    """The share of a span's attention that lies on evidence tokens, span tokens averaged (Section 3.2).

    ``weights`` [answer tokens, prompt tokens]: top-k, summed over the span's tokens, then without
    the tokens that stand alone, unless all of them do.
    """
    answer = row.offsets[row.answer_start :]
    span = [index for index, (start, end) in enumerate(answer) if start < char_end and end > char_start]
    top = weights[span].topk(min(TOP_K, row.answer_start))
    scores = torch.zeros(len(span), row.answer_start).scatter(1, top.indices, top.values).sum(0)
    scores[~evidence_columns(row)] = 0.0
    kept = drop_isolated(scores)
    return ((kept if kept.any() else scores).sum() / len(span)).item()


def evidence_columns(row: TrainingRow) -> torch.Tensor:
    """[prompt tokens] True where a token covers a character of a passage."""
    end = row.passages_end
    return torch.tensor([start < stop <= end for start, stop in row.offsets[: row.answer_start]])


def drop_isolated(scores: torch.Tensor) -> torch.Tensor:
    """``scores`` [tokens] with 0 where no other token within the isolation threshold scores (Algorithm 1)."""
    scored = (scores > 0).to(scores.dtype)
    window = torch.ones(1, 1, 2 * ISOLATION_TAU + 1)
    neighbours = conv1d(scored[None, None], window, padding=ISOLATION_TAU)[0, 0] - scored
    return scores * (neighbours > 0.5)
