from collections import namedtuple

import numpy as np
import pytest
import torch
from tests.attribution.made_rows import made_row
from tests.attribution.methods.hand_parser import ANSWER, PARSED, PARSER
from tests.attribution.tiny_models import save_tiny_model
from tests.evaluation.methods import naive_paper
from tests.evaluation.methods.naive_paper import algorithm_1, augmented, document_columns, top_k
from tests.report.made_audit import place
from transformers import AutoModel

from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.evidence.union import UnionScores
from attribeam.attribution.methods.method import (
    AnswerContext,
    AttentionUnion,
    LoadedModels,
    MethodSettings,
    Need,
    PassageScore,
)
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.options import ATTN_UNION, UNIONS, ModelOptions
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.measures.accuracy import run_methods, score_methods
from attribeam.evaluation.methods import LabelledContext, evaluation_methods
from attribeam.evaluation.methods.baselines import FactWords, SentenceWords, SpanWords
from attribeam.evaluation.methods.unions import attributed_responses, hidden_similarity, passage_scores
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError

PASSAGES = (Passage(text="jon dances"), Passage(text="sings"), Passage(text="bells"), Passage(text="no match"))


def labelled_span(*texts, gold=0, row=0):
    spans = tuple(place(text, ANSWER) for text in texts)
    record = QARecord("r", "Who?", PASSAGES, ANSWER, RowSource("f", row), target_spans=spans)
    return LabelledAnswer(record, (frozenset({gold}),) * len(spans))


def scores(method, span):
    return method.span_results(LabelledContext(labelled_span(span), LoadedModels(parser=PARSER)))[0].passage_scores


def test_words_dep_adds_the_atomic_fact_of_the_span_and_words_sent_is_the_whole_sentence_and_no_other():
    assert scores(FactWords(MethodSettings()), "Jon") == (4.0, 0.0, 0.0, 0.0)
    assert scores(SentenceWords(MethodSettings()), "Ada") == (4.0, 1.0, 0.0, 0.0)
    assert scores(SentenceWords(MethodSettings()), "ring") == (0.0, 0.0, 1.0, 0.0)


def highlighted(method, span):
    (result,) = method.span_results(LabelledContext(labelled_span(span), LoadedModels(parser=PARSER)))
    return [(one.passage_index, one.chars.of(PASSAGES[one.passage_index].text)) for one in result.evidence]


def test_word_methods_highlight_their_matches_in_the_chosen_passage_only():
    assert highlighted(SpanWords(MethodSettings()), "Ada sings") == [(1, "sings")]
    assert highlighted(FactWords(MethodSettings()), "Jon") == [(0, "jon"), (0, "dances")]
    assert highlighted(SentenceWords(MethodSettings()), "Ada") == [(0, "jon"), (0, "dances")]


def test_difference_to_words_is_paired_by_row():
    answers = [labelled_span("Jon", "Ada", gold=0), labelled_span("ring", gold=2, row=1)]
    methods = [SpanWords(MethodSettings()), SentenceWords(MethodSettings())]
    tallies = run_methods(answers, methods, LoadedModels(parser=PARSER))
    words, sentences = score_methods(tallies, draws=100, seed=1)
    assert (words.passage_accuracy, words.spans, words.rows) == (pytest.approx(100 / 3), 3, 2)
    assert words.spans_without_evidence == 2
    assert words.difference_to_words is None
    assert sentences.passage_accuracy == 100.0
    assert sentences.difference_to_words == pytest.approx(200 / 3)
    assert sentences.difference_interval.low <= 200 / 3 <= sentences.difference_interval.high


@pytest.fixture(scope="module")
def model(llama):
    return AttentionModel.from_pretrained(ModelOptions(model=str(llama), device="cpu", loaded_layers=4))


class CountingModel:
    """Passes everything on to a model and counts its forward passes."""

    def __init__(self, model):
        self.model, self.forward_passes = model, 0

    def __getattr__(self, name):
        return getattr(self.model, name)

    def attribute(self, rows, passage_counts):
        self.forward_passes += 1
        return self.model.attribute(rows, passage_counts)


def test_attention_methods_share_one_forward_pass(model):
    counting = CountingModel(model)
    methods = [AttentionUnion(method, MethodSettings()) for method in UNIONS]
    run_methods([labelled_span("Jon", "ring")], methods, LoadedModels(PARSER, counting))
    assert counting.forward_passes == 1


def test_row_that_the_model_refuses_counts_as_wrong_and_is_said(model):
    record = QARecord("r", "Who?", (Passage(text="far " * 600),), ANSWER, RowSource("f", 7), (CharRange(0, 3),))
    refused = LabelledAnswer(record, (frozenset({0}),))
    methods = [AttentionUnion(ATTN_UNION, MethodSettings()), SpanWords(MethodSettings())]
    union, words = run_methods([refused], methods, LoadedModels(PARSER, model))
    assert (union.credits, union.spans_without_evidence) == ([0.0], 1)
    assert [(failed.row, failed.reason) for failed in union.failed] == [(7, "too_many_tokens")]
    assert words.failed == []


def test_method_that_hides_its_need_of_a_model_is_an_error():
    with pytest.raises(RuntimeError, match="asked for attention, but does not say that it needs it"):
        scores(AttentionUnion(ATTN_UNION, MethodSettings()), "Jon")
    with pytest.raises(RuntimeError, match="asked for attention, but does not say that it needs it"):
        AnswerContext(RECORD, (), LoadedModels()).once(hidden_similarity)


# two unions: the first has six tokens of passage 0 and one of passage 1, the second one token of passage 2
ROW = made_row([-1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2], responses=1)
SCORES = UnionScores(
    unions=np.array([0] * 7 + [1]),
    columns=np.array([1, 2, 3, 4, 5, 6, 8, 14]),
    scores=np.array([0.6, 0.1, 0.5, 0.4, 0.3, 0.2, 1.0, 0.8]),
    evidence_isolated=[False, False],
)


def test_top5_mean_leaves_the_sixth_token_out_and_counts_tokens_without_evidence_as_0():
    found = passage_scores(SCORES, encoded=ROW, passage_count=3, rule=PassageScore.TOP5_MEAN)
    # passage 2 has two tokens only
    assert found.tolist() == [[pytest.approx(2.0 / 5), pytest.approx(0.2), 0.0], [0.0, 0.0, pytest.approx(0.4)]]


PAPER_PASSAGES = (
    Passage(text="Jon dances when Ada sings in the tower, and the keeper lived there.", title="Lamp"),
    Passage(text="Bells ring."),
    Passage(text="Ada Thorne built it; a lamp was seen from twelve miles away."),
)
SPANS = tuple(place(text, ANSWER) for text in ("Ada", "Jon dances", "Bells"))
SENTENCES = (CharRange(0, 25), CharRange(26, 37))


# one row through transformers' own eager model: S, attention among response tokens, states of layer 2
Inside = namedtuple("Inside", ["encoded", "similarity", "among_response", "states"])


@pytest.fixture(scope="module", params=["llama", "bert", "modernbert"])
def both(request, tmp_path_factory):
    directory = save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", loaded_layers=4))
    record = QARecord("r", "Who?", PAPER_PASSAGES, ANSWER, RowSource("f", 0), target_spans=SPANS)
    labelled = LabelledAnswer(record, (frozenset({0}),) * len(SPANS))
    return model, labelled, inside(directory, model, labelled, shift=1 if request.param == "llama" else 0)


def inside(directory, model, labelled, *, shift):
    row = model.encode(labelled.record)
    reference = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    with torch.no_grad():
        ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
        found = reference(ids, output_attentions=True, output_hidden_states=True)
    attention = found.attentions[model.layer - 1][0].mean(0).numpy()
    rows = attention[row.prompt_length - shift : len(row.token_ids) - shift]
    states = found.hidden_states[2][0].numpy()
    return Inside(row, rows[:, : row.prompt_length], rows[:, row.prompt_length :], states)


def results(both, name, **options):
    model, labelled, _ = both
    settings = MethodSettings(**options)
    method = evaluation_methods(settings)[name]
    asked = model.with_method(settings.union_options(ATTN_UNION))
    return method.span_results(LabelledContext(labelled, LoadedModels(PARSER, asked)))


def tokens_in(row, chars):
    return [i for i, one in enumerate(row.response_chars) if one is not None and one.overlaps(chars)]


def fact_tokens(row, i):
    """A(r_i) by phi and psi of Appendix B."""
    chars = row.response_chars[i]
    words = {word for word, where in enumerate(PARSED.words) if where.overlaps(chars)}
    elements = set().union(*(AtomicFacts(PARSED).words_of(word) for word in words)) if words else set()
    return sorted({i, *(token for word in elements for token in tokens_in(row, PARSED.words[word]))})


def later_tokens(found, i, k):
    """r_i and the later tokens whose top k among the tokens before them has r_i."""
    later = range(i + 1, len(found.among_response))
    return [i, *(j for j in later if i in top_k(found.among_response[j][:j].tolist(), k))]


def covering(row, tokens):
    return [i for i in tokens if row.response_chars[i] is not None]


def check_union(both, name, similarity, targets, *, k, tau):
    row = both[2].encoded
    document = document_columns(row)
    for result, target in zip(results(both, name, top_k=k, isolation_tau=tau), targets, strict=True):
        w = algorithm_1(similarity, covering(row, target), document, k=k, tau=tau)
        np.testing.assert_allclose(result.passage_scores, naive_paper.summed(w, row, len(PAPER_PASSAGES)), atol=2e-5)


SETTINGS = [(2, 2), (6, 1), (9, float("inf"))]


@pytest.mark.parametrize(("k", "tau"), SETTINGS)
@pytest.mark.parametrize("name", ["hss-union", "hss-union-dep"])
def test_hidden_union_is_algorithm_1_over_cosines(both, name, k, tau):
    found = both[2]
    similarity = naive_paper.hidden_similarity(found.states, found.encoded.prompt_length)
    targets = [tokens_in(found.encoded, span) for span in SPANS]
    if name == "hss-union-dep":
        targets = [augmented(target, lambda i: fact_tokens(found.encoded, i)) for target in targets]
    check_union(both, name, similarity, targets, k=k, tau=tau)


@pytest.mark.parametrize("name", ["hss-avg", "hss-avg-dep"])
def test_hidden_average_is_the_best_window_of_eight(both, name):
    found = both[2]
    for result, span in zip(results(both, name), SPANS, strict=True):
        target = tokens_in(found.encoded, span)
        if name == "hss-avg-dep":
            target = augmented(target, lambda i: fact_tokens(found.encoded, i))
        covered = set(covering(found.encoded, target))
        expected = naive_paper.hss_avg(found.states, covered, found.encoded, len(PAPER_PASSAGES), window=8)
        np.testing.assert_allclose(result.passage_scores, expected, atol=2e-5)
        (piece,) = result.evidence
        assert piece.passage_index == int(np.argmax(expected))
        assert piece.score == pytest.approx(max(expected), abs=2e-5)


def union_targets(found, name, k):
    row = found.encoded
    targets = [tokens_in(row, span) for span in SPANS]
    match name:
        case "attn-union":
            return targets
        case "attn-union-dep":
            return [augmented(target, lambda i: fact_tokens(row, i)) for target in targets]
        case "attn-union-sent":
            return [tokens_in(row, next(one for one in SENTENCES if one.overlaps(span))) for span in SPANS]
        case "augment-by-attn":
            return [augmented(target, lambda i: later_tokens(found, i, k)) for target in targets]
    local = [set(tokens_in(row, next(one for one in SENTENCES if one.overlaps(span)))) for span in SPANS]
    return [
        [j for j in augmented(target, lambda i: later_tokens(found, i, k)) if j in inside]
        for target, inside in zip(targets, local, strict=True)
    ]


ATTENTION = ["attn-union", "attn-union-dep", "attn-union-sent", "augment-by-attn", "augment-by-attn-sent"]


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize(("k", "tau"), SETTINGS)
def test_attention_method_is_algorithm_1_over_its_targets(both, name, k, tau):
    check_union(both, name, both[2].similarity, union_targets(both[2], name, k), k=k, tau=tau)


@pytest.mark.parametrize("name", ["attn-union", "attn-union-dep", "attn-union-sent"])
def test_mean_of_the_five_best_tokens_decides_where_it_is_asked_for(both, name):
    found, row, tau = both[2], both[2].encoded, float("inf")
    decided = results(both, name, top_k=9, isolation_tau=tau, passage_score=PassageScore.TOP5_MEAN)
    for result, target in zip(decided, union_targets(found, name, 9), strict=True):
        w = algorithm_1(found.similarity, covering(row, target), document_columns(row), k=9, tau=tau)
        np.testing.assert_allclose(result.passage_scores, naive_paper.top5_mean(w, row, len(PAPER_PASSAGES)), atol=2e-5)


KEEPERS = tuple(Passage(text=f"Keeper {number} lived in the tower.") for number in range(3))
RECORD = QARecord("r", "Who?", KEEPERS, "Ada lived there.", RowSource("f", 0))


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
