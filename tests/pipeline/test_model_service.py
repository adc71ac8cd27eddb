"""Model workers, and what stands for their models in a worker, with stand-ins that have no model."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from multiprocessing import Pipe
from socket import send_fds
from threading import Thread

import pytest
from tests.evaluation.dataset_rows import GRADIENTS
from tests.pipeline.stand_in_model_worker import (
    BROKEN,
    DEADLY_DEVICE,
    FATAL,
    NO_SUCH_DEVICE,
    OTHER_DEVICE,
    serve_as_told,
)

from attribeam.attribution.options import MethodOptions
from attribeam.pipeline import model_workers, worker_process
from attribeam.pipeline.model_workers import ModelWorkerDiedError, ModelWorkerPlan, ModelWorkers, RemoteModels
from attribeam.pipeline.worker_process import stop_import_server
from attribeam.schemas.errors import RunError, UsageError
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import take_stage_seconds

PATIENCE_SECONDS = 60
WHOLE_ROWS = AuditSettings(method=MethodOptions(method=GRADIENTS))


class TestedWorkers(ModelWorkers):
    """Model workers whose driver is a thread."""

    __test__ = False

    def __init__(self, *devices):
        super().__init__(AuditSettings(), ModelWorkerPlan(devices or ("cpu",), 1), verbose=False)
        self.start()
        self.error = None
        self._is_ended = False
        self._driver = Thread(target=self._drive)
        self._driver.start()

    def client(self):
        """What a worker has of the models."""
        return RemoteModels(self.asking, WHOLE_ROWS)

    def wait_until(self, is_met):
        """Let the driver listen until something has happened, or it has given up."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_met() and self.error is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def end(self):
        """End the driver and all processes."""
        self._is_ended = True
        self._driver.join()
        self.kill()

    def _drive(self):
        while not self._is_ended and self.error is None:
            for worker in [one for one in self.running if one.connection.poll(0.01)]:
                try:
                    self.take(worker, worker.receive())
                except (RunError, UsageError) as error:
                    self.error = error


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
    """Starts model workers that are stand-ins, and ends them with the test."""
    started = []

    def start_workers(*devices):
        started.append(TestedWorkers(*devices))
        return started[-1]

    yield start_workers
    for workers in started:
        workers.end()
    assert [child for child in multiprocessing.active_children() if child.name.startswith("models on")] == []


def run(models, *rows):
    return tuple(models.start(rows).result())


def test_blocks_come_back_in_whatever_order_they_are_waited_for(start):
    workers = start()
    models = workers.client()
    assert models.models == {"device": "cpu"}
    take_stage_seconds()
    blocks = [models.start(["fine"] * size) for size in range(1, 5)]
    assert [len(block.result()) for block in reversed(blocks)] == [4, 3, 2, 1]
    (seconds,) = take_stage_seconds()
    assert (seconds.stage, seconds.wall_seconds, seconds.cpu_seconds) == ("attribute", 6.0, 4.0)
    workers.wait_until(lambda: workers.waiting_share is not None)
    assert 0 <= (workers.waiting_share or 0.0) < 1


def test_a_block_that_ends_its_model_worker_is_told_and_another_model_worker_takes_the_next(start):
    workers = start()
    models, other = workers.client(), workers.client()
    with pytest.raises(ModelWorkerDiedError) as raised:
        run(models, "fine", FATAL)
    death = workers.death_of(raised.value.pid)
    assert (death.how, death.who) == ("signal SIGKILL", "a model worker")
    assert run(models, "fine") == run(other, "fine") == ("fine",)


def test_model_workers_that_end_without_rows_are_replaced_but_not_for_ever(start):
    workers = start()
    for deaths in range(1, 5):
        workers.client()
        (worker,) = workers.running
        worker.process.kill()
        workers.wait_until(lambda worker=worker: worker not in workers.running)
        assert (workers.error is None) == (deaths < 4)
    assert "ended by signal SIGKILL between blocks of rows" in str(workers.error)


def test_model_workers_that_end_now_and_then_are_replaced_each_time(start):
    workers = start()
    for _ in range(5):
        assert run(workers.client(), "fine") == ("fine",)
        (worker,) = workers.running
        workers.wait_until(lambda worker=worker: not worker.is_busy)
        worker.process.kill()
        workers.wait_until(lambda worker=worker: worker not in workers.running)
    assert workers.error is None


def test_a_model_worker_that_ends_as_a_block_arrives_has_ended_on_it(start):
    workers = start()
    for _ in range(5):
        workers.client()
        (worker,) = workers.running
        ours, theirs = Pipe()
        with ours, theirs:
            send_fds(workers.asking, [b" "], [theirs.fileno()])
            assert ours.recv() == worker.process.pid
            workers.wait_until(lambda worker=worker: worker.is_busy)
            worker.process.kill()
            workers.wait_until(lambda worker=worker: worker not in workers.running)
    assert workers.error is None
    assert run(workers.client(), "fine") == ("fine",)


def test_an_error_of_the_models_ends_the_chunk_and_not_the_model_worker(start):
    models = start().client()
    models.start(["of the same chunk"])
    with pytest.raises(RuntimeError, match="ValueError: the stand-in was told to fail"):
        run(models, BROKEN)
    assert run(models, "fine", "fine") == ("fine", "fine")


def test_a_worker_that_ends_while_its_block_is_tried_disturbs_no_other(start):
    workers = start()
    other = workers.client()
    ours, theirs = Pipe()
    with ours, theirs:
        send_fds(workers.asking, [b" "], [theirs.fileno()])
        ours.send_bytes(pickle.dumps(["fine"]))
    assert run(other, "fine") == ("fine",)


@pytest.mark.parametrize(
    ("devices", "errors", "said"),
    [
        ([NO_SUCH_DEVICE], UsageError, "there is no such device"),
        (["cpu", NO_SUCH_DEVICE], (UsageError, RunError), "there is no such device"),
        ([DEADLY_DEVICE], RunError, "a model worker ended by signal SIGKILL while the models were loaded"),
        (["cpu", OTHER_DEVICE], RunError, "the same kind of device"),
    ],
)
def test_models_that_cannot_be_loaded_or_differ_end_the_run(devices, errors, said, start):
    workers = start(*devices)
    workers.wait_until(lambda: False)
    assert isinstance(workers.error, errors)
    assert said in str(workers.error)
