import json
import shutil

import pytest
from tests.attribution.tiny_models import save_tiny_encoder
from tests.evaluation.dataset_rows import write_rows
from tests.evaluation.evaluate_command import evaluate
from tests.evaluation.suite_rows import results_of, suite, table, write_english

from attribeam.evaluation.suite import tables as figures
from attribeam.schemas.errors import ExitCode

PICTURES = {"sensitivity_layer.png", "sensitivity_top_k.png", "sensitivity_isolation_tau.png", "alternatives.png"}
MODEL_FREE = {"words", "words-dep", "words-sent", "random", "oracle"}


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


def test_suite_writes_tables_json_and_all_figures(finished):
    assert {path.name for path in finished.iterdir()} == {"tables.md", "results.json", *PICTURES}
    for name in PICTURES:
        assert (finished / name).read_bytes().startswith(b"\x89PNG")
        assert f"]({name})" in (finished / "tables.md").read_text()


def test_accuracy_table_holds_the_numbers_of_the_json(finished):
    results, (header, *rows) = results_of(finished), table(finished, "Passage accuracy")
    datasets = results["accuracy"]
    assert header[1::2] == [f"{one['dataset']} ({one['spans']} spans, {one['answers']} answers)" for one in datasets]
    assert [row[0] for row in rows] == [score["method"] for score in datasets[0]["scores"]]
    for row in rows:
        for place, dataset in enumerate(datasets):
            (score,) = (one for one in dataset["scores"] if one["method"] == row[0])
            low, high = score["interval"]["low"], score["interval"]["high"]
            assert row[1 + 2 * place] == f"{score['passage_accuracy']:.1f} ({low:.1f} to {high:.1f})"
            shown = score["difference_to_words"]
            assert row[2 + 2 * place].startswith("–" if shown is None else f"{shown:+.1f} (")


def test_latency_table_holds_the_numbers_of_the_json(finished):
    (_, *rows), costs = table(finished, "Latency"), results_of(finished)["latency"]
    quotesum = {one["method"]: one for one in costs if one["dataset"] == "quotesum dev"}
    assert [row[:3] for row in rows] == [
        [name, f"{one['ms_per_span']:.1f}", f"{one['peak_memory_mib']:.0f}"] for name, one in quotesum.items()
    ]


def test_sensitivity_has_the_default_in_bold_with_the_accuracy_of_the_main_table(finished):
    results = results_of(finished)
    header, *rows = table(finished, "Sensitivity to layer, k and tau")
    assert header == ["layer", "quotesum dev", "veri_gran dev"]
    main = {row[0]: row for row in table(finished, "Passage accuracy")}["attn-union-dep"]
    assert [row for row in rows if "**" in row[0]] == [["**2**", f"**{main[1]}**", f"**{main[3]}**"]]
    lines = {(one["dataset"], one["varied"]): one["points"] for one in results["sensitivity"]}
    assert [point["value"] for point in lines["quotesum dev", "isolation_tau"]] == ["0", "1", "2", "3", "4", "5", "inf"]
    defaults = {point["passage_accuracy"] for one in lines.values() for point in one if point["is_default"]}
    scores = [one["passage_accuracy"] for data in results["accuracy"][:2] for one in data["scores"]]
    assert defaults <= set(scores)


def test_accuracy_is_that_of_a_plain_evaluation(encoder, data, finished, tmp_path):
    output = tmp_path / "plain.json"
    given = ["--dataset", "quotesum", "--data", data / "quotesum" / "dev.jsonl", "--model", encoder, "--output", output]
    given += ["--bootstrap-draws", 40, "--device", "cpu"]
    assert evaluate(*given) == 0
    fields = ("method", "passage_accuracy", "interval", "difference_to_words", "difference_interval", "spans", "rows")
    plain = [tuple(one[name] for name in fields) for one in json.loads(output.read_text())]
    assert MODEL_FREE | {"attn-union-dep", "hss-avg"} <= {one[0] for one in plain}
    scores = results_of(finished)["accuracy"][0]["scores"]
    assert [one for score in scores if (one := tuple(score[name] for name in fields)) in plain] == plain


def test_union_is_compared_with_the_average_and_alternatives_with_augmentation(finished):
    accuracy = results_of(finished)["accuracy"][0]
    value = {one["method"]: one["passage_accuracy"] for one in accuracy["scores"]}
    pairs = {(one["method"], one["reference"]): one["value"] for one in accuracy["differences"]}
    assert {("hss-union", "hss-avg"), ("hss-union", "attn-union-dep"), ("augment-by-attn", "attn-union-dep")} <= set(
        pairs
    )
    assert pairs == {(own, other): pytest.approx(value[own] - value[other]) for own, other in pairs}


def test_what_an_encoder_cannot_do_and_what_is_missing_is_listed(finished):
    _, *rows = table(finished, "Left out")
    assert [row[0] for row in rows] == [
        "cci and log-probability drops", "sentence level", "support labels", "Chinese", "other models",
    ]  # fmt: skip
    assert rows[0][1:] == ["the model is not a causal language model, and none is named", "--language-model NAME"]
    assert "no Chinese data, no Chinese parser is named" in rows[3]
    text = (finished / "tables.md").read_text()
    assert "`alce/*.json or alce/*.json.xz`" in text
    assert "cci" not in {row[0] for row in table(finished, "Passage accuracy")}
    assert "veri_gran/*.jsonl" not in text.split("Not found below DATA")[1]


def test_found_and_missing_data_is_printed(encoder, data, tmp_path, capsys):
    assert suite(data, tmp_path / "output", "--model", encoder, "--method", "words") == 0
    printed = capsys.readouterr().out
    assert "found quotesum dev (quotesum): 2 answers\n" in printed
    assert "not found: ragtruth/response.jsonl or ragtruth/response.jsonl.xz\n" in printed


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--dataset", "quotesum"), 2, "--suite runs all data sets and measures; leave --dataset out"),
        (("--measure", "citations"), 2, "leave --measure out"),
        (("--cost",), 2, "--suite always measures costs; leave --cost out"),
        (("--answers", "generated"), 2, "add --spans cti"),
        (("--model", "./nowhere"), 2, "should be a directory with config.json"),
        (("--parser", "./nowhere"), 1, "--parser './nowhere' could not be loaded"),
        (("--chinese-parser", "./nowhere"), 1, "--chinese-parser './nowhere' could not be loaded"),
    ],
)
def test_options_without_meaning_are_an_error_before_anything_runs(data, tmp_path, capsys, options, code, message):
    assert suite(data, tmp_path / "output", *options) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "output").exists()


def test_suite_without_matplotlib_says_what_to_install(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(figures, "_LIBRARY", "no_such_library")
    assert suite(data, tmp_path / "output") == 1
    assert "pip install 'attribeam[evaluation]'" in capsys.readouterr().err


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
