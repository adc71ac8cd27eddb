"""Writing labelled answers as a QA log in our own input format, with separate columns for the labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.schemas import CharRange, QARecord
from attribeam.schemas.labelled_answer import JudgedAnswer, LabelledAnswer, PassageRange
from attribeam.schemas.new_file import new_file
from attribeam.schemas.qa_record import (
    ANSWER_SUPPORTED,
    ERROR_KINDS,
    FAITHFULNESS,
    LABEL_GROUP,
    SPAN_LABELS,
    UNSUPPORTED_SPANS,
    labelled_log_schema,
)

LogAnswer = LabelledAnswer | JudgedAnswer
LogRow = dict[str, object]

_ROWS_PER_BATCH = 256


def write_log(path: Path, answers: Iterable[LogAnswer]) -> int:
    """Write one row per answer and return their number; the file is replaced atomically.

    Raises:
        OSError: if it cannot be written.
    """
    schema, rows = labelled_log_schema(), map(log_row, answers)
    with new_file(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while some := list(islice(rows, _ROWS_PER_BATCH)):
            writer.write_table(pa.Table.from_pylist(some, schema=schema))
    return int(pq.read_metadata(path).num_rows)


def log_row(answer: LogAnswer) -> LogRow:
    """The row of an answer; columns that its data set has no values for are null."""
    if isinstance(answer, LabelledAnswer):
        return _record_row(answer.record) | {SPAN_LABELS: list(_span_labels(answer))}
    if answer.judged is not None:
        return _record_row(answer.record) | {SPAN_LABELS: list(_verdicts(answer, answer.judged))}
    return _record_row(answer.record) | {
        UNSUPPORTED_SPANS: _unsupported(answer),
        LABEL_GROUP: answer.group,
        ANSWER_SUPPORTED: answer.answer_supported,
        FAITHFULNESS: answer.faithfulness,
        ERROR_KINDS: list(answer.error_kinds) or None,
        "split": answer.split,
    }


def _unsupported(answer: JudgedAnswer) -> list[LogRow] | None:
    if answer.unsupported is None:
        return None
    return [_range_row(one.chars) | {"kind": one.kind} for one in answer.unsupported]


def _record_row(record: QARecord) -> LogRow:
    return {
        "record_id": record.record_id,
        "question": record.question,
        "passages": [{"passage_id": one.passage_id, "title": one.title, "text": one.text} for one in record.passages],
        "answer": record.answer,
        "target_spans": _ranges(record.target_spans),
        "generator": record.generator,
    }


def _ranges(spans: Sequence[CharRange] | None) -> list[LogRow] | None:
    return None if spans is None else [_range_row(span) for span in spans]


def _range_row(chars: CharRange) -> LogRow:
    return {"char_start": chars.char_start, "char_end": chars.char_end}


def _span_labels(answer: LabelledAnswer) -> Iterator[LogRow]:
    for index in range(len(answer.spans)):
        yield {
            "gold_passages": sorted(answer.gold_passages[index]) if answer.gold_passages else None,
            "gold_evidence": _evidence(answer.gold_evidence[index]) if answer.gold_evidence else None,
            "cited_passages": list(answer.citations[index]) if answer.citations else None,
            "supported": None,
        }


def _verdicts(answer: JudgedAnswer, judged: Sequence[CharRange]) -> Iterator[LogRow]:
    """Labels of the target spans: whether each is supported, null where nobody said so."""
    unsupported = {one.chars for one in answer.unsupported or ()}
    for span in answer.record.target_spans or judged:
        yield {"supported": span not in unsupported if span in judged else None}


def _evidence(ranges: Sequence[PassageRange]) -> list[LogRow]:
    return [{"passage_index": one.passage_index, **_range_row(one.chars)} for one in ranges]
