"""The bundled attributor's tokenizer: a byte-level BPE of 32,768 pieces with usable character offsets."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
SPECIAL_TOKENS = [BOS, EOS, PAD]
BOS_ID, EOS_ID, PAD_ID = range(3)
VOCABULARY_SIZE = 32_768


def train_tokenizer(texts: Iterable[str], *, vocabulary_size: int = VOCABULARY_SIZE) -> Tokenizer:
    """Learn the merges from ``texts``; encoding with special tokens then puts exactly one BOS in front.

    Offsets are half-open, count Unicode code points and leave out the space that a token swallows, so that a token
    belongs to a span exactly where the two overlap; a token of white space alone has an empty range.
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
    """Trim the offsets' leading space, then put one BOS before the text."""
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
    """The tokenizer that ``save_tokenizer`` wrote, without the Hugging Face wrapper around it."""
    return Tokenizer.from_file(str(directory / "tokenizer.json"))
