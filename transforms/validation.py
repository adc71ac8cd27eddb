"""From a raw row to a QA record, or to the one fault in its way. Pure functions; no message holds a text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource
from transforms.input_format import InputFormat
from transforms.raw_row import RawPassage, RawRange, RawRow, RawText

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RowValidator:
    """Checks the rows of one file.

    Attributes:
        input_format: names the columns in messages.
        max_text_chars: longest text in code points.
    """

    input_format: InputFormat
    max_text_chars: int

    def validate(self, raw: RawRow, source: RowSource, *, duplicate: bool) -> QARecord:
        """The QA record of a row.

        Raises:
            RowFault: the first fault of the row, in the order of the fields.
        """
        record_id = self.record_id(raw)
        if duplicate:
            column = self.input_format.column_of("record_id")
            message = f"column {column!r} should name each row of a file once, an earlier row has the same id"
            raise RowFault(Reason.DUPLICATE_RECORD_ID, f"{message}; keep one of the rows", column=column)
        question = self._needed_text("question", raw.question)
        passages = self._passages(raw.passages)
        answer = self.answer(raw)
        return QARecord(
            record_id=record_id,
            question=question,
            passages=passages,
            answer=answer,
            source=source,
            target_spans=self._target_spans(raw.target_spans, answer),
            answered_at=self._answered_at(raw.answered_at),
            generator=self._text("generator", raw.generator),
            extra_columns=tuple(_extra_value(name, value) for name, value in raw.extra_columns),
        )

    def record_id(self, raw: RawRow) -> str:
        """The row's id as text; RowFault where it is missing, empty or unreadable."""
        text = self._needed_text("record_id", raw.record_id)
        if not text:
            raise self._fault(Reason.MISSING_VALUE, "record_id", "an id", "an empty string")
        return text

    def answer(self, raw: RawRow) -> str:
        """The row's answer; RowFault where it is null, white space only, too long or unreadable."""
        text = self._text("answer", raw.answer)
        if text is None or not text.strip():
            found = "null" if text is None else "no character besides white space"
            raise self._fault(Reason.EMPTY_ANSWER, "answer", "an answer", found, "leave such rows out of the log")
        return text

    def _passages(self, raw: list[RawPassage | None] | None) -> tuple[Passage, ...]:
        if not raw:
            found = "null" if raw is None else "an empty list"
            raise self._fault(Reason.NO_PASSAGES, "passages", "at least one passage", found, "log what was retrieved")
        passages = tuple(self._passage(index, one) for index, one in enumerate(raw))
        if not any(passage.text.strip() for passage in passages):
            expected, found = "a passage with text", "white space only"
            raise self._fault(Reason.NO_PASSAGES, "passages", expected, found, "log what was retrieved")
        return passages

    def _passage(self, index: int, raw: RawPassage | None) -> Passage:
        if raw is None or raw.text is None:
            raise self._fault(Reason.MISSING_VALUE, "passages", "a text in every passage", f"null in passage {index}")
        where = f" in passage {index}"
        return Passage(
            text=self._text("passages", raw.text, where) or "",
            title=self._text("passages", raw.title, f" in the title of passage {index}"),
            passage_id=self._text("passages", raw.passage_id, f" in the id of passage {index}"),
        )

    def _target_spans(self, raw: list[RawRange | None] | None, answer: str) -> tuple[CharRange, ...] | None:
        return tuple(self._target_span(index, one, len(answer)) for index, one in enumerate(raw)) if raw else None

    def _target_span(self, index: int, raw: RawRange | None, length: int) -> CharRange:
        char_start, char_end = raw or (None, None)
        if char_start is None or char_end is None:
            expected = "char_start and char_end in every span"
            raise self._fault(Reason.MISSING_VALUE, "target_spans", expected, f"null in span {index}")
        if not 0 <= char_start < char_end <= length:
            expected = f"code points with 0 <= char_start < char_end <= {length}, the answer's length"
            found = f"[{char_start}, {char_end}) in span {index}"
            way_out = "count code points, not bytes or UTF-16 units"
            raise self._fault(Reason.SPAN_OUT_OF_RANGE, "target_spans", expected, found, way_out)
        return CharRange(char_start, char_end)

    def _answered_at(self, raw: bytes | int | None) -> datetime | None:
        """A moment in UTC; one without a time zone is taken as UTC."""
        text = raw if isinstance(raw, int) else self._text("answered_at", raw)
        if text is None:
            return None
        try:
            if isinstance(text, int):
                return _EPOCH + timedelta(microseconds=text)
            moment = datetime.fromisoformat(text.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            expected = "a moment between the years 1 and 9999, in ISO 8601 where it is a string"
            found = "a number beyond them" if isinstance(text, int) else f"{len(text)} characters that are none"
            way_out = "clean the log, or read no such column with --columns answered_at="
            raise self._fault(Reason.INVALID_VALUE, "answered_at", expected, found, way_out) from None

    def _needed_text(self, field: str, raw: RawText) -> str:
        text = self._text(field, raw)
        if text is None:
            raise self._fault(Reason.MISSING_VALUE, field, "a value", "null")
        return text

    def _text(self, field: str, raw: RawText, where: str = "") -> str | None:
        if raw is None or isinstance(raw, int):
            return None if raw is None else str(raw)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            found = f"other bytes at byte {error.start}{where}"
            raise self._fault(Reason.INVALID_UTF8, field, "UTF-8", found, "write the log anew as UTF-8") from None
        if len(text) > self.max_text_chars:
            expected = f"texts of at most {self.max_text_chars} code points"
            found = f"one of {len(text)}{where}"
            raise self._fault(Reason.TEXT_TOO_LONG, field, expected, found, "raise --max-text-chars")
        return text

    def _fault(
        self, reason: Reason, field: str, expected: str, found: str, way_out: str = "complete the log"
    ) -> RowFault:
        column = self.input_format.column_of(field)
        return RowFault(reason, f"column {column!r} should hold {expected}, holds {found}; {way_out}", column=column)


def _extra_value(name: str, value: object | RowFault) -> tuple[str, object]:
    if isinstance(value, RowFault):
        raise value
    return name, value
