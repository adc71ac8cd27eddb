"""A worker process whose driver has no more use for it."""

from __future__ import annotations

from multiprocessing import Pipe

import pytest

from pipeline import worker
from pipeline.worker_messages import ModelsLoaded
from transforms.audit_settings import AuditSettings

MODELS = {"model": "tiny"}


@pytest.fixture(autouse=True)
def _no_models_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "load_models", lambda _: MODELS)


def test_a_worker_that_is_ready_after_the_run_has_ended_ends_without_an_error() -> None:
    ours, theirs = Pipe()
    ours.close()
    worker.serve(theirs, AuditSettings())
    with pytest.raises(BrokenPipeError):
        theirs.send(None)


def test_a_worker_tells_its_models_before_it_is_told_to_end() -> None:
    ours, theirs = Pipe()
    ours.send(None)
    worker.serve(theirs, AuditSettings())
    assert ours.recv() == ModelsLoaded(MODELS)
