"""A random decoder with one layer that looks at the same words, and rows that such a layer attributes rightly."""

from __future__ import annotations

import json
import random
from pathlib import Path

import torch
from tests.attribution.tiny_models import SENTENCES, save_tiny_tokenizer, tiny_model
from transformers import LlamaConfig

_SHARPNESS = 3.0


def save_planted_decoder(directory: Path, *, layers: int, planted: int) -> Path:
    """Write a Llama whose layer ``planted``, counted from 1, has equal queries and keys; all else is random.

    Its layers add little to the embeddings, and positions hardly turn them, so that equal tokens meet in that layer.
    """
    config = LlamaConfig(
        vocab_size=400,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=512,
        rope_theta=1e12,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    model = tiny_model(config, scale=0.3)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.01)
            layer.mlp.down_proj.weight.mul_(0.01)
        attention = model.model.layers[planted - 1].self_attn
        attention.q_proj.weight.copy_(_SHARPNESS * torch.eye(32))
        attention.k_proj.weight.copy_(torch.eye(32))
    model.save_pretrained(directory)
    save_tiny_tokenizer(directory)
    return directory


def write_copied_rows(path: Path, count: int) -> Path:
    """Write ``count`` rows as JSONL to ``path``, which is returned: the answer repeats words of one of three passages.

    The words are drawn from those that the tiny tokenizer knows, none twice in a row.
    """
    drawn = random.Random(5)
    words = sorted({word.strip(".,:?") for sentence in SENTENCES for word in sentence.split()})
    lines = []
    for row in range(count):
        chosen = drawn.sample(words, 12)
        passages = [" ".join(chosen[start : start + 4]) for start in (0, 4, 8)]
        gold = drawn.randrange(3)
        answer = " ".join(chosen[4 * gold + 1 : 4 * gold + 4])
        lines.append(
            {
                "record_id": f"row-{row}",
                "question": f"row {row}",
                "passages": [{"text": text} for text in passages],
                "answer": answer,
                "target_spans": [{"char_start": 0, "char_end": len(answer)}],
                "span_labels": [{"gold_passages": [gold]}],
            }
        )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path
