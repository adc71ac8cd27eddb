"""``attribeam evaluate`` on answers in which a person marked what is unsupported."""

import json

import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.lab.evaluation.dataset_rows import ragtruth_response, ragtruth_source, write_ragtruth
from tests.lab.evaluation.evaluate_command import evaluate
from tests.transforms.tiny_parser import save_tiny_parser


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {"model": save_tiny_model(folder / "model"), "parser": save_tiny_parser(folder / "parser")}


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


def test_method_that_raises_no_flags_is_refused(ragtruth, capsys):
    both = ("--method", "attn-union", "--method", "words")
    assert evaluate("--dataset", "ragtruth", "--data", ragtruth, *both) == 2
    assert "--method should be attn-union-dep or attn-union, was: words" in capsys.readouterr().err
