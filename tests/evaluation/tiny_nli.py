"""A small sequence classifier with random weights, saved to a directory so that tests load it as users do."""

import torch
from tests.attribution.tiny_models import VOCABULARY_SIZE, tiny_tokenizer
from transformers import AutoModelForSequenceClassification, BertConfig, PreTrainedTokenizerFast

LABELS = ("contradiction", "ENTAILMENT", "neutral")


def save_tiny_nli(directory, *, labels=LABELS, places=128, kind=BertConfig):
    """A classifier with these labels and ``places`` positions: a BERT, or a RoBERTa according to ``kind``."""
    torch.manual_seed(5)
    config = kind(
        vocab_size=VOCABULARY_SIZE, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=places, pad_token_id=2, initializer_range=1.0, id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )  # fmt: skip
    AutoModelForSequenceClassification.from_config(config).save_pretrained(directory)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer(), bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    tokenizer.save_pretrained(directory)
    return directory
