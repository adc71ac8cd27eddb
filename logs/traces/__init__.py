"""Logs from trace stores: records of an export to spans, spans of a trace to one row, rows to a QA log.

``record_files`` reads the records of a file, ``formats`` has the table of each format that maps them to spans,
``assembly`` puts the spans of a trace together, ``rows`` reads what has one row per record. ``trace_log`` puts the
steps together for the reader of an audit and for ``attribeam import``. Here are the plain steps on values of exports:
dotted keys, JSON and Python literals in texts, numbers, ids, times.
"""

from __future__ import annotations

import ast
import io
import json
import math
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

from attribeam.logs.rows import moment_of

Record = Mapping[str, object]
"""One record of an export as it was parsed: a row, a span, a run, or a whole trace."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A value of a file, or the fault of one that cannot be read; ``line`` counts from 1, ``item`` in its wrapper."""

    line: int
    value: object
    item: int | None = None

    @property
    def location(self) -> str:
        """Where it stands, for messages."""
        return f"line {self.line}" if self.item is None else f"line {self.line}, item {self.item}"


_DEEPEST = 24
_LONGEST_NUMBER = 18
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_LETTER = re.compile(r"[^a-z0-9]+")
_SHOWN_KEYS = 12
_NULL_TEXTS = frozenset(("", "null", "NULL", "None", "nan", "NaN", "\\N", "undefined", "<NA>"))
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
            for index, item in enumerate(below if isinstance(below, list) else ()):
                _put(inner, str(index), item)
            tree[part] = below = inner
        tree = below
    below = tree.get(last)
    if isinstance(value, dict):
        if not isinstance(below, dict):
            tree[last] = below = {}
        for name, member in value.items():
            _put(below, name, member)
    elif isinstance(below, dict) and value is not None:
        below.setdefault("", value)
    elif not isinstance(below, dict) and (below is None or value is not None):
        tree[last] = value


def _with_lists(value: object) -> object:
    """Objects all of whose keys are numbers as lists in the order of these numbers."""
    if isinstance(value, dict):
        numbers = [key for key in value if key]
        if numbers and all(key.isdecimal() and key.isascii() and len(key) <= _LONGEST_NUMBER for key in numbers):
            return [_with_lists(value[key]) for key in sorted(numbers, key=int)]
        return {key: _with_lists(item) for key, item in value.items()}
    if isinstance(value, list):
        return [nested(item) if isinstance(item, dict) else item for item in value]
    return value


def by_name(record: Mapping[str, object]) -> dict[str, str]:
    """The names of a record in snake case, each with the name as it stands."""
    return {in_snake_case(name): name for name in reversed([*record])}


@lru_cache(maxsize=4096)
def in_snake_case(name: str) -> str:
    """A name in the way of Python: "Retrieved Contexts" and "retrievedContexts" are "retrieved_contexts"."""
    return _NO_LETTER.sub("_", HUMP.sub("_", name[:100]).lower()).strip("_")


def at(value: object, *path: str) -> object:
    """What stands at a path of keys; None where there is nothing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def first_of(record: Mapping[str, object], names: Iterable[str]) -> object:
    """The first value of these fields that is there: not null, NaN or an empty text."""
    return next((value for value in map(record.get, names) if not is_nothing(value)), None)


def is_nothing(value: object) -> bool:
    """True for null, also a printed one, for an empty text, and for NaN, as data frames write a missing value."""
    return value is None or is_null_text(value) or (isinstance(value, float) and math.isnan(value))


def is_null_text(value: object) -> bool:
    """True for an empty text, and for one that is nothing but a null, as a language or a database prints it."""
    return isinstance(value, str) and value.strip() in _NULL_TEXTS


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
    value = _of_mongo(value)
    if is_nothing(value) or isinstance(value, bool):
        return None
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else None
    return str(value) if isinstance(value, str | int) else None


def _of_mongo(value: object) -> object:
    """The value of an object such as ``{"$oid": ...}``, as MongoDB exports ids and moments; any other as it is."""
    while isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith("$"):
        (value,) = value.values()
    return value


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
    value = _of_mongo(value)
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return round((moment - _EPOCH).total_seconds() * 1_000_000)
    number = number_or_none(value)
    if number is None:
        try:
            return microseconds(moment_of(value)) if isinstance(value, str) else None
        except (ValueError, OverflowError):
            return None
    exact = int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else number
    for limit, factor in ((10**11, 1_000_000), (10**14, 1000), (10**17, 1)):  # each ends in the year 5138
        if 0 < exact < limit:
            return round(exact * factor)
    return int(exact // 1000) if 0 < exact < 10**20 else None


def shape(value: object) -> str:
    """What a value is, in words that hold none of its text."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "a text" if not is_null_text(value) else "a printed null" if value.strip() else "an empty text"
    if isinstance(value, dict):
        return f"an object with the keys {shown_keys(value)}" if value else "an empty object"
    if isinstance(value, list):
        kind = "texts" if all(isinstance(item, str) for item in value) else "items"
        keys = f" with the keys {shown_keys(value[0])}" if value and isinstance(value[0], dict) and value[0] else ""
        return f"a list of {len(value)} {kind if len(value) > 1 else kind[:-1]}{keys}" if value else "an empty list"
    return "a truth value" if isinstance(value, bool) else "a number"


def shown_keys(value: Mapping[str, object]) -> str:
    """The first keys of an object that are names, and no texts."""
    keys = [str(key) for key in value if _NAME.fullmatch(str(key))][:_SHOWN_KEYS]
    return ", ".join([*keys, *["..."] * (len(value) > len(keys))])


_INTEGER = re.compile(r"-?[0-9]{1,20}")
_PLAIN_VALUES = ("stringvalue", "intvalue", "doublevalue", "boolvalue", "bytesvalue")


def object_of(value: object) -> Record:
    """An object, also one that stands as JSON in a text; {} for anything else."""
    value = parsed(value)
    return value if isinstance(value, dict) else {}


def objects_in(value: object) -> Iterator[Record]:
    """The objects of a list, also of one that stands as JSON in a text; none in anything else."""
    value = parsed(value)
    yield from (item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict))


def otlp_attributes(value: object) -> dict[str, object]:
    """Attributes as an object, whether they are a list of keys and values or an object already."""
    if isinstance(value, dict):
        return dict(value)
    return {kv["key"]: _otlp_value(kv.get("value")) for kv in objects_in(value) if isinstance(kv.get("key"), str)}  # type: ignore[misc]


def _otlp_value(value: object) -> object:
    if not isinstance(value, dict):
        return value
    for name, content in value.items():
        kind, values = name.replace("_", "").lower(), at(content, "values")
        if kind == "arrayvalue":
            return [_otlp_value(item) for item in values] if isinstance(values, list) else []
        if kind == "kvlistvalue":
            return otlp_attributes(values)
        if kind in _PLAIN_VALUES:
            is_written = kind == "intvalue" and isinstance(content, str) and _INTEGER.fullmatch(content)
            return int(content) if is_written else content
    return None


_CONSTANTS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None, "nan": None}
_CONSTANTS["NaN"] = None
_MOST_LITERAL_CHARS = 1 << 22
_BESIDE_STRINGS = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT)
_ARRAY = re.compile(r"^\s*array\((.*?)(?:,\s*dtype=\w+)?\)\s*$", re.DOTALL)
_BEGINS = re.compile(r"""\s*[\[{][\s\[({]*+(?:[\]})'"]|[-+]?[0-9]|[\w.]+\(|(?:None|True|False|nan)\b|$)""")
"""How a list or an object of Python begins: by another one, a text, a number, a call or a constant."""
_GOES_ON = re.compile(r""",\s*['"{]|[\]}]\s*$""")
"""What has a second item or an end."""
_UNQUOTED = re.compile(r"\s*\[([^\W_][^\[\]{}]*[.!?])\]\s*")
_NEXT_UNQUOTED = re.compile(r"(?<=[.!?]), (?![a-z])")
"""What tells sentences apart in a list without quotes, as Athena and Spark print it."""
_UNQUOTED_OBJECTS = re.compile(r"\s*\[\{\w+=.*\}\]\s*", re.DOTALL)
_TYPE_NAME = re.compile(r"[A-Z]|\w+\.|array$")  # no function's
_REMARK = re.compile(r"""\s*\[(?:[^\[\]'"]*|\s*'[^'\\\n]*'\s*|\s*"[^"\\\n]*"\s*)\]\s*[^\s\],})]""")
"""Something in brackets with text behind it."""


def printed_value(text: str) -> list[object] | dict[str, object] | None:
    """The list or object that a text prints, in JSON or in Python; None where it prints none.

    Objects may be printed as calls with keywords, such as ``HumanMessage(content='...')``; the name then stands under
    ``type``. A type with a value is the value, NaN is None, and sentences may have no quotes. A text that goes on
    behind a list, or begins with a remark in brackets, prints none. Raises ``ValueError`` if it begins like a list or
    an object and is none, or is numpy's print, which has no commas.
    """
    if text.lstrip().startswith("array("):
        text = _ARRAY.sub(r"\1", text)
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if _UNQUOTED_OBJECTS.fullmatch(text):
            raise ValueError("one of objects without quotes, as Athena prints it") from None
        if (unquoted := _UNQUOTED.fullmatch(text)) and len(texts := _NEXT_UNQUOTED.split(unquoted[1])) > 1:
            return [*texts]
        if _REMARK.match(text) or not _BEGINS.match(text) or not _GOES_ON.search(text):
            return None
        if len(text) > _MOST_LITERAL_CHARS:
            raise ValueError(f"one that is no JSON and has more than {_MOST_LITERAL_CHARS} characters") from None
        try:
            tree = ast.parse(text.strip(), mode="eval")
            tokens = (token.type for token in tokenize.generate_tokens(io.StringIO(text.strip()).readline))
            kinds = pairwise(kind for kind in tokens if kind not in _BESIDE_STRINGS)
            if (tokenize.STRING, tokenize.STRING) in kinds:  # Python would join them without a word
                raise ValueError("a list as numpy prints it, without commas")
            value = _literal(tree.body)
        except (SyntaxError, MemoryError, RecursionError, tokenize.TokenError) as error:
            raise ValueError("a list that is cut off or no list of Python") from error
    return value if isinstance(value, list | dict) else None


def opened_text(value: object) -> object:
    """What a text prints, see ``printed_value``; any other value, and a text that prints nothing, as it is."""
    try:
        printed = printed_value(value) if isinstance(value, str) else None
    except ValueError:
        return value
    return value if printed is None else printed


def unprinted(text: str, pattern: re.Pattern[str]) -> str:
    """The text that ``pattern`` finds in the first group as Python prints it; all of ``text`` where there is none."""
    printed = pattern.fullmatch(text.strip())
    try:
        return str(ast.literal_eval(printed[1])) if printed else text
    except (SyntaxError, ValueError):
        return text


def _literal(node: ast.expr) -> object:
    match node:
        case ast.Constant(value=value):
            return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=vals):
            return {str(_literal(key)): _literal(val) for key, val in zip(keys, vals, strict=True) if key is not None}
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Call(func=called, args=[_, *_] as given) if _TYPE_NAME.match(ast.unparse(called)):
            values = [_literal(item) for item in given]
            return values[0] if len(values) == 1 else values
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[], keywords=keywords):
            return {"type": name} | {item.arg: _literal(item.value) for item in keywords if item.arg is not None}
        case _:
            raise ValueError("something that is no plain value of Python")
