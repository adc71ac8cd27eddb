"""The bundled attributor's network and vocabulary.

The bundled attributor's network, and the attention that its loss is computed from.

The bundled attributor's vocabulary: a byte-level BPE of 32,768 tokens, and the initial embeddings.

Token offsets count characters. Tokens that occur near the same other tokens start with similar embeddings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast
from transformers.models.modernbert.modeling_modernbert import ModernBertEncoderLayer

from attribeam.attribution.attention.capture import CAPTURE_IMPLEMENTATION
from attribeam.attribution.attention.end_to_end_attention import EndToEndRows, rows_end_to_end
from lab.training.attributor.training_rows import TrainingRow

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
        rows = [torch.tensor(encoding.ids) for encoding in tokenizer.encode_batch(paragraphs, add_special_tokens=False)]
        for distance in range(1, CONTEXT_TOKENS + 1):
            pairs.append(torch.cat([row[:-distance] * vocabulary_size + row[distance:] for row in rows]))
    codes, counts = torch.unique(torch.cat(pairs), return_counts=True)
    often = counts >= SMALLEST_COUNT
    codes, weights = codes[often], counts[often].float()
    indices = torch.stack([codes // vocabulary_size, codes % vocabulary_size])
    one_way = torch.sparse_coo_tensor(indices, weights, (vocabulary_size, vocabulary_size), check_invariants=True)
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


MAX_TOKENS = 65_536
QUERY_POSITION, SOFTMAX_OVER = "self", "prompt"
NO_SOURCE_WEIGHT = 0.5
PASSAGE_WEIGHT = 0.5
SAME_TOKEN_SCALE = 1.2
_LOCAL: Literal["sliding_attention"] = "sliding_attention"
_FULL: Literal["full_attention"] = "full_attention"


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of the network; the ``local_layers`` below the attention layer see ``window`` tokens to each side."""

    hidden_size: int = 128
    intermediate_size: int = 256
    local_layers: int = 2
    attention_heads: int = 4
    window: int = 64

    @property
    def attention_layer(self) -> int:
        """The 1-based layer whose attention is trained."""
        return self.local_layers + 1


DEFAULT_SHAPE = Shape()


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows laid end to end: ``token_ids`` int64 [1, tokens], ``lengths`` in tokens per row, and the rows themselves."""

    token_ids: torch.Tensor
    lengths: list[int]
    rows: Sequence[TrainingRow]


def new_model(shape: Shape, *, vocabulary_size: int) -> ModernBertModel:
    """An untrained encoder: local layers, then one layer of which only queries and keys are used.

    That layer has no positions (the frequencies are divided by so much that the rotation vanishes), and its queries and
    keys start as the same projection, so that equal tokens find each other from the first step.
    """
    config = ModernBertConfig(
        vocab_size=vocabulary_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.attention_layer,
        num_attention_heads=shape.attention_heads,
        max_position_embeddings=MAX_TOKENS,
        hidden_activation="silu",
        layer_types=[_LOCAL] * shape.local_layers + [_FULL],
        rope_parameters={
            _LOCAL: {"rope_type": "default", "rope_theta": 1000.0},
            _FULL: {"rope_type": "linear", "factor": 1e9, "rope_theta": 1000.0},
        },
        local_attention=2 * shape.window,
        pad_token_id=PAD_ID,
        bos_token_id=BOS_ID,
        cls_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        sep_token_id=EOS_ID,
    )
    model = ModernBertModel(config)
    model.set_attn_implementation(CAPTURE_IMPLEMENTATION)
    projection = torch.nn.init.orthogonal_(torch.empty(shape.hidden_size, shape.hidden_size)) * SAME_TOKEN_SCALE
    with torch.no_grad():
        encoder_layers(model)[-1].attn.Wqkv.weight[: 2 * shape.hidden_size] = torch.cat([projection, projection])
    return model


def encoder_layers(model: ModernBertModel) -> list[ModernBertEncoderLayer]:
    """The layers, local ones first."""
    return cast(list[ModernBertEncoderLayer], list(model.layers))


def collate(rows: Sequence[TrainingRow]) -> Batch:
    """Lay rows end to end."""
    token_ids = torch.tensor([token for row in rows for token in row.token_ids])[None]
    return Batch(token_ids, [len(row.token_ids) for row in rows], rows)


def answer_attention(model: ModernBertModel, batch: Batch) -> list[torch.Tensor]:
    """The attention of each row's answer tokens over its prompt, averaged over the heads (Section 3.1).

    ``query_position`` is "self", and the softmax runs over the prompt's columns. Returns one float32
    [answer tokens, prompt tokens] tensor per row.
    """
    rows = EndToEndRows(batch.lengths, model.device)
    queries, keys = _queries_and_keys(model, batch.token_ids.to(model.device), rows)
    attention = []
    for row, bounds in zip(batch.rows, rows.places, strict=True):
        border = bounds.start + row.answer_start
        logits = queries[:, border : bounds.end] @ keys[:, bounds.start : border].transpose(1, 2)
        attention.append(logits.softmax(-1).mean(0))
    return attention


def _queries_and_keys(
    model: ModernBertModel, token_ids: torch.Tensor, rows: EndToEndRows
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scaled queries, and keys, of the attention layer: [attention heads, tokens, size] each."""
    hidden = model.embeddings(token_ids)
    angles = model.rotary_emb(hidden, rows.positions[None], _LOCAL)
    with rows_end_to_end(rows):
        for layer in encoder_layers(model)[:-1]:
            hidden = layer(hidden, position_embeddings=angles)
    last = encoder_layers(model)[-1]
    weight = last.attn.Wqkv.weight[: 2 * model.config.hidden_size]
    projected = torch.nn.functional.linear(last.attn_norm(hidden[0]), weight)
    queries, keys = projected.view(len(projected), 2, -1, last.attn.head_dim).permute(1, 2, 0, 3)
    return queries * last.attn.head_dim**-0.5, keys


def source_loss(model: ModernBertModel, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss, and the mean attention mass on the true source of copied tokens, without gradient.

    The loss of a token combines -log of the mass on its source columns with -log of the mass on the passages of these
    columns. It is averaged, with weights, over the tokens that are to be learned.
    """
    total, weights, copied_mass, copied = torch.zeros(()), 0.0, 0.0, 0
    for row, attention in zip(batch.rows, answer_attention(model, batch), strict=True):
        gold = gold_columns(row).to(attention.device)
        weight = torch.tensor(token_weights(row), device=attention.device)
        source = (attention * gold).sum(1).clamp_min(1e-6)
        passage = (attention * gold_passage_columns(gold, row)).sum(1).clamp_min(1e-6)
        losses = (1 - PASSAGE_WEIGHT) * source.log() + PASSAGE_WEIGHT * passage.log()
        total = total.to(losses.device) - (losses * weight).sum()
        weights += weight.sum().item()
        is_copied = (weight > 0) & ~gold[:, 0]
        copied_mass += source.detach()[is_copied].sum().item()
        copied += int(is_copied.sum())
    return total / weights, torch.tensor(copied_mass / max(1, copied))


def gold_columns(row: TrainingRow) -> torch.Tensor:
    """bool [answer tokens, prompt tokens]: the columns that each answer token should attend to."""
    gold = torch.zeros(len(row.gold), row.answer_start, dtype=torch.bool)
    pairs = [(token, column) for token, columns in enumerate(row.gold) for column in columns]
    tokens, columns = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    gold[tokens, columns] = True
    return gold


def gold_passage_columns(gold: torch.Tensor, row: TrainingRow) -> torch.Tensor:
    """bool, in the shape of ``gold``: all columns of the passages with gold columns, and gold columns elsewhere."""
    passages = torch.tensor(row.column_passage, device=gold.device)
    member = torch.zeros(len(passages), int(passages.max()) + 2, device=gold.device)
    member[torch.arange(len(passages)), passages] = 1.0
    member[:, -1] = 0.0
    return ((gold.float() @ member) @ member.T > 0) | gold


def token_weights(row: TrainingRow) -> list[float]:
    """One weight per answer token: 0 if there is nothing to learn, and less than 1 if it has no source."""
    return [0.0 if not columns else NO_SOURCE_WEIGHT if columns == (0,) else 1.0 for columns in row.gold]
