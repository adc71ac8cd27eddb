"""Two parsers over the same answers: what each method gains, and how fast each parser is."""

import pytest
from tests.attribution.methods.hand_parser import ANSWER, PARSED, HandParser, parsed
from tests.attribution.tiny_models import save_tiny_model
from tests.lab.evaluation.dataset_rows import quotesum_row, write_rows
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.registry import all_methods
from attribeam.attribution.options import ModelOptions
from attribeam.lab.evaluation.comparison import run_methods
from attribeam.lab.evaluation.parser_comparison import compare_parsers, main, processor_seconds, speed_of_parsers
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import LabelledAnswer

WORSE = parsed(
    ANSWER,
    [(word, 0, "root" if place == 0 else "dep", "NOUN") for place, word in enumerate(["Ada", "sings", "and", "Jon"])]
    + [(word, 4, "root" if place == 0 else "dep", "NOUN") for place, word in enumerate(["dances", ".", "Bells"])]
    + [("ring", 7, "root", "VERB"), (".", 7, "punct", "PUNCT")],
    (0, 4, 7),
)
PASSAGES = (Passage("Ada. Sings."), Passage("Jon. Jon, bells."), Passage("Somebody dances. Dances dances."))


def answers(count: int) -> list[LabelledAnswer]:
    spans = tuple(CharRange(ANSWER.index(word), ANSWER.index(word) + len(word)) for word in ("Ada", "Jon", "dances"))
    gold = (frozenset({0}), frozenset({1}), frozenset({1}))
    records = [QARecord("r", "Who?", PASSAGES, ANSWER, RowSource("f", row), spans) for row in range(count)]
    return [LabelledAnswer(one, gold) for one in records]


@pytest.fixture
def methods():
    return [all_methods()[name] for name in ("words-dep", "words-sent")]


def test_difference_is_paired_and_zero_for_the_same_parse(methods):
    models, same = LoadedModels(HandParser({ANSWER: PARSED})), HandParser({ANSWER: PARSED})
    for one in compare_parsers(answers(3), methods, models, same, draws=50):
        assert (one.first, one.difference) == (one.second, 0)
        assert (one.interval.low, one.interval.high) == (0, 0)


def test_each_parser_gives_the_accuracy_that_its_parses_lead_to(methods):
    first, second = HandParser({ANSWER: PARSED}), HandParser({ANSWER: WORSE})
    found = compare_parsers(answers(3), methods, LoadedModels(first), second, draws=50)
    back = compare_parsers(answers(3), methods, LoadedModels(second), first, draws=50)
    assert [(one.first, one.second, one.difference) for one in found] == [
        (one.second, one.first, -one.difference) for one in back
    ]
    assert any(one.difference for one in found)
    for one in found:
        assert one.interval.low == pytest.approx(one.difference) == one.interval.high  # all rows are alike


def test_model_runs_once_per_answer_for_both_parsers(tmp_path):
    directory = save_tiny_model(tmp_path / "tiny")
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))
    passes = []
    model.network.register_forward_pre_hook(lambda *_: passes.append(1))
    first, second = HandParser({ANSWER: PARSED}), HandParser({ANSWER: WORSE})
    methods = [all_methods()["attn-union-dep"], all_methods()["words-dep"]]
    found = compare_parsers(answers(3), methods, LoadedModels(first, model), second, draws=50)
    assert len(passes) == 3
    for parser, accuracies in ((first, [one.first for one in found]), (second, [one.second for one in found])):
        alone = run_methods(answers(3), methods, LoadedModels(parser, model))
        assert accuracies == [pytest.approx(100 * sum(one.credits) / sum(one.spans)) for one in alone]


def test_seconds_are_those_of_all_texts_for_each_parser():
    class Counting:
        def __init__(self):
            self.parsed = []

        def parse_many(self, texts):
            self.parsed.append(list(texts))
            return iter(texts)

    parsers = (Counting(), Counting())
    assert len(processor_seconds(parsers, ["a", "b"])) == 2
    assert parsers[0].parsed == parsers[1].parsed == [["a", "b"]] * 3


def test_ratio_is_that_of_the_processor_times():
    lines = speed_of_parsers(["one", "two"], ["a" * 100, "b" * 100], [0.5, 1.0]).splitlines()
    assert [line.split() for line in lines[2:]] == [["one", "0.50", "400", "1.00"], ["two", "1.00", "200", "2.00"]]


def test_command_prints_both_accuracies_and_both_parsers(tmp_path, capsys):
    data = write_rows(tmp_path / "dev.jsonl", [quotesum_row("The lamp is kept by [ 1 Ada Thorne ] .")])
    parser = save_tiny_parser(tmp_path / "parser")
    arguments = ["--dataset", "quotesum", "--data", str(data), "--other-parser", str(parser), "--threads", "1"]
    assert main([*arguments, "--method", "words-dep"]) == 0
    title, header, _, line, *speed = capsys.readouterr().out.splitlines()
    assert title == "quotesum (dev.jsonl): 1 spans of 1 answers"
    assert header.split() == ["method", "first", "%", "second", "%", "difference", "95%", "interval"]
    assert line.split() == ["words-dep", "100.0", "100.0", "+0.0", "+0.0", "to", "+0.0"]
    assert [one.split("@")[0] for one in speed[2:]] == ["en_attribeam_universal", "en_pipeline"]


def test_method_that_reads_no_parse_is_refused(tmp_path, capsys):
    data = write_rows(tmp_path / "dev.jsonl", [quotesum_row("The lamp is kept by [ 1 Ada Thorne ] .")])
    arguments = ["--dataset", "quotesum", "--data", str(data), "--other-parser", "bundled", "--method", "words"]
    assert main(arguments) == 2
    assert "these do not: words" in capsys.readouterr().err


def test_missing_parser_is_named(tmp_path, capsys):
    data = write_rows(tmp_path / "dev.jsonl", [quotesum_row("The lamp is kept by [ 1 Ada Thorne ] .")])
    arguments = ["--dataset", "quotesum", "--data", str(data), "--other-parser", "no_such", "--method", "words-dep"]
    assert main(arguments) == 2
    assert "'no_such'" in capsys.readouterr().err
