"""Which Arrow types a column of a log may have: the plain, large, view and dictionary variants of each kind."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

TypeCheck = Callable[[pa.DataType], bool]

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
    pa.types.is_fixed_size_list,
)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves: without dictionary encoding and without an extension's name."""
    while True:
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        elif isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        else:
            return kind


def plain_array(array: pa.Array) -> pa.Array:
    """The same values in their plain type, see ``plain_type``."""
    while True:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        else:
            return array


def list_item_type(kind: pa.DataType) -> pa.DataType | None:
    """The plain type of a list's items, None where ``kind`` is no list."""
    return plain_type(kind.value_type) if any(check(kind) for check in _LISTS) else None


def struct_field_type(kind: pa.DataType, name: str) -> pa.DataType | None:
    """The plain type of a struct's field, None where ``kind`` is no struct or has no such field."""
    if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
        return None
    return plain_type(kind.field(name).type)


def is_text(kind: pa.DataType) -> bool:
    """Strings, and bytes that should hold UTF-8 (some writers do not mark their strings)."""
    return any(check(plain_type(kind)) for check in _TEXT + _BYTES)


def is_text_or_integer(kind: pa.DataType) -> bool:
    """What an id may be."""
    return is_text(kind) or pa.types.is_integer(plain_type(kind))


def is_passages(kind: pa.DataType) -> bool:
    """A list of texts, or of structs with a ``text`` and perhaps ``title`` and ``passage_id``."""
    item = list_item_type(plain_type(kind))
    if item is None or is_text(item):
        return item is not None
    text = struct_field_type(item, "text")
    return text is not None and is_text(text) and _has(item, "title", is_text) and _has_id(item)


def is_target_spans(kind: pa.DataType) -> bool:
    """A list of structs of the whole numbers ``char_start`` and ``char_end``."""
    item = list_item_type(plain_type(kind))
    if item is None:
        return False
    ends = [struct_field_type(item, name) for name in ("char_start", "char_end")]
    return all(end is not None and pa.types.is_integer(end) for end in ends)


def is_moment(kind: pa.DataType) -> bool:
    """A timestamp, a date, or a text that should hold ISO 8601."""
    plain = plain_type(kind)
    return pa.types.is_timestamp(plain) or pa.types.is_date(plain) or is_text(plain)


def _has_id(item: pa.DataType) -> bool:
    return _has(item, "passage_id", is_text_or_integer)


def _has(item: pa.DataType, name: str, check: TypeCheck) -> bool:
    """True where the optional field is missing, is null everywhere, or passes the check."""
    kind = struct_field_type(item, name)
    return kind is None or pa.types.is_null(kind) or check(kind)
