"""What was fingerprinted is what is audited: no chunk of another content is ever committed under the old digest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.pipeline.audit_process import AuditProcess, read_all
from tests.pipeline.small_log import log_rows, write_log
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.pipeline import local_driver
from attribeam.pipeline.chunks.chunk_store import ChunkStore
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.schemas.errors import ExitCode
from attribeam.schemas.run_manifest import ChunkManifest

ROWS = 12


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("models")
    return save_tiny_model(root / "model"), save_tiny_parser(root / "parser")


@pytest.fixture
def audit(models: tuple[Path, Path], tmp_path: Path) -> AuditProcess:
    return AuditProcess(*models, write_log(tmp_path / "log.parquet", log_rows(ROWS)))


def replace_log(log: Path) -> None:
    """Put a log of other texts in its place, as a nightly job does; the old one stays aside."""
    log.rename(log.with_suffix(".old"))
    write_log(log, log_rows(ROWS, first=500))


def overwrite_log(log: Path) -> None:
    """Write other texts into the same file."""
    shutil.copy(log, log.with_suffix(".old"))
    write_log(log, log_rows(ROWS, first=500))


def bring_back(log: Path) -> None:
    log.with_suffix(".old").replace(log)


def after_the_first_commit(change: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the log between two chunks, so that a worker opens another file."""
    commit = ChunkStore.commit

    def commit_then_change(self: ChunkStore, chunk: Chunk, attempt: ChunkAttempt) -> ChunkManifest:
        manifest = commit(self, chunk, attempt)
        if chunk.rows.row_start == 0:
            change()
        return manifest

    monkeypatch.setattr(ChunkStore, "commit", commit_then_change)


def before_the_second_commit(change: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the log when a worker has read it and its chunk is not committed yet."""
    check = local_driver.check_input_unchanged

    def change_then_check(rows: local_driver.RowRange) -> None:
        if rows.row_start:
            change()
        check(rows)

    monkeypatch.setattr(local_driver, "check_input_unchanged", change_then_check)


@pytest.mark.parametrize(
    ("change", "moment"), [(replace_log, after_the_first_commit), (overwrite_log, before_the_second_commit)]
)
def test_changed_log_ends_the_audit_and_the_old_one_finishes_it(
    change: Callable[[Path], None],
    moment: Callable[[Callable[[], None], pytest.MonkeyPatch], None],
    audit: AuditProcess,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        moment(lambda: change(audit.log), patch)
        assert audit.run_here(output, "--workers", "1") == ExitCode.FAILED
    error = capfd.readouterr().err
    assert f"log {str(audit.log)!r} was replaced or written to" in error
    assert json.loads((output / "run_manifest.json").read_text())["status"] == "failed"
    committed = [json.loads(path.read_text())["row_start"] for path in (output / "_chunks").iterdir()]
    assert committed == [0]
    bring_back(audit.log)
    assert audit.run_here(output, "--workers", "1") == ExitCode.DONE
    assert "4 of 12 rows were finished by an earlier run" in capfd.readouterr().out
    assert set(read_all(output / "evidence")["record_id"].to_pylist()) == {f"ferry-{row}" for row in range(ROWS)}
