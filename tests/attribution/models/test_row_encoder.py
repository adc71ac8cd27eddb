"""The encoder without weights gives what the loaded model would give."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import numpy as np
import pytest

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import ModelChoice, load_audit_models
from attribeam.attribution.models import loaded_once
from attribeam.attribution.models.model_directory import load_row_encoder
from attribeam.attribution.options import ModelOptions
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource

RECORD = QARecord(
    record_id="r",
    question="Who lit </s> it?",
    passages=(Passage("Ada Thorne <s> lit it. 🙂", "Brigg"), Passage("")),
    answer="Ada, in 1874.",
    source=RowSource("log.parquet", 0),
)
TEMPLATES = {
    "own": None,
    "plain": {"question": "Q: {question}\nA: "},
    "with BOS": {"preamble": "<s>"},
    "with a special token inside": {"question": "{question}</s>"},
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_row_is_encoded_as_the_model_encodes_it(llama, tmp_path, name):
    options = ModelOptions(model=str(llama), device="cpu")
    if TEMPLATES[name] is not None:
        (tmp_path / "template.json").write_text(json.dumps(TEMPLATES[name]))
        options = options.replaced(prompt_template=str(tmp_path / "template.json"))
    ours = load_row_encoder(options).encode(RECORD)
    theirs = AttentionModel.from_pretrained(options).encode(RECORD)
    assert ours.prompt_length == theirs.prompt_length
    for field in ("token_ids", "column_passage", "column_in_title", "column_char_start", "response_char_end"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))


@pytest.mark.parametrize("max_tokens", [20, None])
def test_length_limit_is_that_of_the_model(llama, max_tokens):
    options = ModelOptions(model=str(llama), device="cpu", max_tokens=max_tokens)
    record = replace(RECORD, passages=(Passage("tower " * 900),))
    faults = []
    for encoder in (load_row_encoder(options), AttentionModel.from_pretrained(options)):
        with pytest.raises(RowFault) as caught:
            encoder.encode(record)
        faults.append((caught.value.reason, str(caught.value)))
    assert faults[0] == faults[1]
    assert faults[0][0] is Reason.TOO_MANY_TOKENS


def test_whole_row_that_is_too_long_is_refused_where_windows_cannot_help(llama):
    encoder = load_row_encoder(ModelOptions(model=str(llama), device="cpu", max_tokens=60))
    record = replace(RECORD, passages=(Passage("tower " * 9),) * 4)
    assert len(encoder.encode(record).windows) > 1
    with pytest.raises(RowFault, match="at most 60 tokens here, has"):
        encoder.encode_whole(record)
    assert encoder.encode_whole(RECORD).windows == ()


THREADS = 4


def test_threads_that_ask_together_load_once():
    loads = []
    together = Barrier(THREADS)

    @loaded_once
    def load(name):
        loads.append(name)
        sum(range(200_000))  # long enough for the other threads to come
        return [name]

    def ask(_):
        together.wait()
        return load("model")

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(ask, range(THREADS)))
    assert loads == ["model"]
    assert all(one is found[0] for one in found)


def test_a_load_that_failed_is_tried_again():
    answers = iter([ValueError("not yet"), "model"])

    @loaded_once
    def load():
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    with pytest.raises(ValueError, match="not yet"):
        load()
    assert load() == "model"


def test_threads_of_a_worker_share_one_model_and_one_encoder():
    choice = ModelChoice(model=ModelOptions(device="cpu"))
    needs = frozenset({Need.PARSER, Need.ATTENTION})
    with ThreadPoolExecutor(THREADS) as pool:
        models = list(pool.map(lambda _: load_audit_models(choice, needs), range(THREADS)))
        encoders = list(pool.map(lambda _: load_row_encoder(choice.model), range(THREADS)))
    assert all(one is models[0] for one in models)
    assert all(one is encoders[0] for one in encoders)
