"""Small random models and a small tokenizer, saved to a directory so that tests load them as users load theirs."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers as hf
from tests.attribution.made_rows import record
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedConfig, PreTrainedModel

SENTENCES = (
    "The lighthouse at Brigg Point was built in 1874 by Ada Thorne.",
    "Its lamp was seen from twelve miles away, and the keeper lived in the tower.",
    "Question: who built the lighthouse? Answer: Ada Thorne built it in 1874.",
)
VOCABULARY_SIZE = 400
WINDOW = 24
_FULL, _SLIDING, _LINEAR = "full_attention", "sliding_attention", "linear_attention"
_SHAPE = {
    "vocab_size": VOCABULARY_SIZE, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "max_position_embeddings": 512,
}  # fmt: skip
_TOKENS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
LARGE = _SHAPE | _TOKENS
GROUPED = LARGE | {"num_key_value_heads": 2}
MIXED = {"sliding_window": WINDOW, "layer_types": [_SLIDING, _FULL, _SLIDING, _FULL]}

DECODERS: dict[str, PreTrainedConfig] = {
    "llama": hf.LlamaConfig(**GROUPED),
    "llama4": hf.Llama4TextConfig(**GROUPED, head_dim=8, attention_chunk_size=WINDOW, layer_types=["chunked_attention",
        _FULL, "chunked_attention", _FULL], no_rope_layers=[1, 0, 1, 0], moe_layers=[1, 3], num_local_experts=2,
        intermediate_size_mlp=48),
    "qwen2": hf.Qwen2Config(**GROUPED), "qwen3": hf.Qwen3Config(**GROUPED, head_dim=8),
    "mistral": hf.MistralConfig(**GROUPED, sliding_window=WINDOW),
    "gemma2": hf.Gemma2Config(**GROUPED, **MIXED, head_dim=8, query_pre_attn_scalar=5, attn_logit_softcapping=3.0),
    "gemma3": hf.Gemma3TextConfig(**GROUPED, **MIXED, head_dim=8, query_pre_attn_scalar=5),
    "phi3": hf.Phi3Config(**GROUPED),
    "minicpm3": hf.MiniCPM3Config(**LARGE, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8,
        qk_nope_head_dim=8, v_head_dim=8),
    "granite": hf.GraniteConfig(**GROUPED, attention_multiplier=0.5, embedding_multiplier=3, residual_multiplier=0.5),
    "olmo2": hf.Olmo2Config(**GROUPED), "smollm3": hf.SmolLM3Config(**GROUPED, no_rope_layers=[1, 0, 1, 0]),
    "cohere2": hf.Cohere2Config(**GROUPED, **MIXED),
    "gpt_oss": hf.GptOssConfig(**GROUPED, **MIXED, head_dim=8, num_local_experts=4, num_experts_per_tok=2),
    "gpt_neox": hf.GPTNeoXConfig(**LARGE),
    "gpt2": hf.GPT2Config(vocab_size=VOCABULARY_SIZE, n_embd=32, n_layer=4, n_head=4, n_positions=512, **_TOKENS),
    "gpt2_scaled": hf.GPT2Config(vocab_size=VOCABULARY_SIZE, n_embd=32, n_layer=4, n_head=4, n_positions=512,
        scale_attn_by_inverse_layer_idx=True, **_TOKENS),
    "qwen3_next": hf.Qwen3NextConfig(**GROUPED, head_dim=8, layer_types=[_LINEAR, _LINEAR, _LINEAR, _FULL],
        linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=8, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=16),
    "falcon_h1": hf.FalconH1Config(**GROUPED, head_dim=8, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8,
        mamba_d_state=8, mamba_n_groups=1, mamba_chunk_size=16),
}  # fmt: skip
"""One causal model an architecture; the windows are shorter than the tests' rows."""

ENCODERS: dict[str, PreTrainedConfig] = {
    "modernbert": hf.ModernBertConfig(**LARGE, cls_token_id=0, sep_token_id=1, layer_types=MIXED["layer_types"],
        local_attention=2 * WINDOW),
    "bert": hf.BertConfig(**LARGE),
    "roberta": hf.RobertaConfig(**LARGE | {"max_position_embeddings": 514, "eos_token_id": 2, "pad_token_id": 1}),
    "distilbert": hf.DistilBertConfig(vocab_size=VOCABULARY_SIZE, dim=32, hidden_dim=48, n_layers=4, n_heads=4,
        pad_token_id=2),
    "albert": hf.AlbertConfig(**LARGE, embedding_size=16),
}  # fmt: skip
"""One bidirectional model an architecture."""

CONFIGS = DECODERS | ENCODERS


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


def tiny_wordpiece() -> hf.BertTokenizer:
    """BERT's own tokenizer, [CLS] in front and [SEP] behind, of the words of a few sentences and single characters."""
    characters = "abcdefghijklmnopqrstuvwxyz0123456789"
    pieces = [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        *(".", ",", ":", "?", *characters, *(f"##{one}" for one in characters)),
        *sorted({word.strip(".,:?").lower() for sentence in SENTENCES for word in sentence.split()} - {*characters}),
    ]
    return hf.BertTokenizer(vocab={piece: index for index, piece in enumerate(pieces)})


def tiny_model(config: PreTrainedConfig, *, scale: float = 0.3, causal: bool = True) -> PreTrainedModel:
    """A model with weights of one seed, of a ``scale`` at which attention is not flat; norms and biases are uneven."""
    torch.manual_seed(7)
    model = (hf.AutoModelForCausalLM if causal else hf.AutoModel).from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn_like(parameter)
            if parameter.dim() > 1:
                parameter.copy_(noise * scale)
            else:
                parameter.add_(noise * 0.2)
    return model


def save_model_of(directory: Path, config: PreTrainedConfig, *, scale: float = 0.3, causal: bool = True) -> Path:
    """Write a model of this config with the tiny tokenizer."""
    tiny_model(config, scale=scale, causal=causal).save_pretrained(directory)
    save_tiny_tokenizer(directory)
    return directory


def edit_json(file: Path, **changes: object) -> None:
    """Give members of a file's JSON object other values."""
    values = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(values | changes), encoding="utf-8")


def save_tiny_model(directory: Path, kind: str = "llama", *, scale: float = 0.3) -> Path:
    """Write model, config and tokenizer of ``CONFIGS[kind]``."""
    save_model_of(directory, CONFIGS[kind], scale=scale, causal=kind in DECODERS)
    if kind == "bert":
        tiny_wordpiece().save_pretrained(directory)
    return directory


def save_tiny_encoder(directory: Path, *, layer_types: list[str], softmax_over: str = "visible") -> Path:
    """A ModernBERT of these layers, with an ``attribution_config.json`` that takes the last one's own attention."""
    shape = LARGE | {"num_hidden_layers": len(layer_types)}
    config = hf.ModernBertConfig(**shape, cls_token_id=0, sep_token_id=1, layer_types=layer_types, local_attention=16)
    save_model_of(directory, config, causal=False)
    settings = {"layer": len(layer_types), "query_position": "self", "softmax_over": softmax_over}
    (directory / "attribution_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return directory


def save_tiny_bert(directory: Path) -> Path:
    """A masked language model, which transformers can load as a causal one though it sees later tokens."""
    save_tiny_model(directory)
    torch.manual_seed(3)
    bert = hf.BertForMaskedLM(hf.BertConfig(**_SHAPE | {"num_hidden_layers": 2}))
    with torch.no_grad():
        for parameter in bert.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.5)
    bert.save_pretrained(directory)
    return directory


def save_tiny_tokenizer(directory: Path) -> None:
    """Write ``tiny_tokenizer`` beside a model."""
    fast = hf.PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer(), bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    fast.save_pretrained(directory)


RECORD = record(
    ["The keeper lived in the tower.", "Ada Thorne built it in 1874."],
    "Ada Thorne built it.",
    question="Who built the lighthouse?",
)
_TEXT = _SHAPE | {"num_key_value_heads": 2}
_IMAGE = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28,
    "patch_size": 14,
}  # fmt: skip
_SECTIONS = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
_KINDS = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]

NESTED: dict[str, PreTrainedConfig] = {
    "gemma3": hf.Gemma3Config(text_config=_TEXT | {"head_dim": 8, "layer_types": _KINDS, "sliding_window": 24},
        vision_config=_IMAGE, mm_tokens_per_image=4),
    "llava": hf.LlavaConfig(text_config=hf.LlamaConfig(**_TEXT), vision_config=hf.CLIPVisionConfig(**_IMAGE)),
    "mistral3": hf.Mistral3Config(text_config=hf.MistralConfig(**_TEXT, sliding_window=None),
        vision_config=hf.PixtralVisionConfig(**_IMAGE)),
    "qwen2_vl": hf.Qwen2VLConfig(text_config=_TEXT | {"rope_parameters": _SECTIONS}, vision_config={"depth": 2,
        "embed_dim": 16, "hidden_size": 32, "num_heads": 2}),
}  # fmt: skip


def save_nested_model(directory: Path, kind: str) -> PreTrainedModel:
    """Write weights of one seed, config and tokenizer; returns the whole model, with attention that can be read."""
    torch.manual_seed(7)
    model = hf.AutoModelForImageTextToText.from_config(NESTED[kind], attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter.normal_(std=0.3)
    model.save_pretrained(directory)
    save_tiny_tokenizer(directory)
    return model.eval()
