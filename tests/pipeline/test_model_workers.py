"""Model workers with stand-ins that have no model, and the devices that they run on."""

import multiprocessing
import pickle
import time
from multiprocessing import Pipe
from socket import send_fds
from threading import Thread
from unittest.mock import Mock

import pytest
from tests.evaluation.dataset_rows import GRADIENTS, WORDS
from tests.pipeline.stand_in_model_worker import (
    BROKEN,
    DEADLY_DEVICE,
    FATAL,
    NO_SUCH_DEVICE,
    OTHER_DEVICE,
    serve_as_told,
)

from attribeam.attribution.methods.method import LoadedModels, resolve_method
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.pipeline import model_workers, worker_process
from attribeam.pipeline.audit_options import RunOptions, named_gpus
from attribeam.pipeline.command_line import main
from attribeam.pipeline.model_workers import (
    ModelWorkerDiedError,
    ModelWorkerPlan,
    ModelWorkers,
    RemoteModels,
    plan_model_workers,
)
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
        return RemoteModels(self.request_socket, WHOLE_ROWS)

    def wait_until(self, is_met):
        """Let the driver listen until something has happened, or it has given up."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_met() and self.error is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def end(self):
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
            send_fds(workers.request_socket, [b" "], [theirs.fileno()])
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
        send_fds(workers.request_socket, [b" "], [theirs.fileno()])
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


COUNT_GPUS = model_workers.gpu_count


@pytest.fixture(autouse=True)
def _two_gpus(monkeypatch):
    monkeypatch.setattr(model_workers, "gpu_count", lambda: 2)


def _devices(device, *, method=None, **options):
    settings = AuditSettings(model=ModelOptions(device=device), method=MethodOptions(method=method))
    plan = plan_model_workers(settings, RunOptions(gpus=named_gpus(device), **options))
    return None if plan is None else plan.devices


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_there_are_no_model_workers_unasked_where_no_gpu_is_named(device):
    assert _devices(device) is None
    assert _devices(device, workers=8) is None
    assert _devices(device, model_workers=2) == (device, device)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("cuda", ("cuda",)), ("cuda:1", ("cuda:1",)), ("cuda:1,cuda:0", ("cuda:1", "cuda:0")),
        ("cuda, cuda:1", ("cuda", "cuda:1")), ("all", ("cuda:0", "cuda:1")),
    ],
)  # fmt: skip
def test_each_gpu_that_is_named_gets_a_model_worker(device, expected):
    assert _devices(device, workers=4) == expected
    assert _devices(device) == expected


def test_one_worker_with_one_gpu_does_everything_itself_and_more_model_workers_than_devices_share_them():
    assert _devices("cuda:1", workers=1) is None
    assert _devices("cuda:1", workers=1, model_workers=1) == ("cuda:1",)
    assert _devices("all", workers=1) == ("cuda:0", "cuda:1")
    assert _devices("all", model_workers=3) == ("cuda:0", "cuda:1", "cuda:0")


@pytest.mark.parametrize(
    ("device", "options", "told"),
    [
        ("cuda:0,cpu", {}, "should list GPUs"),
        ("cuda:0,cuda:0", {}, "each GPU once"),
        ("cuda,cuda:0", {}, "each GPU once"),
        ("cuda:0,cuda:2,cuda:7", {}, "there is no cuda:2 and no cuda:7, torch finds cuda:0 to cuda:1"),
        ("all", {"model_workers": 1}, "at least the number of devices, 2, was: 1"),
        ("all", {"method": WORDS}, f"--method {WORDS} has no model"),
        ("cpu", {"method": WORDS, "model_workers": 1}, f"--method {WORDS} has no model"),
    ],
)
def test_devices_that_cannot_be_used_are_refused_with_the_way_out(device, options, told):
    with pytest.raises(UsageError, match=told):
        _devices(device, **options)


@pytest.mark.parametrize("device", ["all", "cuda:0,cuda:1"])
def test_a_machine_without_a_gpu_is_told_before_anything_is_written(device, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(model_workers, "gpu_count", lambda: 0)
    output = tmp_path / "out"
    assert main(["audit", "--input", "nowhere.parquet", "--output", str(output), "--device", device]) == 2
    assert f"--device {device}: torch finds no CUDA here; use --device cpu" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize("options", [["--model-workers", "2"], ["--device", "all"]])
def test_a_distributed_runner_has_no_model_workers(options, capsys):
    given = ["--input", "log.parquet", "--output", "out", "--runner", "PrismRunner"]
    assert main(["audit", *given, *options]) == 2
    assert "are for local runs" in capsys.readouterr().err


def test_gpus_are_counted_in_a_process_of_its_own():
    import torch

    assert COUNT_GPUS() == torch.cuda.device_count()


def test_a_lack_of_memory_ends_a_model_worker_too(monkeypatch):
    lack = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes.")
    monkeypatch.setattr(model_workers, "attention_outcomes", Mock(side_effect=lack))
    options = MethodOptions()
    with pytest.raises(MemoryError):
        model_workers._run_block(pickle.dumps(([], [])), resolve_method(options), options, LoadedModels())
