"""Trains the verdict's reader of claims, ``attribution/verdict/claim_reader.py``.

Its vectors of word pieces are those of all-MiniLM-L6-v2 (Apache-2.0), reduced by ``reduced_vectors``; all else is
learned from the rows. It learns what words leave open: the log odds that the verdict without it gave each claim in
cross-validation are added to what it says. What is said of a row comes from a reader of other sources.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file
from torch import nn
from torch.nn import functional
from tqdm import tqdm

from attribeam.attribution.verdict.claim_reader import NOTHING_READ, READER_FILES, ReaderInput
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from lab.training.verdict.fitting import WEIGHTS, Odds, folds_of
from lab.training.verdict.verdict_rows import NOISE, VerdictRow

_PARTS = 3
_SIZE, _DROPOUT, _CONVOLUTIONS = 96, 0.2, 2
_EPOCHS, _BATCH, _RATE, _DECAY, _WARM_UP, _SORTED = 2, 64, 2e-3, 0.02, 200, 40
_WORDS_COUNT = 0.3
"""How much the loss of tokens counts beside that of claims."""
_SET_EXPONENT = 0.75
"""A set counts by its number of claims to this power."""
_OWN_WEIGHTS = {"hard_trial": 2.0, NOISE: 0.0}
"""Sets that count otherwise for the reader than for the trees of claims."""
_COSINE_COUNTS = 4.0
_FAR = -1e9
Weights = dict[str, npt.NDArray[Any]]


class Reader(nn.Module):
    """As ``ClaimReader``, over padded batches; ``vectors`` are float32 [word pieces, vector]."""

    def __init__(self, vectors: torch.Tensor) -> None:
        super().__init__()
        size = _SIZE
        self.vectors = nn.Embedding(vectors.shape[0], vectors.shape[1], _weight=vectors)
        self.vectors.weight.requires_grad_(False)
        self.projection = nn.Linear(vectors.shape[1], size)
        self.convolutions = nn.ModuleList(nn.Conv1d(size, size, 3, padding=1) for _ in range(_CONVOLUTIONS))
        self.query, self.key = nn.Linear(size, size), nn.Linear(size, size)
        self.compare = nn.ModuleList([nn.Linear(4 * size + 3, size), nn.Linear(size, size)])
        self.token, self.gate = nn.Linear(size, 1), nn.Linear(size, 1)
        self.out = nn.ModuleList([nn.Linear(3 * size, size), nn.Linear(size, 1)])
        self.scale, self.bias = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(()))
        self.drop = nn.Dropout(_DROPOUT)

    def encoded(self, ids: torch.Tensor, inside: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Unit vectors and states, [claims, tokens, ...]."""
        vectors = self.vectors(ids)
        states = self.drop(self.projection(vectors)) * inside[..., None]
        for one in self.convolutions:
            states = states + self.drop(functional.gelu(one(states.mT)).mT) * inside[..., None]
        return functional.normalize(vectors, dim=-1), states

    def forward(
        self, claim: torch.Tensor, own: torch.Tensor, premise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What is said of claims and of their tokens; ids are -1 where padded, ``own`` marks a claim's own tokens."""
        in_claim, in_premise = claim >= 0, premise >= 0
        claim, premise = claim.clamp(min=0), premise.clamp(min=0)
        (one, states), (two, others) = self.encoded(claim, in_claim), self.encoded(premise, in_premise)
        cosines, far = one @ two.mT, ~in_premise[:, None]
        scores = self.query(states) @ self.key(others).mT / math.sqrt(_SIZE) + _COSINE_COUNTS * cosines
        aligned = scores.masked_fill(far, _FAR).softmax(-1)
        other = aligned @ others
        same = ((claim[:, :, None] == premise[:, None]) & ~far).amax(-1)
        numbers = [cosines.masked_fill(far, -1).amax(-1), same.float(), (aligned * cosines).sum(-1)]
        both = [states, other, states * other, (states - other).abs(), torch.stack(numbers, -1)]
        compared = self.drop(functional.gelu(self.compare[0](torch.cat(both, -1))))
        compared = functional.gelu(self.compare[1](compared))
        gates = self.gate(compared)[..., 0].masked_fill(~own, _FAR).softmax(-1)[..., None]
        mask = own[..., None].float()
        mean = (compared * mask).sum(1) / mask.sum(1).clamp(min=1)
        pooled = [mean, (gates * compared).sum(1), (compared - (1 - mask) * 10).amax(1)]
        hidden = self.drop(functional.gelu(self.out[0](self.drop(torch.cat(pooled, -1)))))
        return self.out[1](hidden)[:, 0], self.token(compared)[..., 0]


def reduced_vectors(vectors: npt.NDArray[np.float32], counts: npt.NDArray[np.float32], size: int) -> torch.Tensor:
    """Vectors of word pieces by the ``size`` main directions of those that occur, with one length, in 8 bits."""
    shares = (np.minimum(counts, 200) + 1)[:, None]
    centred = vectors - (vectors * shares).sum(axis=0) / shares.sum()
    _, directions = np.linalg.eigh((centred * shares).T @ centred / shares.sum())
    found = centred @ directions[:, -size:]
    found *= math.sqrt(size) / 4 / np.linalg.norm(found, axis=1, keepdims=True)
    scales = np.abs(found).max(axis=1, keepdims=True) / 127
    return torch.from_numpy((found / scales).round() * scales)


def with_readings(rows: Sequence[VerdictRow], odds: Odds, *, seed: int) -> tuple[list[VerdictRow], Weights]:
    """The rows with what readers of other sources say of their claims, and the weights of a reader of all.

    ``odds`` are those of the rows' claims without a reader. The vectors are those of the bundled reader.
    """
    torch.manual_seed(seed)
    stored = load_file(BUNDLED_VERDICT / READER_FILES[0])
    vectors = torch.from_numpy(stored["vectors"].astype(np.float32) * stored["scales"].astype(np.float32)[:, None])
    parts = folds_of(rows, seed=seed) % _PARTS
    said: dict[int, npt.NDArray[np.float64]] = {}
    for part in range(_PARTS):
        others, own = np.flatnonzero(parts != part).tolist(), np.flatnonzero(parts == part).tolist()
        reader = _trained([rows[one] for one in others], [odds[one] for one in others], vectors, seed)
        said |= zip(own, _said(reader, [rows[one] for one in own]), strict=True)
    whole = reader_weights(_trained(rows, odds, vectors, seed), stored["vectors"], stored["scales"])
    return [replace(row, read=said[place]) for place, row in enumerate(rows)], whole


def _claims(rows: Sequence[VerdictRow]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Labels and weights of all claims: either label of a set has half of the set's weight."""
    labels = np.concatenate([row.marked_claims for row in rows])
    whole = [len(row.claims) if row.is_marked and not row.has_marks else 1 for row in rows]
    weights = np.concatenate([row.claim_weights / one for row, one in zip(rows, whole, strict=True)])
    sets = np.concatenate([[row.set_name] * len(row.claims) for row in rows])
    for name in np.unique(sets).tolist():
        inside = sets == name
        both = [inside & (labels == label) & (weights > 0) for label in (True, False)]
        some = [one for one in both if one.any()]
        for one in some:
            share = _OWN_WEIGHTS.get(name, WEIGHTS[name].claims) * inside.sum() ** _SET_EXPONENT / len(some)
            weights[one] *= share / weights[one].sum()
    return labels, weights * len(weights) / weights.sum()


def _trained(rows: Sequence[VerdictRow], odds: Odds, vectors: torch.Tensor, seed: int) -> Reader:
    draw, reader = np.random.default_rng(seed), Reader(vectors).train()
    labels, weights = _claims(rows)
    inputs = [one for row in rows for one in row.inputs]
    base = np.concatenate(odds)
    marks = [_token_marks(row, one) for row in rows for one in row.inputs]
    chosen = np.array([place for place in np.flatnonzero(weights > 0) if inputs[place].premise], dtype=np.int64)
    learned = [one for one in reader.parameters() if one.requires_grad]
    steps = math.ceil(len(chosen) / _BATCH) * _EPOCHS
    optimiser = torch.optim.AdamW(learned, lr=_RATE, weight_decay=_DECAY, betas=(0.9, 0.98))
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda at: min(1, (at + 1) / _WARM_UP) * (1 - at / (steps + 1)))
    batches = (batch for _ in range(_EPOCHS) for batch in _batches(draw.permutation(chosen), inputs, draw))
    for batch in tqdm(batches, total=steps, unit="batch", disable=None, leave=False):
        claim, own, premise = _padded([inputs[one] for one in batch])
        found, tokens = reader(claim, own, premise)
        weight, label = (torch.from_numpy(one[batch]).float() for one in (weights, labels))
        found = found + reader.scale * torch.from_numpy(base[batch]).float() + reader.bias
        loss = (functional.binary_cross_entropy_with_logits(found, label, reduction="none") * weight).sum()
        marked = _filled([marks[one] for one in batch], claim.shape[1])
        counts = (marked >= 0) * weight[:, None]
        of_tokens = functional.binary_cross_entropy_with_logits(tokens, marked.clamp(min=0), reduction="none")
        of_words = (of_tokens * counts).sum() / counts.sum().clamp(min=1)
        optimiser.zero_grad()
        torch.autograd.backward(loss / weight.sum() + _WORDS_COUNT * of_words)
        nn.utils.clip_grad_norm_(learned, 1.0)
        optimiser.step()
        rate.step()
    return reader.eval()


def _batches(
    places: npt.NDArray[np.int64], inputs: Sequence[ReaderInput], draw: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    """Batches of claims of similar length, in a random order."""
    lengths = np.array([len(inputs[one].sentence) + len(inputs[one].premise) for one in places])
    chunks = np.array_split(np.arange(len(places)), max(1, len(places) // (_BATCH * _SORTED)))
    found = [
        places[one]
        for chunk in chunks
        for one in np.array_split(chunk[np.argsort(lengths[chunk], kind="stable")], math.ceil(len(chunk) / _BATCH))
    ]
    return (found[one] for one in draw.permutation(len(found)))


def _padded(inputs: Sequence[ReaderInput]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    claim = nn.utils.rnn.pad_sequence([torch.tensor(one.sentence) for one in inputs], True, -1.0)
    premise = nn.utils.rnn.pad_sequence([torch.tensor(one.premise) for one in inputs], True, -1.0)
    own = torch.zeros(claim.shape, dtype=torch.bool)
    for row, one in enumerate(inputs):
        own[row, one.own] = True
    return claim.long(), own, premise.long()


def _token_marks(row: VerdictRow, read: ReaderInput) -> npt.NDArray[np.float32]:
    """For each token of the sentence 1 if its word is marked, 0 if not, -1 where nobody said."""
    found = np.full(len(read.sentence), -1, dtype=np.float32)
    if row.has_marks:
        marked = dict(zip(row.signals.words, row.marked_words.tolist(), strict=True))
        found[read.own] = [float(marked.get(word, False)) for word in read.words]
    return found


def _filled(marks: Sequence[npt.NDArray[np.float32]], length: int) -> torch.Tensor:
    return torch.stack([functional.pad(torch.from_numpy(one), (0, length - len(one)), value=-1.0) for one in marks])


def _said(reader: Reader, rows: Sequence[VerdictRow]) -> list[npt.NDArray[np.float64]]:
    found = []
    with torch.inference_mode():
        for row in rows:
            own = np.full(len(row.claims), NOTHING_READ)
            places = [place for place, one in enumerate(row.inputs) if one.premise and len(one.own)]
            if places:
                own[places] = reader(*_padded([row.inputs[one] for one in places]))[0].double().numpy()
            found.append(own)
    return found


def reader_weights(reader: Reader, vectors: npt.NDArray[Any], scales: npt.NDArray[Any]) -> Weights:
    """What ``ClaimReader`` reads: vectors in 8 bits with their scales, matrices as [inputs, outputs]."""
    found: Weights = {"vectors": vectors, "scales": scales}
    for name, weight in reader.state_dict().items():
        if name.endswith("weight") and not name.startswith(("vectors", "token")):
            matrix = weight.permute(2, 1, 0).flatten(0, 1) if weight.ndim == 3 else weight.T
            found[name] = matrix.half().contiguous().numpy()
        elif name.endswith(".bias") and not name.startswith("token"):
            found[name] = weight.half().numpy()
    return found
