"""The model as the rest of the system sees it: batches, one outcome per row, top-k, and where attention goes."""

import json
from itertools import count, pairwise, takewhile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.made_rows import made_attribution, record
from tests.attribution.tiny_models import RECORD, save_tiny_model

from attribeam.attribution.attention import reduction
from attribeam.attribution.attention.attention_model import AttentionModel, load_attention_model
from attribeam.attribution.attention.batching import pack_by_token_budget, pack_end_to_end, run_halving, shared_lengths
from attribeam.attribution.attention.capture import observing
from attribeam.attribution.attention.reduction import AttentionRule
from attribeam.attribution.models import is_out_of_memory
from attribeam.attribution.options import ATTN_UNION, MethodOptions, ModelOptions, Quantization, QueryPosition
from attribeam.evaluation import model_description
from attribeam.evaluation.model_description import agreement_with_float32, attention_shares, is_exact
from attribeam.schemas import Reason
from attribeam.schemas.errors import ModelLoadError

RECORDS = [
    record(["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."], "Ada Thorne lit the lamp."),
    record(["A short one."], "Yes."), record([], "Nothing was found."),
    record(["The lamp was seen from twelve miles away."] * 3, "Twelve miles away, in the tower at Brigg Point."),
]  # fmt: skip


@pytest.fixture(scope="module")
def model(llama):
    return AttentionModel.from_pretrained(ModelOptions(model=str(llama), device="cpu"))


def attribute(model, records):
    rows = [model.encode(one) for one in records]
    return model.attribute(rows, [len(one.passages) for one in records])


def assert_same(found, expected):
    np.testing.assert_array_equal(found.top_columns, expected.top_columns)
    np.testing.assert_allclose(found.top_scores, expected.top_scores, atol=1e-6)
    np.testing.assert_allclose(found.passage_mass, expected.passage_mass, atol=1e-6)


def test_batch_that_does_not_fit_is_halved_and_a_row_that_never_fits_is_a_fault(model, monkeypatch):
    expected = attribute(model, RECORDS)
    forward = model.network.forward
    sizes = []

    def small_machine(*, input_ids, **options):
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
            assert outcome.reason is Reason.OUT_OF_MEMORY


def test_row_with_nan_is_a_fault_and_its_neighbours_are_not(tmp_path):
    model = AttentionModel.from_pretrained(ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu"))
    poison = model.encode(RECORDS[1])
    unused = next(token for token in range(399, 0, -1) if all(token not in model.encode(r).token_ids for r in RECORDS))
    poison.token_ids[3] = unused
    with torch.no_grad():
        model.network.get_input_embeddings().weight[unused] = float("nan")
    good = model.encode(RECORDS[0])
    first, second = model.attribute([poison, good], [1, 2])
    assert first.reason is Reason.NON_FINITE_ATTENTION
    assert_same(second, model.attribute([good], [2])[0])


def test_directory_gives_defaults_and_the_user_overrides_them(tmp_path):
    directory = save_tiny_model(tmp_path)
    defaults = {"layer": 2, "query_position": "self", "top_k": 3, "isolation_tau": 4}
    defaults["prompt_template"] = {"question": "Q: {question}\nA: "}
    (directory / "attribution_config.json").write_text(json.dumps(defaults), encoding="utf-8")
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))
    assert (model.layer, model.query_position, model.settings.top_k) == (2, QueryPosition.SELF, 3)
    assert model.template.question == "Q: {question}\nA: "
    options = ModelOptions(model=str(directory), layer=1, query_position=QueryPosition.PREDICTING, device="cpu")
    other = AttentionModel.from_pretrained(options, method=MethodOptions(top_k=1))
    assert (other.layer, other.query_position) == (1, QueryPosition.PREDICTING)
    assert (other.settings.top_k, other.settings.isolation_tau) == (1, 4)


def test_model_that_overflows_in_half_precision_fails_before_the_run(tmp_path):
    directory = save_tiny_model(tmp_path, scale=300)
    assert AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu")).dtype == torch.float32
    with pytest.raises(ModelLoadError, match=r"NaN or infinity in torch\.float16"):
        AttentionModel.from_pretrained(ModelOptions(model=str(directory), dtype="float16", device="cpu"))


def test_second_load_shares_the_weights_and_keeps_its_own_method(llama):
    options = ModelOptions(model=str(llama), device="cpu")
    first = load_attention_model(options)
    second = load_attention_model(options, method=MethodOptions(method=ATTN_UNION, top_k=5))
    assert first.network is second.network
    assert (first.settings.top_k, second.settings.top_k) == (2, 5)
    assert second.settings.method == ATTN_UNION


def test_provenance_holds_what_the_result_depends_on(model):
    provenance = model.provenance()
    assert provenance["model_revision"].startswith("sha256:")
    expected = {
        "layer": "3", "layer_count": "4", "layer_type": "full_attention", "query_position": "predicting", "top_k": "2",
        "isolation_tau": "2", "dtype": "float32", "device": "cpu",
    }  # fmt: skip
    assert expected.items() <= provenance.items()
    assert provenance["prompt_template"] == model.template.digest
    assert all(provenance.values())


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 120))
def test_rows_are_packed_by_length_into_full_batches_within_the_budget(lengths, budget):
    batches = pack_by_token_budget(lengths, budget)
    rows = [index for batch in batches for index in batch]
    assert rows == sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    assert all(len(batch) == 1 or len(batch) * lengths[batch[-1]] <= budget for batch in batches)
    assert all((len(batch) + 1) * lengths[then[0]] > budget for batch, then in pairwise(batches))


def row(*tokens):
    return np.array(tokens, dtype=np.int32)


PROMPTS = ([], [7] * 5, [7] * 12, [9, 8] * 15)
rows_with_prompts = st.lists(
    st.tuples(st.sampled_from(PROMPTS), st.lists(st.integers(0, 3), min_size=1, max_size=12)), max_size=25
).map(lambda pairs: [row(*prompt, *response) for prompt, response in pairs])


def in_common(first, second):
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


@given(rows_with_prompts, st.integers(1, 120), st.booleans())
def test_rows_end_to_end_are_each_in_one_batch_within_the_budget(rows, budget, share):
    batches = pack_end_to_end(rows, budget, share=share)
    assert sorted(index for batch in batches for index in batch) == list(range(len(rows)))
    for batch in batches:
        own = [rows[index] for index in batch]
        shared = shared_lengths(own) if share else [0]
        one_prompt = share and all(shared[1:])
        assert len(batch) == 1 or sum(map(len, own)) - sum(shared) <= budget * (2 if one_prompt else 1)


@given(rows_with_prompts)
def test_a_row_takes_over_what_it_begins_with_if_that_is_half_of_it(rows):
    whole = None
    for one, shared in zip(rows, shared_lengths(rows), strict=True):
        common = 0 if whole is None else min(in_common(whole, one), len(one) - 1)
        assert shared == (common if 2 * common >= len(one) else 0)
        whole = whole if shared else one


def test_rows_of_one_prompt_come_together_and_count_it_once_unless_they_are_longer_than_two_batches():
    rows = [row(*[7] * 10, 1, 2), row(*[5] * 15), row(*[7] * 10, 3, 3, 3)]
    assert pack_end_to_end(rows, 15, share=True) == [[0, 2], [1]]
    assert pack_end_to_end(rows, 15, share=False) == [[0], [2], [1]]
    rows = [row(*[7] * 10, answer) for answer in range(6)]
    assert pack_end_to_end([row(5), *rows], 8, share=True) == [[0], [1, 2, 3, 4, 5, 6]]
    batches = pack_end_to_end(rows, 7, share=True)
    assert batches == [[0, 1, 2, 3], [4, 5]]
    assert [shared_lengths([rows[index] for index in batch]) for batch in batches] == [[0, 10, 10, 10], [0, 10]]


OUT_OF_MEMORY = [
    MemoryError(), torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"),
    torch.AcceleratorError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]  # fmt: skip


class Machine:
    """Doubles numbers as long as their sum fits; else fails as told."""

    def __init__(self, memory, error):
        self.memory, self.error = memory, error
        self.sizes = []

    def run(self, rows):
        self.sizes.append(len(rows))
        if sum(rows) > self.memory:
            raise self.error
        return [2 * row for row in rows]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["python", "cuda", "cpu", "driver", "cublas"])
def test_batch_that_does_not_fit_is_halved(error):
    machine = Machine(memory=6, error=error)
    assert run_halving([3, 3, 3, 3], machine.run) == [6, 6, 6, 6]
    assert machine.sizes == [4, 2, 2]


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 20))
def test_every_row_gets_its_own_outcome(rows, memory):
    outcomes = run_halving(rows, Machine(memory, MemoryError()).run)
    assert [one if isinstance(one, int) else one.reason for one in outcomes] == [
        2 * row if row <= memory else Reason.OUT_OF_MEMORY for row in rows
    ]


def test_other_errors_propagate_and_a_real_allocation_failure_of_torch_is_recognised():
    with pytest.raises(RuntimeError, match="shapes"):
        run_halving([1, 2], Machine(0, RuntimeError("shapes do not match")).run)
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)


# Few different values, so that ties are everywhere.
rows = st.integers(1, 9).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from([0.0, 1e-30, 0.125, 0.5, 1.0]), min_size=width, max_size=width), min_size=1, max_size=4
    )
)


@given(rows, st.integers(1, 12))
def test_best_columns_come_first_and_ties_go_to_the_lower_column(values, top_k):
    columns, scores = reduction.top_columns(torch.tensor(values), top_k)
    for row, found, found_scores in zip(values, columns.tolist(), scores.tolist(), strict=True):
        expected = sorted(range(len(row)), key=lambda column: (-row[column], column))[:top_k]
        assert found == expected
        assert found_scores == torch.tensor(row)[expected].tolist()


def test_masses_of_many_passages_are_summed_from_small_matrices(monkeypatch):
    generator = torch.Generator().manual_seed(3)
    similarity = torch.rand(4, 500, generator=generator)
    column_passage = torch.randint(-1, 90, (500,), generator=generator)
    whole = reduction.passage_mass(similarity, column_passage, 90)
    sizes = []
    membership = reduction._membership

    def measured(columns, passages, like):
        sizes.append(len(columns) * len(passages))
        return membership(columns, passages, like)

    monkeypatch.setattr(reduction, "_membership", measured)
    monkeypatch.setattr(reduction, "_LARGEST_MEMBERSHIP", 5000)
    torch.testing.assert_close(reduction.passage_mass(similarity, column_passage, 90), whole)
    assert len(sizes) == 9
    assert max(sizes) <= 5000


LONG = record([f"The lamp was lit {number} times by the keeper of the tower." for number in range(15)], "He lit it.")


def load(directory, max_tokens=None):
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", max_tokens=max_tokens))


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_shares_are_those_of_the_whole_attention_matrix(tmp_path, kind):
    model = load(save_tiny_model(tmp_path, kind))
    row = model.encode(RECORD)
    request = model.request(row, len(RECORD.passages))
    seen = {}

    def observe(layer, attention):
        seen[layer] = attention.similarity(request.query_positions, len(row.token_ids))

    with observing(observe):
        found = attention_shares(model, RECORD)
    matrix = seen[model.layer - 1].numpy().mean(0)
    prompt = matrix[: row.prompt_length]
    assert found.passages == pytest.approx(prompt[row.column_passage >= 0].sum(), abs=1e-5)
    assert found.outside == pytest.approx(prompt[row.column_passage < 0].sum(), abs=1e-5)
    assert found.rest == pytest.approx(matrix[row.prompt_length :].sum(), abs=1e-5)
    assert found.passage_tokens == np.mean(row.column_passage >= 0)


def test_shares_of_a_row_in_windows_are_the_mean_of_its_windows(tmp_path):
    model = load(save_tiny_model(tmp_path), max_tokens=160)
    row = model.encode(LONG)
    assert len(row.windows) > 1
    alone = [model.attribute([window.row], [len(LONG.passages)])[0] for window in row.windows]
    found = attention_shares(model, LONG)
    assert found.passages == pytest.approx(np.mean([one.passage_mass.sum(1).mean() for one in alone]), abs=1e-5)
    assert found.outside == pytest.approx(np.mean([one.sink_mass.mean() for one in alone]), abs=1e-5)
    assert found.rest > 0


def test_row_that_does_not_fit_is_an_error_of_the_model(tmp_path):
    with pytest.raises(ModelLoadError, match="worked example"):
        attention_shares(load(save_tiny_model(tmp_path), max_tokens=20), LONG)


def with_columns(*columns):
    """Attributions to these columns, best first."""
    return made_attribution([[(column, 1.0) for column in row] for row in columns])


def test_agreement_is_the_share_of_tokens_with_the_same_two_best_columns_in_any_order():
    found = [with_columns((4, 7, 1), (2, 3, 9)), with_columns((0, 5, 6))]
    expected = [with_columns((7, 4, 2), (2, 9, 3)), with_columns((0, 5, 8))]
    assert model_description.top_columns_agreement(found, expected) == pytest.approx(2 / 3)


def test_model_agrees_with_itself_in_float32_and_mostly_in_half_precision(tmp_path):
    options = ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu", dtype="float32")
    assert agreement_with_float32(AttentionModel.from_pretrained(options), options) == 1
    rounded = options.replaced(dtype="bfloat16")
    model = AttentionModel.from_pretrained(rounded)
    assert 0.5 < agreement_with_float32(model, rounded) < 1
    assert is_exact(AttentionModel.from_pretrained(options), options)
    assert not is_exact(model, rounded)
    assert not is_exact(AttentionModel.from_pretrained(options), options.replaced(quantization=Quantization.INT8))


@pytest.mark.parametrize("broken", [None, 0, 2])
def test_a_row_is_not_finite_if_one_of_its_slices_is_not(broken, monkeypatch):
    monkeypatch.setattr(reduction, "MAX_WEIGHTS", 1)
    query, key = torch.ones(1, 4, 2), torch.ones(1, 4, 2)
    if broken is not None:
        query[0, broken] = torch.nan
    attention = reduction.RowAttention(query, key, None, AttentionRule(causal=False, reach=None, scaling=1.0))
    request = reduction.RowRequest(
        torch.arange(3), token_count=4, column_passage=torch.tensor([-1, 0, 1]), passage_count=2
    )
    assert bool(reduction.reduce_row(attention, request, top_k=2).finite) is (broken is None)


def test_layers_that_do_not_know_their_number_are_counted_from_0():
    knows, unnumbered = torch.nn.Identity(), count()
    knows.layer_idx = 7
    assert [reduction.layer_index(one, unnumbered) for one in (torch.nn.Identity(), knows, torch.nn.Identity())] == [
        0,
        7,
        1,
    ]
