"""Committing chunks on Beam's file systems: what makes one exist, and what attempts that were too late leave."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.pipeline.distributed_audit import chunk_manifests, named_files, written_files

from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.pipeline.engines import group_store
from attribeam.pipeline.engines.group_store import GroupStore
from attribeam.schemas.run_manifest import AuditCounts, ChunkManifest, InputFile, OutputFile

CHUNK = Chunk("00000-log-r0000000000", RowRange("log.parquet", 0, 3), InputFile("log.parquet", 10, 3, "aa"))


@pytest.fixture
def store(tmp_path: Path) -> GroupStore:
    made = GroupStore(str(tmp_path / "out"), "c")
    made.keep_only({})
    return made


def attempt(folder: Path, text: str = "evidence") -> ChunkAttempt:
    """An attempt with some files in a folder of its own."""
    folder.mkdir(exist_ok=True)
    files = {}
    for name, content in (("evidence", text), ("dead_letters", "letters")):
        (folder / f"{name}.parquet").write_text(content)
        digest = hashlib.sha256(content.encode()).hexdigest()
        files[name] = OutputFile(f"{name}.parquet", 3 if name == "evidence" else 0, len(content), digest)
    counts = AuditCounts(rows=3, audited=3, spans={"weak": 3}, claims={"weak": 3}, answers={"answer": 3})
    return ChunkAttempt(str(folder), files["evidence"], files["dead_letters"], counts, 1.0)


def fitting(store: GroupStore) -> tuple[dict[str, ChunkManifest], list[str]]:
    """The manifests of the chunks that fit, and the names of the damaged ones."""
    finished, found = store.fitting([CHUNK], digests=True)
    return finished, found.damaged


def test_a_commit_names_the_files_that_it_wrote(store: GroupStore, tmp_path: Path) -> None:
    assert not store.is_committed(CHUNK)
    store.commit(CHUNK, attempt(tmp_path / "a"))
    assert store.is_committed(CHUNK)
    (manifest,) = chunk_manifests(tmp_path / "out").values()
    assert (tmp_path / "out" / manifest.evidence.path).read_text() == "evidence"
    assert written_files(tmp_path / "out") == named_files(tmp_path / "out")
    assert fitting(store) == ({CHUNK.name: manifest}, [])


def test_a_second_attempt_changes_nothing(store: GroupStore, tmp_path: Path) -> None:
    store.commit(CHUNK, attempt(tmp_path / "a"))
    before = chunk_manifests(tmp_path / "out")
    store.commit(CHUNK, attempt(tmp_path / "b", "of the second"))
    assert chunk_manifests(tmp_path / "out") == before
    assert written_files(tmp_path / "out") == named_files(tmp_path / "out")


def test_two_attempts_at_the_same_moment_leave_one_whole_chunk(
    store: GroupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_text = group_store.put_text

    def let_the_other_in(path: str, text: str) -> None:
        monkeypatch.setattr(group_store, "put_text", put_text)
        store.commit(CHUNK, attempt(tmp_path / "b", "of the second"))
        put_text(path, text)

    monkeypatch.setattr(group_store, "put_text", let_the_other_in)
    store.commit(CHUNK, attempt(tmp_path / "a"))
    finished, damaged = fitting(store)
    assert (list(finished), damaged) == ([CHUNK.name], [])
    assert len(written_files(tmp_path / "out")) == 4
    store.keep_only(finished)
    assert written_files(tmp_path / "out") == named_files(tmp_path / "out")
    assert fitting(store) == (finished, [])


def test_a_worker_that_dies_while_it_commits_leaves_no_chunk(
    store: GroupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attribeam.transforms.beam_storage.FileSystems.rename", die)
    with pytest.raises(KeyboardInterrupt):
        store.commit(CHUNK, attempt(tmp_path / "a"))
    assert not store.is_committed(CHUNK)
    assert fitting(store) == ({}, [])
    store.keep_only({})
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def test_another_configuration_does_not_take_a_chunk_for_its_own(store: GroupStore, tmp_path: Path) -> None:
    store.commit(CHUNK, attempt(tmp_path / "a"))
    other = GroupStore(store.root, "d")
    assert not other.is_committed(CHUNK)


def test_hidden_files_stay(store: GroupStore, tmp_path: Path) -> None:
    hidden = tmp_path / "out" / "evidence" / ".DS_Store"
    hidden.write_text("")
    group_store.check_output(store.root)
    store.keep_only({})
    assert hidden.exists()
