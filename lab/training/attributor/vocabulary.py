"""The bundled attributor's vocabulary: a byte-level BPE of 32,768 tokens, and the initial embeddings.

Token offsets count characters. Tokens that occur near the same other tokens start with similar embeddings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
SPECIAL_TOKENS = [BOS, EOS, PAD]
BOS_ID, EOS_ID, PAD_ID = range(3)
VOCABULARY_SIZE = 32_768


def train_tokenizer(texts: Iterable[str], *, vocabulary_size: int = VOCABULARY_SIZE) -> Tokenizer:
    """Learn the merges from ``texts``; encoding with special tokens puts exactly one BOS in front.

    Offsets are half-open, count Unicode code points and exclude the space that a token begins with, so that a token
    belongs to a span if and only if the two overlap. A token of only white space has an empty range.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = bos_in_front()
    return tokenizer


def bos_in_front() -> processors.PostProcessor:
    """A post-processor that excludes leading spaces from offsets and puts one BOS before the text."""
    template = processors.TemplateProcessing(single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, BOS_ID)])
    return processors.Sequence([processors.ByteLevel(trim_offsets=True), template])


def save_tokenizer(tokenizer: Tokenizer, directory: Path, *, max_tokens: int) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` so that ``AutoTokenizer`` loads them offline."""
    wrapper: Any = PreTrainedTokenizerFast
    fast = wrapper(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        model_max_length=max_tokens,
        padding_side="right",
        clean_up_tokenization_spaces=False,
    )
    fast.save_pretrained(directory)


def load_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer that ``save_tokenizer`` wrote, without its Hugging Face wrapper."""
    return Tokenizer.from_file(str(directory / "tokenizer.json"))


EMBEDDINGS_FILE = "first_embeddings.pt"
CONTEXT_TOKENS = 4
SMALLEST_COUNT = 2
SMOOTHING = 0.75
PARAGRAPHS_PER_BATCH = 2000


def initial_embeddings(
    directory: Path, texts: Iterable[str], tokenizer: Tokenizer, *, size: int, seed: int
) -> torch.Tensor:
    """``cooccurrence_embeddings``, cached in ``directory`` so that a resumed run need not count again."""
    path = directory / EMBEDDINGS_FILE
    if not path.exists():
        temporary = path.with_suffix(".partial")
        torch.save(cooccurrence_embeddings(texts, tokenizer, size=size, seed=seed), temporary)
        temporary.replace(path)
    embeddings: torch.Tensor = torch.load(path, weights_only=True)
    return embeddings


def cooccurrence_embeddings(texts: Iterable[str], tokenizer: Tokenizer, *, size: int, seed: int) -> torch.Tensor:
    """float32 [vocabulary, size] of unit variance: half of each embedding from the token's neighbours, half random.

    The first half is the truncated singular value decomposition of the positive pointwise mutual information of tokens
    at most ``CONTEXT_TOKENS`` places apart, so that tokens with similar use start near each other. The second half
    separates them.
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
    """How often two tokens occur near each other: sparse float32 [vocabulary, vocabulary], symmetric."""
    pairs: list[torch.Tensor] = []
    for paragraphs in _paragraph_batches(texts):
        rows = [torch.tensor(one.ids) for one in tokenizer.encode_batch(paragraphs, add_special_tokens=False)]
        for distance in range(1, CONTEXT_TOKENS + 1):
            pairs.append(torch.cat([row[:-distance] * vocabulary_size + row[distance:] for row in rows]))
    codes, counts = torch.unique(torch.cat(pairs), return_counts=True)
    often = counts >= SMALLEST_COUNT
    codes, weights = codes[often], counts[often].float()
    places = torch.stack([codes // vocabulary_size, codes % vocabulary_size])
    one_way = torch.sparse_coo_tensor(places, weights, (vocabulary_size, vocabulary_size), check_invariants=True)
    return (one_way + one_way.t()).coalesce()


def _positive_information(counts: torch.Tensor) -> torch.Tensor:
    """max(0, log p(a, b) / (p(a) p(b))) with smoothed counts of b: sparse like ``counts``."""
    totals = counts.sum(1).to_dense().clamp_min(1.0)
    context = totals**SMOOTHING
    first, second = counts.indices()
    information = (counts.values() / totals[first] / (context[second] / context.sum())).log().clamp_min(0.0)
    return torch.sparse_coo_tensor(counts.indices(), information, counts.shape, check_invariants=True).coalesce()


def _paragraph_batches(texts: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    while some := list(islice(remaining, PARAGRAPHS_PER_BATCH)):
        yield some
