"""The baselines: cci, random and oracle by hand and against the definition on a small model, and words."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.language_models.test_decoder import RECORD
from tests.attribution.made_rows import made_row
from tests.attribution.tiny_models import SENTENCES, save_tiny_encoder, save_tiny_model
from tests.report.made_audit import place
from transformers import AutoModelForCausalLM

from attribeam.attribution.language_models import LanguageModel
from attribeam.attribution.methods.method import LoadedModels, MethodSettings, Need
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.methods import (
    LabelledContext,
    OraclePassage,
    RandomPassage,
    chosen_methods,
    evaluation_methods,
)
from attribeam.evaluation.methods.baselines import (
    ContrastiveGradients,
    LanguageContext,
    best_runs,
    contrast_tokens,
    contrastive_saliency,
    language_of,
    match_words,
    sensitive_spans,
    sensitive_tokens,
)
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError

ANSWER = "Ada Thorne built it in 1874."
PASSAGES = (Passage(text=SENTENCES[0], title="Brigg Point"), Passage(text=SENTENCES[1]), Passage(text="A bell buoy."))
SPANS = (CharRange(0, 10), CharRange(23, 27))


def labelled(*, passages=PASSAGES, row=0, spans=SPANS):
    record = QARecord("r", "Who built the lighthouse?", passages, ANSWER, RowSource("f", row), target_spans=spans)
    return LabelledAnswer(record, (frozenset({0}), frozenset({0, 1}))[: len(spans)])


@pytest.fixture(scope="module")
def models(llama):
    return LoadedModels(language=LanguageModel.from_pretrained(ModelOptions(model=str(llama), device="cpu")))


class SaidByHand:
    """A language context with one prompt of seven tokens and saliency written down."""

    # columns: BOS, two tokens of passage 0's title and text, a blank of passage 0, two of passage 1, the question
    columns = ((0, 0), (0, 5), (0, 3), (3, 3), (0, 4), (4, 8), (0, 0))
    encoded = made_row([-1, 0, 0, 0, 1, 1, -1], responses=[(0, 3), (3, 28)], columns=columns, titles=[1])
    table = torch.tensor([[9.0, 5, 4, 3, 1, 0, 0], [0.0, 1, 2, 8, 7, 6, 0]])

    def tokens_of(self, span):
        return [0, 1] if span.char_end > 3 else [0]

    def saliency(self, responses):
        return self.table[list(responses)]


def test_cci_unites_the_three_largest_of_each_token_by_hand():
    context = LabelledContext(labelled(spans=(CharRange(0, 2), CharRange(0, 9))), LoadedModels())
    context._made[language_of] = SaidByHand()
    first, second = ContrastiveGradients(MethodSettings()).span_results(context)
    # token 0 keeps BOS 9, title 5 and text 4: BOS uses up a place and counts for no passage
    assert first.passage_scores == (9.0, 0.0, 0.0)
    # token 1 keeps a blank 8, which is no evidence, and 7 and 6 of passage 1
    assert second.passage_scores == (9.0, 13.0, 0.0)
    found = [(one.passage_index, one.in_title, one.chars, one.score) for one in second.evidence]
    # the text of passage 0 has 4 on "The" alone, which says nothing
    assert found == [(1, False, CharRange(0, 8), 13.0), (0, True, CharRange(0, 5), 5.0)]


def naive_saliency(directory, row, response, contrast):
    """The definition, in float64, on the tokens before the response token and nothing else."""
    model = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager", dtype=torch.float64)
    ids = torch.from_numpy(row.token_ids.astype(np.int64))
    place = row.prompt_length + response
    embedded = model.get_input_embeddings()(ids[None, :place]).detach().requires_grad_()
    log_probabilities = model(inputs_embeds=embedded).logits[0, -1].log_softmax(-1)
    value = log_probabilities[ids[place]] - (0 if contrast == ids[place] else log_probabilities[contrast])
    value.backward()
    return embedded.grad[0, : row.prompt_length].norm(dim=-1)


def naive_scores(directory, encoded, contextless, span):
    """The definition: for every token of the span the three largest gradient norms, summed over each passage."""
    model = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager")
    scores = np.zeros(len(PASSAGES))
    for response, chars in enumerate(encoded.response_chars):
        if chars is None or not chars.overlaps(span):
            continue
        before = len(contextless) - len(encoded.response_chars) + response
        with torch.no_grad():
            other = int(model(input_ids=contextless[None, :before]).logits[0, -1].argmax())
        norms = naive_saliency(directory, encoded, response, other).numpy()
        for column in np.argsort(-norms)[:3]:
            if encoded.column_passage[column] >= 0:
                scores[encoded.column_passage[column]] += norms[column]
    return scores


def test_cci_of_a_model_is_that_of_the_definition(llama, models):
    answer = labelled()
    encoded = models.language.encode(answer.record)
    contextless = models.language.encode(replace(answer.record, passages=())).token_ids.astype(np.int64)
    found = ContrastiveGradients(MethodSettings()).span_results(LabelledContext(answer, models))
    for span, result in zip(SPANS, found, strict=True):
        expected = naive_scores(llama, encoded, torch.from_numpy(contextless), span)
        assert expected.max() > 0
        np.testing.assert_allclose(result.passage_scores, expected, rtol=1e-3)


def test_oracle_names_the_labelled_passages():
    results = OraclePassage().span_results(LabelledContext(labelled(), LoadedModels()))
    assert [result.passage_scores for result in results] == [(1.0, 0.0, 0.0), (1.0, 1.0, 0.0)]


def test_methods_that_need_a_language_model_run_where_they_or_it_are_named():
    available = evaluation_methods(MethodSettings(seed=3))
    assert available["random"] == RandomPassage(seed=3)
    without = [one.name for one in chosen_methods(available, None, with_language_model=False)]
    assert {"words", "random", "oracle", "attn-union"} <= set(without)
    assert "cci" not in without
    assert "cci" in [one.name for one in chosen_methods(available, None, with_language_model=True)]
    assert [one.name for one in chosen_methods(available, ["cci", "cci"], with_language_model=False)] == ["cci"]


def test_encoder_as_language_model_says_the_way_out(tmp_path):
    choice = ModelChoice(model=ModelOptions(model=str(save_tiny_encoder(tmp_path, layer_types=["full_attention"]))))
    with pytest.raises(ModelLoadError, match=r"cci and .* need a causal .*; name one with --language-model"):
        load_models(choice, frozenset({Need.LANGUAGE_MODEL}))


def test_named_language_model_is_loaded_beside_an_encoder(tmp_path, llama):
    encoder = save_tiny_encoder(tmp_path, layer_types=["full_attention"])
    choice = ModelChoice(model=ModelOptions(model=str(encoder)), method=MethodOptions(language_model=str(llama)))
    assert load_models(choice, frozenset({Need.LANGUAGE_MODEL})).language is not None


class WeightedSum:
    """A language model whose logits are W times a sum of embeddings, each times its place's factor."""

    factors = torch.tensor([3.0, 1.0, 2.0, 0.0])
    output = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 5.0]])
    infinite = False

    def embeddings(self, row):
        return torch.ones(1, len(row.token_ids), 2)

    def response_logits(self, rows, *, embeddings):
        (row,) = rows
        hidden = (self.factors[:, None] * embeddings[0]).sum(0) * (float("inf") if self.infinite else 1.0)
        return [(hidden @ self.output.T).expand(len(row.token_ids) - row.prompt_length, -1)]


def test_saliency_is_the_norm_of_the_difference_of_two_logits_gradients():
    # the gradient of logit 0 - logit 1 at place j is factor_j * (3, 4), of length 5 * factor_j
    row = made_row([-1] * 3, responses=1)
    found = contrastive_saliency(WeightedSum(), row, responses=[0], contrast=[1])
    assert found.tolist() == [[15.0, 5.0, 10.0]]


def test_what_stands_behind_the_last_token_is_not_read(tmp_path):
    model = LanguageModel.from_pretrained(ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu"))
    row = model.encode(RECORD)
    read = []
    handle = model._model.register_forward_pre_hook(
        lambda _module, _inputs, named: read.append(named["inputs_embeds"].shape[1]), with_kwargs=True
    )
    found = contrastive_saliency(model, row, responses=[2, 0], contrast=[5, 6])
    handle.remove()
    assert read == [row.prompt_length + 3] < [len(row.token_ids)]
    other = replace(row, token_ids=np.append(row.token_ids[:-1], row.token_ids[0]))
    torch.testing.assert_close(contrastive_saliency(model, other, responses=[2, 0], contrast=[5, 6]), found)


def test_gradient_that_is_not_finite_is_a_fault():
    model = WeightedSum()
    model.infinite = True
    with pytest.raises(RowFault) as fault:
        contrastive_saliency(model, made_row([-1] * 3, responses=1), responses=[0], contrast=[1])
    assert fault.value.reason is Reason.NON_FINITE_ATTENTION


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt2"])
def test_saliency_of_a_model_is_that_of_the_definition(tmp_path, kind):
    directory = save_tiny_model(tmp_path, kind)
    model = LanguageModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))
    row = model.encode(replace(RECORD, answer="In 1874."))
    responses = range(len(row.token_ids) - row.prompt_length)
    own = row.token_ids[row.prompt_length :].tolist()
    contrast = [own[0], *[(token + 5) % 300 for token in own[1:]]]
    found = contrastive_saliency(model, row, responses=responses, contrast=contrast)
    for response in responses:
        expected = naive_saliency(directory, row, response, contrast[response])
        np.testing.assert_allclose(found[response], expected, rtol=1e-3, atol=1e-4 * float(expected.max()))


def test_contrast_is_the_likeliest_token_and_the_lower_of_equals():
    assert contrast_tokens(torch.tensor([[-1.0, -0.5, -2.0], [-1.0, -3.0, -1.0]])) == [1, 0]


def test_token_at_mean_plus_one_deviation_is_labelled():
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


def test_divergences_of_an_answer_are_those_of_the_definition(models):
    model = models.language
    record = labelled().record
    found = LanguageContext(record, model).divergences
    own = model.next_token_log_probabilities(model.encode(record))
    other = model.next_token_log_probabilities(model.encode(replace(record, passages=())))
    np.testing.assert_allclose(found, (own.exp() * (own - other)).sum(-1), atol=1e-5)


def test_each_ablation_runs_once(models, monkeypatch):
    rows = []
    real = LanguageModel.token_log_probabilities
    monkeypatch.setattr(
        LanguageModel, "token_log_probabilities", lambda self, some: rows.extend(some) or real(self, some)
    )
    context = LanguageContext(labelled().record, models.language)
    for passage in (0, 1, 0, 2, 1):
        context.drop(CharRange(0, 10), passage)
        context.drop(CharRange(11, 16), passage)
    assert len(rows) == 4


TOWER = "The tower of Brigg opened in 1874."
TOWERS = [Passage(text="the Tower opened, in 1874"), Passage(text="Brigg opened a tower")]


def test_worked_example_scores_run_length_over_frequency():
    # runs of passage 0: "the tower" and "opened in 1874"; of passage 1: "tower" and "brigg opened";
    # "tower" and "opened" occur twice over all passages, all other words once
    expected = [[2, 0], [2 / 2, 1 / 2], [0, 0], [0, 2], [3 / 2, 2 / 2], [3, 0], [3, 0]]
    assert match_words(TOWER, TOWERS).scores.tolist() == expected


def test_span_sums_its_own_words_only_and_a_title_is_matched_with_its_passage():
    matches = match_words(TOWER, TOWERS)
    assert matches.passage_scores([place("tower of Brigg", TOWER)]) == (1.0, 2.5)
    assert matches.passage_scores([place("opened in 1874", TOWER)]) == (7.5, 1.0)
    matches = match_words("Brigg Point", [Passage(text="a cape", title="Brigg Point"), Passage(text="a bay")])
    assert matches.passage_scores([CharRange(0, 11)]) == (4.0, 0.0)


def test_word_is_highlighted_where_its_longest_run_is():
    passage = Passage(text="A lamp. The keeper lit the lamp at night.")
    (found,) = match_words("Ada lit the lamp", [passage]).matched([CharRange(12, 16)], 0)
    assert found.chars.char_start == passage.text.index("lamp at night")


def naive_best_runs(words, texts):
    best = [[(0, -1)] * len(texts) for _ in words]
    for number, text in enumerate(texts):
        for start, end in combinations(range(len(words) + 1), 2):
            size = end - start
            for begin in range(len(text) - size + 1):
                if text[begin : begin + size] == words[start:end]:
                    for index in range(start, end):
                        here = begin + index - start
                        length, first = best[index][number]
                        if (size, -here) > (length, -first):
                            best[index][number] = (size, here)
    return best


short = st.lists(st.sampled_from("abc"), max_size=8)


@given(short, st.lists(short, min_size=1, max_size=3))
def test_runs_equal_those_of_a_naive_search(words, texts):
    naive = [[list(best) for best in of_word] for of_word in naive_best_runs(words, texts)]
    assert np.stack(best_runs(words, texts), axis=-1).tolist() == naive


def test_each_chinese_character_is_a_word_and_latin_words_stay_whole():
    answer = "灯塔 Brigg 建成"
    matches = match_words(answer, [Passage("Brigg的灯塔很高"), Passage("建成")])
    assert [word.of(answer) for word in matches.words] == ["灯", "塔", "Brigg", "建", "成"]
    assert matches.scores.argmax(axis=1).tolist() == [0, 0, 0, 1, 1]
    assert matches.scores[0, 0] == 2
