import json

import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.evaluation.dataset_rows import quotesum_row, write_rows
from tests.evaluation.evaluate_command import evaluate

HIDDEN = ("--method", "hss-union-dep", "--method", "hss-avg")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    row = quotesum_row("The lamp is kept by [ 1 Ada Thorne ] , the buoy by [ 2 Jon Reed ] .")
    return save_tiny_model(folder / "model"), write_rows(folder / "dev.jsonl", [row])


def evaluate_tiny(files, *arguments):
    model, data = files
    fixed = ("--dataset", "quotesum", "--data", data, "--model", model, "--device", "cpu", "--bootstrap-draws", 10)
    return evaluate(*fixed, *arguments)


def entries(files, tmp_path, *arguments):
    output = tmp_path / "figures.json"
    assert evaluate_tiny(files, *arguments, "--output", output) == 0
    return json.loads(output.read_text())


def test_hidden_state_methods_run_alone_at_the_middle_layer(files, tmp_path):
    union, average = entries(files, tmp_path, *HIDDEN, "--passage-score", "top5-mean")
    assert (union["method"], average["method"]) == ("hss-union-dep", "hss-avg")
    assert union["failed_rows"] == average["failed_rows"] == []
    assert (union["provenance"]["hidden_layer"], union["provenance"]["passage_score"]) == ("2", "top5-mean")


def test_hidden_layer_above_the_captured_one_is_used_on_request(files, tmp_path):
    union, _ = entries(files, tmp_path, *HIDDEN, "--hidden-layer", 4)
    assert union["provenance"]["hidden_layer"] == "4"
    assert union["failed_rows"] == []


def test_hidden_layer_above_the_model_is_a_clear_error(files, capsys):
    assert evaluate_tiny(files, *HIDDEN, "--hidden-layer", 5) == 2
    assert "--hidden-layer should be from 0 to the model's 4 layers, was: 5" in capsys.readouterr().err


@pytest.mark.parametrize("layer", ["-1", "1.5", "two"])
def test_hidden_layer_that_is_not_a_whole_number_is_a_usage_error(files, layer, capsys):
    with pytest.raises(SystemExit):
        evaluate_tiny(files, *HIDDEN, "--hidden-layer", layer)
    assert "should be a whole number from 0" in capsys.readouterr().err


def test_unknown_passage_score_is_a_usage_error(files, capsys):
    with pytest.raises(SystemExit):
        evaluate_tiny(files, "--passage-score", "median")
    assert "should be one of 'sum', 'top5-mean', was: 'median'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "methods"), [("--hidden-layer", "the hss methods"), ("--language-model", "cci and")]
)
def test_option_of_a_model_that_no_method_needs_is_refused(files, option, methods, capsys):
    assert evaluate_tiny(files, "--method", "attn-union", option, 1) == 2
    assert f"{option} is for {methods}" in capsys.readouterr().err
