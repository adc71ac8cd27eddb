"""``attribeam evaluate`` on a data set with citations."""

import json

import pytest
from tests.evaluation.dataset_rows import alce_row, write_alce
from tests.evaluation.evaluate_command import evaluate
from tests.evaluation.tiny_nli import save_tiny_nli


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
