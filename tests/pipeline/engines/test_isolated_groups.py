"""A chunk that an attempt took up and did not commit: found by its mark, and audited in a child process."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.deploy.deadly_method import FATAL_WORD
from tests.logs.log_files import log_row, write_log
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.attribution.options import MethodOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.engines.commit_groups import TakeUpGroups
from attribeam.pipeline.engines.group_store import GroupStore
from attribeam.schemas import dead_letter_schema, evidence_schema
from attribeam.schemas.errors import DataError
from attribeam.schemas.run_manifest import InputFile
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.beam_storage import BeamStorage
from attribeam.transforms.row_groups import RowGroup

ROWS = 5
FATAL = 3
SCHEMAS = OutputSchemas(evidence_schema(has_mass=False), dead_letter_schema())


@pytest.fixture
def group(tmp_path: Path) -> RowGroup:
    """A chunk of a log one row of which ends its process."""
    rows = [log_row(number) for number in range(ROWS)]
    rows[FATAL]["answer"] = f"The {FATAL_WORD} lit it."
    log = write_log(tmp_path / "log.parquet", rows)
    ranges = RowRange(log, 0, ROWS, stamp=BeamStorage().stamp(log))
    return RowGroup(Chunk("00000-log-r0000000000", ranges, InputFile(log, 10, ROWS, "aa")), (ranges,))


@pytest.fixture
def take_up(tmp_path: Path) -> TakeUpGroups:
    settings = AuditSettings(
        parser=str(save_tiny_parser(tmp_path / "parser")),
        method=MethodOptions(method="tests.deploy.deadly_method:Deadly"),
    )
    store = GroupStore(str(tmp_path / "out"), "c")
    store.keep_only({})
    return TakeUpGroups(store, settings, SCHEMAS)


def test_a_group_is_passed_on_by_its_first_attempt_and_isolated_by_the_second(
    take_up: TakeUpGroups, group: RowGroup, tmp_path: Path
) -> None:
    assert [one.chunk for one in take_up.process(group)] == [group.chunk]
    assert not take_up._store.is_committed(group.chunk)
    assert list(take_up.process(group)) == []
    assert take_up._store.is_committed(group.chunk)
    (manifest,) = take_up._store.committed.manifests()
    assert (manifest.counts.rows, manifest.counts.audited, manifest.counts.dead_lettered) == (ROWS, ROWS - 1, 1)
    (letter,) = pq.read_table(tmp_path / "out" / manifest.dead_letters.path).to_pylist()
    assert (letter["source_row"], letter["reason"]) == (FATAL, "worker_died")
    assert "signal SIGKILL" in letter["message"]


def test_a_log_that_changed_is_not_isolated(take_up: TakeUpGroups, group: RowGroup) -> None:
    list(take_up.process(group))
    write_log(Path(group.chunk.rows.file), [log_row(number) for number in range(ROWS + 1)])
    with pytest.raises(DataError, match="changed"):
        list(take_up.process(group))


def test_marks_do_not_outlive_a_run(take_up: TakeUpGroups, group: RowGroup, tmp_path: Path) -> None:
    list(take_up.process(group))
    take_up._store.keep_only({})
    assert not take_up._store.was_taken_up(group.chunk)
    assert list((tmp_path / "out" / "_chunks").iterdir()) == []
