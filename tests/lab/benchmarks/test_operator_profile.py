"""Profiles of operators: what ran is named and told apart by kind."""

from __future__ import annotations

import pytest
import torch

from attribeam.lab.benchmarks.operator_profile import OperatorProfile, OperatorTime, profile_operators


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
