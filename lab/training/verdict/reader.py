"""Trains the verdict's reader of claims, ``attribution/verdict/claim_reader.py``.

A cross-encoder (``cross_encoder``) knows more of language and costs 30 ms a claim. The reader learns to say the same
(Hinton et al. 2015) of the rows' claims, of the same claims with some words exchanged for similar ones or beside
another claim's premise, and of edited sentences. Its vectors of word pieces are those of all-MiniLM-L6-v2 (Apache-2.0),
reduced by ``reduced_vectors``. What is said of a row comes from a teacher and a reader of other sources.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file
from torch import nn
from torch.nn import functional

from attribeam.attribution.verdict.claim_reader import NOTHING_READ, READER_FILES, ReaderInput
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from lab.training.verdict.cross_encoder import (
    CrossEncoder,
    Padded,
    ReadClaims,
    batches,
    device,
    fit,
    padded_inputs,
    precision,
    read_claims,
    tuned,
)
from lab.training.verdict.edited_sentences import EditedClaim
from lab.training.verdict.fitting import Odds, folds_of
from lab.training.verdict.verdict_rows import VerdictRow

_PARTS = 3
_SIZE, _DROPOUT, _CONVOLUTIONS = 96, 0.05, 2
_STEPS, _BATCH, _RATE, _WARM_UP = 2200, 512, 2e-3, 200
_OTHER_PREMISES, _EDITED, _EXCHANGED = 0.8, 70_000, 50_000
"""The share of claims also read beside another premise, and the numbers of edited sentences as they are and changed."""
_WORDS_EXCHANGED, _SIMILAR = 0.2, 12
"""The share of a claim's whole words that is exchanged, each for one of so many similar ones."""
_LABELS_COUNT = 0.3
"""How much the labels of the rows' claims count beside what the teacher says."""
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
        self.gate = nn.Linear(size, 1)
        self.out = nn.ModuleList([nn.Linear(3 * size, size), nn.Linear(size, 1)])
        self.drop = nn.Dropout(_DROPOUT)

    def encoded(self, ids: torch.Tensor, inside: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Unit vectors and states, [claims, tokens, ...]."""
        vectors = self.vectors(ids)
        states = self.drop(self.projection(vectors)) * inside[..., None]
        for layer in self.convolutions:
            states = states + self.drop(functional.gelu(layer(states.mT)).mT) * inside[..., None]
        return functional.normalize(vectors, dim=-1), states

    def forward(self, claim: torch.Tensor, own: torch.Tensor, premise: torch.Tensor) -> torch.Tensor:
        """The log odds that claims are unsupported; arguments as in ``Padded``."""
        in_claim, in_premise = claim >= 0, premise >= 0
        claim, premise = claim.clamp(min=0), premise.clamp(min=0)
        (units, states), (other_units, others) = self.encoded(claim, in_claim), self.encoded(premise, in_premise)
        cosines, far = units @ other_units.mT, ~in_premise[:, None]
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
        odds: torch.Tensor = self.out[1](hidden)[:, 0]
        return odds


def reduced_vectors(vectors: npt.NDArray[np.float32], counts: npt.NDArray[np.float32], size: int) -> torch.Tensor:
    """Vectors of word pieces by the ``size`` main directions of those that occur, with one length, in 8 bits."""
    shares = (np.minimum(counts, 200) + 1)[:, None]
    centred = vectors - (vectors * shares).sum(axis=0) / shares.sum()
    _, directions = np.linalg.eigh((centred * shares).T @ centred / shares.sum())
    reduced = centred @ directions[:, -size:]
    reduced *= math.sqrt(size) / 4 / np.linalg.norm(reduced, axis=1, keepdims=True)
    scales = np.abs(reduced).max(axis=1, keepdims=True) / 127
    return torch.from_numpy((reduced / scales).round() * scales)


def with_readings(
    rows: Sequence[VerdictRow],
    odds: Odds,
    start: CrossEncoder,
    edited: Sequence[EditedClaim],
    whole_words: npt.NDArray[np.bool_],
    *,
    seed: int,
) -> tuple[list[VerdictRow], Weights]:
    """The rows with what readers of other sources say of their claims, and the weights of a reader of all.

    ``odds`` are those of the rows' claims without a reader; ``start`` is the teacher before it saw rows;
    ``whole_words`` says which word pieces may be exchanged. The vectors are those of the bundled reader.
    """
    stored = load_file(BUNDLED_VERDICT / READER_FILES[0])
    vectors = torch.from_numpy(stored["vectors"].astype(np.float32) * stored["scales"].astype(np.float32)[:, None])

    def trained(indices: Sequence[int]) -> Reader:
        claims = read_claims([rows[index] for index in indices], [odds[index] for index in indices])
        return distilled(tuned(start, claims, seed=seed), claims, edited, vectors, whole_words, seed=seed)

    parts = folds_of(rows, seed=seed) % _PARTS
    said: dict[int, npt.NDArray[np.float64]] = {}
    for part in range(_PARTS):
        own = np.flatnonzero(parts == part).tolist()
        said |= zip(
            own, _said(trained(np.flatnonzero(parts != part).tolist()), [rows[index] for index in own]), strict=True
        )
    whole = reader_weights(trained(range(len(rows))), stored["vectors"], stored["scales"])
    return [replace(row, read=said[index]) for index, row in enumerate(rows)], whole


def distilled(
    teacher: CrossEncoder,
    claims: ReadClaims,
    edited: Sequence[EditedClaim],
    vectors: torch.Tensor,
    whole_words: npt.NDArray[np.bool_],
    *,
    seed: int,
) -> Reader:
    """A reader that says what the teacher says; ``vectors`` are float32 [word pieces, vector]."""
    torch.manual_seed(seed)
    draw = np.random.default_rng(seed)
    similar = _similar_words(teacher.words.weight.detach(), whole_words)

    def exchanged(inputs: Sequence[ReaderInput]) -> list[ReaderInput]:
        return [_with_similar_words(claim, similar, whole_words, draw) for claim in inputs]

    count = len(claims.inputs)
    chosen = np.flatnonzero(draw.random(count) < _OTHER_PREMISES)
    moved = (chosen + draw.integers(1, count, size=len(chosen))) % count
    beside = [
        replace(claims.inputs[at], premise=claims.inputs[far].premise) for at, far in zip(chosen, moved, strict=True)
    ]
    made = [edited[index].read for index in draw.permutation(len(edited))]
    inputs = [*claims.inputs, *exchanged(claims.inputs), *beside, *made[:_EDITED], *exchanged(made[-_EXCHANGED:])]
    said = torch.from_numpy(_told(teacher, inputs)).to(device())
    weights, labels = (torch.from_numpy(array).to(device()) for array in (claims.weights, claims.labels))
    reader = Reader(vectors).to(device()).train()

    def loss(batch: npt.NDArray[np.int64]) -> torch.Tensor:
        odds = reader(*padded_inputs([inputs[index] for index in batch]))
        of_teacher = functional.binary_cross_entropy_with_logits(odds, said[batch].sigmoid())
        own = np.flatnonzero(batch < count)
        if not len(own):
            return of_teacher
        weight, label = weights[batch[own]], labels[batch[own]]
        each = functional.binary_cross_entropy_with_logits(odds[own], label, reduction="none")
        of_labels = (each * weight).sum() / weight.sum().clamp(min=1e-6)
        return (1 - _LABELS_COUNT) * of_teacher + _LABELS_COUNT * of_labels

    learned = [parameter for parameter in reader.parameters() if parameter.requires_grad]
    drawn = batches(inputs, np.arange(len(inputs)), _BATCH, draw)
    fit([{"params": learned, "lr": _RATE}], loss, drawn, _STEPS, _WARM_UP)
    return reader.eval().cpu()


def _similar_words(vectors: torch.Tensor, whole: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """[word pieces, similar]: the whole words whose vectors have the highest cosine with each whole word."""
    ids = torch.from_numpy(np.flatnonzero(whole))
    unit = functional.normalize(vectors[ids.to(vectors.device)], dim=1)
    similar = torch.zeros(len(vectors), min(_SIMILAR, len(ids) - 1), dtype=torch.long)
    for start in range(0, len(ids), 2048):
        nearest = (unit[start : start + 2048] @ unit.T).topk(similar.shape[1] + 1, dim=1).indices.cpu()
        similar[ids[start : start + 2048]] = ids[nearest[:, 1:]]  # the first is the word itself
    return similar.numpy()


def _with_similar_words(
    claim: ReaderInput, similar: npt.NDArray[np.int64], whole: npt.NDArray[np.bool_], draw: np.random.Generator
) -> ReaderInput:
    ids = np.array(claim.sentence)
    positions = claim.own[whole[ids[claim.own]] & (draw.random(len(claim.own)) < _WORDS_EXCHANGED)]
    ids[positions] = similar[ids[positions], draw.integers(similar.shape[1], size=len(positions))]
    return replace(claim, sentence=tuple(ids.tolist()))


def _told(teacher: CrossEncoder, inputs: Sequence[ReaderInput]) -> npt.NDArray[np.float32]:
    order = np.argsort([len(claim.sentence) + len(claim.premise) for claim in inputs], kind="stable")
    odds = np.empty(len(inputs), dtype=np.float32)
    with torch.inference_mode(), precision():
        for batch in np.array_split(order, math.ceil(len(order) / _BATCH)):
            odds[batch] = teacher(*padded_inputs([inputs[index] for index in batch]))[0].cpu().numpy()
    return odds


def _said(reader: Reader, rows: Sequence[VerdictRow]) -> list[npt.NDArray[np.float64]]:
    readings = []
    with torch.inference_mode():
        for row in rows:
            own = np.full(len(row.claims), NOTHING_READ)
            indices = [index for index, claim in enumerate(row.inputs) if claim.premise and len(claim.own)]
            if indices:
                padded: Padded = padded_inputs([row.inputs[index] for index in indices])
                own[indices] = reader(*(tensor.cpu() for tensor in padded)).double().numpy()
            readings.append(own)
    return readings


def reader_weights(reader: Reader, vectors: npt.NDArray[Any], scales: npt.NDArray[Any]) -> Weights:
    """What ``ClaimReader`` reads: vectors in 8 bits with their scales, matrices as [inputs, outputs]."""
    weights: Weights = {"vectors": vectors, "scales": scales}
    for name, weight in reader.state_dict().items():
        if name.endswith("weight") and not name.startswith("vectors"):
            matrix = weight.permute(2, 1, 0).flatten(0, 1) if weight.ndim == 3 else weight.T
            weights[name] = matrix.half().contiguous().numpy()
        elif name.endswith(".bias"):
            weights[name] = weight.half().numpy()
    return weights
