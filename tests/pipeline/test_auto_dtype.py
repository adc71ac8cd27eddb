"""``--dtype auto`` in an audit: chosen once, told to the workers, recorded, and kept by whoever resumes."""

import json
import subprocess
from dataclasses import replace

import pytest
from tests.attribution.tiny_models import edit_json, save_tiny_model
from tests.attribution.verdict.judged_rows import save_probed_verdict
from tests.evaluation.dataset_rows import GRADIENTS, WORDS
from tests.pipeline.audit_fixtures import tiny_audit
from tests.pipeline.audit_process import log_rows, output_digests, read_manifest
from tests.pipeline.made_metrics import made_manifest

from attribeam.attribution.models import half_precision_instructions
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.pipeline import model_workers
from attribeam.pipeline.audit_options import RunOptions
from attribeam.pipeline.model_workers import with_auto_dtype
from attribeam.schemas.run_manifest import AuditCounts, RunStatus
from attribeam.transforms.audit_settings import AuditSettings, plain_settings

SETTINGS = AuditSettings(model=ModelOptions(model="brigg/lighthouse", device="cpu"))
CHOSEN = ("bfloat16", "products are faster")


@pytest.fixture
def asked(monkeypatch):
    """A processor that is faster in bfloat16; what is asked of it."""
    asked = []

    def chosen(model, *, threads):
        assert threads == 1
        asked.append(model)
        return CHOSEN

    monkeypatch.setattr(model_workers, "half_precision_instructions", lambda: {"bfloat16": ("amx_bf16",)})
    monkeypatch.setattr(model_workers, "_chosen", chosen)
    return asked


def manifest_of(settings, options, dtype):
    given = json.loads(json.dumps({**plain_settings(settings), "run": options.given()}))
    return made_manifest(AuditCounts(), status=RunStatus.INTERRUPTED, options=given, models={"dtype": dtype})


def test_choice_is_made_once_and_stands_in_settings_and_options(asked, capsys):
    settings, options = with_auto_dtype(SETTINGS, RunOptions(), None)
    assert settings == replace(SETTINGS, model=SETTINGS.model.replaced(dtype="bfloat16"))
    assert options.dtype_choice == "bfloat16: products are faster"
    assert "--dtype auto chooses bfloat16: products are faster" in capsys.readouterr().err
    assert with_auto_dtype(settings, options, None) == (settings, options)
    assert asked == [SETTINGS.model]


@pytest.mark.parametrize(
    "settings",
    [
        replace(SETTINGS, model=ModelOptions(device="cpu")),
        replace(SETTINGS, model=SETTINGS.model.replaced(dtype="float32")),
        replace(SETTINGS, model=SETTINGS.model.replaced(device="cuda:0")),
        replace(SETTINGS, method=MethodOptions(method=GRADIENTS)),
        replace(SETTINGS, method=MethodOptions(method=WORDS)),
    ],
    ids=["bundled", "given", "gpu", "language model", "no model"],
)
def test_nothing_is_asked_where_nothing_is_to_be_chosen(settings, asked):
    assert with_auto_dtype(settings, RunOptions(), None) == (settings, RunOptions())
    assert not asked


def test_run_that_continues_on_a_slower_processor_keeps_the_choice_and_is_told(asked, monkeypatch, capsys):
    first = with_auto_dtype(SETTINGS, RunOptions(), None)
    earlier = manifest_of(*first, dtype="bfloat16")
    capsys.readouterr()
    assert with_auto_dtype(SETTINGS, RunOptions(), earlier) == first
    assert not capsys.readouterr().err
    monkeypatch.setattr(model_workers, "half_precision_instructions", dict)
    assert with_auto_dtype(SETTINGS, RunOptions(), earlier) == first
    assert "keeps bfloat16, in which this audit was started" in capsys.readouterr().err
    assert asked == [SETTINGS.model]


@pytest.fixture
def probed(tmp_path):
    """The bundled model with a verdict that reads a decoder."""
    verdict = save_probed_verdict(tmp_path / "verdict", save_tiny_model(tmp_path / "decoder"))
    method = MethodOptions(verdict=str(verdict), language_model="brigg/decoder")
    return AuditSettings(model=ModelOptions(device="cpu"), method=method)


def with_decoders_manifest(settings, options, dtype):
    made = manifest_of(settings, options, dtype="float32")
    return replace(made, models={"dtype": "float32", "language_model_dtype": dtype})


def test_choice_for_a_probes_decoder_is_its_own_and_recorded(asked, probed, capsys):
    settings, options = with_auto_dtype(probed, RunOptions(), None)
    assert settings == replace(probed, method=probed.method.replaced(language_model_dtype="bfloat16"))
    assert (options.dtype_choice, options.language_model_dtype_choice) == (None, "bfloat16: products are faster")
    assert "--dtype auto chooses bfloat16 for the language model" in capsys.readouterr().err
    assert [one.model for one in asked] == ["brigg/decoder"]
    assert (settings.models.language.dtype, settings.models.model.dtype) == ("bfloat16", "auto")


@pytest.mark.parametrize(
    "changed",
    [{"method": GRADIENTS}, {"language_model_dtype": "float32"}, {"language_model": None}],
    ids=["its gradients are read", "it is given", "the model is the decoder"],
)
def test_nothing_is_chosen_for_a_decoder_where(changed, asked, probed):
    settings = replace(probed, method=probed.method.replaced(**changed))
    assert with_auto_dtype(settings, RunOptions(), None) == (settings, RunOptions())
    assert not asked


def test_run_that_continues_keeps_the_decoders_choice(asked, probed, monkeypatch, capsys):
    first = with_auto_dtype(probed, RunOptions(), None)
    earlier = with_decoders_manifest(*first, dtype="bfloat16")
    monkeypatch.setattr(model_workers, "half_precision_instructions", dict)
    assert with_auto_dtype(probed, RunOptions(), earlier) == first
    assert "keeps bfloat16, in which this audit was started" in capsys.readouterr().err
    slow = with_auto_dtype(probed, RunOptions(), None)
    monkeypatch.setattr(model_workers, "half_precision_instructions", lambda: {"bfloat16": ("amx_bf16",)})
    assert with_auto_dtype(probed, RunOptions(), with_decoders_manifest(*slow, dtype="float32")) == slow
    assert len(asked) == 1
    other = replace(probed, method=probed.method.replaced(language_model="brigg/other"))
    assert with_auto_dtype(other, RunOptions(), earlier)[0].method.language_model_dtype == "bfloat16"
    assert with_auto_dtype(probed, RunOptions(overwrite=True), earlier)[0] == first[0]
    assert len(asked) == 3


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """A small model that says that it is stored in bfloat16."""
    made = tiny_audit(tmp_path_factory.mktemp("audit"), log_rows(6), kind="qwen2")
    edit_json(made.model / "config.json", dtype="bfloat16")
    return made


def test_workers_do_as_they_are_told_and_the_same_dtype_given_by_name_is_the_same_audit(audit, tmp_path, monkeypatch):
    monkeypatch.setattr(model_workers, "half_precision_instructions", lambda: {"bfloat16": ("amx_bf16",)})
    monkeypatch.setattr(model_workers, "_chosen", lambda *_, **__: CHOSEN)
    assert audit.run_here(tmp_path, "--workers", "2", "--device", "cpu", "--dtype", "auto") == 0
    manifest = read_manifest(tmp_path)
    model, run = manifest.options["model"], manifest.options["run"]
    assert model["dtype"] == manifest.models["dtype"] == "bfloat16"
    assert run["dtype_choice"] == "bfloat16: products are faster"
    written = output_digests(tmp_path)
    monkeypatch.setattr(model_workers, "half_precision_instructions", dict)
    assert audit.run_here(tmp_path, "--workers", "2", "--device", "cpu", "--dtype", "bfloat16") == 0
    assert output_digests(tmp_path) == written
    again = read_manifest(tmp_path)
    assert (again.configuration, again.rows_per_second) == (manifest.configuration, 0.0)


def test_process_that_is_asked_answers_for_the_processor_that_it_runs_on(audit):
    settings = AuditSettings(model=ModelOptions(model=str(audit.model), device="cpu"))
    found = model_workers._chosen(settings.model, threads=1)
    assert (found is None) is not bool(half_precision_instructions())
    assert found is None or found[0] in ("float32", "bfloat16")


@pytest.mark.parametrize(("code", "said"), [(0, "null\n"), (2, "")], ids=["nothing to choose", "unreadable model"])
def test_process_is_told_of_the_attribution_config_that_is_named(code, said, monkeypatch):
    told = []

    def run(command, *, input, **_):
        told.append(input)
        return subprocess.CompletedProcess(command, code, stdout=said)

    monkeypatch.setattr(subprocess, "run", run)
    settings = replace(SETTINGS, model=SETTINGS.model.replaced(attribution_config="own_config.json"))
    assert model_workers._chosen(settings.model, threads=1) is None
    assert json.loads(told[0])["attribution_config"] == "own_config.json"
