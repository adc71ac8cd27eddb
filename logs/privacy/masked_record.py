"""Masks of whole records and columns: what is masked in one text of a record is masked in all of them.

It does not matter how they mention it. Columns are Arrow arrays of any type, with texts nested however deep; numbers
that are secrets are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa

from attribeam.logs.columns import is_text, list_item_type
from attribeam.logs.privacy.redactor import Redactor, without_secrets
from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.schemas import QARecord
from attribeam.schemas.errors import LeakError

ChangeText = Callable[[str, str], str]
"""Gets the name of the column, or of the member of a struct, and a text; gives the text to write."""


@dataclass(frozen=True, slots=True)
class ValueChange:
    """What becomes of the values of a column.

    Attributes:
        text: changes each text. Bytes are changed as the UTF-8 that they should hold.
        hides_number: whether a number is null instead; None keeps all numbers.
        texts: changes the texts of a list, in which an item may go on where the last one ended, before ``text`` does.
    """

    text: ChangeText
    hides_number: Callable[[str], bool] | None = None
    texts: Callable[[Sequence[str]], list[str]] | None = None

    def array(self, name: str, array: pa.Array) -> pa.Array:
        """The changed values of a column, in the same type; an array without any text or number is left alone."""
        if not self._concerns(array.type):
            return array
        values = array.to_pylist()
        if is_text(array.type):
            distinct = {value: self._value(name, value, array.type) for value in set(values)}
            return pa.array([distinct[value] for value in values], type=array.type)
        return pa.array([self._value(name, value, array.type) for value in values], type=array.type)

    def _concerns(self, kind: pa.DataType) -> bool:
        if is_text(kind) or pa.types.is_fixed_size_binary(kind):
            return True
        if pa.types.is_nested(kind):
            return any(self._concerns(kind.field(index).type) for index in range(kind.num_fields))
        return self.hides_number is not None and _is_number(kind)

    def _value(self, name: str, value: object, kind: pa.DataType) -> object:
        if isinstance(value, str):
            return self.text(name, value)
        if isinstance(value, bytes):
            return self._bytes(name, value)
        if isinstance(value, Mapping):
            return {part: self._value(part, one, kind.field(part).type) for part, one in value.items()}
        if isinstance(value, list) and pa.types.is_map(kind):
            return [(self._key(name, key, kind), self._value(name, one, kind.item_type)) for key, one in value]
        if isinstance(value, list):
            return [self._value(name, one, list_item_type(kind) or kind) for one in self._together(value)]
        return None if self._is_hidden(value) else value

    def _together(self, items: list[object]) -> list[object]:
        return items if self.texts is None else changed_together(items, self.texts)

    def _key(self, name: str, key: object, kind: pa.MapType) -> object:
        """A key cannot be null; a number that is hidden is 0."""
        return 0 if self._is_hidden(key) else self._value(name, key, kind.key_type)

    def _is_hidden(self, value: object) -> bool:
        if self.hides_number is None or isinstance(value, bool):
            return False
        if isinstance(value, float):
            return value.is_integer() and self.hides_number(str(int(value)))
        return isinstance(value, int | Decimal) and self.hides_number(str(value))

    def _bytes(self, name: str, value: bytes) -> bytes:
        """Bytes with as many of them hidden; those of another encoding are read byte by byte."""
        for encoding in ("utf-8", "latin-1"):
            try:
                text = value.decode(encoding)
            except UnicodeDecodeError:
                continue
            changed = self.text(name, text)
            if len(changed) != len(text):
                return changed.encode(encoding)
            pairs = zip(text, changed, strict=True)
            return b"".join(
                one.encode(encoding) if one == other else b"*" * len(one.encode(encoding)) for one, other in pairs
            )
        raise AssertionError("Latin-1 reads any bytes")


def changed_together(items: list[object], change: Callable[[Sequence[str]], list[str]]) -> list[object]:
    """The items of a list with what two of them hold together changed: in texts, and in each member of structs."""
    structs = [one for one in items if isinstance(one, Mapping)]
    if structs and len(structs) == len(items):
        members = {name: changed_together([one[name] for one in structs], change) for name in structs[0]}
        return [{name: values[place] for name, values in members.items()} for place in range(len(items))]
    changed = iter(change([one for one in items if isinstance(one, str)]))
    return [next(changed) if isinstance(one, str) else one for one in items]


def _is_number(kind: pa.DataType) -> bool:
    return any(check(kind) for check in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def masking(redactor: Redactor) -> ValueChange:
    """Masks what the redactor finds in texts, and leaves out numbers in which it finds something."""
    return ValueChange(
        lambda _, text: redactor.mask(text), lambda digits: redactor.mask(digits) != digits, redactor.mask_list
    )


def record_secrets(record: QARecord, redactor: Redactor) -> frozenset[str]:
    """The e-mail addresses and numbers that any field of a record holds."""
    names = (one for passage in record.passages for one in (passage.text, passage.title, passage.passage_id))
    texts = (record.record_id, record.question, record.answer, record.generator, *names)
    carried = (text for _, value in record.extra_columns for text in texts_in(value))
    return redactor.secrets(text for text in (*texts, *carried) if text)


def masked_record(record: QARecord, redactor: Redactor) -> QARecord:
    """The record as it may be shown; every offset stays.

    Of the values of its extra columns, only what other texts of the record hold is masked: numbers and bytes take the
    types of their columns to mask.

    Raises:
        SlowPatternError: if one of the user's patterns takes too long.
    """
    if not redactor.settings.masks:
        return record
    secrets = record_secrets(record, redactor)

    def mask(text: str) -> str:
        return without_secrets(redactor.masked(text), secrets)

    def mask_if_any(text: str | None) -> str | None:
        return None if text is None else mask(text)

    def mask_list(texts: Sequence[str]) -> list[str]:
        return [without_secrets(text, secrets) for text in redactor.masked_list(texts)]

    texts = mask_list([one.text for one in record.passages])
    titles = mask_list([one.title or "" for one in record.passages])
    passages = zip(record.passages, texts, titles, strict=True)
    return replace(
        record,
        record_id=mask(record.record_id),
        question=mask(record.question),
        answer=mask(record.answer),
        passages=tuple(
            replace(one, text=text, title=title if one.title else one.title, passage_id=mask_if_any(one.passage_id))
            for one, text, title in passages
        ),
        generator=mask_if_any(record.generator),
        extra_columns=tuple(
            (name, with_changed_texts(value, lambda text: without_secrets(text, secrets), mask_list))
            for name, value in record.extra_columns
        ),
    )


def texts_in(value: object) -> Iterator[str]:
    """Every text in a plain Python value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for one in value.values() for text in texts_in(one))
    elif isinstance(value, list | tuple):
        yield from (text for one in value for text in texts_in(one))


def with_changed_texts(
    value: object, change: Callable[[str], str], change_list: Callable[[Sequence[str]], list[str]]
) -> object:
    """The value with every text in it changed, those of lists together first, but for the names of structs' members."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: with_changed_texts(one, change, change_list) for name, one in value.items()}
    if isinstance(value, list):
        return [with_changed_texts(one, change, change_list) for one in changed_together(value, change_list)]
    if isinstance(value, tuple):
        return tuple(with_changed_texts(one, change, change_list) for one in value)
    return value


def check_masked(name: str, value: object, privacy: PrivacySettings, given: Collection[str]) -> None:
    """Refuse plain values that show an e-mail address or a number which ``--redact`` masks, besides ``given`` texts.

    What patterns of the user's own find is not looked for: they may find words of ours.

    Raises:
        LeakError: if there is one; the message says where in ``name``, and never shows it.
    """
    if not privacy.redact:
        return
    redactor = Redactor(PrivacySettings(redact=True))
    for place, text in _placed_texts(value):
        if text not in given and redactor.mask(text) != text:
            raise LeakError(
                f"{name} should show nothing that is to be masked, but does at {place}, so it was not written; please "
                "report this"
            )


def _placed_texts(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place or "its beginning", value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from _placed_texts(one, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            yield from _placed_texts(one, f"{place}[{index}]")
