"""How much of what float32 finds is found in less precision, by AttnUnion and by the two-stage implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.fast_paths.packed_layers import unpack_linear_layers
from attribeam.attribution.models.model_check import top_columns_agreement
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.lab.benchmarks.benchmark_model import BenchmarkModel
from attribeam.lab.benchmarks.latency_methods import TwoStage
from attribeam.lab.benchmarks.latency_rows import LATENCY_SHAPES, latency_records

_TOP_K = 2


@dataclass(frozen=True, slots=True)
class PrecisionAgreement:
    """Shares of answer tokens, from 0 to 1, whose two best columns are those of the same weights in float32."""

    ours: float
    eager: float


def precision_agreement(model: BenchmarkModel, *, rows: int) -> PrecisionAgreement:
    """The agreement on ``rows`` rows of QuoteSum's shape, which each run on their own.

    The reference computes in float32 with the weights of ``model`` in its dtype, before they are quantised.

    Raises:
        RowFault: if a row cannot be attributed.
    """
    records = latency_records(LATENCY_SHAPES[0], rows)
    counts = [len(record.passages) for record in records]
    tried = model.attributor()
    encoded = [tried.encode(record) for record in records]
    found = _attributed(tried, encoded, counts)
    exact = _unquantised(model, tried)
    unpack_linear_layers(exact.network)
    exact.network.float()  # type: ignore[no-untyped-call]
    expected = _attributed(exact, encoded, counts)
    two_stage = TwoStage(model.base(layers=model.layer), layer=model.layer)
    pairs = zip(encoded, counts, strict=True)
    eager = [two_stage.attribute([row], [count], top_k=_TOP_K)[0] for row, count in pairs]
    return PrecisionAgreement(top_columns_agreement(found, expected), top_columns_agreement(eager, expected))


def _unquantised(model: BenchmarkModel, loaded: AttentionModel) -> AttentionModel:
    """The loaded model, or one like it without quantisation."""
    return loaded if model.quantization == "none" else model.unquantised().attributor()


def _attributed(model: AttentionModel, rows: Sequence[EncodedRow], counts: Sequence[int]) -> list[TokenAttribution]:
    found = []
    for row, count in zip(rows, counts, strict=True):
        (outcome,) = model.attribute([row], [count])
        if not isinstance(outcome, TokenAttribution):
            raise outcome
        found.append(outcome)
    return found
