"""Refusing models whose positions transformers would compute in another way than they were trained with."""

from __future__ import annotations

from transformers import PreTrainedConfig

from attribution.models.model_errors import ModelLoadError

_RELATIVE = ("relative_key", "relative_key_query")
_ROTARY = ("rope", "rotary")


def check_position_embeddings(model: str, config: PreTrainedConfig) -> None:
    """Refuse a ``position_embedding_type`` that the code of transformers does not look at.

    BERT and its relatives once had positions relative to the key. transformers 5 reads such a config without a word
    and adds absolute positions, whose table the weights need not hold. Code from a model's own repository may know
    more kinds, and is not asked.

    Raises:
        ModelLoadError: if the model's attention would be another than its own.
    """
    text = config.get_text_config()
    kind = getattr(text, "position_embedding_type", None)
    if kind is None or kind in _known_to(text):
        return
    raise ModelLoadError(
        f"model {model!r} should have position embeddings that transformers computes, its config.json "
        f"({text.model_type}) says position_embedding_type {kind!r}, which is ignored; choose another --model"
    )


def _known_to(config: PreTrainedConfig) -> tuple[object, ...]:
    """The kinds that the model's code computes, or that say what it does anyway (ModernBERT's says "absolute")."""
    kind = getattr(config, "position_embedding_type", None)
    own_code = not type(config).__module__.startswith("transformers.")
    if own_code or (hasattr(type(config), "position_embedding_type") and kind not in _RELATIVE):
        return (kind,)
    return ("absolute", *_ROTARY) if hasattr(type(config), "rope_parameters") else ("absolute",)
