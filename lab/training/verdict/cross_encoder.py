"""A pretrained encoder that reads claim and premise together: too slow for audits, and the teacher of their reader.

It starts from all-MiniLM-L6-v2, learns what claims and premises are from ``edited_sentences``, and then from the claims
of the rows. The steps are those of the bundled reader's fit, which took minutes on one H200; on a CPU they take hours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional
from tqdm import tqdm

from attribeam.attribution.verdict.claim_reader import ReaderInput
from lab.training.verdict.edited_sentences import EditedClaim
from lab.training.verdict.fitting import WEIGHTS, Odds
from lab.training.verdict.verdict_rows import NOISE, VerdictRow

_START, _SEPARATOR = 101, 102
_BATCH, _SORTED, _WARM_UP, _DECAY, _LARGEST = 128, 40, 100, 0.01, 1.0
_PRETRAINING_STEPS, _STEPS = 377, 616
_PRETRAINING_RATE, _RATE, _HEAD_RATE = 1e-4, 8e-5, 5e-4
_DROPOUT, _PRETRAINING_TOKENS, _TOKENS = 0.1, 0.5, 0.3
"""How much the loss of tokens counts beside that of claims."""
_SET_EXPONENT = 0.75
"""A set counts by its number of claims to this power."""
_OWN_WEIGHTS = {"hard_trial": 2.0, NOISE: 0.0}
"""Sets that count otherwise for a reader than for the trees of claims."""
_FAR = 20.0

Padded = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Ids of claims' sentences, which of their tokens are the claims' own, and ids of premises; -1 where padded."""


@dataclass(frozen=True, slots=True)
class ReadClaims:
    """The claims of rows that have a premise, in the rows' order.

    Attributes:
        inputs: what is read.
        indices: int64, of each among all claims of the rows.
        rows: int64, the row of each.
        labels: float32, 1 for an unsupported claim.
        weights: float32, how much each counts; either label of a set has half of the set's weight.
        odds: float32, the log odds of the verdict without a reader.
        marks: for each token of a sentence 1 if its word is marked, 0 if not, -1 where nobody said.
    """

    inputs: list[ReaderInput]
    indices: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    labels: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float32]
    odds: npt.NDArray[np.float32]
    marks: list[npt.NDArray[np.int8]]


def read_claims(rows: Sequence[VerdictRow], odds: Odds) -> ReadClaims:
    """The claims of the rows; ``odds`` are those of all their claims."""
    every = [(row, claim) for row in rows for claim in row.inputs]
    indices = np.array([at for at, (_, claim) in enumerate(every) if claim.premise and len(claim.own)], dtype=np.int64)
    some = [every[index] for index in indices]
    labels, weights = _labels_and_weights(rows)
    return ReadClaims(
        [claim for _, claim in some],
        indices,
        np.repeat(np.arange(len(rows)), [len(row.claims) for row in rows])[indices],
        labels[indices].astype(np.float32),
        weights[indices].astype(np.float32),
        np.concatenate(odds)[indices].astype(np.float32),
        [_token_marks(row, claim) for row, claim in some],
    )


class CrossEncoder(nn.Module):
    """Claim and premise through one encoder; a claim's own tokens are marked by a vector that is added to theirs."""

    def __init__(self, folder: Path) -> None:
        """The encoder of a folder; what is added to it is random.

        Raises:
            OSError: if transformers cannot load it.
        """
        from transformers import AutoModel

        super().__init__()
        self.encoder = AutoModel.from_pretrained(folder, add_pooling_layer=False)
        self.words = self.encoder.get_input_embeddings().requires_grad_(False)
        size = self.encoder.config.hidden_size
        self.own = nn.Parameter(torch.zeros(size))
        self.hidden, self.out, self.token = nn.Linear(3 * size, size), nn.Linear(size, 1), nn.Linear(size, 1)
        self.scale, self.bias = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(()))
        self.drop = nn.Dropout(_DROPOUT)

    def forward(
        self, claim: torch.Tensor, own: torch.Tensor, premise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The log odds that claims are unsupported, and those of their tokens; arguments as in ``Padded``."""
        edge = claim.new_full((len(claim), 1), _SEPARATOR)
        ids = torch.cat([edge - _SEPARATOR + _START, claim, edge, premise, edge], 1)
        in_premise = torch.cat(
            [torch.zeros_like(ids[:, : claim.shape[1] + 2]), torch.ones_like(premise), edge * 0 + 1], 1
        )
        inside = ids >= 0
        marked = functional.pad(own, (1, premise.shape[1] + 2))[..., None] * self.own
        states = self.encoder(
            inputs_embeds=self.words(ids.clamp(min=0)) + marked,
            attention_mask=inside.long(),
            token_type_ids=in_premise,
            position_ids=(inside.long().cumsum(1) - 1).clamp(min=0),
        ).last_hidden_state
        tokens, mask = states[:, 1 : claim.shape[1] + 1], own[..., None].to(states.dtype)
        mean = (tokens * mask).sum(1) / mask.sum(1).clamp(min=1)
        pooled = torch.cat([states[:, 0], mean, (tokens - (1 - mask) * _FAR).amax(1)], 1)
        odds = self.out(self.drop(functional.gelu(self.hidden(pooled))))
        return odds[:, 0].float(), self.token(tokens)[..., 0].float()

    def groups(self, rate: float) -> list[dict[str, object]]:
        """What is learned, with its rate: the encoder's weights, and what was added to it."""
        learned = [parameter for parameter in self.encoder.parameters() if parameter.requires_grad]
        known = {id(parameter) for parameter in self.encoder.parameters()}
        added = [parameter for parameter in self.parameters() if id(parameter) not in known]
        return [{"params": learned, "lr": rate}, {"params": added, "lr": _HEAD_RATE}]


def pretrained(folder: Path, claims: Sequence[EditedClaim], *, seed: int) -> CrossEncoder:
    """The encoder of a folder after batches of edited sentences."""
    torch.manual_seed(seed)
    model = CrossEncoder(folder).to(device()).train()
    inputs, labels = [claim.read for claim in claims], torch.tensor([float(claim.is_wrong) for claim in claims])

    def loss(batch: npt.NDArray[np.int64]) -> torch.Tensor:
        padded = padded_inputs([inputs[index] for index in batch])
        with precision():
            odds, tokens = model(*padded)
        known = filled([claims[index].marks for index in batch], tokens.shape[1])
        of_claims = functional.binary_cross_entropy_with_logits(odds, labels[batch].to(odds.device))
        return of_claims + _PRETRAINING_TOKENS * _of_tokens(tokens, known, (known >= 0).float())

    drawn = batches(inputs, np.arange(len(inputs)), _BATCH, np.random.default_rng(seed))
    fit(model.groups(_PRETRAINING_RATE), loss, drawn, _PRETRAINING_STEPS)
    return model


def tuned(start: CrossEncoder, claims: ReadClaims, *, seed: int) -> CrossEncoder:
    """The encoder after batches of the rows' claims: what it says alone, and beside the trees' log odds."""
    torch.manual_seed(seed)
    model = deepcopy(start).train()
    weights, labels, odds = (torch.from_numpy(raw).to(device()) for raw in (claims.weights, claims.labels, claims.odds))

    def loss(batch: npt.NDArray[np.int64]) -> torch.Tensor:
        padded = padded_inputs([claims.inputs[index] for index in batch])
        with precision():
            alone, tokens = model(*padded)
        weight, label = weights[batch], labels[batch]
        known = filled([claims.marks[index] for index in batch], tokens.shape[1])
        beside = alone + model.scale * odds[batch] + model.bias
        both = [functional.binary_cross_entropy_with_logits(said, label, reduction="none") for said in (alone, beside)]
        of_claims = ((both[0] + both[1]) / 2 * weight).sum() / weight.sum()
        return of_claims + _TOKENS * _of_tokens(tokens, known, (known >= 0) * weight[:, None])

    chosen = np.flatnonzero(claims.weights > 0)
    drawn = batches(claims.inputs, chosen, _BATCH, np.random.default_rng(seed))
    fit(model.groups(_RATE), loss, drawn, _STEPS)
    return model.eval()


def fit(
    groups: Sequence[dict[str, object]],
    loss: Callable[[npt.NDArray[np.int64]], torch.Tensor],
    drawn: Iterator[npt.NDArray[np.int64]],
    steps: int,
    warm_up: int = _WARM_UP,
) -> None:
    """Learn from ``steps`` batches, with a rate that falls to 0."""
    optimiser = torch.optim.AdamW(list(groups), weight_decay=_DECAY, betas=(0.9, 0.98))
    learned = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda at: min(1, (at + 1) / warm_up) * (1 - at / steps))
    for _ in tqdm(range(steps), unit="batch", disable=None, leave=False):
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss(next(drawn)))
        nn.utils.clip_grad_norm_(learned, _LARGEST)
        optimiser.step()
        rate.step()


def batches(
    inputs: Sequence[ReaderInput], indices: npt.NDArray[np.int64], size: int, draw: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    """Batches of claims of similar length in a random order, without end."""
    lengths = np.array([len(claim.sentence) + len(claim.premise) for claim in inputs])
    while True:
        chunks = np.array_split(draw.permutation(indices), max(1, len(indices) // (size * _SORTED)))
        parts = [
            part
            for chunk in chunks
            for part in np.array_split(chunk[np.argsort(lengths[chunk], kind="stable")], math.ceil(len(chunk) / size))
        ]
        yield from (parts[index] for index in draw.permutation(len(parts)))


def padded_inputs(inputs: Sequence[ReaderInput]) -> Padded:
    """The inputs as tensors on the device."""
    claim, premise = (
        nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in texts], batch_first=True, padding_value=-1)
        for texts in ([item.sentence for item in inputs], [item.premise for item in inputs])
    )
    own = torch.zeros(claim.shape, dtype=torch.bool)
    for row, item in enumerate(inputs):
        own[row, item.own] = True
    return claim.to(device()), own.to(device()), premise.to(device())


def filled(marks: Sequence[npt.NDArray[np.int8]], length: int) -> torch.Tensor:
    """int8 [claims, length], -1 behind the marks."""
    ends = [functional.pad(torch.from_numpy(row), (0, length - len(row)), value=-1) for row in marks]
    return torch.stack(ends).to(device())


def device() -> torch.device:
    """A GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def precision() -> torch.autocast:
    """bfloat16 on a GPU, float32 on a CPU."""
    return torch.autocast(device().type, dtype=torch.bfloat16, enabled=device().type == "cuda")


def _of_tokens(odds: torch.Tensor, marks: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    each = functional.binary_cross_entropy_with_logits(odds, marks.clamp(min=0).float(), reduction="none")
    return (each * weights).sum() / weights.sum().clamp(min=1)


def _labels_and_weights(rows: Sequence[VerdictRow]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    labels = np.concatenate([row.marked_claims for row in rows])
    whole = [len(row.claims) if row.is_marked and not row.has_marks else 1 for row in rows]
    weights = np.concatenate([row.claim_weights / count for row, count in zip(rows, whole, strict=True)])
    sets = np.concatenate([[row.set_name] * len(row.claims) for row in rows])
    for name in np.unique(sets).tolist():
        inside = sets == name
        both = [inside & (labels == label) & (weights > 0) for label in (True, False)]
        some = [mask for mask in both if mask.any()]
        for mask in some:
            share = _OWN_WEIGHTS.get(name, WEIGHTS[name].claims) * inside.sum() ** _SET_EXPONENT / len(some)
            weights[mask] *= share / weights[mask].sum()
    return labels, weights * len(weights) / weights.sum()


def _token_marks(row: VerdictRow, read: ReaderInput) -> npt.NDArray[np.int8]:
    marks = np.full(len(read.sentence), -1, dtype=np.int8)
    if row.has_marks:
        marked = dict(zip(row.signals.words, row.marked_words.tolist(), strict=True))
        marks[read.own] = [int(marked.get(word, False)) for word in read.words]
    return marks
