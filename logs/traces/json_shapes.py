"""Plain steps on parsed JSON: dotted keys to nested objects, texts that hold JSON, numbers, ids and times."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

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
        _put(tree, _parts(key), value)
    return {key: _with_lists(value) for key, value in tree.items()}


def _parts(key: str) -> list[str]:
    parts = key.split(".")
    return parts if len(parts) <= _DEEPEST and all(parts) else [key]


def _put(tree: dict[str, object], parts: list[str], value: object) -> None:
    for part, _ in pairwise(parts):
        below = tree.get(part)
        if isinstance(below, _Opened):
            tree = below
        else:
            tree[part] = opened = _Opened({} if below is None else {"": below})
            if isinstance(below, dict):
                del opened[""]
                for name, one in below.items():
                    _put(opened, _parts(name), one)
            elif isinstance(below, list):
                del opened[""]
                opened.update((str(index), one) for index, one in enumerate(below))
            tree = opened
    last, below = parts[-1], tree.get(parts[-1])
    if isinstance(below, _Opened):
        if isinstance(value, dict):
            for name, one in value.items():
                _put(below, _parts(name), one)
        elif value is not None:
            below.setdefault("", value)
    elif isinstance(value, dict):
        tree[last] = opened = _Opened()
        for name, one in value.items():
            _put(opened, _parts(name), one)
    elif below is None or value is not None:
        tree[last] = value


class _Opened(dict[str, object]):
    """An object that was made of dotted keys, or was opened for some."""


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
