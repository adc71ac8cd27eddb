"""The comparison of kernels with eager attention: right attention is within bounds, wrong attention is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from attribeam.attribution.attention import batching
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.lab.benchmarks import kernel_exactness
from attribeam.lab.benchmarks.kernel_exactness import KernelExactness, measure_exactness, unmeasured_kernels
from attribeam.lab.benchmarks.random_model import RandomModel
from attribeam.schemas import RowFault

FOUND = KernelExactness("bfloat16", "sdpa", "end_to_end", 0.011, 0.0055, 0.9, 0.8)


def test_attention_of_a_cpu_is_exact_in_float32() -> None:
    (found,) = measure_exactness(RandomModel("tiny", peaked=True), rows=1)
    assert (found.kernel, found.layout, found.eager_error) == ("sdpa", "end_to_end", 0.0)
    assert found.is_exact
    assert found.top_equal == 1.0


def test_wrong_attention_is_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    attribute = AttentionModel.attribute

    def shifted(
        model: AttentionModel, rows: Sequence[EncodedRow], counts: Sequence[int]
    ) -> list[TokenAttribution | RowFault]:
        """The attention of each token's successor."""
        found = attribute(model, rows, counts)
        return [
            replace(one, top_columns=np.roll(one.top_columns, 1, 0), top_scores=np.roll(one.top_scores, 1, 0))
            if isinstance(one, TokenAttribution)
            else one
            for one in found
        ]

    monkeypatch.setattr(AttentionModel, "attribute", shifted)
    (found,) = measure_exactness(RandomModel("tiny", peaked=True), rows=1)
    assert not found.is_exact
    assert found.top_equal < 0.5
    assert found.cells()[-1] == "OUT OF BOUNDS"


def test_bounds_follow_from_what_eager_attention_loses() -> None:
    assert FOUND.is_exact
    assert not replace(FOUND, error=0.012).is_exact
    assert not replace(FOUND, dtype="float32").is_exact
    assert replace(FOUND, dtype="float32", error=1e-5, eager_error=0.0).is_exact
    assert not replace(FOUND, error=math.nan).is_exact


def test_kernels_that_are_not_there_are_named() -> None:
    words = "needs a GPU"
    assert unmeasured_kernels("cpu", "bfloat16", ["sdpa"]) == {"flash-attn": words, "torch-varlen": words}
    assert unmeasured_kernels("cpu", "float32", []) == {}


def test_no_kernel_is_said_to_be_exact_where_rows_are_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a kernel that failed when the model was tried: whatever is asked for, none of them runs."""
    monkeypatch.setattr(batching, "captures_agree", lambda *_: False)
    monkeypatch.setattr(kernel_exactness, "varlen_kernels", lambda *_: ("flash-attn",))
    (found,) = measure_exactness(RandomModel("tiny", dtype="bfloat16", peaked=True), rows=1)
    assert (found.kernel, found.layout) == ("sdpa", "padded")
    unmeasured = unmeasured_kernels("cuda", "bfloat16", [found.kernel])
    assert unmeasured["flash-attn"] == "cannot run this model, or failed on it"
    assert unmeasured["torch-varlen"] == "not in this torch"
