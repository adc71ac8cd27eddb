"""JSON of exports: reading it in parts, and plain steps on its values.

JSON as exports have it: one value per line, one list of values, or values one after the other; read in parts.

Plain steps on parsed JSON: dotted keys to nested objects, texts that hold JSON, numbers, ids and times.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import BinaryIO

from attribeam.logs.jsonl_log import BLOCK_BYTES, MOST_BYTES, Line, line_value, no_json, text_lines
from attribeam.schemas import RowFault
from attribeam.schemas.errors import DataError, LogFormatError

_DEEPEST = 24
_LONGEST_NUMBER = 18
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_LETTER = re.compile(r"[^a-z0-9]+")
_SHOWN_KEYS = 12
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}")
"""What a key may look like that is shown; another one may be a text."""


def nested(flat: Mapping[str, object]) -> dict[str, object]:
    """An object whose dotted keys are opened: ``a.0.b`` becomes ``{"a": [{"b": ...}]}``; what is nested stays so.

    Where a key holds both a value and members, the value stands under "", or is left out where the members are a list.
    Keys with more than 24 parts are left alone.
    """
    tree: dict[str, object] = {}
    for key, value in flat.items():
        _put(tree, key, value)
    return {key: _with_lists(value) for key, value in tree.items()}


def _put(tree: dict[str, object], key: str, value: object) -> None:
    """Put a value where a dotted key leads; all objects of ``tree`` are its own."""
    parts = key.split(".")
    *above, last = parts if len(parts) <= _DEEPEST and all(parts) else [key]
    for part in above:
        below = tree.get(part)
        if not isinstance(below, dict):
            inner: dict[str, object] = {} if below is None or isinstance(below, list) else {"": below}
            for index, one in enumerate(below if isinstance(below, list) else ()):
                _put(inner, str(index), one)
            tree[part] = below = inner
        tree = below
    below = tree.get(last)
    if isinstance(value, dict):
        if not isinstance(below, dict):
            tree[last] = below = {}
        for name, one in value.items():
            _put(below, name, one)
    elif isinstance(below, dict):
        if value is not None:
            below.setdefault("", value)
    elif below is None or value is not None:
        tree[last] = value


def _with_lists(value: object) -> object:
    """Objects all of whose keys are numbers as lists in the order of these numbers."""
    if isinstance(value, dict):
        numbers = [key for key in value if key]
        if numbers and all(key.isdecimal() and key.isascii() and len(key) <= _LONGEST_NUMBER for key in numbers):
            return [_with_lists(value[key]) for key in sorted(numbers, key=int)]
        return {key: _with_lists(one) for key, one in value.items()}
    if isinstance(value, list):
        return [nested(one) if isinstance(one, dict) else one for one in value]
    return value


def words(text: str) -> tuple[str, ...]:
    """The names of a table."""
    return tuple(text.split())


def by_name(record: Mapping[str, object]) -> dict[str, str]:
    """The names of a record in snake case, each with the name as it stands."""
    found: dict[str, str] = {}
    for name in record:
        found.setdefault(in_snake_case(name), name)
    return found


@lru_cache(maxsize=4096)
def in_snake_case(name: str) -> str:
    """A name in the way of Python: "Retrieved Contexts" and "retrievedContexts" are "retrieved_contexts"."""
    return _NO_LETTER.sub("_", _HUMP.sub("_", name[:100]).lower()).strip("_")


def at(value: object, *path: str) -> object:
    """What stands at a path of keys; None where there is nothing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def first_of(record: Mapping[str, object], names: Iterable[str]) -> object:
    """The first value of these fields that is there: not null, NaN or an empty text."""
    for name in names:
        value = record.get(name)
        if not is_nothing(value):
            return value
    return None


def is_nothing(value: object) -> bool:
    """True for null, for an empty text, and for NaN, which data frames write for a missing value."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def parsed(value: object) -> object:
    """A text that holds a JSON object, list or string as what it holds; anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[", '"')):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def text_or_none(value: object) -> str | None:
    """An id or a name as text; None for what is neither text nor number."""
    if is_nothing(value) or isinstance(value, bool):
        return None
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else None
    return str(value) if isinstance(value, str | int) else None


def text_bytes(text: str | None) -> bytes | None:
    """The bytes of a text as they stood in the file, valid Unicode or not."""
    if text is None:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def valid_text(text: str | None) -> str | None:
    """The text with a question mark for what is no valid Unicode."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def number_or_none(value: object) -> float | None:
    """A finite number, also one that is written as text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def microseconds(value: object) -> int | None:
    """A moment as microseconds since 1970 in UTC; None where it is none.

    A text is ISO 8601, in UTC where it names no zone. A number counts seconds, milliseconds, microseconds or
    nanoseconds since 1970, by its size.
    """
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return round((moment - _EPOCH).total_seconds() * 1_000_000)
    number = number_or_none(value)
    if number is not None:
        exact = int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else number
        return _by_size(exact) if number > 0 else None
    if not isinstance(value, str):
        return None
    try:
        return microseconds(datetime.fromisoformat(value.strip()))
    except (ValueError, OverflowError):
        return None


def _by_size(number: float) -> int | None:
    """Numbers up to the year 5138 are told apart by their size; greater ones are no moments."""
    for limit, factor in ((10**11, 1_000_000), (10**14, 1000), (10**17, 1)):
        if number < limit:
            return round(number * factor)
    return int(number // 1000) if number < 10**20 else None


def shape(value: object) -> str:
    """What a value is, in words that hold none of its text."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "a text" if value.strip() else "an empty text"
    if isinstance(value, dict):
        return f"an object with the keys {shown_keys(value)}" if value else "an empty object"
    if isinstance(value, list):
        kind = "texts" if all(isinstance(one, str) for one in value) else "items"
        return f"a list of {len(value)} {kind if len(value) > 1 else kind[:-1]}" if value else "an empty list"
    return "a truth value" if isinstance(value, bool) else "a number"


def shown_keys(value: Mapping[str, object]) -> str:
    """The first keys of an object that are names, and no texts."""
    keys = [str(key) for key in value if _NAME.fullmatch(str(key))][:_SHOWN_KEYS]
    return ", ".join([*keys, *(["..."] if len(value) > len(keys) else [])])


_OWN_KEYS = frozenset(
    {"id", "record_id", "trace_id", "traceId", "span_id", "context", "info", "type", "question", "query", "user_input"}
)
"""An object with one of these keys is a record itself, whatever lists it has, unless their items ask something."""
_ASKING_KEYS = frozenset({"question", "query", "user_input", "user_query", "input", "inputs", "prompt", "messages"})
_DEEPEST_WRAPPER = 3
_CUT_OFF = "the file ends within it"
_CUT_OFF_CHARS = 16
_BETWEEN = re.compile("[ \t\r\n\ufeff,]*")
"""What may stand between values: white space, commas, and the byte order marks of files that were joined."""


@dataclass(frozen=True, slots=True)
class Found:
    """A value of a file, or the fault of one that cannot be read; ``line`` counts from 1, ``item`` in its wrapper."""

    line: int
    value: object
    item: int | None = None

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"line {self.line}" if self.item is None else f"line {self.line}, item {self.item}"


def json_values(file: BinaryIO, wrappers: Sequence[str], *, may_be_lines: bool) -> Iterator[Found]:
    """The values of a file that begins like JSON; an object with one of the keys ``wrappers``, in snake
    case, and none of a record's own, gives its items, and a whole table its rows. Several documents may stand one
    behind the other.

    ``may_be_lines`` says that it begins with an object. If that ends within its line, each line is read for itself: one
    that is no JSON, or too long, is a ``RowFault`` in its place. So is what the file's end cuts off, a list that is
    not closed among it.

    Raises:
        LogFormatError: if not even the first value can be read.
        DataError: if a list or an object over several lines is damaged or too long, so that nobody knows where the
            next begins.
    """
    found = _lines(file) if may_be_lines and _first_line_is_whole(file) else _stream(file)
    for one in found:
        yield from _unwrapped(one, wrappers)


def _first_line_is_whole(file: BinaryIO) -> bool:
    """Whether the first line that is neither empty nor too long is JSON."""
    first = next((one for one in text_lines(file) if one.text is not None and one.text.strip()), None)
    return first is not None and not any(isinstance(one, RowFault) for one in _line_values(first, ""))


def _lines(file: BinaryIO) -> Iterator[Found]:
    for number, line in enumerate(text_lines(file), start=1):
        for value in _line_values(line, f"line {number}"):
            items = enumerate(value) if isinstance(value, list) else [(None, value)]
            yield from (Found(number, item, index) for index, item in items)


def _line_values(line: Line, place: str) -> Iterator[object]:
    """The values of a line, nearly always one, up to a ``RowFault`` in the place of what cannot be read."""
    whole = line_value(line, place)
    if line.text is None or not isinstance(whole, RowFault):
        yield whole
        return
    text = line.text.decode("utf-8", errors="surrogateescape")
    at = _start_of_next(text, 0)
    while at < len(text):
        try:
            value, end = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            yield whole
            return
        yield value
        at = _start_of_next(text, end)


def _start_of_next(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return at if between is None else between.end()


def _unwrapped(found: Found, wrappers: Sequence[str]) -> Iterator[Found]:
    items = _items(found.value, wrappers) if wrappers else None
    if items is None:
        yield found
    else:
        yield from (Found(found.line, item, number) for number, item in enumerate(items))


def _items(value: object, wrappers: Sequence[str], depth: int = 0) -> Sequence[object] | None:
    """The records in an object that wraps them, perhaps in another one; None where it is a record itself."""
    if not isinstance(value, dict):
        return None
    rows = _rows_of_table(value)
    if rows is not None or value.keys() & _ASKING_KEYS:
        return rows
    own = by_name(value)
    for inner in (value[own[key]] for key in wrappers if key in own):
        if isinstance(inner, list) and (not value.keys() & _OWN_KEYS or any(map(_asks, inner))):
            return inner
        items = _items(inner, wrappers, depth + 1) if depth < _DEEPEST_WRAPPER else None
        if items is not None:
            return items
    return None


def _asks(item: object) -> bool:
    return isinstance(item, dict) and not _ASKING_KEYS.isdisjoint(by_name(item))


def _rows_of_table(value: Mapping[str, object]) -> list[object] | None:
    """The rows of a whole table: as pandas splits it, with an object or with a list for each column."""
    names, lists = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(lists, list) and all(isinstance(one, str) for one in names):
        if all(isinstance(one, list) and len(one) == len(names) for one in lists):
            return [dict(zip(names, one, strict=True)) for one in lists]
        return None
    objects = {name: one for name, one in value.items() if isinstance(one, dict)}
    numbers = [str(one) for one in next(iter(objects.values()), ())]
    if 1 < len(objects) == len(value) and numbers and all(map(str.isdecimal, numbers)):
        if all([*one] == numbers for one in objects.values()):
            return [{name: column[number] for name, column in objects.items()} for number in numbers]
        return None
    columns = [one for one in value.values() if isinstance(one, list)]
    if 1 < len(columns) == len(value) and len({len(one) for one in columns}) == 1 and columns[0]:
        asked = next((column for name, column in zip(value, columns, strict=True) if _asks({name: None})), [None])
        if all(isinstance(one, str) for one in asked):
            return [dict(zip(value, one, strict=True)) for one in zip(*columns, strict=True)]
    return None


def _stream(file: BinaryIO) -> Iterator[Found]:
    file.seek(0)
    window = _Window(file)
    list_line: int | None = None
    is_first = True
    while following := window.following():
        line = window.line
        if list_line is None and following == "[":
            list_line = line
            window.advance(1)
        elif list_line is not None and following == "]":
            list_line = None
            window.advance(1)
        else:
            value = window.value(is_first=is_first)
            yield Found(line, value)
            if isinstance(value, RowFault):
                return
            is_first = False
    if list_line is not None:
        yield Found(list_line, no_json(f"list that begins in line {list_line}", _CUT_OFF))


class _Window:
    """The part of a file that is being parsed: it grows until it holds the next value."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._parse = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._ended = False
        self.line = 1

    def following(self) -> str:
        """Go to the first character of what comes next; "" at the end."""
        while True:
            self.advance(_start_of_next(self._text, self._at) - self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._grow():
                return ""

    def advance(self, count: int) -> None:
        """Leave characters behind."""
        self.line += self._text.count("\n", self._at, self._at + count)
        self._at += count

    def value(self, *, is_first: bool) -> object:
        """The value here, or a ``RowFault`` where the file ends before it does."""
        while True:
            try:
                value, end = self._parse(self._text, self._at)
            except RecursionError as error:
                raise DataError(
                    f"should have values of moderate depth, the one in line {self.line} is deeper"
                ) from error
            except ValueError as error:
                if not self._may_go_on(error):
                    raise self._damage(error, is_first) from error
                if not self._grow():
                    return no_json(f"line {self.line}", _CUT_OFF)
                continue
            if end < len(self._text) or self._ended or self._text[end - 1] in '}]"':
                self.advance(end - self._at)
                return value
            self._grow()

    def _may_go_on(self, error: ValueError) -> bool:
        """True where the error lies at the end of what was read so far."""
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _CUT_OFF_CHARS

    def _grow(self) -> bool:
        """Read on, as much as there is already, so that a long value is parsed only a few times over."""
        if self._ended:
            return False
        if len(self._text) - self._at > MOST_BYTES:
            raise DataError(
                f"should have values of at most {MOST_BYTES} characters, the one in line {self.line} is longer; export "
                "as JSON lines, of which only those that are too long are left out"
            )
        length = len(self._text) - self._at
        block = self._file.read(min(max(BLOCK_BYTES, length), MOST_BYTES + 1 - length))
        self._ended = not block
        self._text = self._text[self._at :] + self._decode(block, self._ended)
        self._at = 0
        return True

    def _damage(self, error: ValueError, is_first: bool) -> DataError:
        line, message = self.line, str(error)
        if isinstance(error, json.JSONDecodeError):
            line, message = line + self._text.count("\n", self._at, error.pos), error.msg
        if is_first:
            return LogFormatError(f"should hold JSON, line {line} cannot be parsed: {message}; check the format's name")
        return DataError(
            f"should hold JSON, line {line} cannot be parsed: {message}; export it again, best as JSON lines, of which "
            "only the faulty ones are left out"
        )
