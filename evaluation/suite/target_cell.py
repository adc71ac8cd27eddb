"""The answers and spans that log-probability drops are measured on, made once and kept for all methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from evaluation.datasets.labelled_answer import LabelledAnswer
from evaluation.measures.faithfulness_spans import TargetAnswers
from evaluation.measures.target_choice import Answers, Spans
from evaluation.methods.answer_context import LoadedModels
from schemas import CharRange


def stored_targets(
    answers: Iterable[LabelledAnswer], models: LoadedModels, *, spans: Spans, source: Answers
) -> dict[str, object]:
    """The answers with their spans by row, and the rows that were left out, as plain data."""
    if models.language is None:
        raise RuntimeError("log-probability drops should have a language model, have none")
    made = TargetAnswers(answers, models.language, spans=spans, source=source)
    rows = {
        str(one.record.source.source_row): {
            "answer": one.record.answer,
            "spans": [[span.char_start, span.char_end] for span in one.spans],
        }
        for one in made
    }
    return {"targets": rows, "skipped": [asdict(row) for row in made.skipped]}


def with_targets(answers: Sequence[LabelledAnswer], stored: Mapping[str, Any]) -> list[LabelledAnswer]:
    """The answers as they were stored; those without an entry are left out, and labels with their spans alone."""
    made = []
    for labelled in answers:
        target = stored["targets"].get(str(labelled.record.source.source_row))
        if target is None:
            continue
        spans = tuple(CharRange(start, end) for start, end in target["spans"])
        if spans == labelled.spans and target["answer"] == labelled.record.answer:
            made.append(labelled)
        else:
            made.append(LabelledAnswer(replace(labelled.record, answer=target["answer"], target_spans=spans)))
    return made
