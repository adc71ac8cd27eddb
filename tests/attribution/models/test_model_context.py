"""The longest row that a model can place, and the models that count positions from behind the padding token."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from transformers import BertConfig, Gemma3Config, GPT2Config, PreTrainedConfig, RobertaConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from attribution.models.model_context import POSITIONS_BEHIND_PADDING, model_context


@pytest.mark.parametrize(
    ("config", "context"),
    [
        (BertConfig(), 512),
        (GPT2Config(n_positions=64), 64),
        (RobertaConfig(max_position_embeddings=514, pad_token_id=1), 512),
        (Gemma3Config(text_config={"max_position_embeddings": 99}), 99),
        (PreTrainedConfig(), None),
    ],
    ids=["bert", "gpt2", "roberta", "nested", "none"],
)
def test_context_is_the_number_of_tokens_with_a_position(config: PreTrainedConfig, context: int | None) -> None:
    assert model_context(config) == context


def modeling_file(model_type: str) -> Path | None:
    """The file of transformers that ``model_type``'s network is in."""
    package, kind = model_type.replace("-", "_"), ""
    if model_type.startswith("data2vec"):
        package, kind = "data2vec", "_text"
    spec = find_spec(f"transformers.models.{package}")
    if spec is None or spec.submodule_search_locations is None:
        return None
    path = Path(spec.submodule_search_locations[0]) / f"modeling_{package}{kind}.py"
    return path if path.is_file() else None


def test_every_text_model_that_begins_behind_the_padding_is_known() -> None:
    types = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_MASKED_LM_MAPPING_NAMES}
    files = {model_type: path for model_type in types if (path := modeling_file(model_type)) is not None}
    assert len(files) > 150
    found = {
        model_type
        for model_type, path in files.items()
        if "def create_position_ids_from_input_ids" in path.read_text(encoding="utf-8")
    }
    without_a_table = {"trocr"}
    assert found - without_a_table == POSITIONS_BEHIND_PADDING & files.keys()
