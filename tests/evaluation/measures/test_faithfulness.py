"""Log-probability drops: worked by hand, compared with the definition, and through the command."""

import json
from dataclasses import dataclass, field, replace
from functools import partialmethod

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.tiny_models import SENTENCES, save_tiny_encoder
from tests.evaluation.dataset_rows import QUOTESUM, alce_row, evaluate, write_alce, write_rows
from tests.evaluation.methods.test_baselines import PASSAGES, SPANS, labelled
from tests.evaluation.tiny_nli import save_tiny_nli
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.language_models import LanguageModel
from attribeam.attribution.language_models.verifiers import entailment_label
from attribeam.attribution.methods.method import LoadedModels, MethodSettings
from attribeam.attribution.options import ModelOptions
from attribeam.evaluation.datasets import AnswerChoice, SpanChoice
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer, SkippedRow
from attribeam.evaluation.measures import faithfulness
from attribeam.evaluation.measures.faithfulness import (
    RANDOM_DRAWS,
    CitationCounts,
    Claim,
    NliModel,
    citation_counts,
    citation_score,
    run_citations,
    run_drops,
    score_citations,
    score_drops,
    target_answers,
)
from attribeam.evaluation.methods import LabelledContext, OraclePassage, RandomPassage
from attribeam.evaluation.methods.baselines import LanguageContext, SpanWords
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError


class DropsByHand:
    """A language context with given drops: ``table[span][passage]``."""

    def __init__(self, table):
        self.table = dict(zip(SPANS, table, strict=True))

    def read_whole(self):
        pass

    def take_away(self, passages):
        assert set(passages) <= {0, 1, 2}

    def drop(self, span, passage):
        return self.table[span][passage]


@dataclass
class Says:
    scores: tuple[tuple[float, ...], ...]
    name: str = "says"
    needs: frozenset = frozenset()

    def span_results(self, context):
        assert len(context.spans) == len(self.scores)
        return [SpanResult(one, ()) for one in self.scores]


class Refuses(Says):
    def span_results(self, context):
        raise RowFault(Reason.OUT_OF_MEMORY, f"row {context.record.source.source_row} is too large")


TABLES = [[(3.0, 1.0, -2.0), (0.5, 4.0, 0.25)], [(1.0, 0.0, 0.0), (2.0, 0.0, 5.0)]]


def drops(monkeypatch, *methods, draws=200):
    answers = [labelled(row=row) for row in range(2)]
    tables = {answer.record.source.source_row: table for answer, table in zip(answers, TABLES, strict=True)}
    monkeypatch.setattr(
        faithfulness, "language_of", lambda context: DropsByHand(tables[context.record.source.source_row])
    )
    tallies, skipped = run_drops(answers, methods, LoadedModels())
    assert skipped == ()
    return score_drops(tallies, draws=draws, seed=0)


@pytest.mark.parametrize(
    ("method", "total", "without_passage"),
    [
        # of both rows passages 0 and 1 are taken away
        (Says(((9.0, 1.0, 0.0), (0.0, 2.0, 1.0))), 3.0 + 4.0 + 1.0 + 0.0, 0),
        (Says(((1.0, 1.0, 0.0), (1.0, 1.0, 1.0))), 2.0 + 4.75 / 3 + 0.5 + 7 / 3, 0),  # ties are equally likely
        (Says(((0.0, 0.0, 0.0), (0.0, 2.0, 1.0))), 4.0, 2),
        (OraclePassage(), 3.0 + 4.0 + 1.0 + 5.0, 0),
    ],
)
def test_drop_of_a_method_is_the_mean_over_spans_of_its_passages(monkeypatch, method, total, without_passage):
    (score,) = drops(monkeypatch, method)
    assert score.log_probability_drop == pytest.approx(total / 4)
    assert (score.spans, score.rows, score.spans_without_passage) == (4, 2, without_passage)


def test_random_is_the_mean_of_three_draws(monkeypatch):
    (score,) = drops(monkeypatch, RandomPassage(seed=2))
    expected = 0.0
    for row, table in enumerate(TABLES):
        for draw in range(3):
            results = RandomPassage(seed=2, draw=draw).span_results(LabelledContext(labelled(row=row), LoadedModels()))
            chosen = [result.passage_scores.index(1) for result in results]
            expected += sum(of_span[one] for of_span, one in zip(table, chosen, strict=True))
    assert RANDOM_DRAWS == 3
    assert score.log_probability_drop == pytest.approx(expected / 12)


def test_row_that_a_method_cannot_attribute_counts_as_no_drop_and_is_listed(monkeypatch):
    (score,) = drops(monkeypatch, Refuses(()))
    assert (score.log_probability_drop, score.spans_without_passage) == (0.0, 4)
    assert [(failed.row, failed.reason) for failed in score.failed_rows] == [(0, "out_of_memory"), (1, "out_of_memory")]


@pytest.fixture(scope="module")
def model(llama):
    return LanguageModel.from_pretrained(ModelOptions(model=str(llama), device="cpu"))


def test_drops_of_a_model_follow_the_definition(model):
    answer = labelled()
    record = answer.record

    def log_probability(passages, span):
        whole = replace(record, passages=passages)
        (found,) = model.token_log_probabilities([model.encode(whole)])
        characters = model.encode(whole).response_chars
        pairs = zip(found, characters, strict=True)
        return sum(value for value, chars in pairs if chars is not None and chars.overlaps(span))

    def drop(span, passage):
        left = tuple(one for index, one in enumerate(PASSAGES) if index != passage)
        return log_probability(PASSAGES, span) - log_probability(left, span)

    methods = [Says(((0.0, 0.0, 1.0), (0.0, 3.0, 1.0))), OraclePassage()]
    tallies, _ = run_drops([answer], methods, LoadedModels(language=model))
    says, oracle = score_drops(tallies, draws=10, seed=0)
    assert says.log_probability_drop == pytest.approx((drop(SPANS[0], 2) + drop(SPANS[1], 1)) / 2, abs=1e-4)
    best = [max(drop(span, passage) for passage in range(3)) for span in SPANS]
    assert oracle.log_probability_drop == pytest.approx(sum(best) / 2, abs=1e-4)
    assert oracle.log_probability_drop > says.log_probability_drop


def test_answer_that_the_language_model_refuses_counts_for_no_method(model):
    far = labelled(passages=(Passage(text="far " * 600), *PASSAGES[1:]), row=4)
    tallies, skipped = run_drops([far, labelled()], [SpanWords(MethodSettings())], LoadedModels(language=model))
    assert [(one.row, one.reason) for one in skipped] == [(4, "too_many_tokens")]
    assert tallies[0].spans == [2]


def test_cti_spans_are_the_sensitive_tokens_of_each_answer(model):
    (made,) = target_answers([labelled()], model, spans=SpanChoice.CTI, source=AnswerChoice.DATA)
    context = LanguageContext(labelled().record, model)
    limit = context.divergences.mean() + context.divergences.std()
    pairs = zip(context.encoded.response_chars, context.divergences, strict=True)
    expected = [chars for chars, value in pairs if value >= limit]
    assert list(made.spans) == sorted({chars for chars in expected if chars}, key=lambda chars: chars.char_start)
    assert made.spans
    assert made.gold_passages == ()


def test_generated_answers_replace_those_of_the_data(model, monkeypatch):
    monkeypatch.setattr(LanguageModel, "generate", partialmethod(LanguageModel.generate, max_new_tokens=6))
    (made,) = target_answers([labelled()], model, spans=SpanChoice.CTI, source=AnswerChoice.GENERATED)
    assert made.record.answer == model.generate(labelled().record)
    assert all(span.char_end <= len(made.record.answer) for span in made.spans)


def test_answers_without_a_target_are_skipped_with_the_reason(model, monkeypatch):
    far = labelled(passages=(Passage(text="far " * 600), *PASSAGES[1:]), row=4)
    record = QARecord("r", "Who?", (Passage(text=""),), "Nobody.", RowSource("f", 5), target_spans=(CharRange(0, 3),))
    empty = LabelledAnswer(record)
    monkeypatch.setattr("attribeam.evaluation.measures.faithfulness.sensitive_spans", lambda *_: ())
    left_out = target_answers([far, empty], model, spans=SpanChoice.CTI, source=AnswerChoice.DATA)
    assert [*left_out] == [SkippedRow(4, "too_many_tokens"), SkippedRow(5, "no_context_sensitive_token")]
    monkeypatch.setattr(LanguageModel, "generate", lambda *_: "")
    silent = target_answers([empty], model, spans=SpanChoice.CTI, source=AnswerChoice.GENERATED)
    assert [*silent] == [SkippedRow(5, "empty_answer")]


@pytest.fixture
def data(tmp_path):
    return write_rows(tmp_path / "dev.jsonl", QUOTESUM[:2])


def test_command_prints_and_writes_the_drops(tmp_path, data, llama, capsys):
    output = tmp_path / "drops.json"
    methods = [part for name in ("words", "cci", "random", "oracle") for part in ("--method", name)]
    command = ("--dataset", "quotesum", "--data", data, "--measure", "faithfulness", "--device", "cpu", *methods)
    assert evaluate(*command, "--language-model", llama, "--output", output) == 0
    report = json.loads(output.read_text())
    assert [row["method"] for row in report["rows"]] == ["words", "cci", "random", "oracle"]
    by_name = {row["method"]: row["log_probability_drop"] for row in report["rows"]}
    assert by_name["oracle"] >= max(by_name.values())
    assert (report["spans"], report["answers"], report["random_draws"]) == ("labelled", "data", 3)
    assert report["skipped_rows"] == [{"row": 1, "reason": "no_span", "file": None}]
    assert report["provenance"]["language_model"] == str(llama)
    title, header, *_ = capsys.readouterr().out.splitlines()
    assert title == "quotesum (dev.jsonl): 2 labelled spans of 1 answers (data)"
    assert header.split()[:3] == ["method", "log-probability", "drop"]


def test_command_refuses_an_encoder_and_labelled_spans_of_generated_answers(tmp_path, data, capsys):
    encoder = save_tiny_encoder(tmp_path / "encoder", layer_types=["full_attention"])
    command = ("--dataset", "quotesum", "--data", data, "--measure", "faithfulness", "--method", "oracle")
    assert evaluate(*command, "--model", encoder) == 2
    assert "name one with --language-model" in capsys.readouterr().err
    assert evaluate(*command, "--answers", "generated") == 2
    assert "add --spans cti to --answers generated" in capsys.readouterr().err


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


CITABLE = (Passage("ada lit it"), Passage("in may"), Passage("ada lit it in may"), Passage("bells ring"))


def counts(*sentences, most_citations=3):
    return citation_counts(CITABLE, sentences, WordsEntail(), most_citations=most_citations)


def naive_counts(sentences, most):
    """ALCE's definition, citation by citation."""

    def entails(cited, text):
        return WordsEntail().entails([("\n".join(CITABLE[one].text for one in cited), text)])[0]

    supported = citations = needed = 0
    for text, cited in sentences:
        if not cited or max(cited) >= len(CITABLE):
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
    assert counts(("ada lit it", (0, 4)), ("bells ring", (3, -1))) == CitationCounts(2, 0, 0, 0)  # do not exist
    assert counts(("ada lit it in may", (0, 3, 2)), most_citations=2) == CitationCounts(1, 0, 2, 0)
    assert citation_score([counts(("bells ring", ()))], np.array([[1]])).precision == 0


def test_title_is_part_of_the_premise():
    model = WordsEntail()
    citation_counts([Passage("lit it", title="Ada")], [("ada lit it", (0,))], model)
    assert model.asked == [("Title: Ada\nlit it", "ada lit it")]


TEXTS = st.sampled_from(["ada lit it", "ada lit it in may", "in may", "bells ring"])
CITING = st.tuples(TEXTS, st.lists(st.integers(0, 4), unique=True, max_size=4))


@given(sentences=st.lists(CITING, min_size=1, max_size=4), most=st.integers(1, 4))
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


CITED = (Passage("ada lit it"), Passage("bells ring"), Passage("bells ring at noon"))
TWO_SPANS = (CharRange(0, 11), CharRange(12, 23))
RECORD = QARecord("r", "Who?", CITED, "ada lit it. bells ring.", RowSource("a.json", 0), target_spans=TWO_SPANS)
ANSWER = LabelledAnswer(RECORD, citations=((0,), (0,)))


def run(*methods):
    return run_citations([ANSWER], methods, LoadedModels(), WordsEntail())


def test_method_cites_every_passage_above_its_threshold():
    own, words = run(Says(((0.2, 0.0, 0.0), (0.0, 0.1, 0.3)), "words"))
    assert (own.counts[0].supported, own.counts[0].citations, own.counts[0].needed) == (1, 2, 1)
    assert (words.counts[0].supported, words.counts[0].citations, words.counts[0].needed) == (2, 3, 3)


def test_refused_answer_has_no_citations_and_is_listed():
    _, refused = run(Refuses(()))
    assert (refused.counts[0].supported, refused.counts[0].citations) == (0, 0)
    (row,) = score_citations([refused], draws=10, seed=0)
    assert [(one.row, one.reason) for one in row.failed_rows] == [(0, "out_of_memory")]
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


STATEMENTS = ("Ada built it.", "The lamp", "1874 1874 1874")
CLAIMS = [(premise, statement) for premise in SENTENCES for statement in STATEMENTS]


def test_batched_verdicts_equal_those_of_the_classifier_claim_by_claim(nli):
    classifier = AutoModelForSequenceClassification.from_pretrained(nli)
    tokenizer = AutoTokenizer.from_pretrained(nli)
    expected = []
    for premise, statement in CLAIMS:
        with torch.inference_mode():
            logits = classifier(**tokenizer(premise, statement, return_tensors="pt")).logits
        expected.append(logits.argmax().item() == 1)
    model = NliModel.from_pretrained(str(nli))
    assert model.entails(CLAIMS) == expected
    model._row = None  # a claim is judged once
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
