"""What docs/method.md says of the bundled verdict's limits, and of what it does not see, is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attribeam.attribution.attributor import Attributor
from attribeam.attribution.verdict.verdict_model import load_verdict_model
from attribeam.schemas import Support

DOCUMENT = (Path(__file__).parents[3] / "docs" / "method.md").read_text(encoding="utf-8")
_, _, UNSEEN = DOCUMENT.partition("### What the verdict does not see")
PASSAGE = re.sub(r'"\s+"|\s+', " ", UNSEEN[UNSEEN.index('says: "') + 7 : UNSEEN.index('" None of these wrong claims')])
MISTAKES = re.findall(r'^\| "([^"]+)" \|', UNSEEN, flags=re.MULTILINE)


@pytest.mark.parametrize(("name", "text"), [
    ("balanced", r"`unsupported` below\s+(0\.\d+)"), ("lenient", r"\((0\.\d+) with `--strictness lenient`"),
    ("strict", r"(0\.\d+) with `strict`"), ("supported", r"`supported` from (0\.\d+)"),
])  # fmt: skip
def test_the_thresholds_are_those_of_the_bundled_verdict(name: str, text: str) -> None:
    match = re.search(text, DOCUMENT)
    assert match is not None
    assert float(match[1]) == getattr(load_verdict_model().thresholds, name)


def test_a_value_that_nobody_has_is_unsupported_with_what_the_passage_has_instead() -> None:
    attributor = Attributor.from_pretrained("bundled")
    answer = "The pier was opened in 1950."
    passages = ["The pier was opened in 1931."]
    for question in ("When?", "Was it opened in 1950?"):
        spans = attributor.attribute(question=question, passages=passages, answer=answer)
        (found,) = (one for one in spans if one.is_claim)
        assert (found.support, found.reason, found.expected) == (Support.UNSUPPORTED, "other_time", "1931")


def test_the_mistakes_that_the_verdict_does_not_see_are_not_called_unsupported() -> None:
    attributor = Attributor.from_pretrained("bundled")
    assert len(MISTAKES) == 3
    for answer in MISTAKES:
        spans = attributor.attribute(question="What is known of the pier?", passages=[PASSAGE], answer=answer)
        claims = [one for one in spans if one.is_claim]
        assert claims
        assert all(one.support is not Support.UNSUPPORTED for one in claims), answer
