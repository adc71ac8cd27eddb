"""What makes a chunk exist, and what makes it go: its configuration, and rows in = audited + dead-lettered."""

import json
import math
import pickle
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.attribution.tiny_models import edit_json
from tests.pipeline.made_metrics import made_manifest

from attribeam.attribution.models.model_directory import load_row_encoder
from attribeam.attribution.options import ModelOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunk_store import ChunkAttempt, ChunkStore, ReconciliationError, count_rows
from attribeam.pipeline.input_plan import Chunk
from attribeam.pipeline.output_directory import OutputDirectory
from attribeam.schemas import files as new_file
from attribeam.schemas.errors import UsageError
from attribeam.schemas.files import file_sha256
from attribeam.schemas.run_manifest import AuditCounts, DeadLetterCount, InputFile, OutputFile, RunStatus
from attribeam.transforms.audit_settings import AuditSettings, with_template_text

CHUNK = Chunk("00000-log-r0000000000", RowRange("log.parquet", 0, 3), InputFile("log.parquet", 10, 3, "aa"))


@pytest.fixture
def directory(tmp_path):
    claimed = OutputDirectory(tmp_path / "out")
    with claimed.locked():
        yield claimed


def _store(directory, configuration="c"):
    return ChunkStore(str(directory.root), configuration)


def _attempt(directory, chunk=CHUNK):
    folder = directory.attempts / f"{chunk.name}-{'0' * 32}"
    folder.mkdir(exist_ok=True)
    (folder / "evidence.parquet").write_bytes(b"12345")
    (folder / "letters.parquet").write_bytes(b"678")
    paths = (folder / "evidence.parquet", folder / "letters.parquet")
    evidence, letters = (OutputFile(path.name, 0, path.stat().st_size, file_sha256(path)) for path in paths)
    rows = chunk.rows.row_count
    counts = AuditCounts(rows=rows, audited=rows, spans={"weak": rows}, claims={"weak": rows}, answers={"answer": rows})
    return ChunkAttempt(str(folder), replace(evidence, row_count=rows), letters, counts, 1.0)


def _commit(directory, chunk=CHUNK, *, configuration="c"):
    attempt = _attempt(directory, chunk)
    _store(directory, configuration).commit(chunk, attempt)
    shutil.rmtree(attempt.folder)


def _keep(directory, chunks, *, configuration="c"):
    """What a run of the same command does before its first row."""
    store = _store(directory, configuration)
    kept, _ = store.fitting(chunks)
    directory.remove_attempts()
    store.keep_only(kept)
    return kept


def _names(directory):
    return sorted(path.relative_to(directory.root).as_posix() for path in directory.root.glob("*/*"))


def test_a_commit_moves_the_files_and_clears_the_attempt_and_a_fitting_chunk_is_kept(directory):
    _commit(directory)
    name = CHUNK.name
    assert _names(directory) == [f"_chunks/{name}.json", f"dead_letters/{name}.parquet", f"evidence/{name}.parquet"]
    finished = _keep(directory, [CHUNK])
    assert finished[CHUNK.name].evidence.path == f"evidence/{CHUNK.name}.parquet"
    assert list(_keep(directory, [CHUNK, OTHER_LOG])) == [CHUNK.name]  # a log that is added costs no finished chunk
    assert len(_names(directory)) == 3


SECOND = replace(CHUNK, name="00000-log-r0000000003", rows=RowRange("log.parquet", 3, 5))
OTHER_LOG = Chunk("00001-gone-r0000000000", RowRange("gone.parquet", 0, 3), InputFile("gone.parquet", 10, 3, "bb"))


@pytest.mark.parametrize(
    ("configuration", "planned", "lost"),
    [
        pytest.param("new", [CHUNK], "1 finished chunks with 3 rows of 'log.parquet'", id="configuration"),
        pytest.param("c", [replace(CHUNK, input=OTHER_LOG.input)], "1 finished chunks", id="content of the log"),
        pytest.param("c", [replace(CHUNK, rows=RowRange("log.parquet", 0, 2))], "1 finished chunks", id="rows"),
        pytest.param("c", [replace(CHUNK, rows=RowRange("b/log.parquet", 0, 3))], "1 finished chunks", id="file"),
        pytest.param("c", [replace(CHUNK, name="00001-log-r0000000000")], "1 finished chunks", id="place in the run"),
        pytest.param("c", [CHUNK], "2 finished chunks with 5 rows of 'gone.parquet', 'log.parquet'", id="fewer logs"),
    ],
)
def test_no_finished_chunk_is_lost_unasked(directory, configuration, planned, lost):
    _commit(directory)
    if lost.startswith("2"):
        _commit(directory, SECOND)
        _commit(directory, OTHER_LOG)
    before = _names(directory)
    with pytest.raises(UsageError, match=f"{lost}.*--overwrite"):
        _keep(directory, planned, configuration=configuration)
    assert before == _names(directory) != []
    _store(directory, configuration).keep_only({})
    assert _names(directory) == []


STEPS = ["evidence moves", "dead letters move", "the manifest is written", "the manifest is renamed", "all is cleared"]


@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
def test_a_run_that_is_killed_at_any_step_of_a_commit_is_finished_by_the_next(directory, monkeypatch, step):
    """The process ends before the step; nothing of it can clean up."""
    _killed_at(step, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        _commit(directory)
    monkeypatch.undo()
    kept = _keep(directory, [CHUNK])
    assert bool(kept) == (STEPS[step] == "all is cleared")
    if not kept:
        assert [path for path in directory.root.rglob("*") if path.is_file()] == [directory.root / "_attribeam"]
        _commit(directory)
    assert len(_names(directory)) == 3
    assert _keep(directory, [CHUNK]).keys() == {CHUNK.name}


def _killed_at(step, monkeypatch):
    calls = []

    def dying(call):
        def wrapped(*given, **named):
            calls.append(call.__name__)
            if len(calls) > step:
                raise KeyboardInterrupt
            return call(*given, **named)

        return wrapped

    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    monkeypatch.setattr(Path, "replace", dying(Path.replace))
    monkeypatch.setattr(new_file, "unfinished_name", dying(new_file.unfinished_name))
    monkeypatch.setattr(shutil, "rmtree", dying(shutil.rmtree))


@pytest.mark.parametrize(
    ("folder", "content"),
    [("evidence", b"1"), ("evidence", b"00000"), ("evidence", None), ("dead_letters", b"000")],
    ids=["cut", "rotten", "gone", "rotten letters"],
)
def test_a_chunk_whose_file_is_not_as_written_is_redone(directory, folder, content):
    _commit(directory)
    path = directory.root / folder / f"{CHUNK.name}.parquet"
    path.write_bytes(content or b"")
    if content is None:
        path.unlink()
    store = _store(directory)
    assert store.fitting([CHUNK]) == ({}, [CHUNK.name])
    store.keep_only({})
    assert _names(directory) == []


def test_a_finished_chunk_that_a_run_without_the_lock_removes_or_replaces_is_lost(directory):
    _commit(directory)
    _commit(directory, SECOND)
    finished = _keep(directory, [CHUNK, SECOND])
    store, elsewhere = (_store(directory, name) for name in ("c", "other"))
    assert store.lost(finished) == []
    path = directory.root / "_chunks" / f"{CHUNK.name}.json"
    path.write_text(path.read_text().replace(finished[CHUNK.name].evidence.sha256, "0" * 64))
    assert store.lost(finished) == [CHUNK.name]
    elsewhere.keep_only({})
    assert store.lost(finished) == [CHUNK.name, SECOND.name]


def test_hidden_files_and_folders_are_left_alone(directory):
    _commit(directory)
    (directory.root / "_chunks" / ".cache").mkdir()
    (directory.attempts / ".DS_Store").touch()
    (directory.root / "evidence" / f".{CHUNK.name}.parquet").touch()
    _store(directory).keep_only({})
    directory.remove_working_folders()
    (directory.root / ".hidden.new").touch()
    _store(directory).keep_only({})
    assert (directory.root / ".hidden.new").exists()
    left = ["_attempts/.DS_Store", "_chunks/.cache", f"evidence/.{CHUNK.name}.parquet"]
    assert _names(directory) == left


def test_a_done_run_that_lost_manifests_keeps_its_evidence_from_a_run_of_other_rows(directory):
    _commit(directory)
    _commit(directory, SECOND)
    done = replace(made_manifest(AuditCounts()), chunks=(CHUNK.name, SECOND.name))
    directory.run_manifest.write_text(done.to_json())
    shutil.rmtree(directory.root / "_chunks")
    (directory.root / "_chunks").mkdir()
    names = _names(directory)
    with pytest.raises(UsageError, match=f"holds 2 finished chunks .* first {CHUNK.name}, that this run would remove"):
        _keep(directory, [replace(CHUNK, name="00000-other-r0000000000")])
    assert _names(directory) == names
    store = _store(directory)
    assert store.fitting([CHUNK, SECOND]) == ({}, [CHUNK.name, SECOND.name])


def test_chunks_that_a_run_named_before_it_was_done_are_not_missed(directory):
    running = replace(made_manifest(AuditCounts(), status=RunStatus.RUNNING), chunks=(CHUNK.name,))
    directory.run_manifest.write_text(running.to_json())
    assert _store(directory).fitting([CHUNK]) == ({}, [])


HOSTILE = [None, True, -1, 2**63, 1e400, math.nan, 0.5, "", "x", "../../x", [], [1], {}, {"x": 1}]


def _leaves(value, *path):
    """The places of all values within a JSON value, itself included."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from _leaves(one, *path, key)


def _changed(text, path, new):
    root = [json.loads(text)]
    place = root
    for key in (0, *path)[:-1]:
        place = place[key]
    place[(0, *path)[-1]] = new
    return json.dumps(root[0])


REFUSED = {"source_file", "input_sha256", "configuration", "schema_version"}
UNKNOWABLE = {"seconds", "tokens", "rows_in_windows", "rows_unread", "support", "weak"}


def _outcome(directory):
    store = _store(directory)
    try:
        kept, damaged = store.fitting([CHUNK])
    except UsageError:
        return "refused"
    assert damaged == ([] if kept else [CHUNK.name])
    return "kept" if kept else "redone"


def test_a_manifest_that_is_edited_is_redone_or_refused_as_that_of_another_audit(directory):
    """Every value of it in turn becomes every hostile one; it is kept only where it still can be true."""
    _commit(directory)
    path = directory.root / "_chunks" / f"{CHUNK.name}.json"
    text = path.read_text()
    outcomes = Counter[str]()
    for place in _leaves(json.loads(text)):
        for new in HOSTILE:
            path.write_text(_changed(text, place, new))
            outcome = _outcome(directory)
            outcomes[outcome] += 1
            assert outcome != "refused" or place[-1] in REFUSED
            assert outcome != "kept" or place[-1] in UNKNOWABLE or json.loads(path.read_text()) == json.loads(text)
    assert outcomes["redone"] > 200
    assert {"refused", "kept"} < outcomes.keys()


@pytest.mark.parametrize("name", ["run_manifest.json", f"_chunks/{CHUNK.name}.json"])
def test_what_another_schema_version_wrote_is_never_redone_unasked(directory, name):
    _commit(directory)
    directory.run_manifest.write_text(made_manifest(AuditCounts()).to_json())
    path = directory.root / name
    edit_json(path, schema_version="1.1", counts=None)
    names = _names(directory)
    with pytest.raises(UsageError, match=f"{name} is of schema version '1.1', .* audit its logs again, .*--overwrite"):
        _keep(directory, [CHUNK])
    assert _names(directory) == names


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 5000, b'"\\ud800"'])
def test_a_manifest_that_cannot_be_read_is_redone(directory, content):
    _commit(directory)
    (directory.root / "_chunks" / f"{CHUNK.name}.json").write_bytes(content)
    assert _keep(directory, [CHUNK]) == {}
    assert _names(directory) == []


def test_a_damaged_chunk_of_a_log_that_is_not_read_again_is_not_lost_unasked(directory):
    _commit(directory)
    _commit(directory, OTHER_LOG)
    (directory.root / "_chunks" / f"{OTHER_LOG.name}.json").write_text("{")
    with pytest.raises(UsageError, match=f"1 finished chunks with 0 rows, first {OTHER_LOG.name}"):
        _keep(directory, [CHUNK])


def _marked(directory, mark):
    """Commit an attempt of a cluster, which another one may double."""
    _store(directory).commit(CHUNK, _attempt(directory), mark=mark)


def _files(directory):
    """Those that lie there, and those that the manifests name."""
    manifests = _store(directory).committed.manifests_by_name().values()
    named = {file.path for one in manifests for file in (one.evidence, one.dead_letters)}
    return {name for name in _names(directory) if name.endswith(".parquet")}, named


def test_a_second_attempt_changes_nothing(directory):
    assert not _store(directory).is_committed(CHUNK)
    _marked(directory, "-000000000001")
    manifest = (directory.root / "_chunks" / f"{CHUNK.name}.json").read_text()
    _marked(directory, "-000000000002")
    assert (directory.root / "_chunks" / f"{CHUNK.name}.json").read_text() == manifest
    there, named = _files(directory)
    assert there == named
    assert _store(directory).is_committed(CHUNK)
    assert not _store(directory, "d").is_committed(CHUNK)


def test_two_attempts_at_the_same_moment_leave_one_whole_chunk(directory, monkeypatch):
    put = ChunkStore.put

    def let_the_other_in(self, name, text):
        monkeypatch.setattr(ChunkStore, "put", put)
        _marked(directory, "-000000000002")
        put(self, name, text)

    monkeypatch.setattr(ChunkStore, "put", let_the_other_in)
    _marked(directory, "-000000000001")
    store = _store(directory)
    finished, damaged = store.fitting([CHUNK])
    assert (list(finished), damaged, len(_files(directory)[0])) == ([CHUNK.name], [], 4)
    (directory.root / "report.html").touch()
    store.keep_only(finished)
    there, named = _files(directory)
    assert there == named
    assert store.fitting([CHUNK]) == (finished, [])
    assert not (directory.root / "report.html").exists(), "the page of an earlier run should go with its files"


def test_an_attempt_that_no_other_doubles_replaces_what_is_there(directory):
    _commit(directory)
    _store(directory).commit(CHUNK, replace(_attempt(directory), seconds=7.5))
    assert _keep(directory, [CHUNK])[CHUNK.name].seconds == 7.5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mine.jinja", "{% for p in passages %}{{ p.text }}\n{% endfor %}Question – {{ question }}\nA: "),
        ("mine.json", json.dumps({"passage": "{text}\n", "question": "Question – {question}\nA: "})),
    ],
)
def test_worker_without_the_file_has_the_same_prompt_under_the_same_name(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    options = ModelOptions(prompt_template=str(path))
    here = load_row_encoder(options)
    sent = pickle.dumps(with_template_text(AuditSettings(model=options)))
    path.unlink()
    there = load_row_encoder(pickle.loads(sent).model)
    assert (there.template_name, there.template.digest) == (name, here.template.digest)


def test_file_that_cannot_be_read_is_a_usage_error(tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_bytes(b"\xff\xfe")
    settings = AuditSettings(model=ModelOptions(prompt_template=str(path)))
    with pytest.raises(UsageError, match=r"mine\.jinja should be a readable text file"):
        with_template_text(settings)
    with pytest.raises(UsageError, match=r"absent\.jinja"):
        with_template_text(replace(settings, model=ModelOptions(prompt_template="absent.jinja")))


ROWS = RowRange("log.parquet", 10, 13)
TYPES = {"source_row": pa.int64(), "span_index": pa.int32(), "claim_index": pa.int32()}


def _write(path, names, rows, **same):
    """A file of rows with these columns, and others that are the same in all of them."""
    schema = pa.schema([(name, TYPES.get(name, pa.string())) for name in (*names, *same)])
    table = pa.Table.from_pylist([{**same, **dict(zip(names, row, strict=True))} for row in rows], schema=schema)
    pq.write_table(table, path)
    return path


def _count(tmp_path, spans, letters, *, file="log.parquet"):
    claim = {"claim_index": 0, "support": "weak", "claim_kind": "claim", "answer_kind": "answer"}
    refused = {"stage": "validate", "reason": "no_passages"}
    evidence = _write(tmp_path / "evidence.parquet", ("source_row", "span_index"), spans, source_file=file, **claim)
    rows = [(row,) for row in letters]
    dead_letters = _write(tmp_path / "letters.parquet", ("source_row",), rows, source_file=file, **refused)
    return count_rows(ROWS, evidence=evidence, dead_letters=dead_letters)


def test_rows_with_several_spans_count_once(tmp_path):
    counts, letters = (
        _count(tmp_path, [(10, 0), (10, 1), (12, 0)], [11]),
        (DeadLetterCount("validate", "no_passages", 1),),
    )
    assert counts == AuditCounts(3, 2, letters, spans={"weak": 3}, claims={"weak": 2}, answers={"answer": 2})
    assert counts.is_reconciled


def test_what_cannot_be_judged_is_counted_by_its_kind(tmp_path):
    names = ("source_row", "span_index", "claim_index", "support", "claim_kind", "answer_kind")
    rows = [
        (10, 0, None, "not_judged", "language", "not_judged"), (10, 1, None, "no_claim", "heading", "not_judged"),
        (11, 0, 0, "not_judged", "code", "no_claim"), (11, 1, 0, "not_judged", "code", "no_claim"),
        (12, 0, 0, "weak", "claim", "answer"),
    ]  # fmt: skip
    path = tmp_path / "evidence.parquet"
    _count(tmp_path, [(10, 0), (11, 0), (12, 0)], [])
    _write(path, names, rows, source_file="log.parquet")
    counts = count_rows(ROWS, evidence=path, dead_letters=tmp_path / "letters.parquet")
    assert (counts.claims, counts.claim_count) == ({"no_claim": 1, "not_judged": 2, "weak": 1}, 1)
    assert counts.not_judged == {"code": 1, "language": 1}
    assert counts.answers == {"answer": 1, "no_claim": 1, "not_judged": 1}


@pytest.mark.parametrize(
    ("spans", "letters"),
    [
        pytest.param([(10, 0), (11, 0)], [], id="lost"),
        pytest.param([(10, 0), (11, 0), (12, 0)], [12], id="in both"),
        pytest.param([(10, 0), (11, 0), (12, 0), (12, 0)], [], id="audited twice"),
        pytest.param([(10, 0), (11, 0)], [12, 12], id="refused twice"),
        pytest.param([(10, 0), (11, 0), (12, 0), (13, 0)], [], id="from outside"),
    ],
)
def test_rows_without_exactly_one_outcome_and_those_of_another_file_are_an_error(tmp_path, spans, letters):
    with pytest.raises(ReconciliationError):
        _count(tmp_path, spans, letters)
    with pytest.raises(ReconciliationError, match=r"other\.parquet"):
        _count(tmp_path, [(10, 0), (11, 0), (12, 0)], [], file="other.parquet")
