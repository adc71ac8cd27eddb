"""A chunk in one process: no row is lost or doubled, and rows keep their order; and how a worker starts and ends."""

import errno
import os
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from threading import Barrier, get_ident
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.attribution.verdict.judged_rows import save_probed_verdict
from tests.logs.log_files import LOG_SCHEMA, log_row, write_log
from tests.pipeline.audit_fixtures import mixed_rows, run_locally, save_tiny_audit, schemas_with
from tests.pipeline.distributed_audit import ROWS_PER_CHUNK, DistributedAudit, chunk_manifests

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline import worker_pool, worker_process
from attribeam.pipeline.worker_pool import load_models
from attribeam.pipeline.worker_process import OUT_OF_MEMORY, ModelsLoaded, RunRows, WorkerDied, is_load_refusal
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.run_manifest import sum_counts
from attribeam.transforms import stages
from attribeam.transforms.audit_settings import AuditSettings, OutputSchemas
from attribeam.transforms.stages import OwnModels

ROWS = 60


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log") / "log.parquet", mixed_rows(ROWS), row_group_size=25)


@pytest.fixture(scope="module")
def audited(tmp_path_factory, settings, log):
    return Path(run_locally(log, settings, tmp_path_factory.mktemp("audited") / "attempt").folder)


def only(folder, prefix):
    (file,) = folder.glob(f"{prefix}*.parquet")
    return file


def letters_by_row(folder):
    rows = pq.read_table(only(folder, "dead_letters")).to_pylist()
    assert len({row["source_row"] for row in rows}) == len(rows)
    return {row["source_row"]: (row["stage"], row["reason"]) for row in rows}


def audited_rows(folder):
    return sorted(set(pq.read_table(only(folder, "evidence"), columns=["source_row"])["source_row"].to_pylist()))


def test_every_row_is_audited_or_dead_lettered(audited):
    letters = letters_by_row(audited)
    expected = dict.fromkeys(range(0, ROWS, 10), ("validate", "empty_answer"))
    assert letters == {**expected, 3: ("read", "invalid_utf8"), 8: ("attribute", "too_many_tokens")}
    assert sorted([*letters, *audited_rows(audited)]) == list(range(ROWS))


def test_files_keep_schema_metadata_and_nullability(audited):
    for name in ("evidence", "dead_letters"):
        assert pq.read_schema(only(audited, name)).equals(getattr(schemas_with(), name), check_metadata=True)
    assert pq.ParquetFile(only(audited, "evidence")).metadata.row_group(0).column(0).compression == "ZSTD"


def test_model_in_a_thread_of_its_own_gives_equal_bytes(tmp_path, settings, log, monkeypatch):
    monkeypatch.setattr(stages, "BLOCK_ROWS", 7)
    counted = []
    for ahead in (False, True):
        monkeypatch.setattr(stages, "runs_in_model_thread", lambda _, ahead=ahead: ahead)
        counted.append(run_locally(log, settings, tmp_path / str(ahead)).counts)
    for prefix in ("evidence", "dead_letters"):
        ours, theirs = (only(tmp_path / str(ahead), prefix).read_bytes() for ahead in (False, True))
        assert ours == theirs
    assert counted[0] == counted[1]


def test_what_the_models_thread_raises_fails_the_run(tmp_path, settings, log, monkeypatch):
    monkeypatch.setattr(stages, "runs_in_model_thread", lambda _: True)
    monkeypatch.setattr(AttentionModel, "attribute", Mock(side_effect=RuntimeError("the device fell off")))
    with pytest.raises(RuntimeError, match="the device fell off"):
        run_locally(log, settings, tmp_path / "out")


def test_rows_in_the_middle_give_the_records_of_the_whole(tmp_path, audited, settings, log):
    run_locally(log, settings, tmp_path / "out", rows=(20, 41))
    whole = pq.read_table(only(audited, "evidence")).to_pylist()
    part = pq.read_table(only(tmp_path / "out", "evidence")).to_pylist()
    expected = [row for row in whole if 20 <= row["source_row"] < 41]
    names = ("record_id", "span_index", "text", "atomic_fact")
    assert [[row[name] for name in names] for row in part] == [[row[name] for name in names] for row in expected]


def test_only_faulty_rows_write_a_file_of_evidence_without_rows(tmp_path, settings):
    file = write_log(tmp_path / "log.parquet", [log_row(0, answer=None), log_row(1, passages=[])])
    run_locally(file, settings, tmp_path / "out")
    assert pq.read_table(only(tmp_path / "out", "evidence")).num_rows == 0
    assert pq.read_schema(only(tmp_path / "out", "evidence")).equals(schemas_with().evidence, check_metadata=True)
    assert len(letters_by_row(tmp_path / "out")) == 2


def test_row_that_the_model_refuses_leaves_its_block_untouched(tmp_path, settings, monkeypatch):
    file = write_log(tmp_path / "log.parquet", [log_row(number) for number in range(5)])
    attribute = AttentionModel.attribute

    def refuse_third(model, rows, passage_counts):
        outcomes = attribute(model, rows, passage_counts)
        outcomes[2] = RowFault(Reason.OUT_OF_MEMORY, "the row should fit, does not")
        return outcomes

    monkeypatch.setattr(AttentionModel, "attribute", refuse_third)
    run_locally(file, settings, tmp_path / "out")
    assert letters_by_row(tmp_path / "out") == {2: ("attribute", "out_of_memory")}
    assert audited_rows(tmp_path / "out") == [0, 1, 3, 4]


def test_answer_that_breaks_the_parser_is_a_dead_letter_of_its_own(tmp_path, settings, monkeypatch):
    rows = [log_row(number) for number in range(6)]
    rows[4]["answer"] = "The answer that breaks it."
    parse_many = AnswerParser.parse_many

    def break_on_one(parser, texts, passages):
        if "The answer that breaks it." in texts:
            raise ValueError("[E000] The answer that breaks it.")
        return parse_many(parser, texts, passages)

    monkeypatch.setattr(AnswerParser, "parse_many", break_on_one)
    run_locally(write_log(tmp_path / "log.parquet", rows), settings, tmp_path / "out")
    assert letters_by_row(tmp_path / "out") == {4: ("parse", "parse_failed")}
    assert audited_rows(tmp_path / "out") == [0, 1, 2, 3, 5]
    (letter,) = pq.read_table(only(tmp_path / "out", "dead_letters")).to_pylist()
    assert "breaks" not in letter["message"]
    assert "ValueError" in letter["message"]


def test_error_that_is_no_fault_of_a_row_fails_the_run(tmp_path, settings, monkeypatch):
    monkeypatch.setattr(AttentionModel, "attribute", lambda *_: [])
    file = write_log(tmp_path / "log.parquet", [log_row(0)])
    with pytest.raises(RuntimeError, match="one outcome for each of 1 rows, gave 0"):
        run_locally(file, settings, tmp_path / "out")
    assert not list(tmp_path.rglob("evidence*.parquet"))


LONG = {1: 60, 4: 25}
TOO_LONG = 3
LONG_ROWS = 6


def passages_of(number):
    """Two short ones, or so many that the model has to read them in windows, or one that fits nowhere."""
    if number == TOO_LONG:
        return [{"text": "A lamp."}, {"text": "tower " * 900}]
    return [
        {"title": f"Lamp {index}" if index % 3 else None, "text": f"Ada Thorne lit lamp {index} 🙂 in {1800 + index}."}
        for index in range(LONG.get(number, 2))
    ]


LONG_LOG = [log_row(number, passages=passages_of(number)) for number in range(LONG_ROWS)]


@pytest.fixture(scope="module")
def attempt_in_windows(settings, tmp_path_factory):
    root = tmp_path_factory.mktemp("audit")
    return run_locally(write_log(root / "log.parquet", LONG_LOG), settings, root / "attempt")


def test_every_row_is_audited_but_the_one_with_a_passage_that_fits_nowhere(attempt_in_windows):
    counts = attempt_in_windows.counts
    assert (counts.is_reconciled, counts.rows, counts.audited) == (True, LONG_ROWS, LONG_ROWS - 1)
    (letter,) = pq.read_table(Path(attempt_in_windows.folder) / attempt_in_windows.dead_letters.path).to_pylist()
    assert (letter["source_row"], letter["stage"], letter["reason"]) == (TOO_LONG, "attribute", "too_many_tokens")
    assert "passage 2 of 2 has" in letter["message"]


def test_manifest_counts_the_rows_in_windows_and_the_tokens_of_all_windows(attempt_in_windows):
    assert attempt_in_windows.counts.rows_in_windows == len(LONG)
    assert attempt_in_windows.counts.tokens > 60 * 20
    assert sum_counts([attempt_in_windows.counts, attempt_in_windows.counts]).rows_in_windows == 2 * len(LONG)


def test_evidence_lies_where_it_says_in_passages_of_all_windows(attempt_in_windows):
    seen = {}
    for span in pq.read_table(Path(attempt_in_windows.folder) / attempt_in_windows.evidence.path).to_pylist():
        passages = passages_of(span["source_row"])
        assert len(span["passage_scores"]) == len(passages)
        for piece in span["evidence"]:
            passage = passages[piece["passage_index"]]
            text = str(passage["title"] if piece["in_title"] else passage["text"])
            assert text[piece["char_start"] : piece["char_end"]] == piece["text"]
            seen.setdefault(span["source_row"], set()).add(piece["passage_index"])
    assert seen.keys() == {*range(LONG_ROWS)} - {TOO_LONG}
    assert min(seen[1]) < 20
    assert max(seen[1]) >= 40


def test_row_that_only_the_decoder_cannot_read_is_judged_without_it_and_counted(llama, tmp_path):
    method = MethodOptions(verdict=str(save_probed_verdict(tmp_path / "own", llama)), language_model=str(llama))
    settings = AuditSettings(model=ModelOptions(device="cpu"), method=method)
    log = write_log(tmp_path / "log.parquet", LONG_LOG)
    counts = {}
    for name, asked in (("probed", settings), ("plain", replace(settings, method=MethodOptions()))):
        counts[name] = run_locally(log, asked, tmp_path / name).counts
        assert counts[name].audited == LONG_ROWS
    assert (counts["probed"].rows_unread, counts["plain"].rows_unread) == (1, None)
    assert (counts["probed"].rows_asked, counts["plain"].rows_asked) == (LONG_ROWS, None)
    assert sum_counts([counts["probed"], counts["probed"]]).rows_unread == 2
    assert sum_counts([counts["plain"]]).rows_unread is None


def test_extra_columns_reach_the_evidence(tmp_path, settings):
    extra = [pa.field("region", pa.string()), pa.field("seen", pa.timestamp("ns"))]
    schema = pa.schema([*LOG_SCHEMA, *extra])
    file = write_log(tmp_path / "log.parquet", [log_row(0, region="north", seen=7), log_row(1)], schema=schema)
    with_extra = AuditSettings(model=settings.model, parser=settings.parser, extra_columns=("region", "seen"))
    run_locally(file, with_extra, tmp_path / "out", extra_fields=extra)
    table = pq.read_table(only(tmp_path / "out", "evidence"))
    values = zip(table["source_row"].to_pylist(), table["region"].to_pylist(), strict=True)
    assert set(values) == {(0, "north"), (1, None)}
    assert set(table["seen"].cast(pa.int64()).to_pylist()) == {7, None}


MODELS = {"model": "tiny"}


@pytest.fixture
def _no_models_to_load(monkeypatch):
    monkeypatch.setattr(worker_pool, "load_models", lambda *_: MODELS)


@pytest.mark.usefixtures("_no_models_to_load")
def test_a_worker_that_is_ready_after_the_run_has_ended_ends_without_an_error():
    ours, theirs = Pipe()
    ours.close()
    worker_process.serve(worker_pool.serve, theirs, AuditSettings())
    with pytest.raises(BrokenPipeError):
        theirs.send(None)


@pytest.mark.usefixtures("_no_models_to_load")
def test_a_worker_tells_its_models_before_it_is_told_to_end():
    ours, theirs = Pipe()
    ours.send(None)
    worker_pool.serve(theirs, AuditSettings())
    assert ours.recv() == ModelsLoaded(MODELS)


@pytest.mark.usefixtures("_no_models_to_load")
@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.lib.ArrowMemoryError("malloc of size 64 failed"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes."),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    ],
)
def test_a_lack_of_memory_ends_the_worker_and_is_no_failure_of_its_chunk(error, monkeypatch):
    monkeypatch.setattr(worker_pool, "run_chunk", Mock(side_effect=error))
    ours, theirs = Pipe()
    ours.send(RunRows(RowRange("log.parquet", 0, 8), OutputSchemas(pa.schema([]), pa.schema([])), "folder"))
    with pytest.raises(MemoryError):
        worker_pool.serve(theirs, AuditSettings())
    assert ours.recv() == ModelsLoaded(MODELS)
    assert not ours.poll()
    assert WorkerDied(OUT_OF_MEMORY).how == "a lack of memory"


@pytest.mark.parametrize("fault", ["no directory", "damaged weights"])
def test_a_model_that_cannot_be_loaded_as_asked_is_no_passing_failure(tmp_path, fault):
    if fault == "damaged weights":
        weights = save_tiny_model(tmp_path / "broken") / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
    settings = AuditSettings(model=ModelOptions(model=str(tmp_path / "broken")))
    with pytest.raises(ModelLoadError, match="broken") as raised:
        load_models(settings)
    assert is_load_refusal(raised.value)


def test_a_model_is_loaded_once_in_a_process_of_several_threads(tmp_path, monkeypatch):
    rows = [log_row(number) for number in range(6 * ROWS_PER_CHUNK)]
    log = write_log(tmp_path / "log.parquet", rows)
    audit = DistributedAudit(save_tiny_audit(tmp_path), log, {"model": "tiny"})
    loads = []
    from_pretrained = AttentionModel.from_pretrained

    def noted(*given, **options):
        loads.append(given)
        return from_pretrained(*given, **options)

    threads = set()
    together = Barrier(2)
    load = OwnModels.__init__

    def meet(self, settings):
        if get_ident() not in threads and len(threads) < 2:
            threads.add(get_ident())
            together.wait(120)
        load(self, settings)

    monkeypatch.setattr(AttentionModel, "from_pretrained", noted)
    monkeypatch.setattr(OwnModels, "__init__", meet)
    threading = ("--direct_running_mode=multi_threading", "--direct_num_workers=3")
    audit.run(tmp_path / "out", beam_arguments=threading)
    assert len(threads) == 2, "two threads should have met at the model"
    assert len(loads) == 1
    assert len(chunk_manifests(tmp_path / "out")) == 6
