"""The rows of a log: a range of them, a row as it stands in the file, and the record or fault it comes to.

Texts stay bytes until they are checked, so that a broken one harms no other row. No message holds a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.logs.columns import ColumnMap, is_text, plain_array, shown
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows ``[row_start, row_end)`` of ``file`` (0-based within the file).

    Attributes:
        duplicate_rows: the rows of this range whose record_id stands earlier in the same file, ascending; they are
            found when the run is planned, because a range sees only itself.
        stamp: the file's stamp when it was fingerprinted, see ``LogStorage.stamp``; None where nobody asks whether it
            is still the same.
    """

    file: str
    row_start: int
    row_end: int
    duplicate_rows: tuple[int, ...] = ()
    stamp: str | None = None

    @property
    def row_count(self) -> int:
        """Number of rows in the range."""
        return self.row_end - self.row_start


@dataclass(frozen=True, slots=True)
class FaultyRow:
    """A row that no record can be made of. ``record_id`` and ``answer`` are None where they are what is faulty."""

    source: RowSource
    record_id: str | None
    fault: RowFault
    answer: str | None


_NANOSECONDS = {"day": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


@dataclass(frozen=True, slots=True)
class Unread:
    """What stands in the place of a value that is too large to be read: its size, as messages tell it."""

    size: str


RawText = bytes | int | Unread | None
RawSpan = tuple[int | None, int | None]

BATCH_BYTES = 1 << 28
"""The most bytes that are read of a log at once, unless a few rows have more."""
MOST_ITEMS = 10_000
"""The most passages, or target spans, of one row."""
MOST_BYTE_PAIRS = 1 << 32
"""The most bytes of a row's answer times those of its passages: attention and evidence take time for each pair."""
MOST_CARRIED_BYTES = 1 << 18
"""The most bytes of one value of an extra column, which every evidence record of its row repeats."""
LESS_HINT = "log less"
_BYTES_PER_CODE_POINT = 4
EMPTY_PASSAGE = "a passage without text stays in its place, and is empty"
"""The note of a row with such a passage."""


def text_bytes(text: str | None) -> bytes | None:
    """The bytes of a text as they stood in the file, valid Unicode or not."""
    if text is None:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class RawPassage:
    """One passage before its texts are decoded."""

    text: RawText
    title: RawText
    passage_id: RawText


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row as it stands in the file; nothing of it is checked yet but its size.

    ``answered_at`` is a text or a number of microseconds since 1970 in UTC. An extra column whose value cannot be
    read holds the fault.
    """

    record_id: RawText
    question: RawText
    passages: list[RawPassage] | Unread | None
    answer: RawText
    target_spans: list[RawSpan] | Unread | None
    answered_at: RawText
    generator: RawText
    extra_columns: tuple[tuple[str, object | RowFault], ...]


NO_VALUES = RawRow(None, None, None, None, None, None, None, ())
"""A row of which nothing is known."""


def raw_rows(batch: pa.RecordBatch, column_map: ColumnMap, max_text_chars: int) -> Iterator[RawRow]:
    """The rows of a batch, in order; values that are certainly too large are never made Python objects of."""
    most_bytes = _BYTES_PER_CODE_POINT * max_text_chars
    for some in of_batch_bytes(batch):
        fields = {name: _field_values(name, some, column_map, most_bytes) for name in _FIELDS}
        carried = [(field.name, plain_array(some.column(field.name))) for field in column_map.extra_fields]
        for index in range(some.num_rows):
            values = {name: column[index] for name, column in fields.items()}
            extra = tuple((name, _extra_value(name, array, index)) for name, array in carried)
            yield RawRow(**values, extra_columns=extra)


def slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """The batch in batches of at most ``rows`` rows."""
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def of_batch_bytes(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in ones of at most ``BATCH_BYTES``, where each row may stand for the whole of a dictionary."""
    return slices(batch, max(1, BATCH_BYTES // max(1, batch.nbytes)))


_FIELDS = ("record_id", "question", "passages", "answer", "target_spans", "answered_at", "generator")


def _field_values(name: str, batch: pa.RecordBatch, column_map: ColumnMap, most_bytes: int) -> list[Any]:
    if not column_map.has(name):
        return [None] * batch.num_rows
    column = batch.column(column_map.column_of(name))
    array = plain_array(column)
    if name in ("passages", "target_spans"):
        read = _passages_of if name == "passages" else _ranges_of
        return _list_values(array, lambda items: read(items, most_bytes))
    if name != "answered_at" or is_text(array.type):
        return text_values(column, most_bytes)
    is_day = pa.types.is_date32(array.type)
    ticks = array.cast(pa.int32() if is_day else pa.int64()).to_pylist()
    unit = "day" if is_day else "ms" if pa.types.is_date64(array.type) else array.type.unit
    return [None if tick is None else tick * _NANOSECONDS[unit] // 1000 for tick in ticks]


def text_values(array: pa.Array, most_bytes: int) -> list[RawText]:
    """Bytes of each text, also of a UUID and a decimal, or the number where the column holds integers."""
    plain = plain_array(array)
    if not is_text(plain.type):
        values = (array if isinstance(array.type, pa.UuidType) else plain).to_pylist()
        return [value if value is None or isinstance(value, int) else str(value).encode() for value in values]
    plain = plain.cast(pa.large_binary())
    sizes = pc.binary_length(plain)
    if (pc.max(sizes).as_py() or 0) <= most_bytes:
        return cast("list[RawText]", plain.to_pylist())
    pairs = zip(plain, sizes.to_pylist(), strict=True)
    return [Unread(f"{size} bytes") if (size or 0) > most_bytes else text.as_py() for text, size in pairs]


def _passages_of(items: pa.Array, most_bytes: int) -> list[RawPassage]:
    if is_text(items.type) or pa.types.is_null(items.type):
        return [RawPassage(text, None, None) for text in text_values(items, most_bytes)]
    columns = []
    for name in ("text", "title", "passage_id"):
        has = items.type.get_field_index(name) >= 0
        columns.append(text_values(pc.struct_field(items, name), most_bytes) if has else [None] * len(items))
    return [*map(RawPassage, *columns)]


def _ranges_of(items: pa.Array, _: int) -> list[RawSpan]:
    if pa.types.is_null(items.type):
        return [(None, None)] * len(items)
    starts, ends = (plain_array(pc.struct_field(items, name)).to_pylist() for name in ("char_start", "char_end"))
    return [*zip(starts, ends, strict=True)]


def _list_values(array: pa.Array, read: Callable[[pa.Array], list[Any]]) -> list[Any]:
    """The list of each row, of the items that ``read`` gives; None where the list itself is null."""
    if pa.types.is_null(array.type):
        return [None] * len(array)
    sizes = pc.list_value_length(array)
    if (pc.max(sizes).as_py() or 0) > MOST_ITEMS:
        array = pc.if_else(pc.greater(sizes, MOST_ITEMS), pa.scalar(None, array.type), array)
    items = iter(read(plain_array(pc.list_flatten(array))))
    return [
        None if size is None else Unread(f"{size} items") if size > MOST_ITEMS else list(islice(items, size))
        for size in sizes.to_pylist()
    ]


def _extra_value(name: str, array: pa.Array, index: int) -> object | RowFault:
    try:
        size = array.slice(index, 1).nbytes if array.nbytes > MOST_CARRIED_BYTES else 0
        if size <= MOST_CARRIED_BYTES:
            return _ticks(array[index]) if pa.types.is_temporal(array.type) else cast(object, array[index].as_py())
        reason, expected = Reason.TEXT_TOO_LONG, f"values of at most {MOST_CARRIED_BYTES} bytes"
        actual = f"one of {size}"
    except UnicodeDecodeError:
        reason, expected, actual = Reason.INVALID_UTF8, "UTF-8", "other bytes"
    except (ValueError, OverflowError):
        reason, expected, actual = Reason.INVALID_VALUE, shown(array.type), "a value beyond it"
    way_out = "clean the log, or leave it out of --extra-columns"
    return RowFault(reason, f"column {name!r} should hold {expected}, holds {actual}; {way_out}", column=name)


def _ticks(scalar: pa.Scalar) -> object:
    """The number that a time is stored as, which keeps its nanoseconds; ``ValueError`` if Python has no such time."""
    scalar.cast(in_microseconds(scalar.type), safe=False).as_py()
    return cast(object, scalar.value)


def in_microseconds(kind: pa.DataType) -> pa.DataType:
    """The type of times without nanoseconds, which Python's have not."""
    if getattr(kind, "unit", None) != "ns":
        return kind
    other = pa.time64("us") if pa.types.is_time(kind) else pa.duration("us")
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else other


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_ZONE = re.compile(r"\s+(?:UTC|GMT|([Zz]|[+-]\d\d(?::?\d\d)?))$")  # as warehouses print it


def moment_of(text: str) -> datetime:
    """The moment that a text of ISO 8601 names, in UTC where it names no zone; else ``ValueError``."""
    moment = datetime.fromisoformat(_ZONE.sub(lambda zone: zone[1] or "Z", text.strip()))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def unreadable_moment(name: str) -> str:
    """The note of a row whose time is none."""
    return f"answered_at stays empty where {name} holds no time that can be read"


@dataclass(frozen=True, slots=True)
class RowValidator:
    """Checks the rows of one file.

    Attributes:
        column_map: names the columns in messages.
        max_text_chars: the most code points of a row, see ``check_size``, and of any other text of it.
    """

    column_map: ColumnMap
    max_text_chars: int

    def outcome(self, raw: RawRow, source: RowSource, *, duplicate: bool) -> QARecord | FaultyRow:
        """The QA record of a row, or the first thing that is wrong with it, in the order of the fields."""
        try:
            record_id = self._record_id(raw)
            if duplicate:
                column = self.column_map.column_of("record_id")
                message = f"column {column!r} should name each row of a file once, an earlier row has the same id"
                raise RowFault(Reason.DUPLICATE_RECORD_ID, f"{message}; keep one of the rows", column=column)
            question = self._needed_text("question", raw.question)
            passages = self._passages(raw.passages)
            answer = self._answer(raw)
            answered_at = self._answered_at(raw.answered_at)
            raw_passages = raw.passages if isinstance(raw.passages, list) else []
            notes = [EMPTY_PASSAGE] if any(passage.text is None for passage in raw_passages) else []
            if answered_at is None and raw.answered_at is not None:
                notes.append(unreadable_moment(self.column_map.column_of("answered_at")))
            spans = self._target_spans(raw.target_spans, len(answer))
            generator = self._text("generator", raw.generator)
            for _, value in raw.extra_columns:
                if isinstance(value, RowFault):
                    raise value
            record = QARecord(
                record_id=record_id,
                question=question,
                passages=passages,
                answer=answer,
                source=source,
                target_spans=spans,
                answered_at=answered_at,
                generator=generator,
                extra_columns=raw.extra_columns,
                notes=tuple(notes),
            )
            check_size(record, self.max_text_chars, column=self.column_map.column_of("passages"))
        except RowFault as fault:
            return self.refusal(raw, source, fault)
        return record

    def refusal(self, raw: RawRow, source: RowSource, fault: RowFault) -> FaultyRow:
        """The row with a fault, and its id and answer unless they are what is faulty."""
        record_id = answer = None
        with suppress(RowFault):
            record_id = self._record_id(raw)
        with suppress(RowFault):
            answer = self._answer(raw)
        return FaultyRow(source, record_id, fault, answer)

    def _record_id(self, raw: RawRow) -> str:
        text = self._needed_text("record_id", raw.record_id)
        if not text:
            raise self._fault(Reason.MISSING_VALUE, "record_id", "an id", "an empty string")
        return text

    def _answer(self, raw: RawRow) -> str:
        text = self._text("answer", raw.answer)
        if text is None or not text.strip():
            actual = "null" if text is None else "no character besides white space"
            raise self._fault(Reason.EMPTY_ANSWER, "answer", "an answer", actual, "leave such rows out of the log")
        return text

    def _passages(self, raw: list[RawPassage] | Unread | None) -> tuple[Passage, ...]:
        if isinstance(raw, Unread):
            raise self._long_list("passages", raw)
        way_out = "log what was retrieved"
        if not raw:
            actual = "null" if raw is None else "an empty list"
            raise self._fault(Reason.NO_PASSAGES, "passages", "at least one passage", actual, way_out)
        passages = []
        for index, passage in enumerate(raw):
            text = self._text("passages", passage.text, f" in passage {index}") or ""
            title = self._text("passages", passage.title, f" in the title of passage {index}")
            passage_id = self._text("passages", passage.passage_id, f" in the id of passage {index}")
            passages.append(Passage(text, title, passage_id))
        if not any(passage.text.strip() for passage in passages):
            raise self._fault(Reason.NO_PASSAGES, "passages", "a passage with text", "white space only", way_out)
        return tuple(passages)

    def _target_spans(self, raw: list[RawSpan] | Unread | None, length: int) -> tuple[CharRange, ...] | None:
        if isinstance(raw, Unread):
            raise self._long_list("target_spans", raw)
        spans = []
        for index, (start, end) in enumerate(raw or ()):
            if start is None or end is None:
                expected = "char_start and char_end in every span"
                raise self._fault(Reason.MISSING_VALUE, "target_spans", expected, f"null in span {index}")
            if not 0 <= start < end <= length:
                expected = f"code points with 0 <= char_start < char_end <= {length}, the answer's length"
                actual, way_out = f"[{start}, {end}) in span {index}", "count code points, not bytes or UTF-16 units"
                raise self._fault(Reason.SPAN_OUT_OF_RANGE, "target_spans", expected, actual, way_out)
            spans.append(CharRange(start, end))
        return tuple(spans) if raw else None

    def _answered_at(self, raw: RawText) -> datetime | None:
        """A moment in UTC, one without a time zone is taken as UTC; None where there is none that can be read."""
        text = raw if isinstance(raw, int) else self._text("answered_at", raw)
        if text is None:
            return None
        try:
            if isinstance(text, int):
                return _EPOCH + timedelta(microseconds=text)
            return moment_of(text).astimezone(UTC)
        except (ValueError, OverflowError):
            return None

    def _needed_text(self, field: str, raw: RawText) -> str:
        text = self._text(field, raw)
        if text is None:
            raise self._fault(Reason.MISSING_VALUE, field, "a value", "null")
        return text

    def _text(self, field: str, raw: RawText, where: str = "") -> str | None:
        if isinstance(raw, Unread):
            raise self._long_text(field, f"one of {raw.size}{where}")
        if raw is None or isinstance(raw, int):
            return None if raw is None else str(raw)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            actual = f"other bytes at byte {error.start}{where}"
            raise self._fault(Reason.INVALID_UTF8, field, "UTF-8", actual, "write the log anew as UTF-8") from None
        if len(text) > self.max_text_chars:
            raise self._long_text(field, f"one of {len(text)}{where}")
        return text

    def _long_text(self, field: str, actual: str) -> RowFault:
        expected = f"texts of at most {self.max_text_chars} code points, all of a row together"
        return self._fault(Reason.TEXT_TOO_LONG, field, expected, actual, LESS_HINT)

    def _long_list(self, field: str, unread: Unread) -> RowFault:
        return self._fault(Reason.TEXT_TOO_LONG, field, f"at most {MOST_ITEMS} items", unread.size, "log fewer")

    def _fault(
        self, reason: Reason, field: str, expected: str, actual: str, way_out: str = "complete the log"
    ) -> RowFault:
        column = self.column_map.column_of(field)
        return RowFault(reason, f"column {column!r} should hold {expected}, holds {actual}; {way_out}", column=column)


def check_size(record: QARecord, max_text_chars: int, *, column: str) -> None:
    """Refuse a row whose time or memory could stop an audit.

    Raises:
        RowFault: TEXT_TOO_LONG if question, passages with their titles, and answer have more than ``max_text_chars``
            code points together, or answer and passages make more than ``MOST_BYTE_PAIRS``; it names ``column``.
    """
    texts = [record.question, record.answer, *(passage.text for passage in record.passages)]
    chars = sum(map(len, texts)) + sum(len(passage.title or "") for passage in record.passages)
    if chars > max_text_chars:
        most, actual, way_out = f"{max_text_chars} code points, all of a row together", str(chars), LESS_HINT
    else:
        of_answer, *of_passages = (len(text.encode()) for text in texts[1:])
        if of_answer * sum(of_passages) <= MOST_BYTE_PAIRS:
            return
        most, way_out = f"{MOST_BYTE_PAIRS} pairs of bytes", "log fewer passages or a shorter answer"
        actual = f"{of_answer} in the answer times {sum(of_passages)} in the passages"
    message = f"column {column!r} should hold, with question and answer, at most {most}, holds {actual}; {way_out}"
    raise RowFault(Reason.TEXT_TOO_LONG, message, column=column)
