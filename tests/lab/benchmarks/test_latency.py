"""The latency table: stopped methods are shown as stopped, and every method computes what its definition says.

The two-stage implementation gives the same attention as ours; contrastive gradients go the evaluation's way.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests.attribution.tiny_models import save_tiny_model
from transformers import AutoModel, AutoModelForCausalLM, PreTrainedModel

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from lab.benchmarks import random_model
from lab.benchmarks.attribution_latency import (
    LatencyMeasurement,
    LatencyRun,
    Mode,
    TimeIsUpError,
    forward_operations,
    measure,
    ratios,
    table,
    time_limit,
)
from lab.benchmarks.latency_methods import CCI, TwoStage
from lab.benchmarks.random_model import RandomModel

RECORDS = [
    QARecord("r", "Who kept the lamp?", tuple(map(Passage, passages)), answer, RowSource("log.parquet", 0))
    for passages, answer in [
        (["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."], "Ada Thorne lit the lamp."),
        (["A short one."], "Yes."),
        (["The lamp was seen from twelve miles away."] * 3, "Twelve miles away, in the tower."),
    ]
]


@pytest.mark.parametrize("kind", [AutoModel, AutoModelForCausalLM], ids=["without a head", "with a head"])
@pytest.mark.parametrize("together", [False, True], ids=["single", "batch"])
def test_both_implementations_give_the_same_attributions(tmp_path: Path, kind: type[AutoModel], together: bool) -> None:
    directory = save_tiny_model(tmp_path, "qwen2")
    ours = AttentionModel.from_pretrained(
        ModelOptions(model=str(directory), device="cpu"), method=MethodOptions(top_k=2)
    )
    theirs = TwoStage(kind.from_pretrained(directory).eval(), layer=ours.layer)
    rows, counts = [ours.encode(one) for one in RECORDS], [len(one.passages) for one in RECORDS]
    expected = ours.attribute(rows, counts)
    if together:
        found = theirs.attribute(rows, counts, top_k=2)
    else:
        found = [theirs.attribute([row], [count], top_k=2)[0] for row, count in zip(rows, counts, strict=True)]
    for one, other in zip(found, expected, strict=True):
        assert isinstance(other, TokenAttribution)
        np.testing.assert_array_equal(one.top_columns, other.top_columns)
        np.testing.assert_allclose(one.top_scores, other.top_scores, atol=1e-5)
        np.testing.assert_allclose(one.passage_mass, other.passage_mass, atol=1e-5)
        np.testing.assert_allclose(one.sink_mass, other.sink_mass, atol=1e-5)


MEASURED = LatencyMeasurement("attn_union", "single", "QuoteSum", 2, 4, 1000, 2.0, 5e8, 2**30)


class Waiting:
    """A method that never ends by itself."""

    def encode(self, record: QARecord) -> object:
        return CCI(RandomModel("tiny")).encode(record)

    def run(self, _: object) -> None:
        while True:
            signal.pause()


def test_method_that_takes_too_long_is_stopped_and_the_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LatencyRun, "load", lambda _: Waiting())
    found = measure(LatencyRun("cci", Mode.SINGLE, RandomModel("tiny"), rows=1, limit=0.05))
    assert [(one.shape, one.stopped, one.seconds) for one in found] == [
        ("QuoteSum", True, 0.05),
        ("ASQA", True, 0.05),
        ("VERI-GRAN", True, 0.05),
    ]
    line = table([replace(found[0], seconds=180.0)], peak=1e9).splitlines()[-1]
    assert "| stopped after 180 s |" in line


def test_limit_ends_with_its_block() -> None:
    with pytest.raises(TimeIsUpError), time_limit(0.01):
        signal.pause()
    with time_limit(60):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_table_has_the_times_per_span_and_per_row() -> None:
    cells = [cell.strip() for cell in table([MEASURED], peak=1e9).splitlines()[-1].strip("|").split("|")]
    assert cells == ["QuoteSum", "AttnUnion", "single", "500", "2.0", "500.0", "1000.0", "500", "25 %", "1,024"]


def test_ratios_leave_out_stopped_methods() -> None:
    slower = replace(MEASURED, method="two_stage", seconds=5.0)
    assert "AttnUnion is 2.50 times as fast" in ratios([MEASURED, slower])
    assert ratios([MEASURED, replace(slower, stopped=True)]) == ""


def test_operations_count_the_layers_that_run() -> None:
    config, tokens = random_model.SHAPES["qwen2-7b"], 100
    projections = 3584 * (3584 + 2 * 512)
    layer = projections + 3584 * 3584 + 3 * 3584 * 18_944
    attention = 2 * tokens * tokens * 3584
    assert forward_operations(config, tokens=tokens, layer=15) == (
        14 * (2 * tokens * layer + attention) + 2 * tokens * projections
    )


def test_contrastive_gradients_follow_the_definition() -> None:
    record = QARecord(
        "r",
        "Who kept the lamp?",
        (Passage("The keeper lived in the tower."), Passage("Ada Thorne lit the lamp.")),
        "Ada Thorne did.",
        RowSource("log.parquet", 0),
        target_spans=(CharRange(0, 10),),
    )
    method = CCI(RandomModel("tiny"))
    row = method.encode(record)
    (found,) = method._saliency(record, row, [1])
    model = RandomModel("tiny").causal(implementation="eager")
    without = method.encode(replace(record, passages=()))
    prompt, response = without.token_ids[: without.prompt_length], row.token_ids[row.prompt_length :]
    foil = int(_next(model, model.get_input_embeddings()(_ids(np.append(prompt, response[:1])))).argmax())
    embedded = model.get_input_embeddings()(_ids(row.token_ids[: row.prompt_length + 1])).requires_grad_()
    log_probabilities = _next(model, embedded)
    assert foil != response[1]
    (log_probabilities[response[1]] - log_probabilities[foil]).backward()
    expected = embedded.grad[0, : row.prompt_length].norm(dim=-1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * float(expected.max()))


def _next(model: PreTrainedModel, embedded: torch.Tensor) -> torch.Tensor:
    """The log-probabilities after the last token."""
    found: torch.Tensor = model(inputs_embeds=embedded).logits[0, -1].log_softmax(-1)
    return found


def _ids(token_ids: npt.NDArray[np.int32]) -> torch.Tensor:
    return torch.from_numpy(token_ids.astype(np.int64))[None]
