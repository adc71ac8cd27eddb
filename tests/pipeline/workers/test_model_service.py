"""The model service and its clients, with model workers that have no model: restarts, blame, turns, the end."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator

import pytest
from tests.pipeline.workers.stand_in_model_worker import (
    BROKEN,
    CROWDED,
    DEADLY_DEVICE,
    FATAL,
    NO_SUCH_DEVICE,
    OTHER_DEVICE,
    row,
    run_stand_in,
)

from attribeam.attribution.methods.models import ModelStage
from attribeam.pipeline.failures import ModelWorkersError
from attribeam.pipeline.options.devices import ModelWorkerPlan
from attribeam.pipeline.workers import import_server, model_service
from attribeam.pipeline.workers.model_client import BLOCKS_AHEAD, FatalRowsError, RemoteModels
from attribeam.pipeline.workers.model_messages import BlockDone, ModelsReady, Turn, TurnWanted
from attribeam.pipeline.workers.model_service import ModelService
from attribeam.schemas import Reason, RowFault
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.stage_metrics import take_stage_seconds

StartService = Callable[..., ModelService]


@pytest.fixture(scope="module", autouse=True)
def _import_server() -> Iterator[None]:
    """Where processes can be forked, stand-ins are forked from one that has imported what they need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_server, "_IMPORTS", run_stand_in.__module__)
        patch.setattr(import_server, "_GPU_DRIVERS", ())
        import_server.stop_import_server()
        import_server.start_import_server(1, verbose=False)
        yield
        import_server.stop_import_server()


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[StartService]:
    """Starts a service whose model workers are stand-ins, and ends it with the test."""
    monkeypatch.setattr(model_service, "run_model_worker", run_stand_in)
    services: list[ModelService] = []

    def start_service(*devices: str, turns: int = 1) -> ModelService:
        plan = ModelWorkerPlan(devices or ("cpu",), turns)
        services.append(ModelService(AuditSettings(), plan, verbose=False))
        return services[-1]

    yield start_service
    for service in services:
        service.stop()
    assert [child for child in multiprocessing.active_children() if child.name.startswith("models on")] == []


def _client(service: ModelService, notes: list[str] | None = None) -> RemoteModels:
    tell = [].append if notes is None else notes.append
    return RemoteModels(service.connect(), ModelStage.METHOD, tell)


def _reasons(models: RemoteModels, *answers: str) -> list[Reason]:
    rows = [row(number, answer) for number, answer in enumerate(answers)]
    return [one.reason for one in models.start(rows).wait() if isinstance(one, RowFault)]


def test_blocks_come_back_in_whatever_order_they_are_waited_for(start: StartService) -> None:
    models = _client(start())
    assert models.wait_for_models()["model"] == "stand-in"
    take_stage_seconds()
    with models.turn():
        blocks = [models.start([row(number) for number in range(size)]) for size in (1, 2)]
        assert [block.is_pending for block in blocks] == [True, True]
        assert [len(block.wait()) for block in reversed(blocks)] == [2, 1]
    (seconds,) = take_stage_seconds()
    assert (seconds.stage, seconds.wall_seconds, seconds.cpu_seconds) == ("attribute", 3.0, 2.0)


def test_the_service_knows_how_long_model_workers_waited_between_blocks(start: StartService) -> None:
    service = start()
    models = _client(service)
    models.wait_for_models()
    with models.turn():
        for _ in range(3):
            _reasons(models, "fine")
    service.stop()
    assert (service.use.worked, service.use.waited) == (4.5, 1.0)
    assert service.use.waiting_share == pytest.approx(1 / 5.5)
    assert 0 < service.use.peak_bytes < 10_000


def test_a_worker_never_has_more_blocks_on_their_way_than_allowed(start: StartService) -> None:
    models = _client(start())
    models.wait_for_models()
    with models.turn():
        blocks = [models.start([row(0)]) for _ in range(BLOCKS_AHEAD + 3)]
        on_their_way = [number for number, block in models._blocks.items() if block.reply is None]
        assert len(on_their_way) <= BLOCKS_AHEAD
        assert [len(block.wait()) for block in blocks] == [1] * len(blocks)


def test_a_row_that_ends_its_model_worker_is_named_after_three_tries_and_no_other(start: StartService) -> None:
    notes: list[str] = []
    models = _client(start("cpu", "cpu"), notes)
    models.wait_for_models()
    with models.turn(), pytest.raises(FatalRowsError):
        _reasons(models, "fine", "fine", FATAL, "fine", "fine")
    error = models.take_error()
    assert isinstance(error, FatalRowsError)
    assert error.rows == {2: "signal SIGKILL"}
    assert notes == ["a model worker ended by signal SIGKILL at rows 0 to 5 of 'log'; trying them again"] * 2
    with models.turn():
        assert _reasons(models, "fine") == [Reason.OUT_OF_MEMORY]


def test_rows_that_end_a_model_worker_only_together_fail_the_run_and_are_not_blamed(start: StartService) -> None:
    models = _client(start())
    models.wait_for_models()
    with models.turn(), pytest.raises(ModelWorkersError, match="None of the rows does so on its own"):
        _reasons(models, CROWDED, CROWDED)


def test_where_every_row_ends_a_model_worker_the_cause_lies_elsewhere(start: StartService) -> None:
    models = _client(start())
    models.wait_for_models()
    with models.turn(), pytest.raises(ModelWorkersError, match="the cause seems to lie outside the rows"):
        _reasons(models, *[FATAL] * 4)


def test_an_error_of_the_models_ends_the_chunk_and_not_the_model_worker(start: StartService) -> None:
    models = _client(start())
    models.wait_for_models()
    with models.turn(), pytest.raises(RuntimeError, match="ValueError: the stand-in was told to fail"):
        _reasons(models, BROKEN)
    with models.turn():
        assert _reasons(models, "fine", "fine") == [Reason.OUT_OF_MEMORY] * 2


def test_a_worker_that_ends_while_its_block_is_tried_disturbs_no_other(start: StartService) -> None:
    service = start()
    lost, other = _client(service), _client(service)
    lost.wait_for_models()
    with lost.turn():
        lost.start([row(0, FATAL)])
        lost._connection.close()
    other.wait_for_models()
    with other.turn():
        assert _reasons(other, "fine") == [Reason.OUT_OF_MEMORY]


def test_models_that_cannot_be_loaded_are_told_to_all_workers_even_later_ones(start: StartService) -> None:
    service = start("cpu", NO_SUCH_DEVICE)
    first = _client(service)
    with pytest.raises(ModelWorkersError, match="there is no such device"):
        _until_refused(first)
    with pytest.raises(ModelWorkersError, match="there is no such device"):
        _client(service).wait_for_models()


def test_a_model_worker_that_dies_while_it_loads_is_not_started_for_ever(start: StartService) -> None:
    with pytest.raises(ModelWorkersError, match="ended by signal SIGKILL while the models were loaded"):
        _until_refused(_client(start(DEADLY_DEVICE)))


def test_devices_of_different_kinds_are_refused(start: StartService) -> None:
    with pytest.raises(ModelWorkersError, match="the same kind of device"):
        _until_refused(_client(start("cpu", OTHER_DEVICE)))


def _until_refused(models: RemoteModels) -> None:
    """One model worker may be ready, and work, before another one fails."""
    models.wait_for_models()
    while True:
        with models.turn():
            _reasons(models, "fine")


def test_only_as_many_workers_compute_as_there_are_turns(start: StartService) -> None:
    service = start(turns=1)
    first, other, second = _client(service), _client(service), service.connect()
    first.wait_for_models()
    other.wait_for_models()
    assert isinstance(second.recv(), ModelsReady)
    with first.turn():
        second.send(TurnWanted())
        for _ in range(2):  # by the second answer, the service has long seen the question
            other._send([row(0)], 1)
            assert isinstance(other._receive(), BlockDone)
        assert not second.poll()
    assert second.recv() == Turn()


def test_whoever_waits_for_a_block_is_told_that_the_service_has_ended(start: StartService) -> None:
    service = start()
    models = _client(service)
    models.wait_for_models()
    with models.turn():
        service.stop()
        with pytest.raises(ModelWorkersError, match="no longer runs its model workers"):
            _reasons(models, "fine")
