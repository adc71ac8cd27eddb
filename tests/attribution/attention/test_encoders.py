"""BERT and RoBERTa as attributors, and Granite-SWA, whose sinks count."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attribution.attention.test_capture import EVERYTHING, RECORDS, TOLERANCE, eager_similarity, full_similarity
from tests.attribution.tiny_models import CONFIGS, save_tiny_model, save_tiny_tokenizer, tiny_model, tiny_wordpiece
from transformers import AutoModel, GraniteMoeSWAConfig, GraniteSWAConfig
from transformers.models.granite_swa import modeling_granite_swa
from transformers.models.granitemoe_swa import modeling_granitemoe_swa

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.options import MethodOptions, ModelOptions, QueryPosition
from attribeam.attribution.prompts.prompt_template import PromptTemplate
from attribeam.attribution.prompts.token_offsets import PageTokenizer, encode_row
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource

WORDPIECE = tiny_wordpiece()
PAGES = PageTokenizer(tiny_wordpiece().backend_tokenizer, add_special_tokens=True)
QUESTION = "Who built the lighthouse?"
PASSAGES = ["The LIGHTHOUSE was built in 1874 by Ada Thorne.", "The keeper lived in the tower."]
ANSWER = "Ada Thorne built it in 1874."


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("bert"), "bert")


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("roberta"), "roberta")


def load(directory: Path) -> AttentionModel:
    options = ModelOptions(model=str(directory), device="cpu")
    return AttentionModel.from_pretrained(options, method=MethodOptions(top_k=EVERYTHING))


def record(passage: str) -> QARecord:
    return QARecord("r", QUESTION, (Passage(passage),), ANSWER, RowSource("log.parquet", 0))


def test_special_tokens_at_both_ends_are_part_of_the_row_and_cover_nothing(bert: Path) -> None:
    row = load(bert).encode(record(PASSAGES[0]))
    assert row.token_ids[[0, -1]].tolist() == [WORDPIECE.cls_token_id, WORDPIECE.sep_token_id]
    assert row.column_passage[0] == -1
    assert row.response_chars[-1] is None
    assert [chars.of(ANSWER) for chars in row.response_chars if chars] == [*ANSWER[:-1].split(), "."]


@settings(max_examples=30, deadline=None)
@given(
    answer=st.lists(
        st.sampled_from(
            ["Ada", " built", "THE", "tower", " ", "\n", "é", "e\u0301", "漢字", "🦊", "xyz", "'", "\u200b"]
        ),
        min_size=1,
        max_size=7,
    ).map("".join)
)
def test_pieces_of_words_cover_the_text_that_they_stand_for(answer: str) -> None:
    if not answer.strip(" \n\u200b\u0301"):
        return
    tokenizer = WORDPIECE.backend_tokenizer
    prompt = PromptTemplate().render(question="Who?", passages=[Passage(answer)])
    row = encode_row(prompt, answer, PAGES)
    ids = row.token_ids[row.prompt_length :].tolist()
    assert ids[-1] == WORDPIECE.sep_token_id
    for token, chars in zip(ids[:-1], row.response_chars[:-1], strict=True):
        piece = tokenizer.id_to_token(token).removeprefix("##")
        assert chars is not None
        assert piece == "[UNK]" or tokenizer.normalizer.normalize_str(chars.of(answer)).strip() == piece


@pytest.mark.parametrize(("kind", "letter"), [("bert", " z"), ("roberta", "z")])
def test_row_of_512_tokens_is_attributed_and_one_more_is_refused(
    kind: str, letter: str, request: pytest.FixtureRequest
) -> None:
    directory: Path = request.getfixturevalue(kind)
    model = load(directory)
    assert model.max_tokens == 512
    short = len(model.encode(record(letter)).token_ids)
    row = model.encode(record(letter * (513 - short)))
    assert len(row.token_ids) == 512
    (tokens,) = model.attribute([row], [1])
    assert isinstance(tokens, TokenAttribution)
    expected = eager_similarity(directory, model, row)
    np.testing.assert_allclose(full_similarity(tokens), expected, atol=TOLERANCE, rtol=0)
    with pytest.raises(RowFault, match="at most 512 tokens") as caught:
        model.encode(record(letter * (514 - short)))
    assert caught.value.reason is Reason.TOO_MANY_TOKENS


def test_bert_made_a_decoder_is_asked_from_the_predicting_position(tmp_path: Path) -> None:
    config = type(CONFIGS["bert"])(**{**CONFIGS["bert"].to_dict(), "is_decoder": True})
    tiny_model(config).save_pretrained(tmp_path)
    save_tiny_tokenizer(tmp_path)
    model = load(tmp_path)
    assert model.query_position is QueryPosition.PREDICTING
    row = model.encode(record(PASSAGES[0]))
    (tokens,) = model.attribute([row], [1])
    assert isinstance(tokens, TokenAttribution)
    np.testing.assert_allclose(full_similarity(tokens), eager_similarity(tmp_path, model, row), atol=TOLERANCE)


SHAPE = {
    "vocab_size": 400,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "sliding_window": 24,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "attention_multiplier": 0.5,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 16}
GRANITE_CONFIGS = {
    modeling_granite_swa: GraniteSWAConfig(**SHAPE),
    modeling_granitemoe_swa: GraniteMoeSWAConfig(**SHAPE, **EXPERTS),
}


@pytest.fixture(scope="module", params=GRANITE_CONFIGS, ids=["dense", "experts"])
def code(request: pytest.FixtureRequest) -> ModuleType:
    found: ModuleType = request.param
    return found


@pytest.fixture(scope="module")
def directory(code: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("granite_swa")
    tiny_model(GRANITE_CONFIGS[code]).save_pretrained(folder)
    save_tiny_tokenizer(folder)
    return folder


@pytest.mark.parametrize("layer", [1, 2, 3, 4])
def test_weights_are_the_shares_that_the_layers_output_is_made_of(
    directory: Path, code: ModuleType, layer: int
) -> None:
    options = ModelOptions(model=str(directory), layer=layer, device="cpu")
    model = AttentionModel.from_pretrained(options, method=MethodOptions(top_k=10_000))
    row = model.encode(RECORDS[2])
    (found,) = model.attribute([row], [len(RECORDS[2].passages)])
    assert isinstance(found, TokenAttribution)
    expected = _shares(directory, code, row.token_ids, layer - 1)[row.prompt_length - 1 : -1, : row.prompt_length]
    np.testing.assert_allclose(full_similarity(found), expected, atol=1e-5, rtol=0)
    without_sinks = eager_similarity(directory, model, row)
    assert (without_sinks - expected).max() > 5e-5
    assert (without_sinks - expected).min() > -1e-5


def _shares(directory: Path, code: ModuleType, token_ids: npt.NDArray[np.int32], index: int) -> npt.NDArray[np.float32]:
    """What transformers' eager attention makes of the rows of the identity: the shares of all values, sinks counted."""
    model = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    eager, shares = code.eager_attention_forward, {}

    def watched(module, query, key, value, *arguments, **named):  # type: ignore[no-untyped-def]
        identity = torch.eye(key.shape[2]).expand(1, key.shape[1], -1, -1)
        shares[module.layer_idx] = eager(module, query, key, identity, *arguments, **named)[0][0].mean(1)
        return eager(module, query, key, value, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(code, "eager_attention_forward", watched)
        model(torch.from_numpy(token_ids.astype(np.int64))[None])
    found: npt.NDArray[np.float32] = shares[index].numpy()
    return found
