"""A row on its way: given in Python, as a QA record, encoded for a model, and with its token-wise attributions.

In Python a row is a question with its passages and answer, or a dict with a log's column names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource, SpanEvidence, Stage
from attribeam.schemas.errors import DataError, UsageError

PassageLike: TypeAlias = str | Passage | Mapping[str, object] | tuple[str | None, str]
"""A passage's text, the passage, its fields, or a (title, text) pair."""
SpanLike: TypeAlias = CharRange | tuple[int, int] | Mapping[str, int]
"""A half-open range of code points of the answer, its ends, or its fields ``char_start`` and ``char_end``."""
RowLike: TypeAlias = QARecord | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row has no evidence, and the stage that found it."""

    stage: Stage
    fault: RowFault


SpanOutcome: TypeAlias = tuple[SpanEvidence, ...] | Refusal
"""The evidence of a row's spans, or why there is none."""

_PASSAGE_FIELDS = tuple(field.name for field in fields(Passage))
_NEEDED = ("question", "passages", "answer")
_FIELDS = (*_NEEDED, "record_id", "target_spans")
_TABLE = "a table of rows goes to attribute_table"


def records_of(rows: Iterable[RowLike]) -> list[QARecord | RowFault]:
    """One outcome per row, in order: its record, or the fault of a value that a log may not hold either.

    A dict has the names of a log's columns: ``question``, ``passages`` and ``answer``, perhaps ``record_id`` and
    ``target_spans``; other keys are not read, nor are other fields of a passage. None in place of a value is the row's
    fault.

    Raises:
        UsageError: if ``rows`` is a table or a single row.
        DataError: if a row lacks a field, or a field has another type than it should; it names row and field.
    """
    needed, kind = "a list of QARecords or dicts is needed, was a", _kind(rows)
    if hasattr(rows, "__arrow_c_stream__"):
        raise UsageError(f"{needed} {kind}; {_TABLE}")
    if not isinstance(rows, Iterable):
        raise UsageError(f"{needed} {kind}")
    if isinstance(rows, str | bytes | Mapping | QARecord):
        raise UsageError(f"{needed} single {kind}; put it into a list")
    return [outcome_of(row, RowSource("", index), where=f"row {index}: ") for index, row in enumerate(rows)]


def record_of(
    question: str, passages: Sequence[PassageLike], answer: str, target_spans: Sequence[SpanLike] | None
) -> QARecord:
    """The record of one row.

    Raises:
        DataError: if a field is None or has another type than it should; it names the field.
        RowFault: if one of the ``target_spans`` is no range.
    """
    given = {"question": question, "passages": passages, "answer": answer, "target_spans": target_spans}
    for name in _NEEDED:
        if given[name] is None:
            raise DataError(f"{name} should be {_NULLS[name][1]}")
    return _record(given, "", RowSource("", 0))


def check_record(record: QARecord) -> None:
    """Refuse what a QA log's validation refuses, for callers who build records themselves.

    Raises:
        RowFault: if the row cannot be audited.
    """
    texts = [text for part in record.passages for text in (part.text, part.title, part.passage_id) if text is not None]
    for name, text in (("question", record.question), ("answer", record.answer), *(("passages", one) for one in texts)):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            message = f"{name} should be Unicode text, holds half of a surrogate pair at code point {error.start}"
            raise RowFault(Reason.INVALID_UTF8, f"{message}; decode it anew", column=name) from None
    if not record.answer.strip():
        raise RowFault(Reason.EMPTY_ANSWER, "the answer should have words, but is empty", column="answer")
    if not any(passage.text.strip() for passage in record.passages):
        raise RowFault(Reason.NO_PASSAGES, "there should be a passage with text, but there is none", column="passages")
    for span in record.target_spans or ():
        if span.char_end > len(record.answer):
            message = f"spans should end within the {len(record.answer)} code points of the answer, one ends at "
            raise RowFault(Reason.SPAN_OUT_OF_RANGE, f"{message}{span.char_end}", column="target_spans")


_LISTS = {"passages": "a list of passages", "target_spans": "a list of ranges"}
_NULLS = {
    "question": (Reason.MISSING_VALUE, 'a string, was None; give "" where nothing was asked'),
    "passages": (Reason.NO_PASSAGES, "a list of passages, was None; give what was retrieved"),
    "answer": (Reason.EMPTY_ANSWER, "a string, was None; leave such rows out"),
}
"""What None in place of a needed value is, and what there should be."""


def outcome_of(row: object, source: RowSource, *, where: str = "") -> QARecord | RowFault:
    """One row's record, or the fault of a value that a log may not hold either; messages begin with ``where``.

    Raises:
        DataError: as ``records_of``.
    """
    if isinstance(row, QARecord):
        for index, passage in enumerate(_items("passages", row.passages, where)):
            if not isinstance(passage, Passage):
                raise _type_error(f"passages[{index}]", "a Passage", passage, where)
        made = _checked({name: getattr(row, name) for name in _FIELDS}, where, row.source)
        return made if isinstance(made, RowFault) else replace(row, **{name: getattr(made, name) for name in _FIELDS})
    if not isinstance(row, Mapping):
        raise DataError(f"{where}a QARecord or a dict is needed, was a {_kind(row)}; {_TABLE}")
    for name in _NEEDED:
        if name not in row:
            raise DataError(
                f"{where}the field {name!r} is needed, there are: {', '.join(map(str, row)) or 'none'}; rename the "
                "keys, or give the rows as a table to attribute_table with columns=..."
            )
        if row[name] is None:
            reason, expected = _NULLS[name]
            return RowFault(reason, f"{where}{name} should be {expected}", column=name)
    return _checked(row, where, source)


def _checked(row: Mapping[str, object], where: str, source: RowSource) -> QARecord | RowFault:
    try:
        return _record(row, where, source)
    except RowFault as fault:
        return fault


def _record(row: Mapping[str, object], where: str, source: RowSource) -> QARecord:
    spans, record_id = row.get("target_spans"), row.get("record_id")
    ranges = [] if spans is None else _items("target_spans", spans, where)
    passages = _items("passages", row["passages"], where)
    return QARecord(
        record_id=str(source.source_row) if record_id is None else _text_or_integer("record_id", record_id, where),
        question=_text("question", row["question"], where),
        passages=tuple(_passage(passage, f"passages[{index}]", where) for index, passage in enumerate(passages)),
        answer=_text("answer", row["answer"], where),
        source=source,
        target_spans=tuple(_span(span, f"target_spans[{index}]", where) for index, span in enumerate(ranges)) or None,
    )


def _span(value: object, name: str, where: str) -> CharRange:
    if isinstance(value, CharRange):
        return value
    if value is None or (isinstance(value, Mapping) and None in (value.get("char_start"), value.get("char_end"))):
        raise _missing("target_spans", name, "a range should have char_start and char_end", where)
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise _type_error(name, "a pair (char_start, char_end)", value, where)
    ends = [value["char_start"], value["char_end"]] if isinstance(value, Mapping) else list(value)
    if len(ends) != 2 or not all(isinstance(end, Integral) and not isinstance(end, bool) for end in ends):
        raise _type_error(name, "the whole numbers char_start and char_end, in code points", value, where)
    try:
        return CharRange(int(ends[0]), int(ends[1]))
    except ValueError as error:
        raise RowFault(Reason.SPAN_OUT_OF_RANGE, str(error), column="target_spans") from error


def _passage(value: object, name: str, where: str) -> Passage:
    if isinstance(value, str):
        return Passage(text=value)
    if isinstance(value, Passage):
        value = {field: getattr(value, field) for field in _PASSAGE_FIELDS}
    if value is None or (isinstance(value, Mapping) and value.get("text", "") is None):
        raise _missing("passages", name, "a passage should have 'text'", where)
    if isinstance(value, Mapping):
        is_row_of_a_log = bool(where)
        unknown = () if is_row_of_a_log else set(value) - set(_PASSAGE_FIELDS)
        if unknown or "text" not in value:
            raise DataError(
                f"{where}{name}: a passage should have 'text' and at most {_PASSAGE_FIELDS}, but has: "
                f"{sorted(map(str, value))}; rename its text, and leave the others out"
            )
        title, passage_id = value.get("title"), value.get("passage_id")
        return Passage(
            text=_text(f"{name}['text']", value["text"], where),
            title=None if title is None else _text(f"{name}['title']", title, where),
            passage_id=None if passage_id is None else _text_or_integer(f"{name}['passage_id']", passage_id, where),
        )
    if isinstance(value, Sequence) and not isinstance(value, bytes) and len(value) == 2:
        title, text = value
        return Passage(
            text=_text(f"{name}[1]", text, where), title=None if title is None else _text(f"{name}[0]", title, where)
        )
    raise _type_error(name, "a text, a Passage, a dict with its fields or a (title, text) pair", value, where)


def _items(name: str, value: object, where: str) -> list[object]:
    if isinstance(value, str | bytes | Mapping | Passage) or not isinstance(value, Iterable):
        raise _type_error(name, f"{_LISTS[name]}; put a single one into a list", value, where)
    return list(value)


def _text(name: str, value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _type_error(name, "a string", value, where)
    return value


def _text_or_integer(name: str, value: object, where: str) -> str:
    if not isinstance(value, str | Integral) or isinstance(value, bool):
        raise _type_error(name, "a string or an integer", value, where)
    return str(value)


def _missing(column: str, name: str, expected: str, where: str) -> RowFault | DataError:
    """For None in a list: the fault of one of many rows, as null is in a log; an error where there is just one row."""
    message = f"{where}{name}: {expected}, but is None"
    return RowFault(Reason.MISSING_VALUE, message, column=column) if where else DataError(message)


def _type_error(name: str, expected: str, value: object, where: str) -> DataError:
    way_out = "; correct the row, or leave it out" if where else ""
    return DataError(f"{where}{name} should be {expected}, was a {_kind(value)}{way_out}")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """One row, rendered and tokenised once as a whole; made by ``prompts.token_offsets.encode_page``.

    A row longer than the model's context has ``windows``, each of which runs through the model on its own. The row's
    own tokens are then those of all windows, in the order of the whole row.

    Character ranges exclude white space at both ends; a token of white space only has an empty range but still lies in
    its passage. A token that spans the border of prompt and answer belongs to the answer.

    Attributes:
        token_ids: int32 [tokens], special tokens included.
        prompt_length: number of prompt tokens; the response is ``token_ids[prompt_length:]``.
        column_passage: int32 [prompt_length], index of the passage that each prompt token lies in, -1 outside.
        column_in_title: bool [prompt_length], True if the token lies in that passage's title.
        column_char_start, column_char_end: int32 [prompt_length], code points within the passage's text or title.
        response_char_start, response_char_end: int32 [responses], code points within the answer.
        windows: empty if the row runs through the model in one piece.
    """

    token_ids: npt.NDArray[np.int32]
    prompt_length: int
    column_passage: npt.NDArray[np.int32]
    column_in_title: npt.NDArray[np.bool_]
    column_char_start: npt.NDArray[np.int32]
    column_char_end: npt.NDArray[np.int32]
    response_char_start: npt.NDArray[np.int32]
    response_char_end: npt.NDArray[np.int32]
    windows: tuple[PassageWindow, ...] = ()

    @property
    def token_count(self) -> int:
        """Number of tokens that run through the model: those of all windows, if there are any."""
        return sum(window.row.token_count for window in self.windows) or len(self.token_ids)

    @property
    def response_chars(self) -> tuple[CharRange | None, ...]:
        """The range of code points that each response token covers in the answer; None for an empty range."""
        pairs = zip(self.response_char_start.tolist(), self.response_char_end.tolist(), strict=True)
        return tuple(CharRange(start, end) if start < end else None for start, end in pairs)


@dataclass(frozen=True, slots=True)
class PassageWindow:
    """Consecutive whole passages of a long row, with the template, the question and the answer, as a row of its own.

    Passages keep their indices from the whole row. ``columns`` int32 [row.prompt_length], ascending, has for each
    column of the window its column in the whole row.
    """

    row: EncodedRow
    columns: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TokenAttribution:
    """Token-wise attributions of one response: the top-k of each row of S (Equation 1), over all prompt columns.

    ``top_columns`` int32 [responses, k] are prompt columns by descending similarity, ties towards the lower column,
    with k = ``min(top_k, prompt_length)``; ``top_scores`` float32 [responses, k] are their similarities S_ij.
    ``passage_mass`` float32 [responses, passages] is each row's total similarity on each passage (top-k or not),
    ``sink_mass`` float32 [responses] that on prompt columns outside all passages: special tokens, template, question.
    For a row with windows, it is the mean over its windows, each of which has those columns.
    """

    top_columns: npt.NDArray[np.int32]
    top_scores: npt.NDArray[np.float32]
    passage_mass: npt.NDArray[np.float32]
    sink_mass: npt.NDArray[np.float32]
