import numpy as np
import pytest
from tests.attribution.methods.hand_parser import ANSWER, PARSER
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.evidence.union import UnionScores
from attribeam.attribution.methods.method import AttentionUnion, LoadedModels, MethodSettings, PassageScore
from attribeam.attribution.options import ATTN_UNION, UNIONS, ModelOptions
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.measures.accuracy import run_methods, score_methods
from attribeam.evaluation.methods.registry import LabelledContext
from attribeam.evaluation.methods.unions import passage_scores
from attribeam.evaluation.methods.words import FactWords, SentenceWords, SpanWords
from attribeam.schemas import CharRange, Passage, QARecord, RowSource

PASSAGES = (Passage(text="jon dances"), Passage(text="sings"), Passage(text="bells"), Passage(text="no match"))


def labelled_span(*texts: str, gold: int = 0, row: int = 0) -> LabelledAnswer:
    spans = tuple(CharRange(ANSWER.index(text), ANSWER.index(text) + len(text)) for text in texts)
    record = QARecord("r", "Who?", PASSAGES, ANSWER, RowSource("f", row), target_spans=spans)
    return LabelledAnswer(record, (frozenset({gold}),) * len(spans))


def scores(method, span):
    return method.span_results(LabelledContext(labelled_span(span), LoadedModels(parser=PARSER)))[0].passage_scores


def test_words_dep_adds_the_atomic_fact_of_the_span():
    assert scores(FactWords(MethodSettings()), "Jon") == (4.0, 0.0, 0.0, 0.0)


def test_words_sent_is_the_whole_sentence_and_no_other():
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
    tallies = run_methods(
        answers, [SpanWords(MethodSettings()), SentenceWords(MethodSettings())], LoadedModels(parser=PARSER)
    )
    words, sentences = score_methods(tallies, draws=100, seed=1)
    assert (words.passage_accuracy, words.spans, words.rows) == (pytest.approx(100 / 3), 3, 2)
    assert words.spans_without_evidence == 2
    assert words.difference_to_words is None
    assert sentences.passage_accuracy == 100.0
    assert sentences.difference_to_words == pytest.approx(200 / 3)
    assert sentences.difference_interval.low <= 200 / 3 <= sentences.difference_interval.high


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory):
    directory = save_tiny_model(tmp_path_factory.mktemp("tiny"))
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))


class CountingModel:
    """Passes everything on to a model and counts its forward passes."""

    def __init__(self, model: AttentionModel) -> None:
        self.model, self.forward_passes = model, 0

    def __getattr__(self, name):
        return getattr(self.model, name)

    def attribute(self, rows, passage_counts):
        self.forward_passes += 1
        return self.model.attribute(rows, passage_counts)


def test_attention_methods_share_one_forward_pass(tiny_model):
    model = CountingModel(tiny_model)
    methods = [AttentionUnion(method, MethodSettings()) for method in UNIONS]
    run_methods([labelled_span("Jon", "ring")], methods, LoadedModels(PARSER, model))
    assert model.forward_passes == 1


def test_attention_union_sums_the_top_columns_of_the_span_without_the_filter(tiny_model):
    labelled = labelled_span(ANSWER)
    context = LabelledContext(labelled, LoadedModels(PARSER, tiny_model))
    method = AttentionUnion(ATTN_UNION, MethodSettings(isolation_tau=float("inf")))
    (result,) = method.span_results(context)
    encoded, tokens = context.encoded, context.attention
    expected = np.zeros(len(PASSAGES))
    for chars, columns, similarities in zip(encoded.response_chars, tokens.top_columns, tokens.top_scores, strict=True):
        if chars is None:
            continue
        for column, similarity in zip(columns, similarities, strict=True):
            visible = encoded.column_char_start[column] < encoded.column_char_end[column]
            if encoded.column_passage[column] >= 0 and visible:
                expected[encoded.column_passage[column]] += similarity
    assert expected.sum() > 0
    np.testing.assert_allclose(result.passage_scores, expected, rtol=1e-6)
    assert {one.passage_index for one in result.evidence} == set(np.flatnonzero(expected).tolist())


def test_row_that_the_model_refuses_counts_as_wrong_and_is_said(tiny_model):
    record = QARecord("r", "Who?", (Passage(text="far " * 600),), ANSWER, RowSource("f", 7), (CharRange(0, 3),))
    refused = LabelledAnswer(record, (frozenset({0}),))
    methods = [AttentionUnion(ATTN_UNION, MethodSettings()), SpanWords(MethodSettings())]
    union, words = run_methods([refused], methods, LoadedModels(PARSER, tiny_model))
    assert (union.credits, union.spans_without_evidence) == ([0.0], 1)
    assert [(failed.row, failed.reason) for failed in union.failed] == [(7, "too_many_tokens")]
    assert words.failed == []


def test_method_that_hides_its_need_of_a_model_is_an_error():
    with pytest.raises(RuntimeError, match="asked for attention, but does not say that it needs it"):
        scores(AttentionUnion(ATTN_UNION, MethodSettings()), "Jon")


def encoded(column_passage: list[int]) -> EncodedRow:
    size = len(column_passage)
    return EncodedRow(
        token_ids=np.zeros(size + 1, dtype=np.int32),
        prompt_length=size,
        column_passage=np.array(column_passage, dtype=np.int32),
        column_in_title=np.zeros(size, dtype=np.bool_),
        column_char_start=np.arange(size, dtype=np.int32),
        column_char_end=np.arange(1, size + 1, dtype=np.int32),
        response_char_start=np.zeros(1, dtype=np.int32),
        response_char_end=np.ones(1, dtype=np.int32),
    )


# two unions: the first has six tokens of passage 0 and one of passage 1, the second one token of passage 2
ROW = encoded([-1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2])
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
