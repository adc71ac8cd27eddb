"""The bundled attributor's network, and the one quantity that its training looks at."""

from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from training.attributor_rows import TrainingRow
from training.attributor_tokenizer import BOS_ID, EOS_ID, PAD_ID, VOCABULARY_SIZE

ATTENTION_LAYER = 3
MAX_TOKENS = 16_384
ROPE_THETA = 500_000.0
NO_SOURCE_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Batch:
    """Right-padded rows as tensors.

    ``token_ids`` [rows, tokens]; ``positions`` [rows, answer tokens] of the answer in its row; ``gold``
    [rows, answer tokens, tokens] is True at the columns to attend to; ``weight`` [rows, answer tokens] is 0 for
    padding and ignored tokens; ``copied`` [rows, answer tokens] is True where there is a source.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    gold: torch.Tensor
    weight: torch.Tensor
    copied: torch.Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same batch on ``device``."""
        return Batch(*(getattr(self, name).to(device) for name in self.__slots__))


def new_model(*, vocabulary_size: int = VOCABULARY_SIZE) -> LlamaForCausalLM:
    """An untrained three-layer Llama; only the query and key projections of its last layer are ever trained."""
    config = LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=ATTENTION_LAYER,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=MAX_TOKENS,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=True,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        pad_token_id=PAD_ID,
    )
    return LlamaForCausalLM(config)


def collate(rows: list[TrainingRow]) -> Batch:
    """Pad rows on the right and turn their gold columns into a mask."""
    width = max(len(row.token_ids) for row in rows)
    height = max(len(row.gold) for row in rows)
    token_ids = torch.full((len(rows), width), PAD_ID)
    positions = torch.zeros((len(rows), height), dtype=torch.long)
    gold = torch.zeros((len(rows), height, width), dtype=torch.bool)
    weight = torch.zeros((len(rows), height))
    for index, row in enumerate(rows):
        token_ids[index, : len(row.token_ids)] = torch.tensor(row.token_ids)
        positions[index, : len(row.gold)] = torch.arange(row.answer_start, len(row.token_ids))
        pairs = [(place, column) for place, columns in enumerate(row.gold) for column in columns]
        places, columns = torch.tensor(pairs, dtype=torch.long).T
        gold[index, places, columns] = True
        weight[index, places] = torch.where(columns == 0, NO_SOURCE_WEIGHT, 1.0)
    return Batch(token_ids, positions, gold, weight, (weight > 0) & ~gold[:, :, 0])


def answer_attention(model: LlamaForCausalLM, token_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Head-mean attention of the answer's positions at the attention layer (Section 3.1; ``query_position`` self).

    ``token_ids`` [rows, tokens] is padded on the right, so causality alone hides the padding; ``positions`` [rows,
    answer tokens]. Returns float32 [rows, answer tokens, tokens]. Runs the layers below through the model's own
    modules, and of the attention layer only the norm and the query and key projections.
    """
    body = model.model
    places = torch.arange(token_ids.shape[1], device=token_ids.device)[None]
    hidden = body.embed_tokens(token_ids)
    cosine, sine = body.rotary_emb(hidden, places)
    for block in body.layers[: ATTENTION_LAYER - 1]:
        hidden = block(hidden, position_ids=places, position_embeddings=(cosine, sine))
    block = body.layers[ATTENTION_LAYER - 1]
    normed = block.input_layernorm(hidden)
    asking = normed.gather(1, positions[:, :, None].expand(-1, -1, normed.shape[2]))
    attention = block.self_attn
    keys = rotate(split_heads(attention.k_proj(normed), attention.head_dim), cosine, sine)
    queries = split_heads(attention.q_proj(asking), attention.head_dim)
    queries = rotate(queries, cosine[0][positions], sine[0][positions])
    logits: torch.Tensor = (queries @ keys.transpose(2, 3)).float() * attention.scaling
    unseen = places[None] > positions[:, :, None]
    return logits.masked_fill(unseen[:, None], float("-inf")).softmax(-1).mean(1)


def split_heads(states: torch.Tensor, size: int) -> torch.Tensor:
    """[rows, tokens, heads * size] to [rows, heads, tokens, size]."""
    return states.view(*states.shape[:2], -1, size).transpose(1, 2)


def rotate(states: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Apply rotary positions to [rows, heads, tokens, size]; ``cosine``, ``sine`` are [rows or 1, tokens, size]."""
    first, second = states.chunk(2, dim=-1)
    return states * cosine[:, None] + torch.cat((-second, first), dim=-1) * sine[:, None]


def source_loss(model: LlamaForCausalLM, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """(-log of the attention mass on the gold columns, weighted mean; mean mass of copied tokens, no gradient)."""
    attention = answer_attention(model, batch.token_ids, batch.positions)
    mass = (attention * batch.gold).sum(2)
    loss = -(mass.clamp_min(1e-6).log() * batch.weight).sum() / batch.weight.sum()
    return loss, mass.detach()[batch.copied].mean()
