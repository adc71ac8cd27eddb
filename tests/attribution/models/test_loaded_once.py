"""A loader that threads share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import ModelChoice, load_audit_models
from attribeam.attribution.models.loaded_once import loaded_once
from attribeam.attribution.models.row_encoder import load_row_encoder
from attribeam.attribution.options import ModelOptions

THREADS = 4


def test_threads_that_ask_together_load_once() -> None:
    loads: list[str] = []
    together = Barrier(THREADS)

    @loaded_once
    def load(name: str) -> list[str]:
        loads.append(name)
        sum(range(200_000))  # long enough for the other threads to come
        return [name]

    def ask(_: int) -> list[str]:
        together.wait()
        return load("model")

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(ask, range(THREADS)))
    assert loads == ["model"]
    assert all(one is found[0] for one in found)


def test_a_load_that_failed_is_tried_again() -> None:
    answers = iter([ValueError("not yet"), "model"])

    @loaded_once
    def load() -> object:
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    with pytest.raises(ValueError, match="not yet"):
        load()
    assert load() == "model"


def test_threads_of_a_worker_share_one_model_and_one_encoder() -> None:
    choice = ModelChoice(model=ModelOptions(device="cpu"))
    needs = frozenset({Need.PARSER, Need.ATTENTION})
    with ThreadPoolExecutor(THREADS) as pool:
        models = list(pool.map(lambda _: load_audit_models(choice, needs), range(THREADS)))
        encoders = list(pool.map(lambda _: load_row_encoder(choice.model), range(THREADS)))
    assert all(one is models[0] for one in models)
    assert all(one is encoders[0] for one in encoders)
