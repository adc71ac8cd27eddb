"""What ``assert_supported`` lets pass and says, and metrics and scorers with the real packages where these are."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from math import isnan
from threading import Barrier
from types import SimpleNamespace

import pytest

from attribeam.attribution.attributor import Attributor
from attribeam.schemas import Support
from attribeam.schemas.errors import UsageError
from attribeam.schemas.evidence_html import Explanation
from attribeam.testing import assert_supported, bundled_attributor

QUESTION = "How long is the pier, and when did it open?"
PASSAGES = (
    ("Pier", "The new pier is 340 metres long. It opened in May 1987 after two years of work."),
    "The west pier is closed in winter.",
)
GOOD_ROW = {
    "question": QUESTION, "passages": PASSAGES, "answer": "The new pier is 340 metres long. It opened in May 1987.",
}  # fmt: skip


def test_an_answer_that_its_passages_support_gives_its_attribution():
    found = assert_supported(**GOOD_ROW)
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
    found = bundled_attributor().explain(**GOOD_ROW)
    other = Explanation(found.record, tuple(replace(span, support=support) for span in found.spans))
    return SimpleNamespace(explain=lambda **_: other)


def test_weak_support_passes_unless_it_is_refused():
    assert_supported(**GOOD_ROW, attributor=saying(Support.WEAK))
    with pytest.raises(AssertionError, match="2 of 2 claims lack support"):
        assert_supported(**GOOD_ROW, attributor=saying(Support.WEAK), allow_weak=False)


def test_what_could_never_be_judged_is_bad_usage():
    with pytest.raises(UsageError, match="no thresholds are known"):
        assert_supported(**GOOD_ROW, attributor=saying(Support.NOT_CALIBRATED))
    with pytest.raises(UsageError, match="strictness belongs to the attributor"):
        assert_supported(**GOOD_ROW, attributor=bundled_attributor(), strictness="strict")


TEXTS = ["The new pier is 340 metres long. It opened in May 1987.", PASSAGES[1]]
HALF = "The new pier is 340 metres long. It opened in May 1986."
REASON = "It opened in May 1986” is unsupported"
REFUSAL, FOREIGN = "The passages do not say when it opened.", "Der neue Pier am Hafen ist 400 Meter lang."


@pytest.fixture(params=["ragas", "deepeval"])
def package(request, monkeypatch):
    """A package that is there, kept from asking anyone on the network."""
    monkeypatch.setenv("RAGAS_DO_NOT_TRACK", "true")
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
    pytest.importorskip(request.param)
    return str(request.param)


def scored(package, answer):
    metrics = import_module(f"attribeam.integrations.{package}_metric")
    if package == "ragas":
        row = {"user_input": "How long is it?", "retrieved_contexts": TEXTS, "response": answer}
        (found,) = metrics.AttribeamFaithfulness().batch_score([row])
        return found.value, found.reason
    case = metrics.LLMTestCase(input="How long is it?", actual_output=answer, retrieval_context=TEXTS)
    metric = metrics.AttribeamFaithfulnessMetric()
    score = asyncio.run(metric.a_measure(case))
    assert metric.is_successful() is (score == 1)
    return score, metric.reason


@pytest.mark.filterwarnings("ignore")
def test_the_score_is_the_share_of_claims_that_are_not_unsupported_and_the_reason_names_the_others(package):
    score, reason = scored(package, HALF)
    assert (score, REASON in reason) == (0.5, True)
    assert scored(package, TEXTS[0]) == (1.0, "no claim is unsupported")


@pytest.mark.filterwarnings("ignore")
def test_what_claims_nothing_or_cannot_be_judged_has_no_score_of_its_own(package):
    if package == "ragas":
        assert isnan(scored(package, REFUSAL)[0])
        assert isnan(scored(package, "")[0])
        value, reason = scored(package, FOREIGN)
        assert (isnan(value), reason) == (True, "nothing in the answer can be judged: language")
    else:
        assert scored(package, REFUSAL)[0] == 1
        with pytest.raises(ValueError, match="nothing in the answer can be judged"):
            scored(package, FOREIGN)


FERRY = ["The ferry to Aln leaves the east pier at noon and carries twelve cars."]
WHEN = "When does the ferry to Aln leave?"


class Counted:
    """An attributor that counts what it is given; a row about a storm breaks it."""

    def __init__(self):
        self.whole = Attributor.from_pretrained()
        self.calls = []

    def attribute_many(self, rows):
        given = list(rows)
        self.calls.append(len(given))
        if any("storm" in row["question"] for row in given):
            raise OSError("the disk is gone")
        return self.whole.attribute_many(given)


def row(answer, contexts=FERRY):
    return {"inputs": {"question": WHEN, "contexts": contexts}, "outputs": answer}


@pytest.mark.filterwarnings("default")  # of other people's packages
def test_rows_get_value_rationale_and_states(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    from attribeam.integrations.mlflow_scorer import support_scorer

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    attributor = Counted()
    rows = [
        row("The ferry to Aln leaves the east pier at noon."),
        row("The ferry to Aln carries forty horses to Brunn every Monday."),
        row("At noon.", contexts=[]),
        row("The ferry leaves at noon. " * 60_000),
    ]
    found = mlflow.genai.evaluate(data=rows, scorers=[support_scorer(attributor)]).result_df
    states = {}
    for assessments in found["assessments"]:
        (verdict,) = (one for one in assessments if one["assessment_name"] == "attribeam_verdict")
        feedback = verdict.get("feedback", {})
        error = feedback.get("error") or {}
        states[feedback.get("value") or error.get("error_code")] = str(verdict.get("rationale") or error)
        risks = [one["feedback"]["value"] for one in assessments if one["assessment_name"] == "attribeam_risk"]
        assert [0 <= one <= 1 for one in risks] == [True] * (feedback.get("value") in ("supported", "unsupported"))
    assert set(states) == {"supported", "unsupported", "skipped", "too_many_tokens"}
    assert "forty horses" in states["unsupported"]
    assert "passages" in states["skipped"]
    assert sum(attributor.calls) == 3


@pytest.mark.filterwarnings("default")
def test_rows_that_wait_together_are_attributed_together():
    pytest.importorskip("mlflow")
    from attribeam.integrations.mlflow_scorer import _Queue

    gate = Barrier(2)

    class Slow(Counted):
        def attribute_many(self, rows):
            if not self.calls:
                gate.wait(10)
            return super().attribute_many(rows)

    attributor = Slow()
    queue = _Queue(attributor)
    good = {"question": WHEN, "passages": FERRY, "answer": "The ferry leaves at noon."}
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(queue.outcome, good)
        while not queue._turn.locked() or queue._waiting:
            pass
        others = [pool.submit(queue.outcome, good) for _ in range(3)]
        while len(queue._waiting) < 3:
            pass
        gate.wait(10)
        assert [one.result() for one in others] == [first.result()] * 3
    assert attributor.calls == [1, 3]
    with pytest.raises(OSError, match="disk"):
        queue.outcome({**good, "question": "Will there be a storm?"})
    assert queue.outcome(good) == first.result()
