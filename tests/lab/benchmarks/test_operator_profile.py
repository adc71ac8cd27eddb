"""Profiles of operators: what ran is named and told apart by kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attribeam.lab.benchmarks import operator_profile
from attribeam.lab.benchmarks.operator_profile import OperatorProfile, OperatorTime, profile_operators
from attribeam.schemas.errors import RunError


def test_profile_names_what_ran_and_how_often() -> None:
    left, right = torch.randn(64, 32), torch.randn(32, 16)
    found = profile_operators(lambda: [left @ right for _ in range(3)], device="cpu")
    assert {one.name: one.calls for one in found.operators}["aten::mm"] == 3
    assert found.wall_seconds > 0
    assert sum(found.shares().values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nvjet_tst_256x128_64x4_2x1_v_bz_TNT", "products"),
        ("ampere_bf16_s16816gemm_bf16_128x64", "products"),
        ("void pytorch_flash::flash_fwd_kernel<...>", "attention"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", "attention"),
        ("void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>", "quantisation"),
        ("Memcpy HtoD (Pinned -> Device)", "copies"),
        ("void at::native::vectorized_elementwise_kernel<4>", "other"),
    ],
)
def test_kernels_are_told_apart_by_their_names(name: str, kind: str) -> None:
    assert OperatorTime(name, 1, 1.0).kind == kind


def test_lines_have_shares_of_all_operators_and_short_names() -> None:
    operators = (OperatorTime("aten::mm", 2, 0.003), OperatorTime("x" * 100 + "|", 1, 0.001))
    found = OperatorProfile(operators, wall_seconds=0.008)
    lines = list(found.lines(5))
    assert lines[0] == ("aten::mm", "products", "2", "3.00", "75.0%")
    assert len(lines[1][0]) == 70
    assert found.busy_share == pytest.approx(0.5)
    assert found.shares() == {"products": pytest.approx(0.75), "other": pytest.approx(0.25)}


def gpu_event(name: str, device: str, seconds: float, *, annotation: bool = False) -> Any:
    """As torch's profiler averages events: operators have the time of their kernels, too."""
    return SimpleNamespace(
        key=name,
        count=4,
        device_type=SimpleNamespace(name=device),
        self_device_time_total=1e6 * seconds,
        self_cpu_time_total=1.0,
        is_user_annotation=annotation,
    )


def on_a_gpu(monkeypatch: pytest.MonkeyPatch, *events: Any) -> OperatorProfile:
    """The profile of a GPU that is not there, which saw these events."""

    @contextmanager
    def profile(*, activities: Any) -> Iterator[Any]:
        assert [one.name for one in activities] == ["CPU", "CUDA"]
        yield SimpleNamespace(key_averages=lambda: events)

    monkeypatch.setattr(operator_profile, "profile", profile)
    monkeypatch.setattr(operator_profile, "mean_seconds", lambda *_, **__: 0.1)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    return profile_operators(lambda: None, device="cuda")


def test_on_a_gpu_kernels_count_once_and_operators_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = on_a_gpu(
        monkeypatch,
        gpu_event("aten::mm", "CPU", 0.06),
        gpu_event("nvjet_tst", "CUDA", 0.06),
        gpu_event("flash_fwd_kernel", "CUDA", 0.02),
        gpu_event("a step", "CUDA", 0.08, annotation=True),
    )
    assert [one.name for one in found.operators] == ["nvjet_tst", "flash_fwd_kernel"]
    assert found.busy_share == pytest.approx(0.8)


def test_profiler_that_sees_no_kernel_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="saw nothing; may this user profile it"):
        on_a_gpu(monkeypatch, gpu_event("aten::mm", "CPU", 0.06))
