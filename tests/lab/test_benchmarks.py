"""The benchmarks: generated rows, models to measure, machines, what is kept, and the GPU report."""

from __future__ import annotations

import json
import lzma
import os
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest
import torch
from tests.attribution.methods.hand_parser import ANSWER, PARSED
from tests.attribution.tiny_models import save_tiny_model
from tests.evaluation.dataset_rows import write_rows
from tests.evaluation.support.judged_examples import span as evidence
from tests.transforms.tiny_parser import save_tiny_parser
from transformers import AutoModel, AutoModelForCausalLM, PreTrainedModel

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.evaluation.datasets.labelled_log import load_judged_log
from attribeam.logs.columns import LogOptions
from attribeam.schemas import CharRange, Passage, QARecord, RowSource, SpanKind, Support
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import JudgedDataset
from lab.benchmarks import (
    attribution_latency,
    attribution_memory,
    attribution_profile,
    audit_throughput,
    gpu_report,
    machine,
    model_workers,
    random_model,
)
from lab.benchmarks.attribution_latency import (
    LatencyMeasurement,
    LatencyRun,
    Mode,
    TimeIsUpError,
    forward_operations,
    measure,
    ratios,
    table,
    time_limit,
)
from lab.benchmarks.generated_rows import (
    ANSWER_WORDS,
    PASSAGE_WORDS,
    SHORT_ANSWER_WORDS,
    RowShape,
    benchmark_rows,
    made_up_pages,
    read_pages,
    write_log,
)
from lab.benchmarks.gpu_report import PARTS, Part, Target, sizes_for
from lab.benchmarks.latency_methods import CCI, LATENCY_SHAPES, LatencyShape, TwoStage, latency_records
from lab.benchmarks.machine import ProcessRun, machine_description, markdown_table, run_measured, tree_bytes
from lab.benchmarks.random_model import NamedModel, RandomModel
from lab.benchmarks.support_check import (
    EVERYDAY_ROWS,
    SHIPPED_ROWS,
    FlaggedSpan,
    SpanTruth,
    flagged_spans,
    kind_lines,
    load_support_rows,
    main,
    suggested_thresholds,
    support_lines,
)


def test_folder_to_keep_audits_in_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit_throughput, "run_measured", lambda _: ProcessRun(0, 2.0, 1.0, 2**20, ""))
    keep = tmp_path / "audits" / "kept"
    monkeypatch.setattr(sys, "argv", ["audit_throughput", "--rows", "3", "5", "--keep", str(keep)])
    assert audit_throughput.main() == 0
    assert [len(list(keep.glob(f"attribeam-{rows}-*/qa_logs.parquet"))) for rows in (3, 5)] == [1, 1]
    assert "rows/s x 1.67, peak memory x 1.00" in capsys.readouterr().out


def test_interrupted_benchmark_leaves_no_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> ProcessRun:
        assert len(list(tmp_path.glob("attribeam-3-*/qa_logs.parquet"))) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(audit_throughput, "run_measured", interrupted)
    monkeypatch.setattr(sys, "argv", ["audit_throughput", "--rows", "3"])
    with pytest.raises(KeyboardInterrupt):
        audit_throughput.main()
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> NamedModel:
    return NamedModel(str(RandomModel("tiny").save(tmp_path_factory.mktemp("tiny") / "model")))


def test_named_model_attributes_as_the_model_that_was_saved(saved: NamedModel) -> None:
    record = latency_records(LATENCY_SHAPES[0], 1)[0]
    row = RandomModel("tiny").encoder().encode(record)
    found = []
    for model in (saved, RandomModel("tiny")):
        (tokens,) = model.attributor().attribute([row], [len(record.passages)])
        assert isinstance(tokens, TokenAttribution)
        found.append(tokens)
    np.testing.assert_array_equal(found[0].top_columns, found[1].top_columns)
    np.testing.assert_array_equal(found[0].passage_mass, found[1].passage_mass)


def test_named_model_is_timed_like_a_random_one(saved: NamedModel) -> None:
    """Only AttnUnion: the layers above L* were not saved."""
    found = measure(LatencyRun("attn_union", Mode.BATCHES, saved, rows=1))
    assert [(one.shape, one.rows, one.spans) for one in found] == [
        ("QuoteSum", 1, 4),
        ("ASQA", 1, 3),
        ("VERI-GRAN", 1, 1),
    ]
    assert all(one.operations > 0 and one.seconds > 0 for one in found)


@pytest.fixture(scope="module")
def pages():
    return made_up_pages(seed=3, pages=20, vocabulary=500)


def test_equal_seeds_give_equal_rows(pages):
    assert made_up_pages(seed=3, pages=20, vocabulary=500) == pages
    assert list(benchmark_rows(pages, rows=5, seed=1)) == list(benchmark_rows(pages, rows=5, seed=1))
    assert list(benchmark_rows(pages, rows=5, seed=1)) != list(benchmark_rows(pages, rows=5, seed=2))


def test_rows_have_the_requested_lengths(pages):
    rows = list(benchmark_rows(pages, rows=200, seed=0))
    assert {len(row.passages) for row in rows} == {2, 3, 4, 5, 6}
    assert {len(passage.text.split()) for row in rows for passage in row.passages} == {PASSAGE_WORDS}
    assert {len(row.answer.split()) for row in rows} == {ANSWER_WORDS}
    assert len({row.record_id for row in rows}) == 200


def test_short_rows_are_short_and_quote_their_first_passage(pages):
    rows = list(benchmark_rows(pages, rows=100, seed=0, shape=RowShape.SHORT))
    assert {len(row.passages) for row in rows} == {1, 2}
    assert {len(passage.text.split()) for row in rows for passage in row.passages} == {30}
    assert {len(row.answer.split()) for row in rows} == {SHORT_ANSWER_WORDS}
    assert all(row.answer.rstrip(".") in row.passages[0].text for row in rows)


def test_quotesum_rows_have_the_shape_of_quotesum(pages):
    rows = list(benchmark_rows(pages, rows=300, seed=0, shape=RowShape.QUOTESUM))
    assert {len(row.passages) for row in rows} == {3, 4, 5}
    assert 4.5 < sum(len(row.target_spans) for row in rows) / 300 < 4.7
    characters = sum(len(passage.text) for row in rows for passage in row.passages) / 300
    assert 6.5 < characters / (sum(len(row.answer) for row in rows) / 300) < 8.2


def test_log_has_the_columns_of_a_qa_log(tmp_path, pages):
    path = tmp_path / "qa_logs.parquet"
    write_log(path, benchmark_rows(pages, rows=1003, seed=0))
    table = pq.read_table(path)
    assert table.num_rows == 1003
    assert table.column_names == ["record_id", "question", "passages", "answer", "target_spans"]
    first = next(benchmark_rows(pages, rows=1, seed=0))
    assert table["passages"][0].as_py()[1]["text"] == first.passages[1].text
    assert table["answer"][0].as_py() == first.answer


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.jsonl.xz"])
def test_pages_are_read_and_short_ones_left_out(tmp_path, name):
    lines = [{"title": "Long", "paras": ["one two", "three " * 90]}, {"title": "Short", "paras": ["few words"]}]
    text = "\n".join(json.dumps(line) for line in lines).encode()
    path = tmp_path / name
    path.write_bytes(lzma.compress(text) if name.endswith(".xz") else text)
    (page,) = read_pages(path)
    assert (page.title, len(page.words)) == ("Long", 92)


@pytest.mark.parametrize("shape", LATENCY_SHAPES, ids=lambda shape: shape.name)
def test_rows_have_the_characters_and_spans_of_their_shape(shape: LatencyShape) -> None:
    records = latency_records(shape, 10)
    for record in records:
        characters = sum(len(passage.text) for passage in record.passages)
        assert 0.93 * shape.passage_characters < characters <= shape.passage_characters
        assert 0.9 * shape.answer_characters < len(record.answer) <= shape.answer_characters
        for span in record.target_spans or ():
            assert span.char_end <= len(record.answer)
    spans = sum(len(record.target_spans or ()) for record in records) / len(records)
    assert spans == {"QuoteSum": 4.6, "ASQA": 3.5, "VERI-GRAN": 1.2}[shape.name]


PARSERS = {
    "attribution_latency": attribution_latency._parser,
    "attribution_memory": attribution_memory._parser,
    "attribution_profile": attribution_profile._parser,
    "model_workers": model_workers._parser,
}


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
@pytest.mark.parametrize("model", [None, "an/own-model"])
@pytest.mark.parametrize("part", [name for name in PARTS if name != "tests"])
def test_commands_are_ones_that_the_benchmarks_take(part: str, model: str | None, device: str) -> None:
    commands = PARTS[part].commands(Target(device, model, sizes_for(device)))
    assert commands
    for _, module, *options in commands:
        args = PARSERS[module.rpartition(".")[2]]().parse_args(options)
        assert args.device == device
        assert model is None or args.model == model


def test_page_says_how_each_command_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [["-c", "print('a line')"], ["-c", "raise SystemExit(3)"], ["-c", "import signal; signal.pause()"]]
    monkeypatch.setitem(PARTS, "tests", Part("Tests", lambda _: commands))
    monkeypatch.setattr(sys, "argv", ["gpu_report", "--output", str(tmp_path), "--device", "cpu"])
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--parts", "tests", "memory", "--minutes", "0.05"])
    assert gpu_report.main() == 1
    page = (tmp_path / "report.md").read_text()
    for words in ("a line\n```", "FAILED with exit code 3", "stopped, time was up", "not run, time was up"):
        assert words in page


def test_memory_of_a_row_is_measured_beside_the_loaded_model() -> None:
    model = RandomModel("tiny")
    found = attribution_memory.measure_row(model.attributor(), model, 300)
    assert found.peak >= found.before > 2**20


MIB = 2**20


def test_memory_of_a_child_of_the_command_counts():
    child = f"import time; block = b'x' * {200 * MIB}; time.sleep(2)"
    parent = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {child!r}]))"
    run = run_measured([sys.executable, "-c", parent])
    assert run.exit_code == 0
    assert 200 * MIB < run.peak_bytes < 400 * MIB
    assert run.wall_seconds >= 2


def test_failure_is_reported_with_its_error_output():
    run = run_measured([sys.executable, "-c", "import sys; sys.exit('no room')"])
    assert (run.exit_code, run.standard_error.strip()) == (1, "no room")


def test_ended_process_counts_as_zero():
    assert tree_bytes(os.getpid()) > MIB
    assert tree_bytes(2**22 - 1) == 0


def test_processor_is_named_with_its_instructions_for_products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told = tmp_path / "cpuinfo"
    told.write_text("model name\t: A Processor\nflags\t\t: fpu avx2 amx_bf16 sse\nmodel name\t: Another\n")
    monkeypatch.setattr(machine, "_INFORMATION", told)
    assert machine_description().startswith("A Processor with avx2 amx_bf16, ")


def test_padded_columns_of_a_table_line_up():
    assert markdown_table(("method", "F1"), [["words", "4.5"]]) == "| method | F1 |\n| --- | ---: |\n| words | 4.5 |"
    table = markdown_table(("rows", "MiB"), [["10", "1,024"], ["10,000", "9"]], padded=True)
    assert table.splitlines()[1:] == ["| ------ | ----: |", "| 10     | 1,024 |", "| 10,000 |     9 |"]


WEB_ANSWERS = Path(str(files("lab.benchmarks"))) / "web_answers.jsonl"
MADE_ANSWERS = Path(str(files("lab.training.verdict"))) / "made_answers.jsonl"


@pytest.fixture(scope="module")
def dataset() -> JudgedDataset:
    return load_judged_log(WEB_ANSWERS, LogOptions(format="jsonl"))


def test_every_row_is_read_and_has_the_marks_that_the_documents_count(dataset: JudgedDataset) -> None:
    assert dataset.skipped == ()
    assert Counter(one.group for one in dataset.answers) == {"web": 1588, "news": 268}
    assert Counter(one.group for one in dataset.answers if one.unsupported) == {"web": 740, "news": 90}
    assert len({one.record.record_id for one in dataset.answers}) == len(dataset.answers)


def test_a_mark_is_text_without_blanks_around_it(dataset: JudgedDataset) -> None:
    for answer in dataset.answers:
        for mark in answer.unsupported or ():
            text = mark.chars.of(answer.record.answer)
            assert text == text.strip() != "", answer.record.record_id


def test_no_verdict_is_fitted_to_an_answer_of_it(dataset: JudgedDataset) -> None:
    fitted = MADE_ANSWERS.read_text(encoding="utf-8")
    assert not [one.record.record_id for one in dataset.answers if one.record.answer in fitted]


RECORDS = [
    QARecord("r", "Who kept the lamp?", tuple(map(Passage, passages)), answer, RowSource("log.parquet", 0))
    for passages, answer in [
        (["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."], "Ada Thorne lit the lamp."),
        (["A short one."], "Yes."),
        (["The lamp was seen from twelve miles away."] * 3, "Twelve miles away, in the tower."),
    ]
]


@pytest.mark.parametrize("kind", [AutoModel, AutoModelForCausalLM], ids=["without a head", "with a head"])
@pytest.mark.parametrize("together", [False, True], ids=["single", "batch"])
def test_both_implementations_give_the_same_attributions(tmp_path: Path, kind: type[AutoModel], together: bool) -> None:
    directory = save_tiny_model(tmp_path, "qwen2")
    ours = AttentionModel.from_pretrained(
        ModelOptions(model=str(directory), device="cpu"), method=MethodOptions(top_k=2)
    )
    theirs = TwoStage(kind.from_pretrained(directory).eval(), layer=ours.layer)
    rows, counts = [ours.encode(one) for one in RECORDS], [len(one.passages) for one in RECORDS]
    expected = ours.attribute(rows, counts)
    if together:
        found = theirs.attribute(rows, counts, top_k=2)
    else:
        found = [theirs.attribute([row], [count], top_k=2)[0] for row, count in zip(rows, counts, strict=True)]
    for one, other in zip(found, expected, strict=True):
        assert isinstance(other, TokenAttribution)
        np.testing.assert_array_equal(one.top_columns, other.top_columns)
        np.testing.assert_allclose(one.top_scores, other.top_scores, atol=1e-5)
        np.testing.assert_allclose(one.passage_mass, other.passage_mass, atol=1e-5)
        np.testing.assert_allclose(one.sink_mass, other.sink_mass, atol=1e-5)


MEASURED = LatencyMeasurement("attn_union", "single", "QuoteSum", 2, 4, 1000, 2.0, 5e8, 2**30)


class Waiting:
    """A method that never ends by itself."""

    def encode(self, record: QARecord) -> object:
        return CCI(RandomModel("tiny")).encode(record)

    def run(self, _: object) -> None:
        while True:
            signal.pause()


def test_method_that_takes_too_long_is_stopped_and_the_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LatencyRun, "load", lambda _: Waiting())
    found = measure(LatencyRun("cci", Mode.SINGLE, RandomModel("tiny"), rows=1, limit=0.05))
    assert [(one.shape, one.stopped, one.seconds) for one in found] == [
        ("QuoteSum", True, 0.05),
        ("ASQA", True, 0.05),
        ("VERI-GRAN", True, 0.05),
    ]
    line = table([replace(found[0], seconds=180.0)], peak=1e9).splitlines()[-1]
    assert "| stopped after 180 s |" in line


def test_limit_ends_with_its_block() -> None:
    with pytest.raises(TimeIsUpError), time_limit(0.01):
        signal.pause()
    with time_limit(60):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_table_has_the_times_per_span_and_per_row() -> None:
    cells = [cell.strip() for cell in table([MEASURED], peak=1e9).splitlines()[-1].strip("|").split("|")]
    assert cells == ["QuoteSum", "AttnUnion", "single", "500", "2.0", "500.0", "1000.0", "500", "25 %", "1,024"]


def test_ratios_leave_out_stopped_methods() -> None:
    slower = replace(MEASURED, method="two_stage", seconds=5.0)
    assert "AttnUnion is 2.50 times as fast" in ratios([MEASURED, slower])
    assert ratios([MEASURED, replace(slower, stopped=True)]) == ""


def test_operations_count_the_layers_that_run() -> None:
    config, tokens = random_model.SHAPES["qwen2-7b"], 100
    projections = 3584 * (3584 + 2 * 512)
    layer = projections + 3584 * 3584 + 3 * 3584 * 18_944
    attention = 2 * tokens * tokens * 3584
    assert forward_operations(config, tokens=tokens, layer=15) == (
        14 * (2 * tokens * layer + attention) + 2 * tokens * projections
    )


def test_contrastive_gradients_follow_the_definition() -> None:
    record = QARecord(
        "r",
        "Who kept the lamp?",
        (Passage("The keeper lived in the tower."), Passage("Ada Thorne lit the lamp.")),
        "Ada Thorne did.",
        RowSource("log.parquet", 0),
        target_spans=(CharRange(0, 10),),
    )
    method = CCI(RandomModel("tiny"))
    row = method.encode(record)
    (found,) = method._saliency(record, row, [1])
    model = RandomModel("tiny").causal(implementation="eager")
    without = method.encode(replace(record, passages=()))
    prompt, response = without.token_ids[: without.prompt_length], row.token_ids[row.prompt_length :]
    foil = int(_next(model, model.get_input_embeddings()(_ids(np.append(prompt, response[:1])))).argmax())
    embedded = model.get_input_embeddings()(_ids(row.token_ids[: row.prompt_length + 1])).requires_grad_()
    log_probabilities = _next(model, embedded)
    assert foil != response[1]
    (log_probabilities[response[1]] - log_probabilities[foil]).backward()
    expected = embedded.grad[0, : row.prompt_length].norm(dim=-1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * float(expected.max()))


def _next(model: PreTrainedModel, embedded: torch.Tensor) -> torch.Tensor:
    """The log-probabilities after the last token."""
    found: torch.Tensor = model(inputs_embeds=embedded).logits[0, -1].log_softmax(-1)
    return found


def _ids(token_ids: npt.NDArray[np.int32]) -> torch.Tensor:
    return torch.from_numpy(token_ids.astype(np.int64))[None]


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
    assert [bool(span.evidence.unmatched_values) for span in spans[:3]] == [False, False, True]


def test_refused_rows_are_listed_and_left_out_of_the_figures(attributor, data):
    lines = [*support_lines(load_support_rows(data), attributor, data=data, draws=20, seed=0)]
    assert lines[0] == "rows.jsonl: 6 spans of 2 answers, attn-union-dep"
    assert lines[-1] == "row 1 failed and is left out: no_passages"


def test_only_refused_rows_are_an_error(attributor, tmp_path):
    data = write_rows(tmp_path / "rows.jsonl", [row("empty", [{"passage_id": "a", "title": None, "text": " "}])])
    with pytest.raises(DataError, match="should have answers that can be audited"):
        [*support_lines(load_support_rows(data), attributor, data=data, draws=20, seed=0)]


RIGHT, WRONG = SpanTruth.SUPPORTED, SpanTruth.WRONG_NUMBER


def flagged(truth, mass, support=Support.SUPPORTED, *, row=0, unmatched=False) -> FlaggedSpan:
    values = ("1874",) if unmatched else ()
    return FlaggedSpan(row, truth, evidence("x", "x", support, evidence_mass=mass, unmatched_values=values))


def test_unmatched_value_lifts_the_flag_above_the_mass():
    spans = [flagged(RIGHT, 0.6), flagged(WRONG, 0.9, Support.WEAK, unmatched=True)]
    assert kind_lines(spans, draws=10, seed=0)[0][2::2] == ("0.000", "1.000", "50.0")


def test_each_kind_is_compared_with_all_spans_of_the_other_side():
    spans = [
        flagged(RIGHT, 0.9),
        flagged(SpanTruth.PARAPHRASE, 0.5, row=1),
        flagged(WRONG, 0.7, row=2),
        flagged(SpanTruth.WRONG_NAME, 0.1, row=3),
    ]
    areas = {line[0]: line[2] for line in kind_lines(spans, draws=20, seed=0)}
    wanted = {"all": "0.750", "supported": "1.000", "paraphrase": "0.500", "wrong number": "0.500"}
    assert areas == wanted | {"wrong name": "1.000"}


def test_shares_are_percent_of_the_kind():
    levels = (Support.SUPPORTED, Support.WEAK, Support.UNSUPPORTED, Support.UNSUPPORTED)
    (_, wrong) = kind_lines([flagged(WRONG, 0.7, level) for level in levels], draws=5, seed=0)
    assert wrong == ("wrong number", "4", "", "", "", "", "75.0", "25.0")


def test_supported_threshold_lies_in_the_middle_of_the_gap_and_unmatched_values_do_not_move_it():
    spans = [*(flagged(RIGHT, mass) for mass in (0.6, 0.7, 0.8)), *(flagged(WRONG, mass) for mass in (0.1, 0.2, 0.4))]
    unmatched = [flagged(WRONG, 0.9, Support.WEAK, unmatched=True)] * 3
    for some in (spans, [*spans, *unmatched]):
        supported, weak = suggested_thresholds(some)
        assert supported == pytest.approx(0.5, abs=0.002)
        assert weak <= supported
    assert suggested_thresholds(spans[:3]) is None


def support_row(*spans: dict[str, object], answer: str = "The bell rang and the bell fell.") -> dict[str, object]:
    passages = [{"passage_id": "a", "title": None, "text": "A bell fell."}]
    return {"record_id": "r", "question": "What fell?", "passages": passages, "answer": answer, "spans": list(spans)}


def span(text: str, *, kind: str = "supported", supported: bool = True, **fields: object) -> dict[str, object]:
    return {"text": text, "supported": supported, "kind": kind, **fields}


def load(tmp_path, *spans):
    return load_support_rows(write_rows(tmp_path / "rows.jsonl", [support_row(*spans)]))


def test_span_is_found_by_its_text_and_keeps_its_truth(tmp_path):
    (answer,) = load(
        tmp_path, span("the bell fell", kind="paraphrase"), span("rang", kind="contradicted", supported=False)
    )
    chars = [one.of(answer.record.answer) for one in answer.record.target_spans]
    assert chars == ["the bell fell", "rang"]
    assert answer.truths == (SpanTruth.PARAPHRASE, SpanTruth.CONTRADICTED)
    assert answer.record.passages[0].title is None


def test_occurrence_counts_from_one(tmp_path):
    (answer,) = load(tmp_path, span("bell", occurrence=2))
    (chars,) = answer.record.target_spans
    assert chars.char_start == answer.record.answer.rindex("bell")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (span("gong"), r"rows\.jsonl, line 1, spans\[0\]: field 'text' should be part of the row's answer"),
        (span(""), "field 'text' should be part"),
        (span("bell"), "field 'text' occurs 2 times in the answer; 'occurrence' should say"),
        (span("bell", occurrence=3), r"field 'occurrence' should be from 1 to 2, was: 3"),
        (span("rang", kind="wrong colour"), "field 'kind' should be one of"),
        (span("rang", kind="wrong name"), "field 'supported' should be false for kind 'wrong name'"),
        ({"text": "rang", "kind": "supported"}, "field 'supported' should be true or false, is missing"),
    ],
)
def test_broken_span_is_an_error_that_names_row_and_field(tmp_path, broken, message):
    with pytest.raises(DataError, match=message):
        load(tmp_path, broken)


def test_same_range_twice_and_a_row_without_spans_are_refused(tmp_path):
    with pytest.raises(DataError, match="field 'spans' should have 2 different ranges"):
        load(tmp_path, span("rang"), span("rang", kind="paraphrase"))
    with pytest.raises(DataError, match="field 'spans' should have at least one item"):
        load(tmp_path)


def test_shipped_rows_are_read():
    assert [len(load_support_rows(file)) for file in (SHIPPED_ROWS, EVERYDAY_ROWS)] == [71, 54]


def test_command_prints_the_table_and_its_verdict_and_names_what_is_missing(data, tmp_path, capsys):
    models = ["--model", str(save_tiny_model(tmp_path / "model"))]
    models += ["--parser", str(save_tiny_parser(tmp_path / "parser"))]
    assert main(["--rows", str(data), "--bootstrap-draws", "20", *models, "--verdict", "mass"]) == 0
    assert "\nverdict in use: none, no thresholds are known for this model" in capsys.readouterr().out
    assert main(["--rows", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl does not exist" in capsys.readouterr().err
