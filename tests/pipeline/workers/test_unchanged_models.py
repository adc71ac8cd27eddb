"""Whether the models of a finished audit are still the same, told without importing what loads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.pipeline.audit_fixtures import save_tiny_audit

from attribeam.pipeline.workers import import_server
from attribeam.pipeline.workers.unchanged_models import are_unchanged
from attribeam.pipeline.workers.worker import load_models
from attribeam.transforms.audit_settings import AuditSettings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditSettings:
    """Settings with a model and a parser in directories of their own."""
    monkeypatch.setattr(import_server, "_GPU_DRIVERS", ())
    return save_tiny_audit(tmp_path)


def test_models_whose_files_are_as_they_were_are_unchanged(settings: AuditSettings) -> None:
    assert are_unchanged(settings, load_models(settings))


def test_bundled_models_are_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_server, "_GPU_DRIVERS", ())
    assert are_unchanged(AuditSettings(), load_models(AuditSettings()))


@pytest.mark.parametrize("place", ["model/config.json", "model/model.safetensors", "parser/vocab/strings.json"])
def test_one_changed_byte_is_a_change(settings: AuditSettings, tmp_path: Path, place: str) -> None:
    models = load_models(settings)
    content = (tmp_path / place).read_bytes()
    (tmp_path / place).write_bytes(content[:-2] + b" " + content[-1:])
    assert not are_unchanged(settings, models)


def _with_model(**options: object) -> Callable[[AuditSettings], AuditSettings]:
    return lambda settings: replace(settings, model=settings.model.replaced(**options))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(_with_model(trust_remote_code=True), id="code"),
        pytest.param(_with_model(attribution_config="config.json"), id="settings of its own"),
        pytest.param(_with_model(prompt_template="template.jinja"), id="template"),
        pytest.param(_with_model(model="somebody/some-model"), id="hub"),
        pytest.param(lambda one: replace(one, parser="en_core_web_sm"), id="installed parser"),
        pytest.param(lambda one: replace(one, method=one.method.replaced(method="mine:Method")), id="own method"),
    ],
)
def test_what_files_do_not_tell_has_to_be_loaded(
    settings: AuditSettings, changed: Callable[[AuditSettings], AuditSettings]
) -> None:
    assert not are_unchanged(changed(settings), load_models(settings))


def test_a_gpu_that_could_be_chosen_has_to_be_tried(
    settings: AuditSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = load_models(settings)
    monkeypatch.setattr(import_server, "_GPU_DRIVERS", (str(tmp_path),))
    assert not are_unchanged(settings, models)
    assert are_unchanged(_with_model(device="cpu")(settings), models)
