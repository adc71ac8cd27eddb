"""What ``--dtype auto`` chooses on a CPU, and what leaves nothing to choose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.attribution.tiny_models import save_tiny_model
from tests.attribution.verdict.judged_rows import save_probed_verdict

from attribeam import Attributor
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import with_chosen_dtype
from attribeam.attribution.models import precision, processor
from attribeam.attribution.models.precision import choose_half_precision, is_faster
from attribeam.attribution.models.processor import half_precision_instructions
from attribeam.attribution.options import ModelOptions, Quantization

READS_ATTENTION = frozenset({Need.ATTENTION})


def stored_in(directory: Path, dtype: str) -> ModelOptions:
    save_tiny_model(directory, "qwen2")
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dtype": dtype}), encoding="utf-8")
    return ModelOptions(model=str(directory), device="cpu")


def processor_with(monkeypatch: pytest.MonkeyPatch, *dtypes: str, faster: bool = True) -> list[torch.dtype]:
    """Pretend that the processor multiplies in these dtypes; returns the dtypes that are measured."""
    measured: list[torch.dtype] = []

    def measure(dtype: torch.dtype) -> bool:
        measured.append(dtype)
        return faster

    monkeypatch.setattr(precision, "half_precision_instructions", lambda: dict.fromkeys(dtypes, ("amx",)))
    monkeypatch.setattr(precision, "is_faster", measure)
    return measured


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_model_stored_in_half_precision_runs_in_it_where_products_are_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    measured = processor_with(monkeypatch, dtype)
    choice = choose_half_precision(stored_in(tmp_path, dtype))
    assert choice is not None
    assert choice.dtype == dtype
    assert "amx" in choice.reason
    assert measured == [getattr(torch, dtype)]


def test_dtype_in_the_attribution_config_that_is_named_leaves_nothing_to_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor_with(monkeypatch, "bfloat16")
    options = stored_in(tmp_path / "model", "bfloat16")
    config = tmp_path / "own_config.json"
    config.write_text(json.dumps({"dtype": "float32"}), encoding="utf-8")
    assert choose_half_precision(options) is not None
    assert choose_half_precision(options.replaced(attribution_config=str(config))) is None


def test_float32_is_chosen_without_a_measurement_on_a_processor_without_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = processor_with(monkeypatch, "bfloat16")
    choice = choose_half_precision(stored_in(tmp_path, "float16"))
    assert choice is not None
    assert choice.dtype == "float32"
    assert "no instructions for products in float16" in choice.reason
    assert not measured


def test_float32_is_chosen_where_the_measurement_shows_no_gain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processor_with(monkeypatch, "bfloat16", faster=False)
    choice = choose_half_precision(stored_in(tmp_path, "bfloat16"))
    assert choice is not None
    assert choice.dtype == "float32"
    assert "not 1.5 times as fast" in choice.reason


@pytest.mark.parametrize("times", [(1.0, 0.5), (1.0, 0.9)])
def test_the_best_times_of_both_are_compared(monkeypatch: pytest.MonkeyPatch, times: tuple[float, float]) -> None:
    seconds = dict(zip((torch.float32, torch.bfloat16), times, strict=True))
    disturbed = iter([9.0, 9.0])

    def timed(left: torch.Tensor, right: torch.Tensor) -> float:
        assert left.dtype == right.dtype
        return seconds[left.dtype] + next(disturbed, 0.0)

    monkeypatch.setattr(precision, "_seconds", timed)
    assert is_faster(torch.bfloat16) is (times[1] < times[0] / 1.5)


@pytest.mark.parametrize(
    "given",
    [{"dtype": "float32"}, {"dtype": "bfloat16"}, {"quantization": Quantization.NF4}],
    ids=["float32", "bfloat16", "quantised"],
)
def test_nothing_is_chosen_where_the_user_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, object]
) -> None:
    processor_with(monkeypatch, "bfloat16")
    assert choose_half_precision(stored_in(tmp_path, "bfloat16").replaced(**given)) is None


def test_nothing_is_chosen_for_a_model_stored_in_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processor_with(monkeypatch, "bfloat16", "float16")
    assert choose_half_precision(stored_in(tmp_path, "float32")) is None


@pytest.mark.parametrize(
    ("needs", "chosen"),
    [
        (READS_ATTENTION, "bfloat16"),
        (frozenset({Need.HIDDEN_STATES}), "bfloat16"),
        (frozenset({Need.LANGUAGE_MODEL}), "auto"),
        (frozenset({Need.PARSER}), "auto"),
    ],
)
def test_only_models_whose_attention_or_states_are_read_leave_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs: frozenset[Need], chosen: str
) -> None:
    processor_with(monkeypatch, "bfloat16")
    assert with_chosen_dtype(stored_in(tmp_path, "bfloat16"), needs).dtype == chosen


def test_attributor_runs_in_what_is_chosen_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = stored_in(tmp_path, "bfloat16")
    processor_with(monkeypatch)
    assert Attributor.from_pretrained(options.model, device="cpu").model.dtype == torch.float32
    processor_with(monkeypatch, "bfloat16")
    chosen = Attributor.from_pretrained(options.model, device="cpu")
    assert chosen.model.dtype == torch.bfloat16
    assert chosen.model.provenance()["dtype"] == "bfloat16"


def test_attributor_chooses_for_the_decoder_of_a_probe_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = stored_in(tmp_path, "bfloat16").model
    verdict = str(save_probed_verdict(tmp_path / "verdict", Path(decoder)))
    given = {"verdict": verdict, "language_model": decoder, "device": "cpu"}
    processor_with(monkeypatch)
    slow = Attributor.from_pretrained(**given).provenance()
    assert (slow["dtype"], slow["language_model_dtype"]) == ("float32", "float32")
    processor_with(monkeypatch, "bfloat16")
    fast = Attributor.from_pretrained(**given).provenance()
    assert (fast["dtype"], fast["language_model_dtype"]) == ("float32", "bfloat16")
    named = Attributor.from_pretrained(**given, language_model_dtype="float32").provenance()
    assert named["language_model_dtype"] == "float32"


XEON = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: fpu sse avx2 avx512f avx512_bf16 amx_bf16 amx_tile\n"
EPYC = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu sse avx2 fma\nbugs\t\t: avx512_bf16\n"
GRANITE = "flags\t: avx512_fp16 amx_bf16 amx_fp16 amx_tile avx512_bf16\n"
ARM = "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd bf16 asimdhp i8mm\n"


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        (XEON, {"bfloat16": ("amx_bf16", "avx512_bf16")}),
        (GRANITE, {"bfloat16": ("amx_bf16", "avx512_bf16"), "float16": ("amx_fp16", "avx512_fp16")}),
        (EPYC, {}),
        (ARM, {}),
    ],
    ids=["amx", "amx with float16", "avx2", "arm"],
)
def test_instructions_are_those_of_the_line_of_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, description: str, expected: dict[str, tuple[str, ...]]
) -> None:
    (tmp_path / "cpuinfo").write_text(description, encoding="utf-8")
    monkeypatch.setattr(processor, "_DESCRIPTION", tmp_path / "cpuinfo")
    assert half_precision_instructions() == expected


@pytest.mark.parametrize("description", [None, "processor\t: 0\n"], ids=["no file", "no flags"])
def test_torch_is_asked_where_the_system_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, description: str | None
) -> None:
    if description is not None:
        (tmp_path / "cpuinfo").write_text(description, encoding="utf-8")
    monkeypatch.setattr(processor, "_DESCRIPTION", tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.delattr(torch.cpu, "_is_amx_fp16_supported")
    assert half_precision_instructions() == {"bfloat16": ("avx512_bf16",)}
