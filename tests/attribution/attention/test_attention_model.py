"""The model as the rest of the system sees it: one outcome per row, whatever the batch, and clear options."""

from __future__ import annotations

import json
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.attention.attention_model import AttentionModel, load_attention_model
from attribeam.attribution.options import ATTN_UNION, MethodOptions, ModelOptions, QueryPosition
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError


def record(passages: list[str], answer: str) -> QARecord:
    return QARecord("r", "Who kept the lamp?", tuple(map(Passage, passages)), answer, RowSource("log.parquet", 0))


RECORDS = [
    record(["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."], "Ada Thorne lit the lamp."),
    record(["A short one."], "Yes."),
    record([], "Nothing was found."),
    record(["The lamp was seen from twelve miles away."] * 3, "Twelve miles away, in the tower at Brigg Point."),
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def model(directory: Path) -> AttentionModel:
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))


def attribute(model: AttentionModel, records: list[QARecord]) -> list[TokenAttribution | RowFault]:
    rows = [model.encode(one) for one in records]
    return model.attribute(rows, [len(one.passages) for one in records])


def assert_same(found: TokenAttribution | RowFault, expected: TokenAttribution | RowFault) -> None:
    assert isinstance(found, TokenAttribution)
    assert isinstance(expected, TokenAttribution)
    np.testing.assert_array_equal(found.top_columns, expected.top_columns)
    np.testing.assert_allclose(found.top_scores, expected.top_scores, atol=1e-6)
    np.testing.assert_allclose(found.passage_mass, expected.passage_mass, atol=1e-6)


def test_each_row_gets_its_own_outcome_in_the_order_of_the_rows(model: AttentionModel) -> None:
    together = attribute(model, RECORDS)
    assert len(together) == len(RECORDS)
    for one, outcome in zip(RECORDS, together, strict=True):
        assert_same(outcome, attribute(model, [one])[0])


def test_padding_changes_nothing(model: AttentionModel) -> None:
    long = record(["The keeper lived in the tower. " * 8], "In the tower.")
    assert_same(attribute(model, [RECORDS[1], long])[0], attribute(model, [RECORDS[1]])[0])


def test_shapes_follow_response_top_k_and_passages(model: AttentionModel) -> None:
    row = model.encode(RECORDS[3])
    (tokens,) = model.attribute([row], [3])
    assert isinstance(tokens, TokenAttribution)
    responses = len(row.token_ids) - row.prompt_length
    assert tokens.top_columns.shape == tokens.top_scores.shape == (responses, 2)
    assert tokens.passage_mass.shape == (responses, 3)
    assert (tokens.top_columns.dtype, tokens.top_scores.dtype) == (np.int32, np.float32)
    assert (tokens.top_columns < row.prompt_length).all()


def test_no_rows_give_no_outcomes(model: AttentionModel) -> None:
    assert model.attribute([], []) == []


def test_row_without_its_passage_count_is_refused(model: AttentionModel) -> None:
    with pytest.raises(ValueError, match="shorter"):
        model.attribute([model.encode(RECORDS[0])], [])


def test_batch_that_does_not_fit_is_halved_and_a_row_that_never_fits_is_a_fault(
    model: AttentionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = attribute(model, RECORDS)
    forward = model.network.forward
    sizes: list[int] = []

    def small_machine(*, input_ids: torch.Tensor, **options: object) -> object:
        sizes.append(input_ids.numel())
        if input_ids.numel() > 60:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
        return forward(input_ids=input_ids, **options)

    monkeypatch.setattr(model.network, "forward", small_machine)
    outcomes = attribute(model, RECORDS)
    lengths = [len(model.encode(one).token_ids) for one in RECORDS]
    assert sizes[:2] == [sum(lengths), sum(sorted(lengths)[:2])]
    assert min(lengths) <= 60 < max(lengths)
    for outcome, alone, length in zip(outcomes, expected, lengths, strict=True):
        if length <= 60:
            assert_same(outcome, alone)
        else:
            assert isinstance(outcome, RowFault)
            assert outcome.reason is Reason.OUT_OF_MEMORY


def test_row_with_nan_is_a_fault_and_its_neighbours_are_not(tmp_path: Path) -> None:
    model = AttentionModel.from_pretrained(ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu"))
    poison = model.encode(RECORDS[1])
    unused = next(token for token in range(399, 0, -1) if all(token not in model.encode(r).token_ids for r in RECORDS))
    poison.token_ids[3] = unused
    with torch.no_grad():
        model.network.get_input_embeddings().weight[unused] = float("nan")
    good = model.encode(RECORDS[0])
    first, second = model.attribute([poison, good], [1, 2])
    assert isinstance(first, RowFault)
    assert first.reason is Reason.NON_FINITE_ATTENTION
    assert_same(second, model.attribute([good], [2])[0])


def test_query_positions_differ_by_one(directory: Path) -> None:
    def scores(position: QueryPosition) -> tuple[EncodedRow, TokenAttribution]:
        options = ModelOptions(model=str(directory), query_position=position, device="cpu")
        model = AttentionModel.from_pretrained(options, method=MethodOptions(top_k=1))
        row = model.encode(RECORDS[0])
        (tokens,) = model.attribute([row], [2])
        assert isinstance(tokens, TokenAttribution)
        return row, tokens

    _, own = scores(QueryPosition.SELF)
    _, predicting = scores(QueryPosition.PREDICTING)
    np.testing.assert_allclose(predicting.passage_mass[1:], own.passage_mass[:-1], atol=1e-6)
    assert not np.allclose(predicting.passage_mass, own.passage_mass, atol=1e-4)


def test_row_above_max_tokens_is_a_fault_that_names_both_lengths(directory: Path) -> None:
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), max_tokens=20, device="cpu"))
    with pytest.raises(RowFault, match="at most 20 tokens") as caught:
        model.encode(RECORDS[0])
    assert caught.value.reason is Reason.TOO_MANY_TOKENS
    assert "Ada" not in str(caught.value)


def test_context_of_the_model_is_the_limit_where_none_is_given(model: AttentionModel) -> None:
    assert model.max_tokens == 512


def test_special_tokens_in_the_texts_are_plain_text(model: AttentionModel) -> None:
    row = model.encode(record(["A <s> marks a start, </s> an end."], "Not <s> here."))
    assert (row.token_ids == 0).sum() == 1
    assert 1 not in row.token_ids


def test_template_with_its_own_bos_keeps_exactly_that(directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "template.json"
    path.write_text(json.dumps({"preamble": "<s>Read this.\n"}), encoding="utf-8")
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), prompt_template=str(path), device="cpu"))
    row = model.encode(RECORDS[0])
    assert row.token_ids[0] == 0
    assert (row.token_ids == 0).sum() == 1


def test_directory_gives_defaults_and_the_user_overrides_them(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path)
    defaults = {
        "layer": 2,
        "query_position": "self",
        "top_k": 3,
        "isolation_tau": 4,
        "prompt_template": {"question": "Q: {question}\nA: "},
    }
    (directory / "attribution_config.json").write_text(json.dumps(defaults), encoding="utf-8")
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))
    assert (model.layer, model.query_position, model.settings.top_k) == (2, QueryPosition.SELF, 3)
    assert model.template.question == "Q: {question}\nA: "
    options = ModelOptions(model=str(directory), layer=1, query_position=QueryPosition.PREDICTING, device="cpu")
    other = AttentionModel.from_pretrained(options, method=MethodOptions(top_k=1))
    assert (other.layer, other.query_position) == (1, QueryPosition.PREDICTING)
    assert (other.settings.top_k, other.settings.isolation_tau) == (1, 4)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"layer": 5}, r"\[1, 2, 3, 4\], was: 5"),
        ({"device": "abacus"}, "was: 'abacus'"),
        ({"prompt_template": "absent.json"}, r"absent\.json"),
    ],
)
def test_bad_option_is_a_load_error(directory: Path, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ModelLoadError, match=complaint):
        AttentionModel.from_pretrained(ModelOptions(model=str(directory), **{"device": "cpu", **options}))


def test_unknown_dtype_is_no_option() -> None:
    with pytest.raises(ValueError, match="'float32', 'bfloat16', 'float16', was: 'float8'"):
        ModelOptions(dtype="float8")


def test_model_that_overflows_in_half_precision_fails_before_the_run(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path, scale=300)
    assert AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu")).dtype == torch.float32
    with pytest.raises(ModelLoadError, match=r"NaN or infinity in torch\.float16"):
        AttentionModel.from_pretrained(ModelOptions(model=str(directory), dtype="float16", device="cpu"))


def test_second_load_shares_the_weights_and_keeps_its_own_method(directory: Path) -> None:
    options = ModelOptions(model=str(directory), device="cpu")
    first = load_attention_model(options)
    second = load_attention_model(options, method=MethodOptions(method=ATTN_UNION, top_k=5))
    assert first.network is second.network
    assert (first.settings.top_k, second.settings.top_k) == (2, 5)
    assert second.settings.method == ATTN_UNION


def test_model_can_be_weakly_referenced(model: AttentionModel) -> None:
    assert weakref.ref(model)() is model


def test_provenance_holds_what_the_result_depends_on(model: AttentionModel) -> None:
    provenance = model.provenance()
    assert provenance["model_revision"].startswith("sha256:")
    assert {name: provenance[name] for name in ("layer", "layer_count", "layer_type", "query_position")} == {
        "layer": "3",
        "layer_count": "4",
        "layer_type": "full_attention",
        "query_position": "predicting",
    }
    assert {name: provenance[name] for name in ("top_k", "isolation_tau", "dtype", "device")} == {
        "top_k": "2",
        "isolation_tau": "2",
        "dtype": "float32",
        "device": "cpu",
    }
    assert provenance["prompt_template"] == model.template.digest
    assert all(provenance.values())


def test_provenance_is_plain_text_that_is_unpickled_without_torch(model: AttentionModel) -> None:
    assert {type(value) for value in model.provenance().values()} == {str}
