"""Which devices model workers run on, and what is refused before anything starts."""

import pytest
from tests.evaluation.dataset_rows import WORDS

from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.pipeline import model_workers
from attribeam.pipeline.audit_options import RunOptions, named_gpus
from attribeam.pipeline.command_line import main
from attribeam.pipeline.model_workers import plan_model_workers
from attribeam.schemas.errors import UsageError
from attribeam.transforms.audit_settings import AuditSettings

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


def test_one_worker_with_one_gpu_does_everything_itself():
    assert _devices("cuda:1", workers=1) is None
    assert _devices("cuda:1", workers=1, model_workers=1) == ("cuda:1",)
    assert _devices("all", workers=1) == ("cuda:0", "cuda:1")


def test_more_model_workers_than_devices_share_them():
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
