import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.evaluation.dataset_rows import lfqa_row, quotesum_row, write_rows
from tests.evaluation.evaluate_command import evaluate

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.evaluation.comparison import run_methods, score_methods
from attribeam.evaluation.datasets.marked_datasets import load_quotesum
from attribeam.evaluation.report import comparison_remarks
from attribeam.schemas.errors import ExitCode

ROWS = [
    quotesum_row("The lamp is kept by [ 1 Ada Thorne ] , the buoy by [ 1 Jon Reed ] .", row_id="q_0"),
    quotesum_row("No mark.", row_id="q_1"),
    quotesum_row("[ 2 A bell ] rings.", row_id="q_2"),
]


@pytest.fixture
def data(tmp_path):
    return write_rows(tmp_path / "dev.jsonl", ROWS)


def test_report_has_one_object_per_method_with_all_fields(tmp_path, data):
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


def test_reports_of_two_runs_are_byte_identical(tmp_path, data):
    outputs = [tmp_path / name for name in ("one.json", "two.json")]
    for output in outputs:
        assert evaluate("--dataset", "quotesum", "--data", data, "--method", "words", "--output", output) == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_table_names_accuracy_interval_and_skipped_rows(data, capsys):
    assert evaluate("--dataset", "quotesum", "--data", data, "--method", "words") == 0
    title, header, _, line, *remarks = capsys.readouterr().out.splitlines()
    assert title == "quotesum (dev.jsonl): 3 spans of 2 answers"
    assert header.split()[:3] == ["method", "accuracy", "%"]
    assert line.split()[:2] == ["words", "66.7"]
    assert remarks == ["skipped row 1: no_span"]


def test_method_named_twice_runs_once(tmp_path, data):
    output = tmp_path / "figures.json"
    twice = ("--method", "words", "--method", "words")
    assert evaluate("--dataset", "quotesum", "--data", data, *twice, "--output", output) == 0
    assert len(json.loads(output.read_text())) == 1


def test_limit_takes_the_first_answers(tmp_path, data):
    output = tmp_path / "figures.json"
    arguments = ("--dataset", "quotesum", "--data", data, "--method", "words", "--limit", 1, "--output", output)
    assert evaluate(*arguments) == 0
    (entry,) = json.loads(output.read_text())
    assert (entry["rows"], entry["spans"], entry["limit"]) == (1, 2, 1)


def test_spans_with_one_passage_are_counted_separately(tmp_path, capsys):
    row = lfqa_row("A lamp burns.", ["The lamp burns."], [("A lamp burns.", 0, "lamp burns")])
    data = write_rows(tmp_path / "l.jsonl.xz", [row])
    assert evaluate("--dataset", "lfqa", "--data", data, "--method", "words") == 0
    assert "1 spans have only one passage to choose from" in capsys.readouterr().out


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


def error_of(capsys, *arguments: object, code: ExitCode = ExitCode.BAD_USAGE) -> str:
    assert evaluate(*arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_missing_data_file_is_one_line_and_exit_code_2(tmp_path, capsys):
    message = error_of(capsys, "--dataset", "quotesum", "--data", tmp_path / "no.jsonl", "--method", "words")
    assert "no.jsonl does not exist; --data should name" in message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("no.parquet", None, "no.parquet' is not there"),
        ("cut.parquet", b"PAR1", "cut.parquet' should be readable Parquet, but its footer is not"),
        ("raw.parquet", b"\xff\xfe", "raw.parquet' should be a Parquet file"),
    ],
)
def test_log_that_cannot_be_read_is_one_line_and_exit_code_2(tmp_path, capsys, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert message in error_of(capsys, "--dataset", "log", "--data", tmp_path / name, "--method", "words")


def test_data_of_another_set_names_line_and_field(data, capsys):
    message = error_of(capsys, "--dataset", "veri-gran", "--data", data, "--method", "words")
    assert "dev.jsonl, line 1: field 'passages' should be a list of strings, is missing" in message


def test_file_without_labelled_answers_is_an_error(tmp_path, capsys):
    path = write_rows(tmp_path / "q.jsonl", [quotesum_row("No mark.")])
    expected = "should have labelled answers, has none: 1 rows skipped: no_span"
    assert expected in error_of(capsys, "--dataset", "quotesum", "--data", path)


def test_parser_that_does_not_exist_is_named(tmp_path, data, capsys):
    arguments = ("--dataset", "quotesum", "--data", data, "--method", "words-dep", "--parser", tmp_path / "none")
    assert "see --parser" in error_of(capsys, *arguments)


def test_output_without_a_directory_is_refused_before_anything_runs(tmp_path, data, capsys):
    arguments = ("--dataset", "quotesum", "--data", data, "--method", "words", "--output", tmp_path / "a" / "b.json")
    assert evaluate(*arguments) == ExitCode.BAD_USAGE
    assert "--output should be a file in an existing directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--dataset", "other"),
        ("--top-k", "0"),
        ("--isolation-tau", "1.5"),
        ("--limit", "few"),
        ("--seed", "-1"),
    ],
)
def test_bad_option_is_exit_code_2(data, option, value, capsys):
    with pytest.raises(SystemExit) as exit_info:
        evaluate("--dataset", "quotesum", "--data", data, option, value)
    assert exit_info.value.code == 2
    assert option in capsys.readouterr().err


def test_neither_data_set_nor_suite_is_exit_code_2(data, capsys):
    assert evaluate("--data", data) == 2
    assert "name a data set with --dataset, one of" in capsys.readouterr().err


def test_method_of_the_users_own_is_evaluated_beside_the_others(tmp_path, data, monkeypatch, capsys):
    guide = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    (tmp_path / "names_of_guide.py").write_text(guide.split("```python\n")[1].split("```")[0])
    monkeypatch.syspath_prepend(tmp_path)
    methods = ("--method", "names_of_guide:FirstNames", "--method", "words")
    assert evaluate("--dataset", "quotesum", "--data", data, *methods) == 0
    assert "names_of_guide:FirstNames" in capsys.readouterr().out


def test_unknown_method_is_refused_with_the_nearest_names(data, capsys):
    assert evaluate("--dataset", "quotesum", "--data", data, "--method", "attn-unoin") == ExitCode.BAD_USAGE
    assert "did you mean attn-union" in capsys.readouterr().err


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
