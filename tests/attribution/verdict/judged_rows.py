"""Rows of our own for the verdict's tests, parsed with the bundled parser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from shutil import copyfile

import numpy as np
from tests.attribution import made_rows
from tests.attribution.trees import bundled_parser

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.language_models import Decoder
from attribeam.attribution.option_declaration import VERDICT_FILE
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.verdict.claim_reader import READER_FILES
from attribeam.attribution.verdict.fitted_parts import (
    WORD_FILES,
    LogisticRegression,
    ProbeShares,
    StateProbe,
    decoder_identity,
    same_share,
    state_names,
)
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.schemas import QARecord

RECORD = """name: The Copper Kettle
hours Monday: 11:0-17:0
hours Tuesday: 11:0-17:0
attributes OutdoorSeating: true
attributes RestaurantsTakeOut: false
attributes BusinessParking garage: false
attributes WiFi: no
attributes Music: null"""
LANTERN = "The lighthouse keeper trimmed the lamp every evening. His daughter wrote the weather into a blue ledger."


def record(answer: str, *passages: str, question: str = "") -> QARecord:
    return made_rows.record(passages, answer, question=question)


@cache
def parse(answer: str) -> ParsedAnswer:
    return bundled_parser().parse(answer)


def texts(answer: str, words: Sequence[int]) -> list[str]:
    return [parse(answer).words[word].of(answer) for word in words]


LAYER, SIZE = 2, 32
DOUBTFUL, TRUSTING = 1000.0, -1000.0
"""A ``bias`` at which every word is as unsupported, or as supported, as a probe can say."""
SAME_SHARE = same_share(0.5)


def made_regression(*, bias: float = 0.0) -> LogisticRegression:
    """A regression on states of the tiny models, with random weights."""
    weights = np.random.default_rng(3).normal(size=SIZE)
    return LogisticRegression(state_names(SIZE), np.full(SIZE, 0.1), np.full(SIZE, 2.0), weights, bias)


def save_probed_verdict(
    output: Path, decoder: Path, *, bias: float = 0.0, shares: ProbeShares = SAME_SHARE, note: str = ""
) -> Path:
    """Write the verdict for the decoder in a directory."""
    output.mkdir()
    for name in (*WORD_FILES, *READER_FILES):
        copyfile(BUNDLED_VERDICT / name, output / name)
    model = Decoder.from_pretrained(ModelOptions(model=str(decoder), device="cpu"), layer=LAYER)
    found = json.loads((BUNDLED_VERDICT / VERDICT_FILE).read_text(encoding="utf-8"))
    identity = decoder_identity(model.provenance())
    found["probe"] = StateProbe(LAYER, shares, identity, made_regression(bias=bias), note).to_json()
    (output / VERDICT_FILE).write_text(json.dumps(found), encoding="utf-8")
    return output
