"""A scorer for ``mlflow.genai.evaluate``: does the retrieved text support the answer, and if not, which claims lack it.

MLflow calls a scorer once a row, from several threads, and has no call for all rows. So rows that wait at the same time
are attributed together, as many as ``MLFLOW_GENAI_EVAL_MAX_WORKERS`` lets run at once, by one attributor.
"""

from __future__ import annotations

import json
from concurrent.futures import Future
from threading import Lock
from typing import Any

from mlflow.entities import AssessmentError, AssessmentSource, Feedback
from mlflow.genai.scorers import Scorer, scorer

from attribeam.attribution.attributor import Attributor
from attribeam.integrations.send_command import VERDICT, explanation, numbers_of, verdict_of
from attribeam.logs.traces.assembly import Span, row_of_trace
from attribeam.logs.traces.documents import no_texts
from attribeam.logs.traces.formats import MLFLOW
from attribeam.logs.traces.paths import TraceOptions, path_set
from attribeam.schemas import RowFault, SpanEvidence

_Outcome = tuple[SpanEvidence, ...] | RowFault


def support_scorer(attributor: Attributor | None = None, *, options: TraceOptions | None = None) -> Scorer:
    """A scorer that reads question, passages and answer of a trace as ``attribeam import mlflow`` does.

    Of a row it gives ``attribeam_verdict`` with the unsupported claims as rationale, ``attribeam_risk`` and
    ``attribeam_unsupported_share`` (0 to 1). A trace that is no answered question with passages gets the verdict
    "skipped" and the reason; one that could not be attributed gets an error with the reason as its code.

    Args:
        attributor: which model and method; the bundled ones without it, loaded at once.
        options: how a trace becomes a row, such as paths to question, passages and answer.
    """
    queue = _Queue(attributor or Attributor.from_pretrained())
    chosen = options or TraceOptions()

    def attribeam(trace: Any) -> list[Feedback]:
        try:
            row = _row(trace, chosen)
        except RowFault as fault:
            return [_feedback(VERDICT, "skipped", str(fault))]
        outcome = queue.outcome(row)
        if isinstance(outcome, RowFault):
            error = AssessmentError(error_code=str(outcome.reason), error_message=str(outcome))
            return [Feedback(name=VERDICT, error=error, source=_SOURCE)]
        verdict = _feedback(VERDICT, verdict_of(outcome), explanation(outcome))
        return [verdict, *(_feedback(name, value) for name, value in numbers_of(outcome).items())]

    return scorer(attribeam, name="attribeam")


_SOURCE = AssessmentSource("CODE", "attribeam")


def _feedback(name: str, value: str | float, rationale: str | None = None) -> Feedback:
    return Feedback(name=name, value=value, rationale=rationale, source=_SOURCE)


def _row(trace: Any, options: TraceOptions) -> dict[str, object]:
    """The trace's row for ``Attributor.attribute_many``; ``RowFault`` if it has none."""
    spans = [span for span in MLFLOW.spans(json.loads(trace.to_json())) if isinstance(span, Span)]
    row = row_of_trace(trace.info.trace_id, spans, options, no_texts, path_set(options))
    if row.fault is not None:
        raise row.fault
    passages = [{"text": doc.text, "title": doc.title, "passage_id": doc.passage_id} for doc in row.passages or ()]
    return {"question": row.question, "passages": passages, "answer": row.answer}


class _Queue:
    """Rows of several threads; the one whose turn it is attributes all that wait."""

    def __init__(self, attributor: Attributor) -> None:
        self._attributor = attributor
        self._turn, self._lock = Lock(), Lock()
        self._waiting: list[tuple[dict[str, object], Future[_Outcome]]] = []

    def outcome(self, row: dict[str, object]) -> _Outcome:
        """The evidence of a row, or its fault."""
        own = Future[_Outcome]()
        with self._lock:
            self._waiting.append((row, own))
        with self._turn:
            if own.done():
                return own.result()
            with self._lock:
                waiting, self._waiting = self._waiting, []
            rows, futures = zip(*waiting, strict=True)
            try:
                for future, spans in zip(futures, self._attributor.attribute_many(rows), strict=True):
                    future.set_result(spans)
            except Exception as error:  # noqa: BLE001 - each row's own thread raises it
                for future in futures:
                    future.set_exception(error)
        return own.result()
