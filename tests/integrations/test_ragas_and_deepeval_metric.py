"""The metric classes with the real packages, skipped where these are missing."""

import asyncio
from importlib import import_module
from math import isnan

import pytest

PASSAGES = ["The new pier is 340 metres long. It opened in May 1987.", "The west pier is closed in winter."]
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
    """The score of an answer and its reason, by the metric for a package."""
    metrics = import_module(f"attribeam.integrations.{package}_metric")
    if package == "ragas":
        row = {"user_input": "How long is it?", "retrieved_contexts": PASSAGES, "response": answer}
        (found,) = metrics.AttribeamFaithfulness().batch_score([row])
        return found.value, found.reason
    case = metrics.LLMTestCase(input="How long is it?", actual_output=answer, retrieval_context=PASSAGES)
    metric = metrics.AttribeamFaithfulnessMetric()
    score = asyncio.run(metric.a_measure(case))
    assert metric.is_successful() is (score == 1)
    return score, metric.reason


@pytest.mark.filterwarnings("ignore")
def test_the_score_is_the_share_of_claims_that_are_not_unsupported_and_the_reason_names_the_others(package):
    score, reason = scored(package, HALF)
    assert (score, REASON in reason) == (0.5, True)
    assert scored(package, PASSAGES[0]) == (1.0, "no claim is unsupported")


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
