"""Log-probability drops: worked by hand, compared with the definition, and through the command."""

import json
from dataclasses import dataclass, replace
from functools import partialmethod

import pytest
from tests.attribution.tiny_models import save_tiny_encoder
from tests.evaluation.dataset_rows import evaluate, quotesum_row, write_rows
from tests.evaluation.methods.test_gradients import PASSAGES, SPANS, labelled

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.language_models import LanguageModel
from attribeam.attribution.methods.method import LoadedModels, MethodSettings
from attribeam.attribution.options import ModelOptions
from attribeam.evaluation.datasets import AnswerChoice, SpanChoice
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.measures import faithfulness
from attribeam.evaluation.measures.faithfulness import RANDOM_DRAWS, TargetAnswers, run_drops, score_drops
from attribeam.evaluation.methods import LabelledContext, OraclePassage, RandomPassage
from attribeam.evaluation.methods.baselines import LanguageContext, SpanWords
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource


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
    """A method that always gives the same scores."""

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
            expected += sum(
                of_span[result.passage_scores.index(1)] for of_span, result in zip(table, results, strict=True)
            )
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
        return sum(
            value for value, chars in zip(found, characters, strict=True) if chars is not None and chars.overlaps(span)
        )

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
    targets = TargetAnswers([labelled()], model, spans=SpanChoice.CTI, source=AnswerChoice.DATA)
    (made,) = targets
    context = LanguageContext(labelled().record, model)
    limit = context.divergences.mean() + context.divergences.std()
    expected = [
        chars
        for chars, value in zip(context.encoded.response_chars, context.divergences, strict=True)
        if value >= limit
    ]
    assert list(made.spans) == sorted({chars for chars in expected if chars}, key=lambda chars: chars.char_start)
    assert made.spans
    assert made.gold_passages == ()
    assert targets.skipped == []


def test_generated_answers_replace_those_of_the_data(model, monkeypatch):
    monkeypatch.setattr(LanguageModel, "generate", partialmethod(LanguageModel.generate, max_new_tokens=6))
    (made,) = TargetAnswers([labelled()], model, spans=SpanChoice.CTI, source=AnswerChoice.GENERATED)
    assert made.record.answer == model.generate(labelled().record)
    assert all(span.char_end <= len(made.record.answer) for span in made.spans)


def test_answers_without_a_target_are_skipped_with_the_reason(model, monkeypatch):
    far = labelled(passages=(Passage(text="far " * 600), *PASSAGES[1:]), row=4)
    empty = LabelledAnswer(
        QARecord("r", "Who?", (Passage(text=""),), "Nobody.", RowSource("f", 5), target_spans=(CharRange(0, 3),))
    )
    monkeypatch.setattr("attribeam.evaluation.measures.faithfulness.sensitive_spans", lambda *_: ())
    targets = TargetAnswers([far, empty], model, spans=SpanChoice.CTI, source=AnswerChoice.DATA)
    assert list(targets) == []
    assert [(one.row, one.reason) for one in targets.skipped] == [
        (4, "too_many_tokens"),
        (5, "no_context_sensitive_token"),
    ]
    monkeypatch.setattr(LanguageModel, "generate", lambda *_: "")
    silent = TargetAnswers([empty], model, spans=SpanChoice.CTI, source=AnswerChoice.GENERATED)
    assert list(silent) == []
    assert silent.skipped[0].reason == "empty_answer"


@pytest.fixture
def data(tmp_path):
    rows = [
        quotesum_row("The lamp is kept by [ 1 Ada Thorne ] , the buoy by [ 2 Jon Reed ] .", row_id="q_0"),
        quotesum_row("No mark.", row_id="q_1"),
    ]
    return write_rows(tmp_path / "dev.jsonl", rows)


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
