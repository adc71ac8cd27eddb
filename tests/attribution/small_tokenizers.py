"""Tokenizers of the kinds that models have, trained on a few sentences."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from tests.attribution.tiny_models import SENTENCES, tiny_tokenizer
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from attribeam.schemas import Passage

CHAT_SPECIALS = ("<|im_start|>", "<|im_end|>")
SPECIALS = ("<s>", "</s>", "<pad>", *CHAT_SPECIALS)


def byte_level() -> Tokenizer:
    """As Qwen2's: bytes, and special tokens that are in no vocabulary but the added one."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens([*CHAT_SPECIALS])
    return tokenizer


def byte_level_with_prefix_space() -> Tokenizer:
    """As GPT-2's relatives: each stretch begins with a blank; offsets leave blanks out."""
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return tokenizer


def metaspace(prepend_scheme: str) -> Tokenizer:
    """As Llama 2's and Mistral's: blanks are marks, one is put at the start of the text or of each stretch."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend_scheme, split=False)
    return _trained(tokenizer)


def prepending() -> Tokenizer:
    """As Llama 2's older files: a normalizer puts the mark in front of each stretch."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return _trained(tokenizer)


def stripping() -> Tokenizer:
    """As Phi 3's: the special tokens take the white space behind them."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens([AddedToken(text, rstrip=True, special=True) for text in CHAT_SPECIALS])
    return tokenizer


def normalizing_specials() -> Tokenizer:
    """As the oldest files of Llama 2: special tokens are looked for in normalised text, and so missed within it."""
    tokenizer = prepending()
    tokenizer.add_special_tokens([AddedToken(text, normalized=True, special=True) for text in CHAT_SPECIALS])
    return tokenizer


def composing() -> Tokenizer:
    """As Qwen2's, with its NFC normalizer."""
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def unigram() -> Tokenizer:
    """As T5's relatives: the special tokens stand in the vocabulary of the model itself."""
    pieces = [("<unk>", 0.0), *((text, 0.0) for text in SPECIALS), ("▁", -2.0), ("▁the", -3.0)]
    pieces += [(character, -4.0) for character in sorted({*"".join(SENTENCES), *"".join(SPECIALS)} - {" "})]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.add_special_tokens([*SPECIALS])
    return tokenizer


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "byte level": byte_level, "byte level with prefix space": byte_level_with_prefix_space,
    "metaspace first": lambda: metaspace("first"), "metaspace always": lambda: metaspace("always"),
    "prepending": prepending, "stripping": stripping, "composing": composing,
    "normalizing specials": normalizing_specials, "unigram": unigram,
}  # fmt: skip


def _trained(tokenizer: Tokenizer) -> Tokenizer:
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<unk>", "<s>", "</s>", "<pad>"], initial_alphabet=["▁"], show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.add_tokens(bytes_)
    tokenizer.add_special_tokens([*CHAT_SPECIALS])
    return tokenizer


_HOSTILE = (
    "{text}", "{{ question }}", "{% for p in passages %}", "{# no #}", "{", "}}", "%s", "\\n", "<s>", "</s>",
    "<|im_start|>", "<|im_end|>", "[INST]", "<pad>", "<unk>", "\ufdd0", "\ufdd01\ufdd1", "\ufdd03\ufdd1", "lamp",
    " the", "Ada", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "é", "e\u0301", "🦊", "👩🏽‍🚀", "漢字", "שלום", "\u202eabc",
)  # fmt: skip
hostile_texts = st.lists(st.sampled_from(_HOSTILE) | st.characters(exclude_categories=["Cs"]), max_size=7).map("".join)
harmless_texts = st.lists(
    st.sampled_from(("lamp", " the", "Ada", " ", "  ", "\n", "1874", "tower.", "é", "🦊", "漢字", "<", "|", ">")),
    max_size=7,
).map("".join)
hostile_passages = st.lists(
    st.builds(Passage, text=hostile_texts, title=st.none() | hostile_texts), min_size=1, max_size=3
)
hostile_answers = hostile_texts.filter(lambda text: bool(text.strip()))
