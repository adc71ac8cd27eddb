"""The measure that ``attribeam evaluate`` chooses for a data set, and the options that it then refuses."""

import pytest
from tests.evaluation.dataset_rows import ragtruth_response, ragtruth_source, write_log_rows, write_ragtruth
from tests.evaluation.evaluate_command import evaluate

from attribeam.evaluation.datasets.loaders import Measure, measure_of


@pytest.fixture
def ragtruth(tmp_path):
    source = ragtruth_source("s", {"question": "Who lit it?", "passages": "passage 1:Ada lit the lamp in 1874."})
    return write_ragtruth(tmp_path / "ragtruth", [source], [ragtruth_response("1", "s", "Ada lit it.")])


def test_default_measure_is_the_first_that_the_data_set_has_labels_for():
    assert [measure_of(name, None) for name in ("quotesum", "log", "alce", "ragtruth")] == [
        Measure.PASSAGES,
        Measure.PASSAGES,
        Measure.CITATIONS,
        Measure.SUPPORT,
    ]
    assert measure_of("log", "support") is Measure.SUPPORT


def test_measure_without_labels_is_refused_and_possible_ones_named(ragtruth, capsys):
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
    ],
)
def test_option_of_another_measure_is_refused_and_its_measures_named(ragtruth, option, owners, capsys):
    assert evaluate("--dataset", "ragtruth", "--data", ragtruth, *option) == 2
    expected = f"{option[0]} applies to --measure {owners}, not to support; leave it out"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--language-model", "any"), ("--language-model-dtype", "bfloat16")])
def test_language_model_is_refused_for_a_verdict_without_a_probe(ragtruth, option, capsys):
    assert evaluate("--dataset", "ragtruth", "--data", ragtruth, *option) == 2
    assert f"{option[0]} says nothing to --measure support without a --verdict" in capsys.readouterr().err


def test_precision_of_a_language_model_is_refused_where_none_is_read(tmp_path, capsys):
    log = tmp_path / "log.parquet"
    given = ("--method", "words", "--language-model-dtype", "bfloat16")
    assert evaluate("--dataset", "log", "--data", log, *given) == 2
    assert "--language-model-dtype is for cci and --measure faithfulness, none of which" in capsys.readouterr().err


def test_option_of_the_suite_is_refused_without_it(ragtruth, capsys):
    assert evaluate("--dataset", "ragtruth", "--data", ragtruth, "--chinese-parser", "any") == 2
    assert "--chinese-parser is for --suite" in capsys.readouterr().err


def test_log_without_labelled_passages_says_where_to_name_its_labels(tmp_path, capsys):
    row = {"record_id": "r", "question": "", "passages": [{"text": "Ada lit it."}], "answer": "Ada."}
    log = write_log_rows(tmp_path / "log.parquet", [row | {"unsupported_spans": []}])
    assert evaluate("--dataset", "log", "--data", log) == 2
    assert "1 rows skipped: no_gold_passage; if its labels are of another kind, name it with --measure" in (
        capsys.readouterr().err
    )
