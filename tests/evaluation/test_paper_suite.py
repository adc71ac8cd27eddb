import json
import shutil

import pytest
from tests.attribution.tiny_models import save_tiny_encoder, save_tiny_model
from tests.evaluation.dataset_rows import write_rows
from tests.evaluation.evaluate_command import evaluate
from tests.evaluation.suite_rows import results_of, suite, write_all, write_english
from tests.evaluation.tiny_nli import save_tiny_nli

from attribeam.evaluation.paper_suite import varied_layers
from attribeam.schemas.errors import ExitCode


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_tiny_encoder(tmp_path_factory.mktemp("model"), layer_types=["sliding_attention", "full_attention"])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_english(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def finished(encoder, data, tmp_path_factory):
    """The output directory of a complete run with an encoder; tests must not change it."""
    output = tmp_path_factory.mktemp("suite") / "output"
    assert suite(data, output, "--model", encoder) == 0
    return output


def figures_of(output, dataset, measure):
    (found,) = [one for one in results_of(output)["results"] if (one["dataset"], one["measure"]) == (dataset, measure)]
    return found["figures"]


def test_every_data_set_has_its_measures_in_json_and_tables(finished):
    assert {path.name for path in finished.iterdir()} == {"tables.md", "results.json"}
    steps = [(one["dataset"], one["measure"]) for one in results_of(finished)["results"]]
    assert steps == [
        ("quotesum dev", "passages"),
        ("quotesum dev", "sensitivity"),
        ("veri_gran dev", "passages"),
        ("veri_gran dev", "sensitivity"),
        ("lfqa dev", "passages"),
    ]
    text = (finished / "tables.md").read_text()
    for dataset, measure in steps:
        assert f"\n## {dataset}: {measure}\n" in text


def test_accuracy_is_that_of_a_plain_evaluation(encoder, data, finished, tmp_path):
    output = tmp_path / "plain.json"
    given = ["--dataset", "quotesum", "--data", data / "quotesum" / "dev.jsonl", "--model", encoder, "--output", output]
    assert evaluate(*given, "--bootstrap-draws", 40, "--device", "cpu") == 0
    costs = {"ms_per_span": None, "peak_memory_mib": None}
    plain = json.loads(output.read_text())
    assert {"words", "oracle", "attn-union-dep", "hss-avg"} <= {one["method"] for one in plain}
    assert [one | costs for one in figures_of(finished, "quotesum dev", "passages")] == plain
    assert all(one["ms_per_span"] > 0 for one in figures_of(finished, "quotesum dev", "passages"))


def test_sensitivity_varies_one_option_at_a_time_around_the_default(finished):
    lines = figures_of(finished, "quotesum dev", "sensitivity")["lines"]
    assert [one["value"] for one in lines["isolation_tau"]] == ["0", "1", "2", "3", "4", "5", "inf"]
    scores = {one["method"]: one for one in figures_of(finished, "quotesum dev", "passages")}
    for points in lines.values():
        (default,) = [one for one in points if one["is_default"]]
        assert default["passage_accuracy"] == scores["attn-union-dep"]["passage_accuracy"]
        assert default["interval"] == scores["attn-union-dep"]["interval"]


def test_swept_layers_are_about_twelve_and_hold_the_default():
    assert varied_layers((1, 3, 5), 3) == [1, 3, 5]
    assert varied_layers(range(1, 81), 41) == [1, 7, 14, 21, 28, 35, 41, 42, 49, 56, 63, 70, 77]


def test_what_an_encoder_cannot_do_and_what_is_missing_is_listed(finished):
    left_out = results_of(finished)["left_out"]
    lacking = "the model is not a causal language model, and none is named; add --language-model NAME"
    assert left_out[:2] == [f"{name}, faithfulness: {lacking}" for name in ("quotesum dev", "veri_gran dev")]
    assert "alce/*.json or alce/*.json.xz: not found" in left_out
    assert f"- {left_out[-1]}\n" in (finished / "tables.md").read_text()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of some methods on every data set, with a decoder and all optional models."""
    decoder, nli = save_tiny_model(tmp_path_factory.mktemp("llama")), save_tiny_nli(tmp_path_factory.mktemp("nli"))
    output = tmp_path_factory.mktemp("suite")
    methods = [part for name in ("attn-union", "cci", "words", "random", "oracle") for part in ("--method", name)]
    named = ("--model", decoder, "--nli-model", nli, "--chinese-parser", "bundled", "--spans", "cti")
    assert suite(write_all(tmp_path_factory.mktemp("data")), output, *named, *methods) == 0
    return output


def test_a_decoder_serves_as_the_language_model_and_the_oracle_drops_most(whole):
    assert "cci" in {one["method"] for one in figures_of(whole, "quotesum dev", "passages")}
    drops = figures_of(whole, "quotesum dev", "faithfulness")
    assert drops["spans"] == "cti"
    of_method = {one["method"]: one["log_probability_drop"] for one in drops["rows"]}
    assert list(of_method) == ["random", "words", "cci", "attn-union", "oracle"]
    assert max(of_method.values()) == of_method["oracle"]


def test_citations_support_and_chinese_are_run_where_their_models_are_named(whole):
    citing = [one["method"] for one in figures_of(whole, "alce asqa", "citations")["rows"]]
    assert citing == ["self-citation", "attn-union", "cci", "words", "random", "oracle"]
    (support,) = figures_of(whole, "ragtruth", "support")["methods"]
    assert (support["method"], support["groups"][0]["answers"]) == ("attn-union", 2)
    chinese = [one["method"] for one in figures_of(whole, "chinese quotesum", "passages")]
    assert chinese == ["words", "attn-union"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dataset", "quotesum"), "--suite runs all data sets and measures; leave --dataset out"),
        (("--measure", "citations"), "leave --measure out"),
        (("--cost",), "leave --cost and --sweep-layers out"),
        (("--answers", "generated"), "add --spans cti"),
        (("--model", "./nowhere"), "should be a directory with config.json"),
        (("--method", "module:Class"), "--suite compares its own methods"),
    ],
)
def test_options_without_meaning_are_an_error_before_anything_runs(data, tmp_path, capsys, options, message):
    assert suite(data, tmp_path / "output", *options) == ExitCode.BAD_USAGE
    assert message in capsys.readouterr().err
    assert not (tmp_path / "output").exists()


def test_directory_without_data_is_an_error_with_the_layout(tmp_path, capsys):
    assert suite(tmp_path, tmp_path / "output") == 2
    assert "should contain one of quotesum/*.jsonl or quotesum/*.jsonl.xz, veri_gran/" in capsys.readouterr().err
    assert suite(tmp_path / "nowhere", tmp_path / "output") == 2
    assert "--data of a suite should be a directory" in capsys.readouterr().err


def test_data_in_another_format_is_an_error_before_anything_runs(data, tmp_path, capsys):
    other = shutil.copytree(data, tmp_path / "data")
    write_rows(other / "veri_gran" / "test.jsonl", [{"question": "x"}])
    assert suite(other, tmp_path / "output") == ExitCode.BAD_USAGE
    assert "test.jsonl, line 1" in capsys.readouterr().err
    assert not (tmp_path / "output").exists()
