"""A chunk that an attempt took up and did not commit: found by its mark, and audited in a child process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.deploy.deadly_method import FATAL_WORD
from tests.logs.log_files import log_row, write_log
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.attribution.options import MethodOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.chunk_store import ChunkStore
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.distributed_driver import commit_isolated, take_up
from attribeam.schemas import dead_letter_schema, evidence_schema
from attribeam.schemas.run_manifest import InputFile
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.beam_storage import BeamStorage

ROWS = 5
FATAL = 3
SCHEMAS = OutputSchemas(evidence_schema(has_mass=False), dead_letter_schema())


@pytest.fixture
def chunk(tmp_path: Path) -> Chunk:
    """A chunk of a log one row of which ends its process."""
    rows = [log_row(number) for number in range(ROWS)]
    rows[FATAL]["answer"] = f"The {FATAL_WORD} lit it."
    log = write_log(tmp_path / "log.parquet", rows)
    ranges = RowRange(log, 0, ROWS, stamp=BeamStorage().stamp(log))
    return Chunk("00000-log-r0000000000", ranges, InputFile(log, 10, ROWS, "aa"))


@pytest.fixture
def store(tmp_path: Path) -> ChunkStore:
    made = ChunkStore(str(tmp_path / "out"), "c")
    made.keep_only({})
    return made


@pytest.fixture
def take(tmp_path: Path, store: ChunkStore) -> Callable[[Chunk], bool]:
    """Takes a chunk up, or isolates it."""
    settings = AuditSettings(
        parser=str(save_tiny_parser(tmp_path / "parser")),
        method=MethodOptions(method="tests.deploy.deadly_method:Deadly"),
    )
    return partial(
        take_up, store=store, isolate=partial(commit_isolated, store=store, settings=settings, schemas=SCHEMAS)
    )


def test_a_chunk_is_passed_on_by_its_first_attempt_and_isolated_by_the_second(
    take: Callable[[Chunk], bool], store: ChunkStore, chunk: Chunk, tmp_path: Path
) -> None:
    assert take(chunk)
    assert not store.is_committed(chunk)
    assert not take(chunk)
    assert store.is_committed(chunk)
    (manifest,) = store.committed.manifests()
    assert (manifest.counts.rows, manifest.counts.audited, manifest.counts.dead_lettered) == (ROWS, ROWS - 1, 1)
    (letter,) = pq.read_table(tmp_path / "out" / manifest.dead_letters.path).to_pylist()
    assert (letter["source_row"], letter["reason"]) == (FATAL, "worker_died")
    assert "signal SIGKILL" in letter["message"]


def test_marks_do_not_outlive_a_run(
    take: Callable[[Chunk], bool], store: ChunkStore, chunk: Chunk, tmp_path: Path
) -> None:
    take(chunk)
    store.keep_only({})
    assert not store.was_taken_up(chunk)
    assert list((tmp_path / "out" / "_chunks").iterdir()) == []
