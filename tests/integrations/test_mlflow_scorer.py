"""The scorer in a real ``mlflow.genai.evaluate``; skipped without mlflow."""

from threading import Barrier

import pytest

from attribeam.attribution.attributor import Attributor

mlflow = pytest.importorskip("mlflow")
pytestmark = pytest.mark.filterwarnings("default")  # of other people's packages

PASSAGES = ["The ferry to Aln leaves the east pier at noon and carries twelve cars."]
QUESTION = "When does the ferry to Aln leave?"


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


def row(answer, question=QUESTION, contexts=PASSAGES):
    return {"inputs": {"question": question, "contexts": contexts}, "outputs": answer}


def test_rows_get_value_rationale_and_states(tmp_path, monkeypatch):
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


def test_rows_that_wait_together_are_attributed_together():
    from attribeam.integrations.mlflow_scorer import _Queue

    gate = Barrier(2)

    class Slow(Counted):
        def attribute_many(self, rows):
            if not self.calls:
                gate.wait(10)
            return super().attribute_many(rows)

    from concurrent.futures import ThreadPoolExecutor

    attributor = Slow()
    queue = _Queue(attributor)
    good = {"question": QUESTION, "passages": PASSAGES, "answer": "The ferry leaves at noon."}
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
