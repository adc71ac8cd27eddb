"""``attribeam evaluate``: its options, the measure that it chooses, and the paper's suite."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.attribution.tiny_models import save_tiny_encoder, save_tiny_model
from tests.evaluation.dataset_rows import (
    evaluate,
    lfqa_row,
    quotesum_row,
    ragtruth_response,
    ragtruth_source,
    results_of,
    suite,
    write_all,
    write_english,
    write_log_rows,
    write_ragtruth,
    write_rows,
)
from tests.evaluation.tiny_nli import save_tiny_nli

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import LoadedModels
from attribeam.evaluation.datasets.published import load_quotesum
from attribeam.evaluation.measures.accuracy import comparison_remarks, run_methods, score_methods
from attribeam.schemas.errors import ExitCode

ROWS = [
    quotesum_row("The lamp is kept by [ 1 Ada Thorne ] , the buoy by [ 1 Jon Reed ] .", row_id="q_0"),
    quotesum_row("No mark.", row_id="q_1"),
    quotesum_row("[ 2 A bell ] rings.", row_id="q_2"),
]


@pytest.fixture
def data(tmp_path):
    return write_rows(tmp_path / "dev.jsonl", ROWS)


def test_figures_do_not_take_the_place_of_the_labelled_data(data, capsys):
    before = data.read_bytes()
    assert evaluate("--dataset", "quotesum", "--data", data, "--method", "words", "--output", data) == 2
    assert "is one of the files to read" in capsys.readouterr().err
    assert data.read_bytes() == before


def test_report_and_table_have_one_entry_per_method_with_all_fields(tmp_path, data, capsys):
    output = tmp_path / "figures.json"
    assert evaluate("--dataset", "quotesum", "--data", data, "--method", "words", "--output", output) == 0
    (entry,) = json.loads(output.read_text())
    assert entry["passage_accuracy"] == pytest.approx(200 / 3)
    assert (entry["method"], entry["spans"], entry["rows"]) == ("words", 3, 2)
    assert entry["interval"]["low"] <= entry["passage_accuracy"] <= entry["interval"]["high"]
    assert entry["skipped_rows"] == [{"row": 1, "reason": "no_span", "file": None}]
    assert (entry["failed_rows"], entry["difference_to_words"], entry["highlights"]) == ([], None, None)
    assert entry["data_sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    assert (entry["dataset"], entry["data_file"], entry["confidence"]) == ("quotesum", "dev.jsonl", 0.95)
    assert {"bootstrap_draws", "bootstrap_seed", "limit", "spans_without_evidence", "difference_interval"} <= set(entry)
    assert "python_version" in entry["provenance"]
    title, header, _, line, *remarks = capsys.readouterr().out.splitlines()
    assert title == "quotesum (dev.jsonl): 3 spans of 2 answers"
    assert header.split()[:3] == ["method", "accuracy", "%"]
    assert line.split()[:2] == ["words", "66.7"]
    assert remarks == ["skipped row 1: no_span", f"written to {output}"]


def test_limit_takes_the_first_answers(tmp_path, data):
    output = tmp_path / "figures.json"
    arguments = ("--dataset", "quotesum", "--data", data, "--method", "words", "--limit", 1, "--output", output)
    assert evaluate(*arguments) == 0
    (entry,) = json.loads(output.read_text())
    assert (entry["rows"], entry["spans"], entry["limit"]) == (1, 2, 1)


def test_highlights_of_words_are_in_report_and_table(tmp_path, capsys):
    # of the document "lamp" and "burns" are matched, 9 of the 10 characters that are highlighted
    row = lfqa_row("A lamp burns.", ["The lamp burns.", "Fog."], [("A lamp burns.", 0, "lamp burns.")])
    data, output = write_rows(tmp_path / "l.jsonl", [row]), tmp_path / "figures.json"
    assert evaluate("--dataset", "lfqa", "--data", data, "--method", "words", "--output", output) == 0
    (entry,) = json.loads(output.read_text())
    characters, sentences = entry["highlights"], entry["sentences"]
    assert (characters["recall"], characters["precision"]) == (pytest.approx(90), pytest.approx(100))
    assert characters["f1"] == characters["f1_interval"]["low"] == pytest.approx(100 * 18 / 19)
    # its sentence has 13 characters
    assert (sentences["recall"], sentences["precision"]) == (pytest.approx(100), pytest.approx(1000 / 13))
    line = [line for line in capsys.readouterr().out.splitlines() if line.startswith("words")][1]
    assert line.split()[:4] == ["words", "90.0", "100.0", "94.7"]


def test_model_free_method_loads_neither_torch_nor_spacy(data):
    code = (
        "import sys\nfrom attribeam.pipeline.command_line import main\ncode = main(['evaluate', *sys.argv[1:]])\n"
        "assert not {'torch', 'spacy'} & set(sys.modules)\nsys.exit(code)"
    )
    command = [sys.executable, "-c", code, "--dataset", "quotesum", "--data", str(data), "--method", "words"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [("--dataset", "other"), ("--top-k", "0"), ("--isolation-tau", "1.5"), ("--limit", "few"), ("--seed", "-1")],
)
def test_bad_option_is_exit_code_2(data, option, value, capsys):
    with pytest.raises(SystemExit) as exit_info:
        evaluate("--dataset", "quotesum", "--data", data, option, value)
    assert exit_info.value.code == 2
    assert option in capsys.readouterr().err


@pytest.fixture
def folder(tmp_path):
    """Data to be refused, or asked for what it does not have."""
    write_rows(tmp_path / "dev.jsonl", ROWS)
    write_rows(tmp_path / "bare.jsonl", [quotesum_row("No mark.")])
    source = ragtruth_source("s", {"question": "Who lit it?", "passages": "passage 1:Ada lit the lamp in 1874."})
    write_ragtruth(tmp_path / "ragtruth", [source], [ragtruth_response("1", "s", "Ada lit it.")])
    row = {"record_id": "r", "question": "", "passages": [{"text": "Ada lit it."}], "answer": "Ada."}
    write_log_rows(tmp_path / "log.parquet", [row | {"unsupported_spans": []}])
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    (tmp_path / "raw.parquet").write_bytes(b"\xff\xfe")
    return tmp_path


OTHERS = "passages, citations, faithfulness"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("quotesum no.jsonl --method words", "no.jsonl does not exist; --data should name"),
        ("quotesum bare.jsonl", "should have labelled answers, has none: 1 rows skipped: no_span"),
        ("quotesum dev.jsonl --method words-dep --parser ./none", "see --parser"),
        ("quotesum dev.jsonl --method attn-unoin", "did you mean attn-union"),
        ("log no.parquet --method words", "no.parquet' is not there"),
        ("log cut.parquet --method words", "cut.parquet' should be readable Parquet, but its footer is not"),
        ("log raw.parquet --method words", "raw.parquet' should be a Parquet file"),
        ("log log.parquet", "no_gold_passage; if its labels are of another kind, name it with --measure"),
        ("log log.parquet --method words --language-model-dtype bfloat16",
            "--language-model-dtype is for cci and --measure faithfulness, none of which"),
        ("ragtruth ragtruth --measure passages", "--measure of ragtruth should be one of support, was: passages"),
        ("ragtruth ragtruth --cost", "--cost applies to --measure passages, not to support; leave it out"),
        ("ragtruth ragtruth --nli-model any", "--nli-model applies to --measure citations, not to support"),
        ("ragtruth ragtruth --most-citations 2", "--most-citations applies to --measure citations, not to support"),
        ("ragtruth ragtruth --passage-score top5-mean", f"--passage-score applies to --measure {OTHERS}, not to"),
        ("ragtruth ragtruth --hidden-layer 1", f"--hidden-layer applies to --measure {OTHERS}, not to support"),
        ("ragtruth ragtruth --chinese-parser any", "--chinese-parser is for --suite"),
        ("ragtruth ragtruth --language-model any", "--language-model says nothing to --measure support without a"),
        ("ragtruth ragtruth --language-model-dtype bfloat16", "--language-model-dtype says nothing to --measure"),
    ],
)  # fmt: skip
def test_what_cannot_be_evaluated_is_one_line_and_exit_code_2(folder, monkeypatch, capsys, asked, message):
    monkeypatch.chdir(folder)
    dataset, data, *options = asked.split()
    assert evaluate("--dataset", dataset, "--data", data, *options) == ExitCode.BAD_USAGE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


def test_method_of_the_users_own_is_evaluated_beside_the_others(tmp_path, data, monkeypatch, capsys):
    guide = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    (tmp_path / "names_of_guide.py").write_text(guide.split("```python\n")[1].split("```")[0])
    monkeypatch.syspath_prepend(tmp_path)
    methods = ("--method", "names_of_guide:FirstNames", "--method", "words")
    assert evaluate("--dataset", "quotesum", "--data", data, *methods) == 0
    assert "names_of_guide:FirstNames" in capsys.readouterr().out


class IsolatedEvidence:
    """Finds the first passage for every span, by isolated evidence alone."""

    name = "alone"
    needs = frozenset()

    def span_results(self, context):
        scores = (1.0, *(0.0 for _ in context.record.passages[1:]))
        return [SpanResult(scores, isolated=True) for _ in context.spans]


@pytest.mark.parametrize(("strict", "said"), [(False, "decided by isolated"), (True, "left without evidence")])
def test_spans_that_isolated_evidence_decides_are_counted_and_told(data, strict, said):
    tallies = run_methods(load_quotesum(data).answers, [IsolatedEvidence()], LoadedModels())
    (score,) = score_methods(tallies, draws=10, seed=0)
    assert score.isolated_spans == score.spans == 3
    (remark,) = comparison_remarks([score], (), single_passage_spans=0, strict_isolation=strict)
    assert remark.startswith(f"alone: 3 of 3 spans {said}")


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
    assert (union["provenance"]["method"], average["provenance"]["method"]) == ("hss-union-dep", "hss-avg")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_tiny_encoder(tmp_path_factory.mktemp("model"), layer_types=["sliding_attention", "full_attention"])


@pytest.fixture(scope="module")
def suite_data(tmp_path_factory):
    return write_english(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def finished(encoder, suite_data, tmp_path_factory):
    """The output directory of a complete run with an encoder; tests must not change it."""
    output = tmp_path_factory.mktemp("suite") / "output"
    assert suite(suite_data, output, "--model", encoder) == 0
    return output


def figures_of(output, dataset, measure):
    (found,) = [one for one in results_of(output)["results"] if (one["dataset"], one["measure"]) == (dataset, measure)]
    return found["figures"]


def test_every_data_set_has_its_measures_in_json_and_tables(finished):
    assert {path.name for path in finished.iterdir()} == {"tables.md", "results.json"}
    steps = [(one["dataset"], one["measure"]) for one in results_of(finished)["results"]]
    both = [(name, measure) for name in ("quotesum dev", "veri_gran dev") for measure in ("passages", "sensitivity")]
    assert steps == [*both, ("lfqa dev", "passages")]
    text = (finished / "tables.md").read_text()
    for dataset, measure in steps:
        assert f"\n## {dataset}: {measure}\n" in text


def test_accuracy_is_that_of_a_plain_evaluation(encoder, suite_data, finished, tmp_path):
    output = tmp_path / "plain.json"
    given = ("--dataset", "quotesum", "--data", suite_data / "quotesum" / "dev.jsonl", "--model", encoder)
    assert evaluate(*given, "--output", output, "--bootstrap-draws", 40, "--device", "cpu") == 0
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
        ("--dataset quotesum", "--suite runs all data sets and measures; leave --dataset out"),
        ("--audit audit", "--suite runs all data sets and measures; leave --audit out"),
        ("--measure citations", "leave --measure out"), ("--cost", "leave --cost and --sweep-layers out"),
        ("--answers generated", "add --spans cti"), ("--model ./nowhere", "should be a directory with config.json"),
        ("--method module:Class", "--suite compares its own methods"),
        ("--data empty", "should contain one of quotesum/*.jsonl or quotesum/*.jsonl.xz, veri_gran/"),
        ("--data nowhere", "--data of a suite should be a directory"), ("--data faulty", "test.jsonl, line 1"),
    ],
)  # fmt: skip
def test_suite_that_cannot_be_run_is_an_error_before_anything_runs(
    suite_data, tmp_path, monkeypatch, capsys, options, message
):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    write_rows(Path(shutil.copytree(suite_data, "faulty")) / "veri_gran" / "test.jsonl", [{"question": "x"}])
    assert suite(suite_data, "output", *options.split()) == ExitCode.BAD_USAGE
    assert message in capsys.readouterr().err
    assert not Path("output").exists()
