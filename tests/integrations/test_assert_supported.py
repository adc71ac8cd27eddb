"""What ``assert_supported`` lets pass, and what it says of the rest."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from attribeam.schemas import Support
from attribeam.schemas.errors import UsageError
from attribeam.schemas.evidence_html import Explanation
from attribeam.testing import assert_supported, bundled_attributor

QUESTION = "How long is the pier, and when did it open?"
PASSAGES = (
    ("Pier", "The new pier is 340 metres long. It opened in May 1987 after two years of work."),
    "The west pier is closed in winter.",
)
GOOD = "The new pier is 340 metres long. It opened in May 1987."


def test_an_answer_that_its_passages_support_gives_its_attribution():
    found = assert_supported(question=QUESTION, passages=PASSAGES, answer=GOOD)
    assert [span.support for span in found.spans if span.is_claim] == [Support.SUPPORTED] * 2


def test_the_message_names_claim_reason_what_the_evidence_has_instead_and_the_evidence():
    answer = "The new pier is 400 metres long. It opened in May 1987. The mayor of Aln paid for it."
    with pytest.raises(AssertionError) as raised:
        assert_supported(question=QUESTION, passages=PASSAGES, answer=answer)
    lines = str(raised.value).splitlines()
    assert lines[0] == "2 of 3 claims lack support in 2 passages:"
    assert lines[1] == "- “The new pier is 400 metres long” is unsupported: other value — evidence says: 340"
    assert lines[2].startswith("  passages[0] (Pier): “The new pier is 340 metres long.")
    assert "- “The mayor of Aln paid for it” is unsupported: not in passages" in lines


@pytest.mark.parametrize("answer", ["The passages do not say when the pier opened.", "How long is the pier?"])
def test_what_claims_nothing_needs_no_support(answer):
    assert_supported(question=QUESTION, passages=PASSAGES, answer=answer)


def test_an_answer_of_which_nothing_can_be_judged_fails():
    with pytest.raises(AssertionError, match="nothing in the answer can be judged: language"):
        assert_supported(question="", passages=PASSAGES, answer="Der neue Pier am Hafen ist 400 Meter lang.")


def saying(support):
    """An attributor whose verdict on every claim is ``support``."""
    found = bundled_attributor().explain(question=QUESTION, passages=PASSAGES, answer=GOOD)
    other = Explanation(found.record, tuple(replace(span, support=support) for span in found.spans))
    return SimpleNamespace(explain=lambda **_: other)


def test_weak_support_passes_unless_it_is_refused():
    row = {"question": QUESTION, "passages": PASSAGES, "answer": GOOD}
    assert_supported(**row, attributor=saying(Support.WEAK))
    with pytest.raises(AssertionError, match="2 of 2 claims lack support"):
        assert_supported(**row, attributor=saying(Support.WEAK), allow_weak=False)


def test_what_could_never_be_judged_is_bad_usage():
    row = {"question": QUESTION, "passages": PASSAGES, "answer": GOOD}
    with pytest.raises(UsageError, match="no thresholds are known"):
        assert_supported(**row, attributor=saying(Support.NOT_CALIBRATED))
    with pytest.raises(UsageError, match="strictness belongs to the attributor"):
        assert_supported(**row, attributor=bundled_attributor(), strictness="strict")
