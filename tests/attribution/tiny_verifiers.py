"""Small random verifiers of each kind, saved to a directory as users have them."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from tests.attribution.tiny_models import SENTENCES
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

WORDS = 400
_SHAPE = {"vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
_HEADS = {"num_attention_heads": 4, "max_position_embeddings": 512}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "feed_forward_proj": "gated-gelu"}
NLI = {0: "contradiction", 1: "neutral", 2: "entailment"}
KINDS = ("lettucedetect", "MiniCheck-Flan-T5", "MiniCheck-RoBERTa", "FactCG-DeBERTa", "hhem", "nli")


def save_verifier(folder: Path, kind: str, *, positions: int = 512) -> Path:
    """A verifier of one of ``KINDS`` in a new folder of this name."""
    place = folder / kind
    torch.manual_seed(7)
    tokens = _tokenizer(positions)
    ids = {"pad_token_id": tokens.pad_token_id, "eos_token_id": tokens.eos_token_id}
    shape = {**_SHAPE, **_HEADS, **ids, "max_position_embeddings": positions}
    if kind == "hhem":
        return _save_hhem(folder, tokens, ids)
    network: PreTrainedModel
    if kind == "lettucedetect":
        network = hf.ModernBertForTokenClassification(
            hf.ModernBertConfig(
                **shape, num_labels=2, bos_token_id=3, cls_token_id=3, sep_token_id=4, local_attention=16
            )
        )
    elif kind == "MiniCheck-Flan-T5":
        network = hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=WORDS, **_T5, **ids))
    elif kind == "MiniCheck-RoBERTa":
        network = hf.RobertaForSequenceClassification(
            hf.RobertaConfig(**{**shape, "max_position_embeddings": positions + 2}, type_vocab_size=1, num_labels=2)
        )
    elif kind == "FactCG-DeBERTa":
        network = hf.DebertaV2ForSequenceClassification(
            hf.DebertaV2Config(
                **shape, num_labels=2, relative_attention=True, pos_att_type="p2c|c2p", type_vocab_size=0
            )
        )
    else:
        network = hf.BertForSequenceClassification(hf.BertConfig(**shape, id2label=NLI, num_labels=3))
    return _save(_spread(network), tokens, place)


def save_nli(network: PreTrainedModel, place: Path, **tokenizer: object) -> Path:
    """A classifier of pairs with this network, and a tokenizer with these attributes."""
    tokens = _tokenizer(512)
    for name, value in tokenizer.items():
        setattr(tokens, name, value)
    return _save(_spread(network), tokens, place)


def _save_hhem(folder: Path, tokens: PreTrainedTokenizerFast, ids: dict[str, int]) -> Path:
    """As HHEM 2.1 is stored: a config of its own kind, weights below "t5", and the tokenizer in its foundation."""
    config = hf.T5Config(vocab_size=WORDS, **_T5, **ids)
    _save(_spread(hf.T5ForConditionalGeneration(config)), tokens, folder / "foundation")
    config.num_labels = 2
    place = _save(_spread(hf.T5ForTokenClassification(config)), tokens, folder / "hhem")
    weights = load_file(place / "model.safetensors")
    save_file({f"t5.{name}": value for name, value in weights.items()}, place / "model.safetensors", {"format": "pt"})
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (place / file).unlink()
    own = {
        "model_type": "HHEMv2",
        "architectures": ["HHEMv2ForSequenceClassification"],
        "auto_map": {"AutoModelForSequenceClassification": "modeling_hhem_v2.HHEMv2ForSequenceClassification"},
        "foundation": str(folder / "foundation"),
        "prompt": "<pad> Is it true?\n\nPremise: {text1}\n\nHypothesis: {text2}",
    }
    (place / "config.json").write_text(json.dumps(own), encoding="utf-8")
    (place / "modeling_hhem_v2.py").write_text("raise SystemExit('code of the repository ran')\n", encoding="utf-8")
    return place


def _spread(network: PreTrainedModel) -> PreTrainedModel:
    """With weights so large that the texts tell in its numbers."""
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.3)
            elif "bias" in name:
                weight.zero_()
    return network.eval()


def _save(network: PreTrainedModel, tokens: PreTrainedTokenizerFast, place: Path) -> Path:
    network.save_pretrained(place)
    tokens.save_pretrained(place)
    return place


def _tokenizer(positions: int) -> PreTrainedTokenizerFast:
    """Byte-level words with the special tokens of all kinds; a pair is "[CLS] one [SEP] other [SEP]"."""
    specials = ["<pad>", "</s>", "<unk>", "[CLS]", "[SEP]"]
    tokens = Tokenizer(models.BPE(unk_token="<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.train_from_iterator(
        SENTENCES,
        trainers.BpeTrainer(
            vocab_size=WORDS, special_tokens=specials, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        ),
    )
    tokens.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 3), ("[SEP]", 4)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=positions,
        model_input_names=["input_ids", "attention_mask"],
    )
