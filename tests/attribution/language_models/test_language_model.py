"""Token log-probabilities against transformers itself, and models that predict no next token."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.attribution.tiny_models import SENTENCES, VOCABULARY_SIZE, save_tiny_bert, save_tiny_encoder, save_tiny_model
from transformers import AutoModel, AutoModelForCausalLM

from attribeam.attribution.language_models.language_model import LanguageModel, NotCausalError, ablated_row
from attribeam.attribution.options import ModelOptions
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError

RECORD = QARecord(
    "r",
    "Who built the lighthouse?",
    (Passage(text=SENTENCES[0], title="Brigg Point"), Passage(text=SENTENCES[1]), Passage(text="A bell buoy.")),
    "Ada Thorne built it in 1874.",
    RowSource("f", 0),
)


def load(directory, **options) -> LanguageModel:
    return LanguageModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", **options))


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(directory):
    return load(directory)


def plain_log_probabilities(directory, row):
    """The definition, on one row, with nothing left out."""
    plain = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager")
    ids = torch.from_numpy(row.token_ids.astype(np.int64))
    with torch.no_grad():
        distributions = plain(input_ids=ids[None]).logits[0].float().log_softmax(-1)
    places = range(row.prompt_length, len(ids))
    return np.array([distributions[place - 1, ids[place]].item() for place in places])


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt2", "mistral"])
def test_log_probabilities_of_padded_rows_are_those_of_each_row_alone(tmp_path, kind):
    directory = save_tiny_model(tmp_path, kind)
    model = load(directory)
    rows = [model.encode(RECORD), model.encode(replace(RECORD, passages=RECORD.passages[:1], answer="In 1874."))]
    for row, found in zip(rows, model.token_log_probabilities(rows), strict=True):
        np.testing.assert_allclose(found, plain_log_probabilities(directory, row), atol=2e-5)


def test_next_token_distributions_hold_the_tokens_log_probabilities(model):
    row = model.encode(RECORD)
    distributions = model.next_token_log_probabilities(row)
    assert distributions.shape == (len(row.token_ids) - row.prompt_length, VOCABULARY_SIZE)
    np.testing.assert_allclose(distributions.exp().sum(-1), 1, atol=1e-5)
    (expected,) = model.token_log_probabilities([row])
    chosen = distributions[torch.arange(len(expected)), torch.from_numpy(row.token_ids[row.prompt_length :]).long()]
    np.testing.assert_allclose(chosen, expected, atol=1e-5)


def test_row_that_does_not_fit_leaves_its_neighbours_alone(model, monkeypatch):
    rows = [model.encode(RECORD), model.encode(replace(RECORD, passages=RECORD.passages[:1]))]
    real, longest = LanguageModel.response_logits, len(rows[0].token_ids)

    def limited(self, some, **options):
        if max(len(row.token_ids) for row in some) >= longest:
            raise MemoryError
        return real(self, some, **options)

    monkeypatch.setattr(LanguageModel, "response_logits", limited)
    fault, found = model.token_log_probabilities(rows)
    assert isinstance(fault, RowFault)
    assert fault.reason is Reason.OUT_OF_MEMORY
    assert np.isfinite(found).all()
    with pytest.raises(RowFault, match="memory"):
        model.next_token_log_probabilities(rows[0])


def test_ablated_row_is_the_prompt_rendered_anew_before_the_same_answer(model):
    whole = model.encode(RECORD)
    found = ablated_row(model, RECORD, kept={0, 2}, response_of=whole)
    expected = model.encode(replace(RECORD, passages=(RECORD.passages[0], RECORD.passages[2])))
    np.testing.assert_array_equal(found.token_ids, expected.token_ids)
    np.testing.assert_array_equal(found.column_passage, expected.column_passage)
    np.testing.assert_array_equal(found.response_char_start, whole.response_char_start)


def test_ablated_row_may_keep_no_passage(model):
    whole = model.encode(RECORD)
    row = ablated_row(model, RECORD, kept=(), response_of=whole)
    assert set(row.column_passage.tolist()) == {-1}
    np.testing.assert_array_equal(row.token_ids[row.prompt_length :], whole.token_ids[whole.prompt_length :])


def test_ablated_row_of_an_unknown_passage_is_an_error(model):
    with pytest.raises(ValueError, match=r"should lie in \[0, 3\), were: \[3\]"):
        ablated_row(model, RECORD, kept={3}, response_of=model.encode(RECORD))


def test_generated_answer_is_greedy_and_of_the_passages_alone(model, directory):
    answer = model.generate(RECORD, max_new_tokens=5)
    assert answer == model.generate(replace(RECORD, answer="Something else."), max_new_tokens=5)
    prompt = model.encode(replace(RECORD, answer="?"))
    ids = prompt.token_ids[: prompt.prompt_length].astype(np.int64).tolist()
    plain = AutoModelForCausalLM.from_pretrained(directory)
    with torch.no_grad():
        for _ in range(5):
            ids.append(int(plain(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    assert answer == model._tokenizer.decode(ids[prompt.prompt_length :]).strip()


def test_generation_settings_of_the_model_do_not_change_the_answer(tmp_path, model):
    directory = save_tiny_model(tmp_path)
    own = {"do_sample": True, "temperature": 0.7, "top_k": 3, "repetition_penalty": 5.0, "no_repeat_ngram_size": 1}
    path = directory / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | own), encoding="utf-8")
    assert load(directory).generate(RECORD, max_new_tokens=12) == model.generate(RECORD, max_new_tokens=12)


def test_generated_answer_ends_with_the_context(tmp_path):
    model = load(save_tiny_model(tmp_path, "gpt2"), max_tokens=100)
    prompt = model.encode(replace(RECORD, answer="?"))
    room = 100 - prompt.prompt_length
    assert model.generate(RECORD) == model.generate(RECORD, max_new_tokens=room)
    assert model.generate(RECORD) != model.generate(RECORD, max_new_tokens=room - 5)


def test_distributions_that_are_no_numbers_are_a_fault(model, monkeypatch):
    row = model.encode(RECORD)
    monkeypatch.setattr(model, "response_logits", lambda _: [torch.full((len(row.response_chars), 3), torch.nan)])
    with pytest.raises(RowFault) as fault:
        model.next_token_log_probabilities(row)
    assert fault.value.reason is Reason.NON_FINITE_ATTENTION


def test_row_that_is_too_long_is_refused(directory):
    with pytest.raises(RowFault) as fault:
        load(directory, max_tokens=20).encode(RECORD)
    assert fault.value.reason is Reason.TOO_MANY_TOKENS


def test_prompt_without_a_token_before_the_answer_is_refused(tmp_path):
    directory = save_tiny_model(tmp_path)
    tokenizer = json.loads((directory / "tokenizer.json").read_text(encoding="utf-8"))
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer | {"post_processor": None}), encoding="utf-8")
    template = tmp_path / "template.json"
    template.write_text('{"question": "{question}"}')
    model = load(directory, prompt_template=str(template))
    with pytest.raises(RowFault, match="should precede the answer"):
        model.encode(replace(RECORD, question="", passages=()))


def test_encoder_is_no_causal_language_model(tmp_path):
    directory = save_tiny_encoder(tmp_path, layer_types=["full_attention"])
    with pytest.raises(NotCausalError, match=r"should be a causal language model, is an encoder \(modernbert\)"):
        load(directory)


def test_masked_language_model_with_a_causal_class_is_refused_because_it_sees_later_tokens(tmp_path):
    with pytest.raises(NotCausalError, match="sees later tokens"):
        load(save_tiny_bert(tmp_path))


def test_model_saved_without_its_language_model_head_is_refused(tmp_path, directory):
    save_tiny_model(tmp_path)
    AutoModel.from_pretrained(directory).save_pretrained(tmp_path)
    with pytest.raises(NotCausalError, match=r"lacks 1: lm_head\.weight"):
        load(tmp_path)


def test_missing_directory_is_named(tmp_path):
    with pytest.raises(ModelLoadError, match=r"none' should be a directory with config\.json"):
        load(tmp_path / "none")


def test_probabilities_that_are_not_finite_fail_before_the_run(tmp_path):
    directory = save_tiny_model(tmp_path, scale=1e38)
    with pytest.raises(ModelLoadError, match="NaN or infinity"):
        load(directory)
