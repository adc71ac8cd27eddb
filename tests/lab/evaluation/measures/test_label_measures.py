"""``attribeam evaluate`` on data sets with citations and with labels of support."""

import json

import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.lab.evaluation.dataset_rows import (
    alce_row,
    ragtruth_response,
    ragtruth_source,
    write_alce,
    write_log_rows,
    write_ragtruth,
)
from tests.lab.evaluation.tiny_nli import save_tiny_nli
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.lab.evaluation.datasets.loaders import Measure, measure_of
from attribeam.pipeline.command_line import main


def evaluate(*arguments: object) -> int:
    return main(["evaluate", *map(str, arguments)])


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "model": save_tiny_model(folder / "model"),
        "parser": save_tiny_parser(folder / "parser"),
        "nli": save_tiny_nli(folder / "nli"),
    }


@pytest.fixture
def alce(tmp_path):
    rows = [alce_row("Ada lit it [1]. A buoy lies there [2][3]."), alce_row(""), alce_row("Bells ring [9].")]
    return write_alce(tmp_path / "asqa.json", rows)


def test_citations_are_scored_with_the_answers_own_first(alce, models, tmp_path, capsys):
    output = tmp_path / "figures.json"
    asked = ("--dataset", "alce", "--data", alce, "--nli-model", models["nli"], "--method", "words")
    assert evaluate(*asked, "--output", output) == 0
    figures = json.loads(output.read_text())
    assert [row["method"] for row in figures["rows"]] == ["self-citation", "words"]
    assert figures["skipped_rows"] == [{"row": 1, "reason": "empty_answer"}]
    assert (figures["rows"][0]["answers"], figures["rows"][0]["sentences"]) == (2, 3)
    assert (figures["most_citations"], figures["cut_claims"]) == (3, 0)
    title, header, _, own, words, *remarks = capsys.readouterr().out.splitlines()
    assert title == "alce (asqa.json): 3 sentences of 2 answers"
    assert header.split()[:3] == ["method", "recall", "%"]
    assert (own.split()[0], words.split()[0]) == ("self-citation", "words")
    assert remarks[1] == "1 rows skipped: empty_answer"


def test_citations_need_an_nli_model_by_name(alce, capsys):
    assert evaluate("--dataset", "alce", "--data", alce) == 2
    assert "name a hub id or a directory with --nli-model" in capsys.readouterr().err


@pytest.fixture
def ragtruth(tmp_path):
    source = ragtruth_source("s", {"question": "Who lit it?", "passages": "passage 1:Ada lit the lamp in 1874."})
    long = ragtruth_source("l", "lamp " * 700, task="Summary")
    responses = [
        ragtruth_response("1", "s", "Ada lit it in 1999.", {"in 1999": "Conflict"}),
        ragtruth_response("2", "s", "Ada lit it."),
        ragtruth_response("3", "s", "Ada lit it.", split="train"),
        ragtruth_response("4", "l", "A lamp."),
    ]
    return write_ragtruth(tmp_path / "ragtruth", [source, long], responses)


def test_flags_of_an_audit_are_scored_against_the_test_split(ragtruth, models, tmp_path, capsys):
    output = tmp_path / "figures.json"
    asked = ("--dataset", "ragtruth", "--data", ragtruth, "--model", models["model"], "--parser", models["parser"])
    assert evaluate(*asked, "--output", output, "--bootstrap-draws", 20) == 0
    figures = json.loads(output.read_text())
    (method,) = figures["methods"]
    (group,) = method["groups"]
    assert (figures["split"], method["method"]) == ("test", "attn-union-dep")
    assert (group["answers"], group["marked_answers"]) == (2, 1)
    assert [one["row"] for one in method["failed_rows"]] == [3]
    assert group["kinds"][0]["characters"] == 6
    assert set(figures["data_sha256"]) == {"response.jsonl", "source_info.jsonl"}
    printed = capsys.readouterr().out
    assert printed.startswith("ragtruth, all, attn-union-dep: 2 answers, 1 of them with unsupported characters")
    assert "1 rows failed and are left out: too_many_tokens" in printed


def test_method_that_makes_no_flags_is_refused(ragtruth, capsys):
    both = ("--method", "attn-union", "--method", "words")
    assert evaluate("--dataset", "ragtruth", "--data", ragtruth, *both) == 2
    assert "--method should be attn-union-dep or attn-union, was: words" in capsys.readouterr().err


def test_measure_is_the_first_that_the_data_set_has_labels_for():
    assert [measure_of(name, None) for name in ("quotesum", "log", "alce", "ragtruth")] == [
        Measure.PASSAGES,
        Measure.PASSAGES,
        Measure.CITATIONS,
        Measure.SUPPORT,
    ]
    assert measure_of("log", "support") is Measure.SUPPORT


def test_measure_without_labels_is_refused_with_those_that_there_are(ragtruth, capsys):
    assert evaluate("--dataset", "ragtruth", "--data", ragtruth, "--measure", "passages") == 2
    assert "--measure of ragtruth should be one of support, was: passages" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "owners"),
    [
        (("--cost",), "passages"),
        (("--nli-model", "any"), "citations"),
        (("--most-citations", "2"), "citations"),
        (("--passage-score", "top5-mean"), "passages, citations, faithfulness"),
        (("--hidden-layer", "1"), "passages, citations, faithfulness"),
        (("--language-model", "any"), "passages, citations, faithfulness"),
    ],
)
def test_option_of_another_measure_is_refused_with_its_own(ragtruth, option, owners, capsys):
    assert evaluate("--dataset", "ragtruth", "--data", ragtruth, *option) == 2
    expected = f"{option[0]} is for --measure {owners}, what is measured is: support; leave it out"
    assert expected in capsys.readouterr().err


def test_option_of_the_suite_is_refused_without_it(ragtruth, capsys):
    assert evaluate("--dataset", "ragtruth", "--data", ragtruth, "--chinese-parser", "any") == 2
    assert "--chinese-parser is for --suite" in capsys.readouterr().err


def test_log_without_labelled_passages_says_where_to_name_its_labels(tmp_path, capsys):
    row = {"record_id": "r", "question": "", "passages": [{"text": "Ada lit it."}], "answer": "Ada."}
    log = write_log_rows(tmp_path / "log.parquet", [row | {"unsupported_spans": []}])
    assert evaluate("--dataset", "log", "--data", log) == 1
    assert "1 rows skipped: no_gold_passage; if its labels are of another kind, name it with --measure" in (
        capsys.readouterr().err
    )
