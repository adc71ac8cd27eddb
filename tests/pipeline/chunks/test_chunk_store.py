"""What makes a chunk exist, and what makes it go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.chunk_store import ChunkStore
from attribeam.pipeline.chunks.finished_chunks import damage_notes
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.chunks.output_directory import OutputDirectory
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.schemas.errors import UsageError
from attribeam.schemas.file_digest import file_sha256
from attribeam.schemas.run_manifest import AuditCounts, InputFile, OutputFile

CHUNK = Chunk("00000-log-r0000000000", RowRange("log.parquet", 0, 3), InputFile("log.parquet", 10, 3, "aa"))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[OutputDirectory]:
    claimed = OutputDirectory(tmp_path / "out")
    with claimed.locked():
        yield claimed


def _commit(directory: OutputDirectory, chunk: Chunk = CHUNK, *, configuration: str = "c") -> None:
    folder = directory.attempts / f"{chunk.name}-attempt"
    folder.mkdir()
    (folder / "evidence.parquet").write_bytes(b"12345")
    (folder / "letters.parquet").write_bytes(b"678")
    paths = (folder / "evidence.parquet", folder / "letters.parquet")
    evidence, letters = (OutputFile(path.name, 1, path.stat().st_size, file_sha256(path)) for path in paths)
    attempt = ChunkAttempt(str(folder), evidence, letters, AuditCounts(rows=3, audited=3), 1.0)
    ChunkStore(directory, configuration=configuration).commit(chunk, attempt)


def _names(directory: OutputDirectory) -> list[str]:
    return sorted(path.relative_to(directory.root).as_posix() for path in directory.root.glob("*/*"))


def test_a_commit_moves_the_files_and_clears_the_attempt(directory: OutputDirectory) -> None:
    _commit(directory)
    name = CHUNK.name
    assert _names(directory) == [f"_chunks/{name}.json", f"dead_letters/{name}.parquet", f"evidence/{name}.parquet"]


def test_a_fitting_chunk_is_kept(directory: OutputDirectory) -> None:
    _commit(directory)
    finished = ChunkStore(directory, configuration="c").keep_finished([CHUNK], overwrite=False)
    assert finished[CHUNK.name].evidence.path == f"evidence/{CHUNK.name}.parquet"
    assert len(_names(directory)) == 3


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(CHUNK, rows=RowRange("log.parquet", 0, 2)), id="rows"),
        pytest.param(replace(CHUNK, rows=RowRange("b/log.parquet", 0, 3)), id="file"),
        pytest.param(replace(CHUNK, name="00001-log-r0000000000"), id="place in the run"),
    ],
)
def test_a_chunk_of_another_run_is_removed(directory: OutputDirectory, other: Chunk) -> None:
    _commit(directory)
    assert ChunkStore(directory, configuration="c").keep_finished([other], overwrite=False) == {}
    assert _names(directory) == []


@pytest.mark.parametrize(
    ("configuration", "chunk"),
    [
        pytest.param("new", CHUNK, id="configuration"),
        pytest.param("c", replace(CHUNK, input=replace(CHUNK.input, sha256="bb")), id="content of the input"),
    ],
)
def test_an_audit_of_something_else_is_not_lost_unasked(
    directory: OutputDirectory, configuration: str, chunk: Chunk
) -> None:
    _commit(directory)
    before = _names(directory)
    with pytest.raises(UsageError, match="1 finished chunks of another input"):
        ChunkStore(directory, configuration=configuration).keep_finished([chunk], overwrite=False)
    assert before == _names(directory) != []
    assert ChunkStore(directory, configuration=configuration).keep_finished([chunk], overwrite=True) == {}
    assert _names(directory) == []


def test_chunk_whose_log_is_no_longer_there_is_removed_and_told(directory: OutputDirectory) -> None:
    gone = replace(CHUNK, name="00001-gone-r0000000000", input=InputFile("gone.parquet", 10, 3, "bb"))
    for chunk in (CHUNK, gone):
        _commit(directory, chunk)
    store = ChunkStore(directory, configuration="c")
    finished = store.keep_finished([CHUNK], overwrite=False)
    assert (list(finished), store.foreign, store.damaged) == ([CHUNK.name], [gone.name], [])
    (note,) = damage_notes(store.damaged, finished, verify=False, foreign=store.foreign)
    assert note.startswith(f"1 finished chunks of an earlier run were removed, first {gone.name}: ")


def test_overwrite_redoes_what_fits(directory: OutputDirectory) -> None:
    _commit(directory)
    assert ChunkStore(directory, configuration="c").keep_finished([CHUNK], overwrite=True) == {}
    assert _names(directory) == []


@pytest.mark.parametrize("content", [b"1", b"00000", None], ids=["cut", "rotten", "gone"])
def test_a_chunk_whose_file_is_not_as_written_is_redone(directory: OutputDirectory, content: bytes | None) -> None:
    _commit(directory)
    path = directory.root / "evidence" / f"{CHUNK.name}.parquet"
    path.write_bytes(content or b"")
    if content is None:
        path.unlink()
    store = ChunkStore(directory, configuration="c")
    assert store.keep_finished([CHUNK], overwrite=False) == {}
    assert store.damaged == [CHUNK.name]
    assert _names(directory) == []


def test_a_chunk_whose_dead_letters_are_rotten_is_redone(directory: OutputDirectory) -> None:
    _commit(directory)
    (directory.root / "dead_letters" / f"{CHUNK.name}.parquet").write_bytes(b"000")
    assert ChunkStore(directory, configuration="c").keep_finished([CHUNK], overwrite=False) == {}


def test_hidden_files_and_folders_are_left_alone(directory: OutputDirectory) -> None:
    _commit(directory)
    (directory.chunks / ".cache").mkdir()
    (directory.attempts / ".DS_Store").touch()
    (directory.evidence / f".{CHUNK.name}.parquet").touch()
    store = ChunkStore(directory, configuration="c")
    assert store.keep_finished([CHUNK], overwrite=True) == {}
    directory.remove_working_folders()
    left = ["_attempts/.DS_Store", "_chunks/.cache", f"evidence/.{CHUNK.name}.parquet"]
    assert _names(directory) == left


def test_files_without_a_manifest_are_removed(directory: OutputDirectory) -> None:
    _commit(directory)
    orphan = replace(CHUNK, name="00000-log-r0000000003", rows=RowRange("log.parquet", 3, 5))
    _commit(directory, orphan)
    (directory.chunks / f"{orphan.name}.json").unlink()
    ChunkStore(directory, configuration="c").keep_finished([CHUNK, orphan], overwrite=False)
    assert [name for name in _names(directory) if orphan.name in name] == []
    assert len(_names(directory)) == 3


def test_a_manifest_that_cannot_be_read_is_no_manifest(directory: OutputDirectory) -> None:
    _commit(directory)
    (directory.chunks / f"{CHUNK.name}.json").write_text("{")
    assert ChunkStore(directory, configuration="c").keep_finished([CHUNK], overwrite=False) == {}
    assert _names(directory) == []
