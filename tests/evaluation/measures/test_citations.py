"""Citation scores by definition, through the command, and by an entailment model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.tiny_models import SENTENCES
from tests.evaluation.dataset_rows import alce_row, evaluate, write_alce
from tests.evaluation.tiny_nli import save_tiny_nli
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.language_models.verifiers import entailment_label
from attribeam.attribution.methods.method import LoadedModels
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.measures.faithfulness import (
    CitationCounts,
    Claim,
    NliModel,
    citation_counts,
    citation_score,
    run_citations,
    score_citations,
)
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError


@dataclass
class WordsEntail:
    """Judges a statement as entailed if the premise contains all of its words; records all claims."""

    identity: str = "words"
    asked: list[Claim] = field(default_factory=list)

    def entails(self, claims):
        self.asked += claims
        return [_words(statement) <= _words(premise) for premise, statement in claims]


def _words(text):
    return set(text.lower().replace(".", "").split())


PASSAGES = (Passage("ada lit it"), Passage("in may"), Passage("ada lit it in may"), Passage("bells ring"))


def counts(*sentences, most_citations=3):
    return citation_counts(PASSAGES, sentences, WordsEntail(), most_citations=most_citations)


def naive_counts(sentences, most):
    """ALCE's definition, citation by citation."""

    def entails(cited, text):
        return WordsEntail().entails([("\n".join(PASSAGES[one].text for one in cited), text)])[0]

    supported = citations = needed = 0
    for text, cited in sentences:
        if not cited or max(cited) >= len(PASSAGES):
            continue
        cited = cited[:most]
        citations += len(cited)
        if entails(cited, text):
            supported += 1
            for one in cited:
                rest = [other for other in cited if other != one]
                irrelevant = bool(rest) and not entails([one], text) and entails(rest, text)
                needed += not irrelevant
    return CitationCounts(len(sentences), supported, citations, needed)


def test_worked_example():
    found = counts(
        ("ada lit it", (0,)),  # supported by its one citation
        ("ada lit it in may", (0, 1)),  # by both together only: both are needed
        ("ada lit it", (0, 3)),  # the second says nothing of it: one citation of two is needed
        ("bells ring", (1,)),  # not supported, its citation is not needed
        ("bells ring", ()),  # cites nothing
    )
    assert found == CitationCounts(sentences=5, supported=3, citations=6, needed=4)
    assert (found.recall, found.precision) == (pytest.approx(3 / 5), pytest.approx(4 / 6))
    assert counts(("ada lit it", (0, 4)), ("bells ring", (3, -1))) == CitationCounts(2, 0, 0, 0)  # do not exist
    assert counts(("ada lit it in may", (0, 3, 2)), most_citations=2) == CitationCounts(1, 0, 2, 0)
    assert counts(("bells ring", ())).precision == 0


def test_title_is_part_of_the_premise():
    model = WordsEntail()
    citation_counts([Passage("lit it", title="Ada")], [("ada lit it", (0,))], model)
    assert model.asked == [("Title: Ada\nlit it", "ada lit it")]


@given(
    sentences=st.lists(
        st.tuples(
            st.sampled_from(["ada lit it", "ada lit it in may", "in may", "bells ring"]),
            st.lists(st.integers(0, 4), unique=True, max_size=4),
        ),
        min_size=1,
        max_size=4,
    ),
    most=st.integers(1, 4),
)
def test_counts_follow_the_definition(sentences, most):
    found = counts(*((text, tuple(cited)) for text, cited in sentences), most_citations=most)
    assert found == naive_counts(sentences, most)


def test_score_is_the_mean_over_answers_and_f1_that_of_the_means():
    answers = [CitationCounts(2, 2, 4, 1), CitationCounts(4, 1, 1, 1)]
    score = citation_score(answers, np.array([[1, 1], [2, 0]]))
    assert score.recall == pytest.approx(100 * (1 + 0.25) / 2)
    assert score.precision == pytest.approx(100 * (0.25 + 1) / 2)
    assert score.f1 == pytest.approx(62.5)
    assert score.recall_interval.high == pytest.approx(100, abs=2)
    assert score.citations_a_sentence == pytest.approx(5 / 6)


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


def run(*methods):
    return run_citations([ANSWER], methods, LoadedModels(), WordsEntail())


def test_method_cites_every_passage_above_its_threshold():
    own, words = run(Says("words", [(0.2, 0.0, 0.0), (0.0, 0.1, 0.3)]))
    assert (own.counts[0].supported, own.counts[0].citations, own.counts[0].needed) == (1, 2, 1)
    assert (words.counts[0].supported, words.counts[0].citations, words.counts[0].needed) == (2, 3, 3)


def test_refused_answer_has_no_citations_and_is_listed():
    _, refused = run(Says("attn-union", None))
    assert (refused.counts[0].supported, refused.counts[0].citations) == (0, 0)
    (row,) = score_citations([refused], draws=10, seed=0)
    assert [(one.row, one.reason) for one in row.failed_rows] == [(0, "too_many_tokens")]
    assert (row.answers, row.sentences, row.score.f1) == (1, 2, 0.0)


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    return save_tiny_nli(tmp_path_factory.mktemp("nli"))


@pytest.fixture
def alce(tmp_path):
    rows = [alce_row("Ada lit it [1]. A buoy lies there [2][3]."), alce_row(""), alce_row("Bells ring [9].")]
    return write_alce(tmp_path / "asqa.json", rows)


def test_citations_are_scored_with_the_answers_own_first(alce, nli, tmp_path, capsys):
    output = tmp_path / "figures.json"
    asked = ("--dataset", "alce", "--data", alce, "--nli-model", nli, "--method", "words")
    assert evaluate(*asked, "--output", output) == 0
    figures = json.loads(output.read_text())
    assert [row["method"] for row in figures["rows"]] == ["self-citation", "words"]
    assert figures["skipped_rows"] == [{"row": 1, "reason": "empty_answer", "file": None}]
    assert (figures["rows"][0]["answers"], figures["rows"][0]["sentences"]) == (2, 3)
    assert (figures["most_citations"], figures["cut_claims"]) == (3, 0)
    title, header, _, own, words, *remarks = capsys.readouterr().out.splitlines()
    assert title == "alce (asqa.json): 3 sentences of 2 answers"
    assert header.split()[:3] == ["method", "recall", "%"]
    assert (own.split()[0], words.split()[0]) == ("self-citation", "words")
    assert remarks[1] == "1 rows skipped: empty_answer"


def test_citations_need_a_named_nli_model(alce, capsys):
    assert evaluate("--dataset", "alce", "--data", alce) == 2
    assert "name a hub id or a directory with --nli-model" in capsys.readouterr().err


CLAIMS = [
    (premise, statement) for premise in SENTENCES for statement in ("Ada built it.", "The lamp", "1874 1874 1874")
]


def test_batched_verdicts_equal_those_of_the_classifier_claim_by_claim(nli):
    classifier = AutoModelForSequenceClassification.from_pretrained(nli)
    tokenizer = AutoTokenizer.from_pretrained(nli)
    expected = []
    for premise, statement in CLAIMS:
        with torch.inference_mode():
            expected.append(
                classifier(**tokenizer(premise, statement, return_tensors="pt")).logits.argmax().item() == 1
            )
    model = NliModel.from_pretrained(str(nli))
    assert model.entails(CLAIMS) == expected
    model._batch = None  # a claim is judged once
    assert model.entails(CLAIMS[::-1]) == expected[::-1]
    assert True in expected
    assert False in expected


def test_claim_beyond_the_models_length_is_cut_and_counted(tmp_path):
    model = NliModel.from_pretrained(str(save_tiny_nli(tmp_path, places=16)))
    assert len(model.entails([(" ".join(SENTENCES), "Ada built it."), ("A", "B")])) == 2
    assert model.cut_claims == 1


@pytest.mark.parametrize(
    ("labels", "index"),
    [(("entailment", "not_entailment"), 0), (("neutral", "Entailment", "contradiction"), 1), (("no", "SUPPORTED"), 1)],
)
def test_entailment_label_is_found_by_its_name(labels, index):
    assert entailment_label(dict(enumerate(labels)), "m") == index


@pytest.mark.parametrize("labels", [("LABEL_0", "LABEL_1", "LABEL_2"), ("entailment",), ("entailment", "supported")])
def test_classifier_without_one_such_label_is_refused_with_its_labels(labels):
    with pytest.raises(ModelLoadError, match=rf"one of them called entailment .*has: .*{labels[0]}.*correct id2label"):
        entailment_label(dict(enumerate(labels)), "m")
