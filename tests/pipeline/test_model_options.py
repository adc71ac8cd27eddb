"""How a model is loaded is an option of every command, and part of what decides the records."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution import options
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.option_declaration import add_options
from attribeam.attribution.option_types import device_name
from attribeam.attribution.options import ModelOptions, Quantization, QueryPosition
from attribeam.evaluation.command import add_arguments
from attribeam.evaluation.model_check import model_trial
from attribeam.evaluation.runs import model_choice
from attribeam.pipeline.chunks.configuration import configuration_hash, plain_settings, with_pinned_model
from attribeam.pipeline.command_line import main
from attribeam.pipeline.options.audit_options import add_audit_arguments, read_settings
from attribeam.pipeline.options.config_file import read_options
from attribeam.transforms.audit_settings import AuditSettings

LOADING = (
    *("--model", "a/b", "--revision", "v1", "--dtype", "bfloat16"),
    *("--quantization", "nf4", "--device", "cuda:1", "--trust-remote-code"),
)
LOADED = ModelOptions(
    model="a/b",
    revision="v1",
    dtype="bfloat16",
    quantization=Quantization.NF4,
    device="cuda:1",
    trust_remote_code=True,
)
READING = (
    *("--layer", "3", "--query-position", "self", "--prompt-template", "paper"),
    *("--token-budget", "4096", "--max-tokens", "512"),
)
LOADED_AND_READING = LOADED.replaced(
    layer=3,
    query_position=QueryPosition.SELF,
    prompt_template="paper",
    token_budget=4096,
    max_tokens=512,
)


def test_audit_takes_the_options_of_loading_and_reading() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_audit_arguments(parser)
    given = ["--input", "x", *LOADING, "--prompt-template", "paper", "--max-tokens", "512"]
    expected = LOADED.replaced(prompt_template="paper", max_tokens=512)
    assert read_settings(read_options(parser.parse_args(given))).model == expected


def test_evaluate_takes_the_options_of_loading_and_reading() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    given = parser.parse_args(["--dataset", "quotesum", "--data", "x", *LOADING, *READING])
    assert model_choice(given).model == LOADED_AND_READING


def test_check_of_a_model_takes_the_options_of_loading_and_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[ModelOptions] = []
    monkeypatch.setattr(model_trial, "check_layer", lambda options: None)  # noqa: ARG005
    monkeypatch.setattr(model_trial, "try_model", lambda options, *_, **__: checked.append(options))
    assert main(["models", "check", *LOADING, *READING]) == 0
    assert checked == [LOADED_AND_READING]


def test_their_defaults_are_those_of_the_declaration() -> None:
    parser = argparse.ArgumentParser()
    groups = (options.LOADING, options.READING, options.LAYER)
    add_options(parser, ModelOptions, *groups)
    assert ModelOptions.from_arguments(parser.parse_args([]), *groups) == ModelOptions()


@pytest.mark.parametrize("command", [["audit", "--input", "x"], ["models", "check"], ["evaluate", "--data", "x"]])
def test_template_that_is_neither_a_name_nor_a_file_is_a_usage_error(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--prompt-template", "no/such.jinja"])
    assert ended.value.code == 2
    assert "chat, plain, paper or a file, there is no file 'no/such.jinja'" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["audit", "--input", "x"], ["evaluate", "--data", "x"]])
def test_verdict_that_is_neither_a_name_nor_a_directory_of_one_is_a_usage_error(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--verdict", str(tmp_path)])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert "bundled, smollm2-135m, mass, a verifier " in error


_COMMANDS = (["audit", "--input", "x", "--output", "y"], ["models", "check"], ["evaluate", "--data", "x"])


@pytest.mark.parametrize("command", _COMMANDS)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--device", "tpu"], "--device: should be auto, cpu, cuda, cuda:1, or another device that torch knows"),
        (["--device", "cuda:x"], "was: 'cuda:x'"),
        (["--device", ""], "was: ''"),
        (["--dtype", "float8"], "--dtype: should be one of 'auto', 'float32', 'bfloat16', 'float16', was: 'float8'"),
    ],
)
def test_value_that_no_model_could_be_loaded_with_is_a_usage_error(
    command: list[str], given: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, *given])
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


def test_unknown_precision_of_a_language_model_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*_COMMANDS[2], "--language-model-dtype", "float8"])
    assert ended.value.code == 2
    assert (
        "--language-model-dtype: should be one of 'auto', 'float32', 'bfloat16', 'float16'" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "device", ["auto", "all", "cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "mps", "xpu:0", "hpu", "npu:3", "xla", "mtia"]
)
def test_name_of_a_device_is_taken_whether_it_is_there_or_not(device: str) -> None:
    assert device_name(device) == device


@pytest.mark.parametrize("device", ["all", "cuda:0,cuda:1"])
def test_check_of_a_model_takes_one_device(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "check", "--device", device]) == 2
    assert f"device should be a single one, was: {device!r}" in capsys.readouterr().err


def test_unknown_quantization_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["models", "check", "--quantization", "int4"])
    assert ended.value.code == 2
    assert "none, nf4, int8" in capsys.readouterr().err.replace("'", "")


def test_attributor_takes_a_quantization_by_name(tmp_path: Path) -> None:
    attributor = Attributor.from_pretrained(str(save_tiny_model(tmp_path)), device="cpu", quantization="int8")
    assert attributor.model.provenance()["quantization"] == "int8"


@pytest.mark.parametrize(
    "change",
    [
        {"quantization": Quantization.NF4},
        {"dtype": "bfloat16"},
        {"revision": "v1"},
        {"trust_remote_code": True},
        {"layer": 3},
        {"query_position": QueryPosition.SELF},
        {"prompt_template": "paper"},
        {"max_tokens": 512},
        {"token_budget": 4096},
    ],
)
def test_each_of_them_makes_another_configuration(change: dict[str, object]) -> None:
    plain = AuditSettings()
    changed = replace(plain, model=plain.model.replaced(**change))
    assert configuration_hash(plain, {}, []) != configuration_hash(changed, {}, [])


def test_manifest_names_them() -> None:
    model = plain_settings(AuditSettings(model=LOADED))["model"]
    assert isinstance(model, dict)
    assert (model["quantization"], model["revision"], model["trust_remote_code"]) == ("nf4", "v1", True)


def test_workers_elsewhere_load_the_commit_that_was_loaded_here() -> None:
    settings = AuditSettings(model=LOADED)
    pinned = with_pinned_model(settings, {"model_revision": "0123abc"})
    assert pinned == replace(settings, model=LOADED.replaced(revision="0123abc"))


def test_local_model_has_no_commit_to_pin() -> None:
    settings = AuditSettings()
    assert with_pinned_model(settings, {"model_revision": "sha256:0123"}) is settings
