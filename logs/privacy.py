"""What an audit may write of a log's texts: what the user asked for, masks in texts, and masks of records and columns.

A mask has as many characters as what it hides, so every offset stays valid. What is masked in one text of a record is
masked in all of them. Patterns of the user's own are checked, and searched with a time limit.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path

import pyarrow as pa
import regex

from attribeam.logs.columns import is_text, list_item_type, types_within
from attribeam.logs.recognisers import secret_ranges
from attribeam.schemas import CharRange, Passage, QARecord
from attribeam.schemas.errors import LeakError, RunError, UsageError

MASK = "█"
SECONDS_PER_TEXT = 2.0
"""The longest search for one pattern in one text; a pattern that takes longer is not fit for any log."""

_PROBE_SECONDS = 1.0
_PROBES = tuple(unit * 100 + end for unit in ("a", "0", " ", "a0", "a ", "aB-", ".@", "0 ") for end in ("", "!", "\n"))
_EDGE_CHARS = 80
_KEPT_CHARS = 4_000
_MOST_ROUNDS = 4


class SlowPatternError(Exception):
    """A pattern took too long on a text; the message says which."""


class LostPatternsError(RunError):
    """The file of patterns that an audit used is gone or has changed; the message says which, and the way out."""


@dataclass(frozen=True, slots=True)
class PatternsFile:
    """A file of patterns, one a line: where it lies, what it held, and the SHA-256 of its bytes."""

    path: str
    patterns: tuple[str, ...]
    sha256: str

    @classmethod
    def read(cls, path: str) -> PatternsFile:
        """The patterns of a file in UTF-8; empty lines and lines that begin with ``#`` say nothing.

        Raises ``UsageError`` if it cannot be read, holds no pattern, or one that cannot be used; that names the line
        and never shows it.
        """
        try:
            content = Path(path).read_bytes()
            lines = content.decode("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--redact-patterns {path!r} cannot be read: {error}") from error
        given = [(number, line) for number, line in enumerate(lines, start=1) if line.strip() and line[0] != "#"]
        if not given:
            raise UsageError(f"--redact-patterns {path!r} should hold one pattern a line, holds none")
        for number, line in given:
            _check_pattern(line, f"--redact-patterns {path!r}, line {number}")
        return cls(path, tuple(line for _, line in given), hashlib.sha256(content).hexdigest())


def _check_pattern(pattern: str, where: str) -> None:
    """Refuse what is no regular expression, finds nothing but empty text, or takes too long on a short text."""
    try:
        compiled = _compiled(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        said = getattr(error, "msg", str(error))
        raise UsageError(f"{where} should be a regular expression of the package regex, is none: {said}") from error
    if compiled.fullmatch("") is not None:
        raise UsageError(f"{where} finds empty text, so that it would find it everywhere; let it need a character")
    try:
        for probe in _PROBES:
            list(compiled.finditer(probe, timeout=_PROBE_SECONDS))
    except TimeoutError:
        raise UsageError(
            f"{where} takes more than {_PROBE_SECONDS:g} s on a short text: it repeats what repeats itself; "
            "use possessive repeats such as a++, or atomic groups (?>...)"
        ) from None


@cache
def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern)


@dataclass(frozen=True, slots=True)
class PrivacySettings:
    """What is hidden in everything that an audit writes.

    Attributes:
        redact: mask e-mail addresses, phone numbers and card numbers.
        patterns: mask what the regular expressions of a file find; the manifest records where it was and its digest.
        no_texts: write no text of questions, passages and answers at all.
    """

    redact: bool = False
    patterns: PatternsFile | None = None
    no_texts: bool = False

    @property
    def masks(self) -> bool:
        """Whether parts of texts are masked."""
        return self.redact or bool(self.own_patterns)

    @property
    def hides(self) -> bool:
        """Whether anything is hidden."""
        return self.masks or self.no_texts

    @property
    def own_patterns(self) -> tuple[str, ...]:
        """The user's patterns."""
        return () if self.patterns is None else self.patterns.patterns

    def recorded(self) -> dict[str, object]:
        """The settings as JSON values, without those at their defaults and without the patterns themselves."""
        file = self.patterns
        patterns = None if file is None else {"path": file.path, "sha256": file.sha256}
        everything = {"redact": self.redact, "redact_patterns": patterns, "no_texts": self.no_texts}
        return {name: value for name, value in everything.items() if value}


def recorded_settings(recorded: object) -> PrivacySettings:
    """The settings that ``PrivacySettings.recorded`` gave; those of an audit that records none hide nothing.

    Raises ``LostPatternsError`` if the file of patterns is not what it was.
    """
    if not isinstance(recorded, Mapping):
        return PrivacySettings()
    patterns = None
    if (file := recorded.get("redact_patterns")) is not None:
        path, way_out = str(file["path"]), "bring it back, so that the audit's masks can be made again"
        try:
            patterns = PatternsFile.read(path)
        except UsageError as error:
            raise LostPatternsError(f"{error}; {way_out}") from error
        if patterns.sha256 != str(file["sha256"]):
            raise LostPatternsError(f"--redact-patterns {path!r} is not what the audit used; {way_out}")
    return PrivacySettings(bool(recorded.get("redact")), patterns, bool(recorded.get("no_texts")))


def redacting(recorded: object) -> PrivacySettings:
    """Whether the recorded settings redact, without their patterns, whose file may be gone."""
    return PrivacySettings(redact=isinstance(recorded, Mapping) and bool(recorded.get("redact")))


@dataclass(frozen=True, slots=True)
class Redactor:
    """Finds and masks what the settings ask for; equal settings mask the same everywhere.

    ``masked`` and ``masked_list`` raise ``SlowPatternError`` if one of the user's patterns takes too long; ``mask`` and
    ``mask_list`` mask everything then.
    """

    settings: PrivacySettings

    def masked(self, text: str) -> str:
        """The text with its masks, in which nothing more is found."""
        if not self.settings.masks:
            return text
        for _ in range(_MOST_ROUNDS):
            before, text = text, _with_masks(text, self._ranges(text))
            if text == before:
                return text
        return MASK * len(text)  # each mask lets a pattern find something else beside it

    def mask(self, text: str) -> str:
        """As ``masked``, for texts that cannot be refused."""
        try:
            return self.masked(text)
        except SlowPatternError:
            return MASK * len(text)

    def masked_list(self, texts: Sequence[str]) -> list[str]:
        """The masked texts of a list, also where an item ends within what is to be masked and the next goes on."""
        masked = [self.masked(text) for text in texts]
        if not self.settings.masks or len(texts) < 2:
            return masked
        ranges: list[list[CharRange]] = [[] for _ in texts]
        for pieces in _neighbours(texts):
            for glue in ("", " "):
                for parts in _across(pieces, self._ranges(glue.join(text for *_, text in pieces)), glue):
                    if not any("@" in chars.of(texts[at]) and "@" not in chars.of(masked[at]) for at, chars in parts):
                        for at, chars in parts:  # and no item alone is the address, to which letters were added
                            ranges[at].append(chars)
        return [_with_masks(text, _united(some)) for text, some in zip(masked, ranges, strict=True)]

    def mask_list(self, texts: Sequence[str]) -> list[str]:
        """As ``masked_list``, for texts that cannot be refused."""
        try:
            return self.masked_list(texts)
        except SlowPatternError:
            return [MASK * len(text) for text in texts]

    def _ranges(self, text: str) -> list[CharRange]:
        """What is to be masked in a text: ascending ranges that do not touch."""
        usual: Iterable[CharRange] = ()
        if self.settings.redact:
            usual = _usual_ranges(text) if len(text) <= _KEPT_CHARS else secret_ranges(text)
        return _united(chain(usual, self._own_ranges(text)))

    def _own_ranges(self, text: str) -> Iterator[CharRange]:
        patterns = self.settings.own_patterns
        for number, pattern in enumerate(patterns, start=1):
            try:
                for match in _compiled(pattern).finditer(text, timeout=SECONDS_PER_TEXT):
                    if match.end() > match.start():
                        yield CharRange(match.start(), match.end())
            except TimeoutError:
                message = f"own pattern {number} of {len(patterns)} takes more than {SECONDS_PER_TEXT:g} s"
                raise SlowPatternError(message) from None

    def secrets(self, texts: Iterable[str]) -> frozenset[str]:
        """The e-mail addresses and numbers that texts hold, as they are written there."""
        if not self.settings.redact:
            return frozenset()
        return frozenset(chars.of(text) for text in texts for chars in _usual_ranges(text))


@lru_cache(maxsize=4096)
def _usual_ranges(text: str) -> tuple[CharRange, ...]:
    return tuple(secret_ranges(text))


def _with_masks(text: str, ranges: Iterable[CharRange]) -> str:
    parts, last = [], 0
    for chars in ranges:
        parts += [text[last : chars.char_start], MASK * (chars.char_end - chars.char_start)]
        last = chars.char_end
    return "".join([*parts, text[last:]])


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with each of the ``secrets`` masked wherever it stands as a word of its own."""
    for secret in secrets:
        if secret in text:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", MASK * len(secret), text)
    return text


_Piece = tuple[int, int, str]
"""Which text of a list, where in it a piece starts, and the piece."""


def _neighbours(texts: Sequence[str]) -> Iterator[list[_Piece]]:
    """The pieces of a list that may hold parts of one thing: of a long text, its two ends belong to different ones."""
    pieces: list[_Piece] = []
    for index, text in enumerate(texts):
        if len(text) <= 2 * _EDGE_CHARS:
            pieces.append((index, 0, text))
            continue
        yield [*pieces, (index, 0, text[:_EDGE_CHARS])]
        pieces = [(index, len(text) - _EDGE_CHARS, text[-_EDGE_CHARS:])]
    yield pieces


def _across(pieces: Sequence[_Piece], ranges: Iterable[CharRange], glue: str) -> Iterator[list[tuple[int, CharRange]]]:
    """The parts, as (text, range in it), of those ``ranges`` of the joined pieces that more than one piece has."""
    for chars in ranges:
        parts: list[tuple[int, CharRange]] = []
        position = 0
        for index, offset, text in pieces:
            start, end = max(chars.char_start - position, 0), min(chars.char_end - position, len(text))
            if start < end:
                parts.append((index, CharRange(offset + start, offset + end)))
            position += len(text) + len(glue)
        if len(parts) > 1:
            yield parts


def _united(ranges: Iterable[CharRange]) -> list[CharRange]:
    """Ranges that overlap or touch as one, ascending."""
    united: list[CharRange] = []
    for chars in sorted(ranges):
        last = united.pop() if united and chars.char_start <= united[-1].char_end else chars
        united.append(CharRange(last.char_start, max(last.char_end, chars.char_end)))
    return united


@dataclass(frozen=True, slots=True)
class ValueChange:
    """What becomes of the values of a column, an Arrow array of any type with texts nested however deep.

    Attributes:
        text: gets the name of the column, or of the member of a struct, and a text; gives the text to write. Bytes are
            changed as the UTF-8 that they should hold.
        hides_number: whether a number is null instead; None keeps all numbers.
        texts: changes the texts of a list, in which an item may go on where the last one ended, before ``text`` does.
    """

    text: Callable[[str, str], str]
    hides_number: Callable[[str], bool] | None = None
    texts: Callable[[Sequence[str]], list[str]] | None = None

    def array(self, name: str, array: pa.Array) -> pa.Array:
        """The changed values of a column, in the same type; an array without any text or number is left alone."""
        if not any(map(self._concerns, types_within(array.type))):
            return array
        values = array.to_pylist()
        if is_text(array.type):
            distinct = {value: self._value(name, value, array.type) for value in set(values)}
            return pa.array([distinct[value] for value in values], type=array.type)
        return pa.array([self._value(name, value, array.type) for value in values], type=array.type)

    def _concerns(self, kind: pa.DataType) -> bool:
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        is_hidden = self.hides_number is not None and is_number
        return is_hidden or is_text(kind) or pa.types.is_fixed_size_binary(kind)

    def _value(self, name: str, value: object, kind: pa.DataType) -> object:
        if isinstance(value, str):
            return self.text(name, value)
        if isinstance(value, bytes):
            return self._bytes(name, value)
        if isinstance(value, Mapping):
            return {part: self._value(part, item, kind.field(part).type) for part, item in value.items()}
        if isinstance(value, list) and pa.types.is_map(kind):  # whose keys cannot be null: a hidden number is 0
            keys = [0 if self._is_hidden(key) else self._value(name, key, kind.key_type) for key, _ in value]
            return list(zip(keys, (self._value(name, item, kind.item_type) for _, item in value), strict=True))
        if isinstance(value, list):
            items = value if self.texts is None else _changed_together(value, self.texts)
            return [self._value(name, item, list_item_type(kind) or kind) for item in items]
        return None if self._is_hidden(value) else value

    def _is_hidden(self, value: object) -> bool:
        if self.hides_number is None or isinstance(value, bool):
            return False
        if isinstance(value, float):
            return value.is_integer() and self.hides_number(str(int(value)))
        return isinstance(value, int | Decimal) and self.hides_number(str(value))

    def _bytes(self, name: str, value: bytes) -> bytes:
        """Bytes with as many of them hidden; those of another encoding are read byte by byte."""
        try:
            encoding, text = "utf-8", value.decode()
        except UnicodeDecodeError:
            encoding, text = "latin-1", value.decode("latin-1")
        changed = self.text(name, text)
        if len(changed) != len(text):
            return changed.encode(encoding)
        pairs = ((char.encode(encoding), char == other) for char, other in zip(text, changed, strict=True))
        return b"".join(char if is_same else b"*" * len(char) for char, is_same in pairs)


def _changed_together(items: list[object], change: Callable[[Sequence[str]], list[str]]) -> list[object]:
    """The items of a list with what two of them hold together changed: in texts, and in each member of structs."""
    structs = [item for item in items if isinstance(item, Mapping)]
    if structs and len(structs) == len(items):
        members = {name: _changed_together([struct[name] for struct in structs], change) for name in structs[0]}
        return [{name: values[index] for name, values in members.items()} for index in range(len(items))]
    changed = iter(change([item for item in items if isinstance(item, str)]))
    return [next(changed) if isinstance(item, str) else item for item in items]


def masking(redactor: Redactor) -> ValueChange:
    """Masks what the redactor finds in texts, and leaves out numbers in which it finds something."""
    return ValueChange(
        lambda _, text: redactor.mask(text), lambda digits: redactor.mask(digits) != digits, redactor.mask_list
    )


def record_secrets(record: QARecord, redactor: Redactor) -> frozenset[str]:
    """The e-mail addresses and numbers that any field of a record holds."""
    names = (text for passage in record.passages for text in (passage.text, passage.title, passage.passage_id))
    texts = (record.record_id, record.question, record.answer, record.generator, *names)
    carried = (text for _, value in record.extra_columns for text in texts_in(value))
    return redactor.secrets(text for text in (*texts, *carried) if text)


def masked_record(record: QARecord, redactor: Redactor) -> QARecord:
    """The record as it may be shown; every offset stays. Raises ``SlowPatternError`` as ``Redactor.masked``.

    Of the values of its extra columns, only what other texts of the record hold is masked: numbers and bytes take the
    types of their columns to mask.
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

    def mask_value(value: object) -> object:
        return _with_changed_texts(value, lambda text: without_secrets(text, secrets), mask_list)

    texts = mask_list([passage.text for passage in record.passages])
    titles = mask_list([passage.title or "" for passage in record.passages])
    passages = zip(record.passages, texts, titles, strict=True)
    return replace(
        record,
        record_id=mask(record.record_id),
        question=mask(record.question),
        answer=mask(record.answer),
        passages=tuple(Passage(text, title or old.title, mask_if_any(old.passage_id)) for old, text, title in passages),
        generator=mask_if_any(record.generator),
        extra_columns=tuple((name, mask_value(value)) for name, value in record.extra_columns),
    )


def _with_changed_texts(
    value: object, change: Callable[[str], str], change_list: Callable[[Sequence[str]], list[str]]
) -> object:
    """The value with every text in it changed, those of lists together first, but for the names of structs' members."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _with_changed_texts(item, change, change_list) for name, item in value.items()}
    if isinstance(value, list | tuple):
        items = _changed_together(value, change_list) if isinstance(value, list) else value
        changed = [_with_changed_texts(item, change, change_list) for item in items]
        return changed if isinstance(value, list) else tuple(changed)
    return value


def texts_in(value: object) -> Iterator[str]:
    """Every text in a plain Python value, at any depth."""
    return (text for _, text in _texts_by_path(value, ""))


def _texts_by_path(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path or "its beginning", value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts_by_path(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _texts_by_path(item, f"{path}[{index}]")


def check_masked(name: str, value: object, privacy: PrivacySettings, given: Collection[str]) -> None:
    """Refuse plain values that show an e-mail address or a number which ``--redact`` masks, besides ``given`` texts.

    What patterns of the user's own find is not looked for: they may find words of ours. ``LeakError`` says where in
    ``name`` there is one, and never shows it.
    """
    if not privacy.redact:
        return
    redactor = Redactor(PrivacySettings(redact=True))
    for path, text in _texts_by_path(value, ""):
        if text not in given and redactor.mask(text) != text:
            raise LeakError(
                f"{name} should show nothing that is to be masked, but does at {path}, so it was not written; please "
                "report this"
            )
