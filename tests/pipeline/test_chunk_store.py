"""What makes a chunk exist, and what makes it go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from attribeam.logs.rows import RowRange
from attribeam.pipeline.input_plan import Chunk
from attribeam.pipeline.output_directory import ChunkStore, OutputDirectory
from attribeam.pipeline.worker_messages import ChunkAttempt
from attribeam.schemas.errors import UsageError
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
    evidence, letters = (OutputFile(f"{name}.parquet", 1, size, "") for name, size in (("evidence", 5), ("letters", 3)))
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


def test_overwrite_redoes_what_fits(directory: OutputDirectory) -> None:
    _commit(directory)
    assert ChunkStore(directory, configuration="c").keep_finished([CHUNK], overwrite=True) == {}
    assert _names(directory) == []


@pytest.mark.parametrize("folder", ["evidence", "dead_letters"])
def test_a_chunk_whose_file_is_gone_or_cut_is_redone(directory: OutputDirectory, folder: str) -> None:
    _commit(directory)
    (directory.root / folder / f"{CHUNK.name}.parquet").write_bytes(b"1")
    assert ChunkStore(directory, configuration="c").keep_finished([CHUNK], overwrite=False) == {}
    assert _names(directory) == []


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
