"""A worker process of an engine runs bundles in threads; these share one model."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, get_ident

import pytest
from tests.logs.log_files import log_row, write_log
from tests.pipeline.audit_fixtures import save_tiny_audit
from tests.pipeline.distributed_audit import ROWS_PER_CHUNK, DistributedAudit, chunk_manifests

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.transforms.attribute_rows import OwnModels
from attribeam.transforms.audit_settings import AuditSettings

THREADS, CHUNKS = 3, 6
SECONDS = 120


def test_a_model_is_loaded_once_in_a_process_of_several_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [log_row(number) for number in range(CHUNKS * ROWS_PER_CHUNK)]
    log = write_log(tmp_path / "log.parquet", rows)
    audit = DistributedAudit(save_tiny_audit(tmp_path), log, {"model": "tiny"})
    loads: list[object] = []
    from_pretrained = AttentionModel.from_pretrained

    def noted(*given: object, **options: object) -> AttentionModel:
        loads.append(given)
        return from_pretrained(*given, **options)  # type: ignore[arg-type]

    threads: set[int] = set()
    together = Barrier(2)
    load = OwnModels.__init__

    def meet(self: OwnModels, settings: AuditSettings) -> None:
        if get_ident() not in threads and len(threads) < 2:
            threads.add(get_ident())
            together.wait(SECONDS)
        load(self, settings)

    monkeypatch.setattr(AttentionModel, "from_pretrained", noted)
    monkeypatch.setattr(OwnModels, "__init__", meet)
    threading = ("--direct_running_mode=multi_threading", f"--direct_num_workers={THREADS}")
    audit.run(tmp_path / "out", beam_arguments=threading)
    assert len(threads) == 2, "two threads should have met at the model"
    assert len(loads) == 1
    assert len(chunk_manifests(tmp_path / "out")) == CHUNKS
