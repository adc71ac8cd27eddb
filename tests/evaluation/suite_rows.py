"""A data directory in the suite's layout, written for these tests, and a function that runs the suite on it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.evaluation.dataset_rows import (
    alce_row,
    lfqa_row,
    quotesum_row,
    ragtruth_response,
    ragtruth_source,
    veri_gran_row,
    write_alce,
    write_ragtruth,
    write_rows,
)
from tests.evaluation.evaluate_command import evaluate

from attribeam.attribution.answers.answer_parser import AnswerParser

QUOTESUM = [
    quotesum_row("The lamp is kept by [ 1 Ada Thorne ] , the buoy by [ 2 Jon Reed ] .", row_id="q_0"),
    quotesum_row("No mark.", row_id="q_1"),
    quotesum_row("[ 2 A bell buoy ] lies there.", row_id="q_2"),
]
PASSAGES = ["Ada lit the lamp.", "Jon tends the buoy.", "Bells ring."]
VERI_GRAN = [veri_gran_row("[ 1 Ada ] lit it.", PASSAGES), veri_gran_row("It is [ 2 Jon ] who tends it.", PASSAGES)]
LFQA = [
    lfqa_row(
        "A lamp burns. Bells ring.",
        ["The lamp burns at night.", "In fog the bells ring out."],
        [("A lamp burns.", 0, "lamp burns"), ("Bells ring.", 1, "bells ring")],
    )
]
CHINESE = [quotesum_row("灯塔由 [ 1 Ada Thorne ] 看守。", row_id="z_0")]
ALCE = [alce_row("Ada Thorne lit the lamp in 1874 [1]. A bell buoy lies off the rock [2].")]

_LOADED_ONCE = staticmethod(cache(AnswerParser.from_pretrained))


def write_english(root: Path) -> Path:
    """QuoteSum, VERI-GRAN and LFQA."""
    for folder, name, rows in (("quotesum", "dev.jsonl", QUOTESUM), ("veri_gran", "dev.jsonl", VERI_GRAN)):
        (root / folder).mkdir(parents=True)
        write_rows(root / folder / name, rows)
    (root / "lfqa").mkdir()
    write_rows(root / "lfqa" / "dev.jsonl.xz", LFQA)
    return root


def write_all(root: Path) -> Path:
    """Every data set of the layout except logs."""
    write_english(root)
    for folder in ("alce", "chinese"):
        (root / folder).mkdir()
    write_alce(root / "alce" / "asqa.json", ALCE)
    write_rows(root / "chinese" / "quotesum.jsonl", CHINESE)
    write_ragtruth(
        root / "ragtruth",
        [ragtruth_source("1", {"question": "Who lit it?", "passages": "passage 1:Ada lit the lamp.\n\n"})],
        [
            ragtruth_response("1", "1", "Ada lit the lamp.", {}),
            ragtruth_response("2", "1", "Jon lit it.", {"Jon": "bad"}),
        ],
    )
    return root


def suite(data: Path, output: Path, *options: object) -> int:
    """Run ``attribeam evaluate --suite paper`` with few resamples; returns the exit code."""
    given = ["--suite", "paper", "--data", data, "--output", output, "--bootstrap-draws", 40, "--device", "cpu"]
    with patch.object(AnswerParser, "from_pretrained", _LOADED_ONCE):
        return evaluate(*given, *options)


def results_of(output: Path) -> Any:
    """The figures of a run."""
    return json.loads((output / "results.json").read_text())
