"""CTI with numbers worked by hand, and on a small model against the definition."""

from dataclasses import replace

import numpy as np
import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.evaluation.methods.test_language_model_methods import labelled

from attribeam.attribution.language_models.language_model import LanguageModel
from attribeam.attribution.options import ModelOptions
from attribeam.evaluation.methods.language_context import (
    LanguageContext,
    sensitive_spans,
    sensitive_tokens,
)
from attribeam.schemas import CharRange


def test_token_at_mean_plus_one_deviation_is_sensitive():
    # mean 2, deviation sqrt((1 + 1 + 1 + 9) / 4) = sqrt(3): the threshold is 3.73
    assert sensitive_tokens(np.array([1.0, 1.0, 1.0, 5.0])) == [3]
    # mean 2, deviation 2: exactly at the threshold
    assert sensitive_tokens(np.array([0.0, 4.0])) == [1]
    # mean 3, deviation sqrt(6): the threshold is 5.45
    assert sensitive_tokens(np.array([0.0, 6.0, 1.0, 5.0])) == [1]


def test_each_sensitive_token_is_a_span_of_its_own_once():
    characters = [CharRange(4, 6), None, CharRange(0, 3), CharRange(4, 6)]
    spans = sensitive_spans(np.array([9.0, 9.0, 9.0, 9.0]), characters)
    assert spans == (CharRange(0, 3), CharRange(4, 6))
    assert sensitive_spans(np.array([0.0, 9.0, 0.0, 0.0]), characters) == ()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = save_tiny_model(tmp_path_factory.mktemp("tiny"))
    return LanguageModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))


def test_divergences_of_an_answer_are_those_of_the_definition(model):
    record = labelled().record
    found = LanguageContext(record, model).divergences
    own = model.next_token_log_probabilities(model.encode(record))
    other = model.next_token_log_probabilities(model.encode(replace(record, passages=())))
    np.testing.assert_allclose(found, (own.exp() * (own - other)).sum(-1), atol=1e-5)


def test_contrast_is_the_token_that_is_likeliest_without_passages(model):
    record = labelled().record
    other = model.next_token_log_probabilities(model.encode(replace(record, passages=())))
    assert LanguageContext(record, model).contrast_tokens == other.argmax(-1).tolist()


def test_drop_is_the_difference_of_two_log_probabilities_over_the_span(model):
    record = labelled().record
    context, span = LanguageContext(record, model), CharRange(0, 10)
    (own,) = model.token_log_probabilities([model.encode(record)])
    left = (record.passages[0], record.passages[2])
    (without,) = model.token_log_probabilities([model.encode(replace(record, passages=left))])
    tokens = context.tokens_of(span)
    characters = model.encode(record).response_chars
    assert tokens == [place for place, chars in enumerate(characters) if chars is not None and chars.overlaps(span)]
    assert context.drop(span, 1) == pytest.approx((own - without)[tokens].sum(), abs=1e-4)


def test_each_ablation_runs_once(model, monkeypatch):
    rows = []
    real = LanguageModel.token_log_probabilities
    monkeypatch.setattr(
        LanguageModel, "token_log_probabilities", lambda self, some: rows.extend(some) or real(self, some)
    )
    context = LanguageContext(labelled().record, model)
    for passage in (0, 1, 0, 2, 1):
        context.drop(CharRange(0, 10), passage)
        context.drop(CharRange(11, 16), passage)
    assert len(rows) == 4
