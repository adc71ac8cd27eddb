"""First token embeddings, from which tokens stand near which in running text."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import torch
from tokenizers import Tokenizer

FILE_NAME = "first_embeddings.pt"
REACH = 4
SMALLEST_COUNT = 2
SMOOTHING = 0.75
PARAGRAPHS_AT_ONCE = 2000


def first_embeddings(
    directory: Path, texts: Iterable[str], tokenizer: Tokenizer, *, size: int, seed: int
) -> torch.Tensor:
    """``cooccurrence_embeddings``, kept in ``directory`` so that a run that goes on need not count again."""
    path = directory / FILE_NAME
    if not path.exists():
        temporary = path.with_suffix(".partial")
        torch.save(cooccurrence_embeddings(texts, tokenizer, size=size, seed=seed), temporary)
        temporary.replace(path)
    embeddings: torch.Tensor = torch.load(path, weights_only=True)
    return embeddings


def cooccurrence_embeddings(texts: Iterable[str], tokenizer: Tokenizer, *, size: int, seed: int) -> torch.Tensor:
    """float32 [vocabulary, size] of unit variance: half of each token's numbers from its neighbours, half random.

    The first half is the truncated singular value decomposition of the positive pointwise mutual information of
    tokens at most ``REACH`` places apart: tokens used alike begin near each other. The second half tells them apart.
    """
    generator = torch.Generator().manual_seed(seed)
    vocabulary_size = tokenizer.get_vocab_size()
    counts = _count_neighbours(texts, tokenizer, vocabulary_size)
    torch.manual_seed(seed)
    left, values, _ = torch.svd_lowrank(_positive_information(counts), q=size // 2 + 16, niter=3)
    meaning = (left * values.sqrt())[:, : size // 2]
    seen = meaning.norm(dim=1, keepdim=True).clamp_min(1e-6)
    noise = torch.randn(vocabulary_size, size, generator=generator)
    noise[:, : size // 2] = torch.where(seen > 1e-5, meaning / seen * (size // 2) ** 0.5, noise[:, : size // 2])
    return noise


def _count_neighbours(texts: Iterable[str], tokenizer: Tokenizer, vocabulary_size: int) -> torch.Tensor:
    """How often two tokens stand near each other: sparse float32 [vocabulary, vocabulary], symmetric."""
    pairs: list[torch.Tensor] = []
    for paragraphs in _at_once(texts):
        rows = [torch.tensor(one.ids) for one in tokenizer.encode_batch(paragraphs, add_special_tokens=False)]
        for distance in range(1, REACH + 1):
            pairs.append(torch.cat([row[:-distance] * vocabulary_size + row[distance:] for row in rows]))
    codes, counts = torch.unique(torch.cat(pairs), return_counts=True)
    often = counts >= SMALLEST_COUNT
    codes, weights = codes[often], counts[often].float()
    places = torch.stack([codes // vocabulary_size, codes % vocabulary_size])
    one_way = torch.sparse_coo_tensor(places, weights, (vocabulary_size, vocabulary_size), check_invariants=True)
    return (one_way + one_way.t()).coalesce()


def _positive_information(counts: torch.Tensor) -> torch.Tensor:
    """max(0, log p(a, b) / (p(a) p(b))), with the counts of b smoothed: sparse, as ``counts``."""
    totals = counts.sum(1).to_dense().clamp_min(1.0)
    context = totals**SMOOTHING
    first, second = counts.indices()
    information = (counts.values() / totals[first] / (context[second] / context.sum())).log().clamp_min(0.0)
    return torch.sparse_coo_tensor(counts.indices(), information, counts.shape, check_invariants=True).coalesce()


def _at_once(texts: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    while some := list(islice(remaining, PARAGRAPHS_AT_ONCE)):
        yield some
