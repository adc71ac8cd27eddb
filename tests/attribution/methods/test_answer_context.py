import numpy as np
import pytest
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.methods.answer_context import take_internals
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError

EVERYTHING = frozenset({Need.PARSER, Need.ATTENTION, Need.RESPONSE_ATTENTION, Need.HIDDEN_STATES})
PASSAGES = tuple(Passage(text=f"Keeper {number} lived in the tower.") for number in range(3))
RECORD = QARecord("r", "Who?", PASSAGES, "Ada lived there.", RowSource("f", 0))


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(directory):
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", loaded_layers=4))


def passes(model, needs, **options):
    """The internals, and how many forward passes they took."""
    started = []
    handle = model.network.register_forward_pre_hook(lambda *_: started.append(1))
    found = take_internals(
        model, model.encode(RECORD), passage_count=3, needs=needs, **({"hidden_layer": None} | options)
    )
    handle.remove()
    return found, len(started)


def test_one_forward_pass_gives_attention_response_attention_and_hidden_states(model):
    found, count = passes(model, EVERYTHING)
    assert count == 1
    assert None not in (found.attention, found.hidden)
    assert found.attributed.dtype == np.bool_


def test_attention_is_that_of_the_audit_whatever_else_is_taken(model):
    found, _ = passes(model, EVERYTHING)
    (expected,) = model.attribute([model.encode(RECORD)], [3])
    np.testing.assert_array_equal(found.attention.top_columns, expected.top_columns)
    np.testing.assert_array_equal(found.attention.top_scores, expected.top_scores)


def test_hidden_states_above_the_captured_layer_take_a_second_pass(model):
    found, count = passes(model, EVERYTHING, hidden_layer=4)
    assert count == 2
    assert found.hidden is not None


def test_hidden_states_alone_take_one_pass_without_attention(model):
    found, count = passes(model, frozenset({Need.HIDDEN_STATES}))
    assert (count, found.attention) == (1, None)
    shared, _ = passes(model, EVERYTHING)
    alone = found.hidden.top_columns(3)
    np.testing.assert_allclose(alone.top_scores, shared.hidden.top_columns(3).top_scores, atol=1e-5)


def test_nothing_that_is_not_needed_is_taken(model):
    found, count = passes(model, frozenset({Need.ATTENTION}))
    assert (count, found.attributed, found.hidden) == (1, None, None)
    assert passes(model, frozenset({Need.PARSER}))[1] == 0


def test_row_longer_than_the_context_is_taken_window_by_window(directory, model):
    length = len(model.encode(RECORD).token_ids)
    short = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", max_tokens=length - 8))
    row = short.encode(RECORD)
    assert len(row.windows) > 1
    found = take_internals(short, row, passage_count=3, needs=EVERYTHING, hidden_layer=None)
    (expected,) = short.attribute([row], [3])
    assert isinstance(expected, TokenAttribution)
    np.testing.assert_allclose(found.attention.top_scores, expected.top_scores, atol=1e-5)
    responses = len(row.token_ids) - row.prompt_length
    assert found.attributed.shape == (responses, responses)
    scores = found.hidden.best_windows(np.ones((1, responses), dtype=np.bool_), window=8)
    assert (scores.cosines > -1).all()
    assert [set(row.column_passage[columns]) for columns in scores.columns[0]] == [{0}, {1}, {2}]


def test_row_without_memory_is_a_fault_of_the_row(model, monkeypatch):
    def no_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr("attribeam.attribution.attention.hidden_states.hidden_states", no_memory)
    with pytest.raises(RowFault) as fault:
        passes(model, frozenset({Need.HIDDEN_STATES}), hidden_layer=4)
    assert fault.value.reason is Reason.OUT_OF_MEMORY


def test_hidden_layer_that_the_model_does_not_have_is_refused_before_loading(directory):
    choice = ModelChoice(model=ModelOptions(model=str(directory), device="cpu"), hidden_layer=5)
    with pytest.raises(ModelLoadError, match="--hidden-layer should be from 0 to the model's 4 layers, was: 5"):
        load_models(choice, frozenset({Need.HIDDEN_STATES}))


def test_model_whose_layers_cannot_be_found_is_refused_where_hidden_states_are_needed(tmp_path):
    directory = save_tiny_model(tmp_path, "albert")
    choice = ModelChoice(model=ModelOptions(model=str(directory), device="cpu"))
    assert load_models(choice, frozenset({Need.ATTENTION})).attention is not None
    with pytest.raises(ModelLoadError, match="layers in one list, but AlbertModel does not, so its hidden states"):
        load_models(choice, frozenset({Need.HIDDEN_STATES}))


def test_layers_up_to_that_of_the_hidden_states_are_loaded(directory):
    choice = ModelChoice(model=ModelOptions(model=str(directory), layer=1, device="cpu"))
    loaded = load_models(choice, frozenset({Need.HIDDEN_STATES})).attention
    assert loaded.network.config.num_hidden_layers == 2
