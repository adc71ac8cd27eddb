"""Attention with a bias that the model computes from positions, in the captured layer and in those below."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attribution.attention.attention_capture import capture_attention
from attribution.attention.capture_pass import Capture, capturing
from attribution.attention.end_to_end_rows import EndToEndRows, rows_end_to_end
from attribution.attention.row_attention import RowRequest

TOKENS, HEADS, SIZE = 7, 2, 4
GENERATOR = torch.Generator().manual_seed(3)
QUERY, KEY, VALUE = (torch.randn(1, HEADS, TOKENS, SIZE, generator=GENERATOR) for _ in range(3))
BIAS = torch.randn(1, HEADS, TOKENS, TOKENS, generator=GENERATOR)


class Attention(torch.nn.Module):
    layer_idx = 0
    is_causal = True


def expected_weights() -> torch.Tensor:
    """softmax(Q K^T / 2 + bias) under causality: [heads, tokens, tokens]."""
    logits = QUERY[0] @ KEY[0].transpose(1, 2) / 2 + BIAS[0]
    return logits.masked_fill(torch.ones(TOKENS, TOKENS).triu(1).bool(), float("-inf")).softmax(-1)


def test_bias_counts_in_the_captured_layer() -> None:
    request = RowRequest(torch.arange(TOKENS), TOKENS, torch.zeros(TOKENS, dtype=torch.int64), 1)
    capture = Capture(layer_index=0, top_k=TOKENS, rows=[request])
    with capturing(capture):
        capture_attention(Attention(), QUERY, KEY, VALUE, None, position_bias=BIAS)
    (row,) = capture.captured
    found = torch.zeros_like(row.top_scores).scatter_(1, row.top_columns, row.top_scores)
    np.testing.assert_allclose(found.numpy(), expected_weights().mean(0).numpy(), atol=1e-6)


def test_bias_counts_in_the_layers_below() -> None:
    output, _ = capture_attention(Attention(), QUERY, KEY, VALUE, None, position_bias=BIAS)
    np.testing.assert_allclose(output[0].transpose(0, 1).numpy(), (expected_weights() @ VALUE[0]).numpy(), atol=1e-5)


def test_bias_of_rows_end_to_end_is_refused() -> None:
    rows = EndToEndRows.of_lengths([3, 4], torch.device("cpu"))
    with rows_end_to_end(rows), pytest.raises(ValueError, match="no position_bias"):
        capture_attention(Attention(), QUERY, KEY, VALUE, None, position_bias=BIAS)
