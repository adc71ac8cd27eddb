"""``attribeam evaluate`` on answers in which a person marked what is unsupported."""

import json

import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.evaluation.dataset_rows import (
    bump_row,
    evaluate,
    mtrag_row,
    quotesum_row,
    ragtruth_response,
    ragtruth_source,
    write_ragtruth,
    write_rows,
)
from tests.transforms.tiny_parser import save_tiny_parser


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    models = ("--model", save_tiny_model(folder / "model"), "--parser", save_tiny_parser(folder / "parser"))
    return (*models, "--bootstrap-draws", 20)


@pytest.fixture
def ragtruth(tmp_path):
    source = ragtruth_source("s", {"question": "Who lit it?", "passages": "passage 1:Ada lit the lamp in 1874."})
    long = ragtruth_source("l", "lamp " * 700, task="Summary")
    marked = ragtruth_response("1", "s", "Ada lit it in 1999.", {"in 1999": "Conflict"})
    train = ragtruth_response("3", "s", "Ada lit it.", split="train")
    responses = [marked, ragtruth_response("2", "s", "Ada lit it."), train, ragtruth_response("4", "l", "A lamp.")]
    return write_ragtruth(tmp_path / "ragtruth", [source, long], responses)


def test_flags_of_an_audit_are_scored_against_the_test_split(ragtruth, models, tmp_path, capsys):
    output = tmp_path / "figures.json"
    assert evaluate("--dataset", "ragtruth", "--data", ragtruth, *models, "--output", output) == 0
    figures = json.loads(output.read_text())
    (method,) = figures["methods"]
    (group,) = method["groups"]
    assert (figures["split"], method["method"]) == ("test", "attn-union-dep")
    assert (group["answers"], group["marked_answers"]) == (2, 1)
    assert [one["row"] for one in method["failed_rows"]] == [3]
    assert group["kinds"][0]["characters"] == 6
    assert set(figures["data_sha256"]) == {"response.jsonl", "source_info.jsonl"}
    (compared,) = method["comparison"]
    names = [one["scorer"] for one in compared["scorers"]]
    assert names == ["attn-union-dep", "attn-union-dep share", "novelty", "flag-all"]
    assert compared["claims"] > 0
    printed = capsys.readouterr().out
    assert printed.startswith("ragtruth, attn-union-dep: 1 of 2 answers are unsupported; flags: F1 ")
    assert "\nattn-union-dep, or weak  " in printed
    assert "1 rows failed and are left out: too_many_tokens" in printed


def test_report_names_the_verdict_that_was_in_use(ragtruth, models, tmp_path, capsys):
    asked = ("--dataset", "ragtruth", "--data", ragtruth, *models)
    outputs = [tmp_path / name for name in ("fitted.json", "mass.json")]
    assert evaluate(*asked, "--output", outputs[0]) == 0
    assert evaluate(*asked, "--output", outputs[1], "--supported-threshold", 0.4, "--weak-threshold", 0.2) == 0
    fitted, mass = (json.loads(one.read_text())["methods"][0]["provenance"] for one in outputs)
    assert {"answer_risk_threshold", "verdict_model"} <= set(fitted)
    assert "supported_threshold" not in fitted
    assert (mass["supported_threshold"], mass["weak_threshold"]) == ("0.4", "0.2")
    printed = capsys.readouterr().out
    risk = fitted["answer_risk_threshold"]
    assert f"\nverdict in use: bundled, an answer has an unsupported claim from risk {risk} on\n" in printed
    assert "\nverdict in use: mass, supported from 0.4 on, unsupported below 0.2\n" in printed


def test_method_that_raises_no_flags_is_refused(ragtruth, capsys):
    both = ("--method", "attn-union", "--method", "words")
    assert evaluate("--dataset", "ragtruth", "--data", ragtruth, *both) == 2
    wanted = "--method should be attn-union-dep or attn-union, or novelty or flag-all for no audit, was: words"
    assert wanted in capsys.readouterr().err


def test_baselines_alone_need_no_model(ragtruth, tmp_path, capsys):
    output = tmp_path / "figures.json"
    asked = ("--dataset", "ragtruth", "--data", ragtruth, "--method", "novelty", "--model", "no such model")
    assert evaluate(*asked, "--output", output, "--bootstrap-draws", 20) == 0
    figures = json.loads(output.read_text())
    everything, qa, summary = figures["baselines"]
    assert figures["methods"] == []
    assert [one["group"] for one in (everything, qa, summary)] == ["all", "QA", "Summary"]
    scorers = [(one["scorer"], one["answers"]["value"]) for one in everything["scorers"]]
    assert scorers == [("novelty", 1), ("flag-all", 0.5)]
    assert "ragtruth, QA: 1 of 2 answers unsupported; novelty, flag-all" in capsys.readouterr().out


def test_answers_are_grouped_by_what_gave_them(tmp_path, capsys):
    rows = [mtrag_row("Ada lit it.", "4", model="one"), mtrag_row("Zebras lit it.", "1", model="two")]
    data = write_rows(tmp_path / "mtrag.jsonl", [*rows, mtrag_row("Ada.", "1", model="reference")])
    asked = ("--dataset", "mtrag", "--data", data, "--method", "novelty", "--bootstrap-draws", 20)
    assert evaluate(*asked, "--by", "generator") == 0
    printed = capsys.readouterr().out
    assert "mtrag, all: 1 of 2 answers unsupported" in printed
    assert "mtrag, two: 1 of 1 answers unsupported" in printed


def test_answers_judged_as_a_whole_are_audited_and_have_no_characters(models, tmp_path, capsys):
    data, output = write_rows(tmp_path / "bump.jsonl", [bump_row(0, "Jon Reed lit the lamp.")]), tmp_path / "f.json"
    assert evaluate("--dataset", "bump", "--data", data, *models, "--output", output) == 0
    (method,) = json.loads(output.read_text())["methods"]
    (group,) = method["groups"]
    assert (group["answers"], group["marked_answers"], group["span_flag"]) == (2, 1, None)
    assert {level["characters"] for level in group["levels"]} == {None}
    assert group["answer_flag"] is not None
    printed = capsys.readouterr().out
    assert "bump, all: 1 of 2 answers unsupported; attn-union-dep" in printed
    assert not {"spans", "claims", "characters"} & set(printed.split())


@pytest.fixture
def quotesum(tmp_path):
    rows = [quotesum_row("[ 1 Ada Thorne ] keeps the lamp since [ 1 1874 ] ."), quotesum_row("No mark.")]
    return write_rows(tmp_path / "quotesum.jsonl", rows)


def test_flags_on_spans_that_people_took_from_their_sources_are_counted(quotesum, models, tmp_path, capsys):
    output = tmp_path / "figures.json"
    asked = ("--dataset", "quotesum", "--data", quotesum, "--measure", "support")
    assert evaluate(*asked, *models, "--output", output) == 0
    (method,) = json.loads(output.read_text())["methods"]
    assert (method["answers"], method["spans"]) == (1, 2)
    assert sum(level["spans"] for level in method["levels"]) == 2
    assert method["levels"][-1]["support"] == "unsupported"
    assert "answer_risk_threshold" in method["provenance"]
    printed = capsys.readouterr().out
    assert printed.startswith("quotesum, attn-union-dep: 2 spans of 1 answers, all supported\n")
    assert "1 rows skipped: no_span" in printed


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--by", "generator"), "--by is for judged answers, not for quotesum"),
        (("--method", "novelty"), "a baseline flags no spans of quotesum"),
    ],
)
def test_options_of_judged_answers_are_refused_for_labelled_spans(quotesum, options, problem, capsys):
    assert evaluate("--dataset", "quotesum", "--data", quotesum, "--measure", "support", *options) == 2
    assert problem in capsys.readouterr().err
