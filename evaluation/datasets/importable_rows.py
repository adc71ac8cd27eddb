"""Which answers a log can hold so that an audit reads each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evaluation.datasets.judged_answer import JudgedAnswer
from evaluation.datasets.labelled_answer import SkippedRow
from evaluation.datasets.log_writer import LogAnswer
from schemas import QARecord

_SURROGATE = re.compile("[\ud800-\udfff]")


def importable(answers: Sequence[LogAnswer]) -> tuple[list[LogAnswer], list[SkippedRow]]:
    """The answers that an audit takes, the first one of each id, and the rows of all others with the reason.

    ``invalid_unicode`` is half of a surrogate pair, which JSON can write and UTF-8 cannot; ``no_record_id`` an empty
    id; ``no_passages`` a row without a passage that has text; ``duplicate_record_id`` the id of an earlier row.
    """
    kept: dict[str, LogAnswer] = {}
    skipped = []
    for answer in answers:
        reason = _refusal(answer)
        if reason is None and kept.setdefault(answer.record.record_id, answer) is not answer:
            reason = "duplicate_record_id"
        if reason is not None:
            skipped.append(SkippedRow(answer.record.source.source_row, reason))
    return [*kept.values()], skipped


def _refusal(answer: LogAnswer) -> str | None:
    """Why no log can hold the answer, whatever the other rows."""
    if any(_SURROGATE.search(text) for text in _texts(answer)):
        return "invalid_unicode"
    if not answer.record.record_id:
        return "no_record_id"
    return None if any(one.text.strip() for one in answer.record.passages) else "no_passages"


def _texts(answer: LogAnswer) -> Iterator[str]:
    texts = [*_record_texts(answer.record)]
    if isinstance(answer, JudgedAnswer):
        texts += [answer.group, answer.split, *(one.kind for one in answer.unsupported)]
    yield from (text for text in texts if text is not None)


def _record_texts(record: QARecord) -> Iterator[str | None]:
    yield from (record.record_id, record.question, record.answer, record.generator)
    for one in record.passages:
        yield from (one.text, one.title, one.passage_id)
