"""The benchmarks: generated rows, models to measure, machines, what is kept, and the GPU report."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from tests.attribution.made_rows import record
from tests.attribution.methods.hand_parser import ANSWER
from tests.attribution.tiny_models import save_tiny_model
from tests.evaluation.dataset_rows import write_rows
from tests.transforms.tiny_parser import save_tiny_parser
from transformers import AutoModel, AutoModelForCausalLM

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.evaluation.datasets.labelled_log import load_judged_log
from attribeam.logs.columns import LogOptions
from attribeam.schemas.errors import DataError
from lab.benchmarks import attribution_latency, attribution_memory, attribution_profile, model_workers, peers
from lab.benchmarks.gpu_report import PARTS, Target, sizes_for
from lab.benchmarks.latency_methods import EagerPass, TwoStage
from lab.benchmarks.support_check import load_support_rows, main

PARSERS = {
    "attribution_latency": attribution_latency._parser, "attribution_memory": attribution_memory._parser,
    "attribution_profile": attribution_profile._parser, "model_workers": model_workers._parser,
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
@pytest.mark.parametrize("model", [None, "an/own-model"])
@pytest.mark.parametrize("part", [name for name in PARTS if name != "tests"])
def test_commands_are_ones_that_the_benchmarks_take(part, model, device):
    commands = PARTS[part].commands(Target(device, model, sizes_for(device)))
    assert commands
    for _, module, *options in commands:
        args = PARSERS[module.rpartition(".")[2]]().parse_args(options)
        assert args.device == device
        assert model is None or args.model == model


WEB_ANSWERS = Path(str(files("lab.benchmarks"))) / "web_answers.jsonl"
MADE_ANSWERS = Path(str(files("lab.training.verdict"))) / "made_answers.jsonl"


@pytest.fixture(scope="module")
def dataset():
    return load_judged_log(WEB_ANSWERS, LogOptions(format="jsonl"))


def test_no_verdict_is_fitted_to_an_answer_of_it(dataset):
    fitted = MADE_ANSWERS.read_text(encoding="utf-8")
    assert not [one.record.record_id for one in dataset.answers if one.record.answer in fitted]


RECORDS = [
    record(["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."], "Ada Thorne lit the lamp."),
    record(["A short one."], "Yes."),
    record(["The lamp was seen from twelve miles away."] * 3, "Twelve miles away, in the tower."),
]


@pytest.mark.parametrize("kind", [AutoModel, AutoModelForCausalLM], ids=["without a head", "with a head"])
@pytest.mark.parametrize("together", [False, True], ids=["single", "batch"])
@pytest.mark.parametrize("other", [TwoStage, EagerPass])
def test_all_implementations_give_the_same_attributions(tmp_path, kind, together, other):
    directory = save_tiny_model(tmp_path, "qwen2")
    ours = AttentionModel.from_pretrained(
        ModelOptions(model=str(directory), device="cpu"), method=MethodOptions(top_k=2)
    )
    theirs = other(kind.from_pretrained(directory).eval(), layer=ours.layer)
    rows, counts = [ours.encode(one) for one in RECORDS], [len(one.passages) for one in RECORDS]
    expected = ours.attribute(rows, counts)
    if together:
        found = theirs.attribute(rows, counts, top_k=2)
    else:
        found = [theirs.attribute([row], [count], top_k=2)[0] for row, count in zip(rows, counts, strict=True)]
    for one, own in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.top_columns, own.top_columns)
        np.testing.assert_allclose(one.top_scores, own.top_scores, atol=1e-5)
        np.testing.assert_allclose(one.passage_mass, own.passage_mass, atol=1e-5)
        np.testing.assert_allclose(one.sink_mass, own.sink_mass, atol=1e-5)


def test_peers_are_compared_on_the_rows_that_both_took():
    found = {peers.OURS: peers.RowTimes(str, {0: [0.1, 0.3, 0.2], 1: [0.8]}), "slow": peers.RowTimes(str, {0: [0.5]})}
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in peers.table(found).splitlines()[2:]]
    assert lines == [[peers.OURS, "500", "1.0", "2", "4"], ["slow", "500", "2.5", "1", "1"]]


def test_peers_table_leaves_out_packages_that_are_missing(capsys, monkeypatch):
    monkeypatch.setattr(peers, "VERSIONS", dict.fromkeys(peers.VERSIONS, "0.0.0"))
    assert peers.main(["--shape", "tiny", "--rows", "1", "--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    assert printed.count(" 0.0.0 is left out: ") == 3
    names = [line.split("|")[1].strip() for line in printed.splitlines() if line.endswith("|    1 |    1 |")]
    assert names[0] == peers.OURS
    assert len(names) == 4


PASSAGES = [
    {"passage_id": "a", "title": "Choir", "text": "Ada sings on Sundays."},
    {"passage_id": "b", "title": None, "text": "The bells ring at noon."},
]
SPANS = [
    {"text": "Bells ring", "supported": True, "kind": "paraphrase"},
    {"text": "Ada sings", "supported": True, "kind": "supported"},
    {"text": "Jon dances", "supported": False, "kind": "wrong name"},
]


def row(record_id, passages):
    return {"record_id": record_id, "question": "Who?", "passages": passages, "answer": ANSWER, "spans": SPANS}


@pytest.fixture
def data(tmp_path):
    empty = [{"passage_id": "a", "title": None, "text": " "}]
    return write_rows(tmp_path / "rows.jsonl", [row("one", PASSAGES), row("empty", empty), row("two", PASSAGES[::-1])])


def support_row(*spans, answer="The bell rang and the bell fell."):
    passages = [{"passage_id": "a", "title": None, "text": "A bell fell."}]
    return {"record_id": "r", "question": "What fell?", "passages": passages, "answer": answer, "spans": list(spans)}


def span(text, *, kind="supported", supported=True, **fields):
    return {"text": text, "supported": supported, "kind": kind, **fields}


def load(tmp_path, *spans):
    return load_support_rows(write_rows(tmp_path / "rows.jsonl", [support_row(*spans)]))


@pytest.mark.parametrize(("broken", "message"), [
    (span("gong"), r"rows\.jsonl, line 1, spans\[0\]: field 'text' should be part of the row's answer"),
    (span(""), "field 'text' should be part"),
    (span("bell"), "field 'text' occurs 2 times in the answer; 'occurrence' should say"),
    (span("bell", occurrence=3), r"field 'occurrence' should be from 1 to 2, was: 3"),
    (span("rang", kind="wrong colour"), "field 'kind' should be one of"),
    (span("rang", kind="wrong name"), "field 'supported' should be false for kind 'wrong name'"),
    ({"text": "rang", "kind": "supported"}, "field 'supported' should be true or false, is missing"),
])  # fmt: skip
def test_broken_span_is_an_error_that_names_row_and_field(tmp_path, broken, message):
    with pytest.raises(DataError, match=message):
        load(tmp_path, broken)


def test_command_prints_the_table_and_its_verdict_and_names_what_is_missing(data, tmp_path, capsys):
    models = ["--model", str(save_tiny_model(tmp_path / "model"))]
    models += ["--parser", str(save_tiny_parser(tmp_path / "parser"))]
    assert main(["--rows", str(data), "--bootstrap-draws", "20", *models, "--verdict", "mass"]) == 0
    assert "\nverdict in use: none, no thresholds are known for this model" in capsys.readouterr().out
    assert main(["--rows", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl does not exist" in capsys.readouterr().err
