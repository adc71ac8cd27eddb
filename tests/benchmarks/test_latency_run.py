"""The table of latencies: what is stopped says so, and contrastive gradients go the evaluation's way."""

from __future__ import annotations

import signal
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config

from benchmarks import latency_run, random_model
from benchmarks.latency_methods import CCI
from benchmarks.latency_run import Measured, Mode, measure
from benchmarks.latency_table import ratios, table
from benchmarks.random_model import RandomModel
from benchmarks.time_limit import TimeIsUpError, time_limit
from schemas import CharRange, Passage, QARecord, RowSource

MEASURED = Measured("attn_union", "single", "QuoteSum", 2, 4, 1000, 2.0, 5e8, 2**30)
TINY = Qwen2Config(
    vocab_size=32_768,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=3,
    num_attention_heads=2,
    num_key_value_heads=1,
    tie_word_embeddings=True,
)


class Waiting:
    """A method that does not come to an end on its own."""

    def encode(self, record: QARecord) -> object:
        return CCI(RandomModel("tiny")).encode(record)

    def run(self, _: object) -> None:
        while True:
            signal.pause()


@pytest.fixture(autouse=True)
def tiny_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(random_model.SHAPES, "tiny", TINY)


def test_what_takes_too_long_is_stopped_and_the_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency_run, "_method", lambda *_: Waiting())
    found = measure("cci", Mode.SINGLE, RandomModel("tiny"), rows=1, token_budget=None, limit=0.05)
    assert [(one.shape, one.stopped, one.seconds) for one in found] == [
        ("QuoteSum", True, 0.05),
        ("ASQA", True, 0.05),
        ("VERI-GRAN", True, 0.05),
    ]
    line = table([replace(found[0], seconds=180.0)], peak=1e9).splitlines()[-1]
    assert "| stopped after 180 s |" in line


def test_limit_is_over_when_its_block_is_left() -> None:
    with pytest.raises(TimeIsUpError), time_limit(0.01):
        signal.pause()
    with time_limit(60):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_table_has_the_times_of_a_span_and_of_a_row() -> None:
    cells = [cell.strip() for cell in table([MEASURED], peak=1e9).splitlines()[-1].strip("|").split("|")]
    assert cells == ["QuoteSum", "AttnUnion", "single", "500", "2.0", "500.0", "1000.0", "500", "25 %", "1,024"]


def test_ratios_leave_out_what_was_stopped() -> None:
    slower = replace(MEASURED, method="two_stage", seconds=5.0)
    assert "AttnUnion is 2.50 times as fast" in ratios([MEASURED, slower])
    assert ratios([MEASURED, replace(slower, stopped=True)]) == ""


def test_contrastive_gradients_are_those_of_the_definition() -> None:
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
    """The log-probabilities behind the last token."""
    found: torch.Tensor = model(inputs_embeds=embedded).logits[0, -1].log_softmax(-1)
    return found


def _ids(token_ids: npt.NDArray[np.int32]) -> torch.Tensor:
    return torch.from_numpy(token_ids.astype(np.int64))[None]
