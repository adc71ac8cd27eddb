import hashlib
import json

import pytest
from tests.attribution.methods.hand_parser import ANSWER, PARSED
from tests.attribution.tiny_models import save_tiny_model
from tests.lab.evaluation.dataset_rows import write_rows
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.options import ModelOptions
from attribeam.lab.evaluation.support.support_rows import load_support_rows, support_check_table, write_support_check
from attribeam.lab.evaluation.support_check import check_support, flagged_spans, main
from attribeam.schemas import SpanKind
from attribeam.schemas.errors import DataError

PASSAGES = [
    {"passage_id": "a", "title": "Choir", "text": "Ada sings on Sundays."},
    {"passage_id": "b", "title": None, "text": "The bells ring at noon."},
]
SPANS = [
    {"text": "Bells ring", "supported": True, "kind": "paraphrase"},
    {"text": "Ada sings", "supported": True, "kind": "supported"},
    {"text": "Jon dances", "supported": False, "kind": "wrong name"},
]


def row(record_id: str, passages: list[dict[str, object]]) -> dict[str, object]:
    return {"record_id": record_id, "question": "Who?", "passages": passages, "answer": ANSWER, "spans": SPANS}


class OneAnswerParser:
    """A parser that knows only the answer in this file."""

    identity = "by-hand"

    def parse_many(self, texts, _passages):
        return iter([PARSED for text in texts if text == ANSWER])


@pytest.fixture(scope="module")
def attributor(tmp_path_factory) -> Attributor:
    directory = save_tiny_model(tmp_path_factory.mktemp("llama"))
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))
    return Attributor(parser=OneAnswerParser(), model=model, spans=(SpanKind.GIVEN,))


@pytest.fixture
def data(tmp_path):
    empty = [{"passage_id": "a", "title": None, "text": " "}]
    return write_rows(tmp_path / "rows.jsonl", [row("one", PASSAGES), row("empty", empty), row("two", PASSAGES[::-1])])


def test_each_span_keeps_its_own_truth_and_row(attributor, data):
    spans, _ = flagged_spans(load_support_rows(data), attributor)
    assert [str(span.truth) for span in spans] == ["paraphrase", "supported", "wrong name"] * 2
    assert [span.row for span in spans] == [0, 0, 0, 1, 1, 1]
    assert [span.has_unmatched_values for span in spans[:3]] == [False, False, True]


def test_refused_rows_are_listed_and_left_out_of_the_figures(attributor, data):
    report = check_support(load_support_rows(data), attributor, data=data, draws=20, seed=0)
    assert [(failed.row, failed.reason) for failed in report.failed_rows] == [(1, "no_passages")]
    assert (report.rows, report.figures[0].spans) == (2, 6)
    assert "row 1 failed and is left out: no_passages" in support_check_table(report)


def test_only_refused_rows_are_an_error(attributor, tmp_path):
    data = write_rows(tmp_path / "rows.jsonl", [row("empty", [{"passage_id": "a", "title": None, "text": " "}])])
    with pytest.raises(DataError, match="should have answers that can be audited"):
        check_support(load_support_rows(data), attributor, data=data, draws=20, seed=0)


def test_report_names_what_the_figures_depend_on_and_is_repeatable(attributor, data, tmp_path):
    outputs = [tmp_path / name for name in ("one.json", "two.json")]
    for output in outputs:
        write_support_check(output, check_support(load_support_rows(data), attributor, data=data, draws=20, seed=3))
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    report = json.loads(outputs[0].read_text())
    assert report["data_sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    assert (report["method"], report["bootstrap_seed"]) == ("attn-union-dep", 3)
    provenance = report["provenance"]
    assert (provenance["parser"], provenance["verdict"], "supported_threshold" in provenance) == (
        "by-hand",
        "bundled",
        False,
    )
    assert 0 < float(provenance["answer_risk_threshold"]) < 1
    assert [figures["kind"] for figures in report["figures"]] == ["all", "supported", "paraphrase", "wrong name"]


def test_shares_count_spans_of_both_sides(attributor, data):
    report = check_support(load_support_rows(data), attributor, data=data, draws=20, seed=0)
    of_kind = {figures.kind: figures for figures in report.figures}
    assert report.unsupported_flagged == of_kind["wrong name"].flagged == 100.0
    supported = (of_kind["supported"].called_supported + of_kind["paraphrase"].called_supported) / 2
    assert report.supported_called_supported == pytest.approx(supported)


def test_missing_file_is_one_line_and_exit_code_two(tmp_path, capsys):
    assert main(["--rows", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl does not exist" in capsys.readouterr().err


def test_verdict_is_the_one_that_is_asked_for(data, tmp_path, capsys):
    models = [
        "--model",
        str(save_tiny_model(tmp_path / "model")),
        "--parser",
        str(save_tiny_parser(tmp_path / "parser")),
    ]
    assert main(["--rows", str(data), "--bootstrap-draws", "20", *models]) == 0
    assert "\nverdict in use: bundled, an answer has an unsupported claim from risk" in capsys.readouterr().out
    assert main(["--rows", str(data), "--bootstrap-draws", "20", *models, "--verdict", "mass"]) == 0
    assert "\nverdict in use: none, no thresholds are known for this model" in capsys.readouterr().out


def test_output_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys):
    assert main(["--output", str(tmp_path / "no" / "report.json")]) == 2
    assert "--output should be a file in an existing directory" in capsys.readouterr().err


def test_model_that_does_not_exist_is_one_line(data, tmp_path, capsys):
    assert main(["--rows", str(data), "--model", str(tmp_path / "nothing"), "--parser", str(tmp_path / "nothing")]) == 2
    assert "nothing' should be a directory with config.json, there is none; check --model" in capsys.readouterr().err
