"""A record with its masks: what is masked in one of its texts is masked in all of them, however they mention it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from attribeam.logs.privacy.masked_values import changed_together
from attribeam.logs.privacy.redactor import Redactor, without_secrets
from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.schemas import QARecord
from attribeam.schemas.errors import LeakError


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
