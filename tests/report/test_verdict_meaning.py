"""What a report says of the verdict: figures where they were measured, and always that it is no proof."""

from __future__ import annotations

import pytest

from attribeam.report.verdict_meaning import no_proof, ranking_meaning


def test_figures_stand_where_the_manifest_has_them() -> None:
    models = {
        "verdict_precision": "0.714",
        "verdict_recall": "0.64",
        "verdict_false_alarms": "0.125",
        "verdict_measured_on": "90 answers",
    }
    text = no_proof(models)
    assert "71% do have an unsupported claim" in text
    assert "it flags 64% (measured on 90 answers)." in text
    assert "nothing wrong with, it flags 12%." in text
    assert "short answers" not in text
    short = {"precision": "0.9", "recall": "0.8", "false_alarms": "0.1"}
    told = no_proof(models | {f"verdict_short_{name}": share for name, share in short.items()})
    assert "With short answers, of up to three claims, these are 90%, 80% and 10%." in told


@pytest.mark.parametrize(("calibrated", "text"), [(True, "is a calibrated probability"), (False, "is no probability")])
def test_the_order_is_explained_as_it_was_made(calibrated: bool, text: str) -> None:
    told = " ".join(ranking_meaning(calibrated=calibrated))
    assert text in told
    assert "Refusals come after" in told
