"""The model service and what stands for its models in a worker, with model workers that have no model."""

import multiprocessing
import pickle
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from threading import Thread

import pytest
from tests.evaluation.dataset_rows import GRADIENTS
from tests.pipeline.workers.stand_in_model_worker import (
    BROKEN,
    DEADLY_DEVICE,
    FATAL,
    NO_SUCH_DEVICE,
    OTHER_DEVICE,
    serve_as_told,
)

from attribeam.attribution.options import MethodOptions
from attribeam.pipeline.workers import model_workers, worker_process
from attribeam.pipeline.workers.devices import ModelWorkerPlan
from attribeam.pipeline.workers.model_workers import (
    BLOCKS_AHEAD,
    ModelService,
    ModelWorkerDiedError,
    RemoteModels,
    RunBlock,
)
from attribeam.pipeline.workers.worker_messages import ModelWorkersError
from attribeam.pipeline.workers.worker_process import stop_import_server
from attribeam.schemas.errors import UsageError
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import take_stage_seconds

WHOLE_ROWS = AuditSettings(method=MethodOptions(method=GRADIENTS))


class TestedService(ModelService):
    """A service that takes the blocks of workers by itself, as the pool does for it."""

    __test__ = False

    def client(self):
        """What a worker has of the models."""
        ours, theirs = Pipe()
        self.start()
        Thread(target=self._pass_on, args=(ours,), daemon=True).start()
        return RemoteModels(theirs, WHOLE_ROWS)

    def _pass_on(self, worker):
        with suppress(EOFError, OSError):
            while True:
                self.run(worker.recv(), partial(_send, worker))


def _send(worker, reply):
    with suppress(OSError):
        worker.send(reply)


@pytest.fixture(scope="module", autouse=True)
def _stand_ins():
    """Where processes can be forked, stand-ins are forked from one that has imported what they need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_process, "_IMPORTS", serve_as_told.__module__)
        patch.setattr(worker_process, "_GPU_DRIVERS", ())
        patch.setattr(model_workers, "_serve_blocks", serve_as_told)
        stop_import_server()
        yield


@pytest.fixture
def start():
    """Starts a service whose model workers are stand-ins, and ends it with the test."""
    services = []

    def start_service(*devices):
        services.append(TestedService(AuditSettings(), ModelWorkerPlan(devices or ("cpu",), 1), verbose=False))
        return services[-1]

    yield start_service
    for service in services:
        service.stop()
    assert [child for child in multiprocessing.active_children() if child.name.startswith("models on")] == []


def run(models, *rows):
    return tuple(models.start(rows).result())


def test_blocks_come_back_in_whatever_order_they_are_waited_for(start):
    service = start()
    models = service.client()
    assert models.models == {"device": "cpu"}
    take_stage_seconds()
    blocks = [models.start(["fine"] * size) for size in range(1, BLOCKS_AHEAD + 3)]
    assert [len(block.result()) for block in reversed(blocks)] == [4, 3, 2, 1]
    (seconds,) = take_stage_seconds()
    assert (seconds.stage, seconds.wall_seconds, seconds.cpu_seconds) == ("attribute", 6.0, 4.0)
    assert service.waiting_share is not None
    assert 0 <= service.waiting_share < 1


def test_a_block_that_ends_its_model_worker_is_told_and_another_model_worker_takes_the_next(start):
    service = start()
    models, other = service.client(), service.client()
    with pytest.raises(ModelWorkerDiedError, match="signal SIGKILL"):
        run(models, "fine", FATAL)
    assert isinstance(models.error, ModelWorkerDiedError)
    assert models.error.death.who == "a model worker"
    models.forget()
    assert run(models, "fine") == run(other, "fine") == ("fine",)


def test_an_error_of_the_models_ends_the_chunk_and_not_the_model_worker(start):
    models = start().client()
    models.start(["of the same chunk"])
    with pytest.raises(RuntimeError, match="ValueError: the stand-in was told to fail"):
        run(models, BROKEN)
    models.forget()
    assert run(models, "fine", "fine") == ("fine", "fine")


def test_a_worker_that_ends_while_its_block_is_tried_disturbs_no_other(start):
    service = start()
    other = service.client()
    ours, theirs = Pipe()
    theirs.close()
    service.run(RunBlock(1, pickle.dumps([FATAL])), partial(_send, ours))
    assert run(other, "fine") == ("fine",)


@pytest.mark.parametrize(
    ("devices", "error", "said"),
    [
        ([NO_SUCH_DEVICE], UsageError, "there is no such device"),
        (["cpu", NO_SUCH_DEVICE], ModelWorkersError, "there is no such device"),
        ([DEADLY_DEVICE], ModelWorkersError, "a model worker ended by signal SIGKILL while the models were loaded"),
        (["cpu", OTHER_DEVICE], ModelWorkersError, "the same kind of device"),
    ],
)
def test_models_that_cannot_be_loaded_or_differ_are_told_to_all_workers_even_later_ones(devices, error, said, start):
    service = start(*devices)
    with pytest.raises((error, UsageError), match=said):
        _run_for_ever(service)
    with pytest.raises((error, UsageError), match=said):
        service.client()


def _run_for_ever(service):
    """One model worker may be ready, and work, before another one fails."""
    models = service.client()
    while True:
        run(models, "fine")
