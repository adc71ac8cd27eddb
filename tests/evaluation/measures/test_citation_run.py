from dataclasses import dataclass

import pytest

from evaluation.datasets.labelled_answer import LabelledAnswer
from evaluation.measures.citation_run import cited_passages, run_citations, score_citations
from evaluation.measures.entailment import RememberedEntailment
from evaluation.methods.answer_context import LoadedModels
from evaluation.methods.method import SpanResult
from schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource
from tests.evaluation.stub_entailment import WordsEntail

RECORD = QARecord(
    record_id="r",
    question="Who?",
    passages=(Passage("ada lit it"), Passage("bells ring"), Passage("bells ring at noon")),
    answer="ada lit it. bells ring.",
    source=RowSource("a.json", 0),
    target_spans=(CharRange(0, 11), CharRange(12, 23)),
)
ANSWER = LabelledAnswer(RECORD, citations=((0,), (0,)))


@dataclass
class Says:
    """A method that gives the same scores for every answer, or refuses it."""

    name: str
    scores: list[tuple[float, ...]] | None
    needs: frozenset = frozenset()

    def span_results(self, context):  # noqa: ARG002 - the protocol's signature
        if self.scores is None:
            raise RowFault(Reason.TOO_MANY_TOKENS, "too long")
        return [SpanResult(scores, ()) for scores in self.scores]


def run(*methods: Says):
    return run_citations([ANSWER], methods, LoadedModels(), RememberedEntailment(WordsEntail()))


def test_answers_own_citations_come_first():
    (own,) = run()
    assert own.name == "self-citation"
    assert (own.counts[0].recall, own.counts[0].precision) == (0.5, 0.5)


def test_method_cites_every_passage_above_its_threshold():
    _, words = run(Says("words", [(0.2, 0.0, 0.0), (0.0, 0.1, 0.3)]))
    assert (words.counts[0].supported, words.counts[0].citations, words.counts[0].needed) == (2, 3, 3)


def test_cosines_have_a_threshold_of_their_own():
    _, hss = run(Says("hss-avg", [(0.9, 0.5, 0.54), (0.55, 0.56, 0.1)]))
    assert (hss.counts[0].supported, hss.counts[0].citations) == (2, 2)


def test_best_passage_is_cited_first_and_of_equal_ones_the_first():
    assert cited_passages([0.1, 0.3, 0.0, 0.3], threshold=0) == (1, 3, 0)


def test_refused_answer_has_no_citations_and_is_listed():
    _, refused = run(Says("attn-union", None))
    assert (refused.counts[0].supported, refused.counts[0].citations) == (0, 0)
    (row,) = score_citations([refused], draws=10, seed=0)
    assert [(one.row, one.reason) for one in row.failed_rows] == [(0, "too_many_tokens")]
    assert (row.answers, row.sentences, row.score.f1) == (1, 2, 0.0)


def test_claim_that_two_methods_share_is_judged_once():
    model = WordsEntail()
    same = [(0.2, 0.0, 0.0), (0.0, 0.1, 0.3)]
    methods = [Says("words", same), Says("attn-union", same)]
    run_citations([ANSWER, ANSWER], methods, LoadedModels(), RememberedEntailment(model))
    assert len(model.asked) == len(set(model.asked)) > 0


def test_model_that_loses_a_verdict_is_an_error():
    class Forgetful:
        identity = "forgetful"

        def entails(self, claims):  # noqa: ARG002 - the protocol's signature
            return []

    with pytest.raises(RuntimeError, match="should give 1 verdicts, gave 0"):
        RememberedEntailment(Forgetful()).entails([("a", "b")])
