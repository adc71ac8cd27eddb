"""The text model alone, of a config that may nest it among others such as an image encoder."""

from __future__ import annotations

from transformers import MODEL_MAPPING, PreTrainedConfig

from attribution.attention.attention_layer import without_layers_above

_NESTED = r"^(model\.)?(language_model|text_model)\.(model\.)?"


def text_model_config(config: PreTrainedConfig, layer: int) -> PreTrainedConfig:
    """The config of layers 1 to ``layer`` of the text model alone, which has the dtype of the whole.

    Where transformers has no class for the text model alone, the whole config with its text model cut.
    """
    whole = without_layers_above(config, layer)
    text = whole.get_text_config()
    if text is whole or type(text) not in MODEL_MAPPING:
        return whole
    if getattr(text, "dtype", None) is None:
        text.dtype = whole.dtype
    if getattr(whole, "quantization_config", None) is not None:
        text.quantization_config = whole.quantization_config
    return text


def nested_names(config: PreTrainedConfig, text: PreTrainedConfig) -> dict[str, str] | None:
    """How transformers is to rename the tensors of ``config``'s model for that of ``text``; None where it is not."""
    return None if type(text) is type(config) else {_NESTED: ""}
