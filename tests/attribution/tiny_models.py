"""Small random models and a small tokenizer, saved to a directory so that tests load them as users load theirs."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

SENTENCES = (
    "The lighthouse at Brigg Point was built in 1874 by Ada Thorne.",
    "Its lamp was seen from twelve miles away, and the keeper lived in the tower.",
    "Question: who built the lighthouse? Answer: Ada Thorne built it in 1874.",
)
VOCABULARY_SIZE = 400
_SHAPE = {
    "vocab_size": VOCABULARY_SIZE,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
}
_TOKENS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}

CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**_SHAPE, **_TOKENS, num_key_value_heads=2),
    "qwen2": Qwen2Config(**_SHAPE, **_TOKENS, num_key_value_heads=2),
    "mistral": MistralConfig(**_SHAPE, **_TOKENS, num_key_value_heads=2, sliding_window=24),
    "gemma2": Gemma2Config(
        **_SHAPE,
        **_TOKENS,
        num_key_value_heads=2,
        head_dim=8,
        query_pre_attn_scalar=5,
        attn_logit_softcapping=0.7,
        sliding_window=24,
    ),
    "gpt2": GPT2Config(vocab_size=VOCABULARY_SIZE, n_embd=32, n_layer=4, n_head=4, n_positions=512, **_TOKENS),
    "gpt_neox": GPTNeoXConfig(**_SHAPE, **_TOKENS),
}


def tiny_tokenizer() -> Tokenizer:
    """A byte-level BPE of 400 pieces with one BOS in front; offsets include the leading blank."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return tokenizer


def save_tiny_model(directory: Path, kind: str = "llama", *, scale: float = 0.3) -> Path:
    """Write weights of one seed (of a ``scale`` at which attention is not flat), config and tokenizer."""
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(CONFIGS[kind])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter.normal_(std=scale)
    model.save_pretrained(directory)
    _save_tokenizer(directory)
    return directory


def save_tiny_encoder(directory: Path, *, layer_types: list[str], softmax_over: str = "visible") -> Path:
    """A ModernBERT of these layers, with an ``attribution_config.json`` that takes the last one's own attention."""
    torch.manual_seed(7)
    shape = _SHAPE | {"num_hidden_layers": len(layer_types)}
    config = ModernBertConfig(
        **shape, **_TOKENS, cls_token_id=0, sep_token_id=1, layer_types=layer_types, local_attention=16
    )
    model = ModernBertModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter.normal_(std=0.3)
    model.save_pretrained(directory)
    _save_tokenizer(directory)
    settings = {"layer": len(layer_types), "query_position": "self", "softmax_over": softmax_over}
    (directory / "attribution_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return directory


def _save_tokenizer(directory: Path) -> None:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer(), bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    fast.save_pretrained(directory)
