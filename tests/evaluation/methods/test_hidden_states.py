"""What the paper's other systems read of their models: hidden states, and which token is attributed to which."""

import numpy as np
import pytest
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.methods.method import AnswerContext, LoadedModels, Need
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.options import ModelOptions
from attribeam.evaluation.methods.unions import attributed_responses, hidden_similarity
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError

PASSAGES = tuple(Passage(text=f"Keeper {number} lived in the tower.") for number in range(3))
RECORD = QARecord("r", "Who?", PASSAGES, "Ada lived there.", RowSource("f", 0))


@pytest.fixture(scope="module")
def model(llama):
    return AttentionModel.from_pretrained(ModelOptions(model=str(llama), device="cpu", loaded_layers=4))


def context_of(model, hidden_layer=None):
    return AnswerContext(RECORD, (), LoadedModels(attention=model, hidden_layer=hidden_layer))


def passes(model, make, **options):
    """What is made of a context, twice, and how many forward passes it took."""
    started, context = [], context_of(model, **options)
    handle = model.network.register_forward_pre_hook(lambda *_: started.append(1))
    try:
        found = context.once(make)
        assert context.once(make) is found
    finally:
        handle.remove()
    return found, len(started)


def test_each_reading_takes_one_forward_pass_for_all_that_ask(model):
    for make in (hidden_similarity, attributed_responses, lambda context: context.attention):
        assert passes(model, make)[1] == 1


def test_hidden_states_above_the_captured_layer_are_those_of_their_layer(model):
    above, count = passes(model, hidden_similarity, hidden_layer=4)
    below, _ = passes(model, hidden_similarity, hidden_layer=2)
    assert count == 1
    assert above.top_columns(3).top_scores.shape == below.top_columns(3).top_scores.shape
    assert not np.allclose(above.top_columns(3).top_scores, below.top_columns(3).top_scores)


def test_row_longer_than_the_context_is_read_window_by_window(llama, model):
    length = len(model.encode(RECORD).token_ids)
    short = AttentionModel.from_pretrained(ModelOptions(model=str(llama), device="cpu", max_tokens=length - 8))
    context = context_of(short)
    row = context.encoded
    assert len(row.windows) > 1
    responses = len(row.token_ids) - row.prompt_length
    assert context.once(attributed_responses).shape == (responses, responses)
    scores = context.once(hidden_similarity).best_windows(np.ones((1, responses), dtype=np.bool_), window=8)
    assert (scores.cosines > -1).all()
    assert [set(row.column_passage[columns]) for columns in scores.columns[0]] == [{0}, {1}, {2}]


def test_a_method_that_asks_for_what_it_does_not_need_is_told_so():
    with pytest.raises(RuntimeError, match="asked for attention, but does not say that it needs it"):
        AnswerContext(RECORD, (), LoadedModels()).once(hidden_similarity)


def test_model_whose_layers_cannot_be_found_is_refused_where_hidden_states_are_needed(tmp_path):
    directory = save_tiny_model(tmp_path, "albert")
    choice = ModelChoice(model=ModelOptions(model=str(directory), device="cpu"))
    assert load_models(choice, frozenset({Need.ATTENTION})).attention is not None
    with pytest.raises(ModelLoadError, match="layers in one list, but AlbertModel does not, so its hidden states"):
        load_models(choice, frozenset({Need.HIDDEN_STATES}))


def test_layers_up_to_that_of_the_hidden_states_are_loaded(llama):
    choice = ModelChoice(model=ModelOptions(model=str(llama), layer=1, device="cpu"))
    loaded = load_models(choice, frozenset({Need.HIDDEN_STATES})).attention
    assert loaded.network.config.num_hidden_layers == 2
