"""How many tokens of a row a model can place."""

from __future__ import annotations

from transformers import PreTrainedConfig

POSITIONS_BEHIND_PADDING = frozenset(
    {
        "camembert",
        "data2vec-text",
        "esm",
        "ibert",
        "lilt",
        "longformer",
        "luke",
        "markuplm",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)
"""Model types whose first token has the position after the padding token's id, so that the table is partly unused."""


def model_context(config: PreTrainedConfig) -> int | None:
    """The longest row in tokens that the model's positions reach, None where there is no limit.

    RoBERTa's table of 514 positions serves 512 tokens.
    """
    text_config = config.get_text_config()
    positions: int | None = getattr(text_config, "max_position_embeddings", None)
    if positions is None or text_config.model_type not in POSITIONS_BEHIND_PADDING:
        return positions
    return positions - int(text_config.pad_token_id or 0) - 1
