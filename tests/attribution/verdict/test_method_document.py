"""What docs/method.md says of the bundled verdict's limits, and of what it does not see, is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attribeam.attribution.attributor import Attributor
from attribeam.attribution.verdict.verdict_model import load_verdict_model
from attribeam.schemas import Support

DOCUMENT = (Path(__file__).parents[3] / "docs" / "method.md").read_text(encoding="utf-8")
LIMITS = dict(re.findall(r"^\| `(\w+)` \| (0\.\d+) \|", DOCUMENT, flags=re.MULTILINE))
_, _, UNSEEN = DOCUMENT.partition("### What the verdict does not see")
PASSAGE = re.sub(r'"\s+"|\s+', " ", UNSEEN[UNSEEN.index('says: "') + 7 : UNSEEN.index('" These wrong claims')])
MISTAKES = re.findall(r'^\| "([^"]+)" \|', UNSEEN, flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["unmatched", "unmatched_risk", "literal"])
def test_the_limits_are_those_of_the_bundled_verdict(name: str) -> None:
    assert float(LIMITS[name]) == getattr(load_verdict_model().thresholds, name)


def test_a_value_that_nobody_has_brings_its_claim_and_its_answer_to_the_limits() -> None:
    attributor = Attributor.from_pretrained("bundled")
    answer = "The pier was opened in 1950."
    passages = ["The pier was opened in 1931."]
    (found,) = (one for one in attributor.attribute(question="When?", passages=passages, answer=answer) if one.is_claim)
    assert (found.support_score, found.answer_risk) == (float(LIMITS["unmatched"]), float(LIMITS["unmatched_risk"]))
    asked = "Was it opened in 1950?"
    (found,) = (one for one in attributor.attribute(question=asked, passages=passages, answer=answer) if one.is_claim)
    assert found.unmatched_values == ("1950",)
    assert found.support_score > float(LIMITS["unmatched"])


def test_the_mistakes_that_the_verdict_does_not_see_are_called_supported() -> None:
    attributor = Attributor.from_pretrained("bundled")
    assert len(MISTAKES) == 3
    for answer in MISTAKES:
        spans = attributor.attribute(question="What is known of the pier?", passages=[PASSAGE], answer=answer)
        claims = [one for one in spans if one.is_claim]
        assert claims
        assert all(one.support is Support.SUPPORTED and one.support_score > 0.9 for one in claims), answer
