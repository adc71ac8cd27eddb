"""A config whose positions transformers ignores is refused; what the code really does is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import (
    BertConfig,
    ElectraConfig,
    EsmConfig,
    GraniteMoeHybridConfig,
    LlamaConfig,
    ModernBertConfig,
    PreTrainedConfig,
    RobertaConfig,
)

from attribution.models.model_directory import read_model_directory
from attribution.models.model_errors import ModelLoadError
from attribution.models.model_options import ModelOptions
from attribution.models.position_embeddings import check_position_embeddings


@pytest.mark.parametrize("kind", ["relative_key", "relative_key_query", "alibi"])
@pytest.mark.parametrize("family", [BertConfig, RobertaConfig, ElectraConfig])
def test_relative_positions_of_a_bert_are_refused_when_its_config_is_read(
    tmp_path: Path, family: type[PreTrainedConfig], kind: str
) -> None:
    family(position_embedding_type=kind).save_pretrained(tmp_path)
    with pytest.raises(ModelLoadError, match=f"says position_embedding_type '{kind}', which is ignored"):
        read_model_directory(ModelOptions(model=str(tmp_path)))


@pytest.mark.parametrize(
    "config",
    [
        BertConfig(),
        BertConfig(position_embedding_type="absolute"),
        ModernBertConfig(position_embedding_type="absolute"),
        EsmConfig(position_embedding_type="rotary"),
        GraniteMoeHybridConfig(position_embedding_type="rope"),
        LlamaConfig(position_embedding_type="rope"),
    ],
    ids=lambda config: f"{config.model_type} {getattr(config, 'position_embedding_type', 'nothing')}",
)
def test_positions_that_are_computed_as_the_config_says_are_taken(config: PreTrainedConfig) -> None:
    check_position_embeddings("lamp", config)


def test_esm_with_relative_positions_is_refused() -> None:
    with pytest.raises(ModelLoadError, match="relative_key"):
        check_position_embeddings("lamp", EsmConfig(position_embedding_type="relative_key"))


def test_config_of_a_models_own_code_is_not_asked() -> None:
    class OwnConfig(BertConfig):
        pass

    assert not OwnConfig.__module__.startswith("transformers.")
    check_position_embeddings("lamp", OwnConfig(position_embedding_type="relative_key"))
