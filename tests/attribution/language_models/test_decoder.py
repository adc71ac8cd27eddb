"""Decoders beside the model: states up to one layer, token log-probabilities, and what predicts no next token."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.attribution.attention.test_end_to_end_attention import BORDER, PHI3
from tests.attribution.tiny_models import (
    DECODERS,
    SENTENCES,
    VOCABULARY_SIZE,
    edit_json,
    save_model_of,
    save_tiny_bert,
    save_tiny_encoder,
    save_tiny_model,
)
from transformers import AutoModel, AutoModelForCausalLM

from attribeam.attribution.attention.batching import RowLayout
from attribeam.attribution.attention.hidden_states import layer_modules
from attribeam.attribution.language_models import Decoder, LanguageModel, NotCausalError, ablated_row
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.models.weight_files import weights_digest
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.verdict.fitted_parts import decoder_identity
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError

LAYER = 2
PASSAGES = (Passage(text=SENTENCES[0], title="Brigg Point"), Passage(text=SENTENCES[1]))
RECORD = QARecord("r", "Who built the lighthouse?", PASSAGES, "Ada Thorne built it in 1874.", RowSource("f", 0))
RECORDS = (
    RECORD,
    replace(RECORD, answer="Ada Thorne built it in 1875, and nobody helped her."),  # shares even words of the answer
    replace(RECORD, passages=RECORD.passages[:1], answer="In 1874."),
    replace(RECORD, answer="Nobody."),
)
PADDED_KINDS = ("llama4", "qwen3_next", "falcon_h1")
"""Their layers see chunks or carry a state along the sequence, so their rows are padded."""


def load(directory, *, layer=LAYER, **options):
    return Decoder.from_pretrained(ModelOptions(model=str(directory), device="cpu", **options), layer=layer)


def states(decoder, rows):
    found = dict(decoder.response_states(rows))
    assert not any(isinstance(one, RowFault) for one in found.values())
    return [found[place] for place in range(len(rows))]


def transformers_states(whole, row, layer):
    ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
    with torch.no_grad():
        return whole(input_ids=ids, output_hidden_states=True).hidden_states[layer][0, row.prompt_length :]


def assert_close(found, expected, share=5e-05):
    """Each token's states differ by at most this share of their norm."""
    assert found.shape == expected.shape
    assert bool(((found - expected).norm(dim=-1) <= share * expected.norm(dim=-1)).all())


@pytest.fixture(scope="module")
def decoder(llama):
    return load(llama)


@pytest.mark.parametrize("kind", DECODERS)
def test_states_of_a_batch_are_those_of_transformers_for_each_row(kind, tmp_path):
    decoder = load(save_tiny_model(tmp_path, kind))
    whole = AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    rows = [decoder.encode(one) for one in RECORDS]
    assert sum(len(row.token_ids) for row in rows) < decoder.token_budget
    for row, found in zip(rows, states(decoder, rows), strict=True):
        assert found.dtype == torch.float32
        assert_close(found, transformers_states(whole, row, LAYER))
    assert decoder.layout is (RowLayout.PADDED if kind in PADDED_KINDS else RowLayout.END_TO_END)


@pytest.mark.parametrize("kind", ["llama", "llama4"])
def test_row_has_in_half_precision_the_states_that_it_has_alone(kind, tmp_path):
    decoder = load(save_tiny_model(tmp_path, kind), dtype="bfloat16")
    rows = [decoder.encode(one) for one in RECORDS]
    for row, found in zip(rows, states(decoder, rows), strict=True):
        assert_close(found, states(decoder, [row])[0], 0.05)


@pytest.mark.parametrize("layer", [0, 1, 4])
def test_any_layer_may_be_read_from_the_embeddings_to_the_last(llama, layer):
    decoder = load(llama, layer=layer)
    whole = AutoModel.from_pretrained(llama, attn_implementation="eager").eval()
    taken = []
    below = whole.layers[layer - 1] if layer else whole.embed_tokens  # its output, before the final norm
    below.register_forward_hook(lambda *given: taken.append(given[2]))
    row = decoder.encode(RECORD)
    transformers_states(whole, row, 0)
    assert_close(states(decoder, [row])[0], taken[0][0, row.prompt_length :])


def test_nothing_above_the_layer_is_loaded(llama, decoder):
    assert len(layer_modules(decoder._network)) == LAYER
    whole = LanguageModel.from_pretrained(ModelOptions(model=str(llama), device="cpu"))
    assert len(layer_modules(whole.network)) == 4
    names = {name for name, _ in decoder._network.named_parameters()}
    assert not any("lm_head" in name or f"layers.{LAYER}." in name for name in names)
    assert any(f"layers.{LAYER - 1}." in name for name in names)


def test_decoder_is_identified_as_the_whole_language_model_is(llama, decoder):
    whole = LanguageModel.from_pretrained(ModelOptions(model=str(llama), device="cpu")).provenance()
    found = decoder.provenance()
    assert {name: found[name] for name in whole} == whole
    weights = weights_digest(read_model_directory(ModelOptions(model=str(llama))), layer=LAYER)
    assert decoder_identity(found) == {
        "language_model_weights": weights,
        "language_model_prompt_template": whole["language_model_prompt_template"],
    }
    assert (found["language_model_layer"], found["language_model_row_layout"]) == (str(LAYER), "end_to_end")


def test_whole_language_model_lends_its_layers_and_stays_as_it_is(llama, decoder):
    whole = LanguageModel.from_pretrained(ModelOptions(model=str(llama), device="cpu"))
    rows = [whole.encode(one) for one in RECORDS]
    before = whole.token_log_probabilities(rows)
    lent = Decoder.of_language_model(whole, layer=LAYER)
    assert lent._network is whole.network
    assert lent.layout is RowLayout.PADDED
    for found, expected in zip(states(lent, rows), states(decoder, rows), strict=True):
        assert_close(found, expected)
    for found, expected in zip(whole.token_log_probabilities(rows), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_layer_that_the_model_lacks_is_refused(llama):
    with pytest.raises(ModelLoadError, match="from 0 to 4, was: 5"):
        load(llama, layer=5)


def test_row_that_is_not_finite_is_a_fault_and_its_neighbours_are_read_alone(decoder, monkeypatch):
    rows = [decoder.encode(one) for one in RECORDS]
    shortest = min(len(row.token_ids) for row in rows)
    expected, real = states(decoder, rows), Decoder._states

    def spreading(self, some):
        found = real(self, some)
        broken = any(len(row.token_ids) == shortest for row in some)
        return [torch.full_like(one, torch.nan) for one in found] if broken else found

    monkeypatch.setattr(Decoder, "_states", spreading)
    found = dict(decoder.response_states(rows))
    for place, row in enumerate(rows):
        one = found[place]
        if len(row.token_ids) == shortest:
            assert one.reason is Reason.NON_FINITE_ATTENTION
        else:
            assert_close(one, expected[place])


def test_long_row_has_windows_and_one_whose_passage_is_too_long_is_refused(llama, decoder):
    length = max(len(decoder.encode(replace(RECORD, passages=(one,))).token_ids) for one in RECORD.passages)
    assert not decoder.encode(RECORD).windows
    assert len(load(llama, max_tokens=length).encode(RECORD).windows) == 2
    with pytest.raises(RowFault) as fault:
        load(llama, max_tokens=20).encode(RECORD)
    assert fault.value.reason is Reason.TOO_MANY_TOKENS


LM_RECORD = replace(RECORD, passages=(*RECORD.passages, Passage(text="A bell buoy.")))


def load_lm(directory, **options):
    return LanguageModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", **options))


@pytest.fixture(scope="module")
def model(llama):
    return load_lm(llama)


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
    model = load_lm(directory)
    shorter = replace(LM_RECORD, passages=LM_RECORD.passages[:1], answer="In 1874.")
    rows = [model.encode(one) for one in (LM_RECORD, shorter)]
    for row, found in zip(rows, model.token_log_probabilities(rows), strict=True):
        np.testing.assert_allclose(found, plain_log_probabilities(directory, row), atol=2e-5)


def test_log_probabilities_of_longrope_rows_do_not_depend_on_longer_neighbours(tmp_path):
    model = load_lm(save_model_of(tmp_path, PHI3))
    rows = [model.encode(replace(LM_RECORD, passages=LM_RECORD.passages[:1] * count)) for count in (1, 8)]
    assert len(rows[0].token_ids) < BORDER < len(rows[1].token_ids)
    for row, found in zip(rows, model.token_log_probabilities(rows), strict=True):
        np.testing.assert_allclose(found, plain_log_probabilities(tmp_path, row), atol=2e-5)


def test_next_token_distributions_hold_the_tokens_log_probabilities(model):
    row = model.encode(LM_RECORD)
    distributions = model.next_token_log_probabilities(row)
    assert distributions.shape == (len(row.token_ids) - row.prompt_length, VOCABULARY_SIZE)
    np.testing.assert_allclose(distributions.exp().sum(-1), 1, atol=1e-5)
    (expected,) = model.token_log_probabilities([row])
    chosen = distributions[torch.arange(len(expected)), torch.from_numpy(row.token_ids[row.prompt_length :]).long()]
    np.testing.assert_allclose(chosen, expected, atol=1e-5)


def test_row_that_does_not_fit_leaves_its_neighbours_alone(model, monkeypatch):
    rows = [model.encode(LM_RECORD), model.encode(replace(LM_RECORD, passages=LM_RECORD.passages[:1]))]
    real, longest = LanguageModel.response_logits, len(rows[0].token_ids)

    def limited(self, some, **options):
        if max(len(row.token_ids) for row in some) >= longest:
            raise MemoryError
        return real(self, some, **options)

    monkeypatch.setattr(LanguageModel, "response_logits", limited)
    fault, found = model.token_log_probabilities(rows)
    assert fault.reason is Reason.OUT_OF_MEMORY
    assert np.isfinite(found).all()
    with pytest.raises(RowFault, match="memory"):
        model.next_token_log_probabilities(rows[0])


def test_ablated_row_is_the_prompt_rendered_anew_before_the_same_answer(model):
    whole = model.encode(LM_RECORD)
    found = ablated_row(model, LM_RECORD, kept={0, 2}, response_of=whole)
    expected = model.encode(replace(LM_RECORD, passages=(LM_RECORD.passages[0], LM_RECORD.passages[2])))
    np.testing.assert_array_equal(found.token_ids, expected.token_ids)
    np.testing.assert_array_equal(found.column_passage, expected.column_passage)
    np.testing.assert_array_equal(found.response_char_start, whole.response_char_start)


def test_generated_answer_is_greedy_and_of_the_passages_alone(model, llama):
    answer = model.generate(LM_RECORD, max_new_tokens=5)
    assert answer == model.generate(replace(LM_RECORD, answer="Something else."), max_new_tokens=5)
    prompt = model.encode(replace(LM_RECORD, answer="?"))
    ids = prompt.token_ids[: prompt.prompt_length].astype(np.int64).tolist()
    plain = AutoModelForCausalLM.from_pretrained(llama)
    with torch.no_grad():
        for _ in range(5):
            ids.append(int(plain(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    assert answer == model._tokenizer.decode(ids[prompt.prompt_length :]).strip()


def test_generation_settings_of_the_model_do_not_change_the_answer(tmp_path, model):
    directory = save_tiny_model(tmp_path)
    own = {"do_sample": True, "temperature": 0.7, "top_k": 3, "repetition_penalty": 5.0, "no_repeat_ngram_size": 1}
    edit_json(directory / "generation_config.json", **own)
    assert load_lm(directory).generate(LM_RECORD, max_new_tokens=12) == model.generate(LM_RECORD, max_new_tokens=12)


def test_distributions_that_are_no_numbers_are_a_fault(model, monkeypatch):
    row = model.encode(LM_RECORD)
    monkeypatch.setattr(model, "response_logits", lambda _: [torch.full((len(row.response_chars), 3), torch.nan)])
    with pytest.raises(RowFault) as fault:
        model.next_token_log_probabilities(row)
    assert fault.value.reason is Reason.NON_FINITE_ATTENTION


def test_prompt_without_a_token_before_the_answer_is_refused(tmp_path):
    directory = save_tiny_model(tmp_path)
    edit_json(directory / "tokenizer.json", post_processor=None)
    template = tmp_path / "template.json"
    template.write_text('{"question": "{question}"}')
    model = load_lm(directory, prompt_template=str(template))
    with pytest.raises(RowFault, match="should precede the answer"):
        model.encode(replace(LM_RECORD, question="", passages=()))


@pytest.mark.parametrize("loaded", [load, load_lm])
def test_what_sees_later_tokens_or_is_not_finite_is_refused_before_the_run(tmp_path, loaded):
    with pytest.raises(NotCausalError, match="sees later tokens"):
        loaded(save_tiny_bert(tmp_path / "bert"))
    with pytest.raises(ModelLoadError, match="NaN or infinity"):
        loaded(save_tiny_model(tmp_path / "large", scale=1e38))


def test_model_saved_without_its_language_model_head_is_refused(tmp_path, llama):
    save_tiny_model(tmp_path)
    AutoModel.from_pretrained(llama).save_pretrained(tmp_path)
    with pytest.raises(NotCausalError, match=r"lacks 1: lm_head\.weight"):
        load_lm(tmp_path)


def test_encoder_is_no_decoder(tmp_path):
    with pytest.raises(NotCausalError, match="is an encoder"):
        load(save_tiny_encoder(tmp_path, layer_types=["full_attention"] * 4))
