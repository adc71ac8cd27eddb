"""Which columns of a log hold which fields of the QA record; checked before anything starts.

A column may have the plain, large, view or dictionary variant of its Arrow type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.schemas.errors import LogFormatError, UsageError, did_you_mean

PARQUET = "parquet"
"""The format of a log where none is named."""

IMPORT_HINT = "make a log with `attribeam import jsonl`, which reads passages in JSON text or other shapes"
"""The way out for passages that are no list of texts or of structs."""

CONVERT_HINT = "make a log of JSON or CSV with `attribeam import jsonl`"
"""The way out for a file that an audit does not read."""

MOST_LEVELS = 64
"""How deep the type of a carried column may be nested; a map is two levels. Arrow reads no schema of twice as many."""


def words(text: str) -> tuple[str, ...]:
    """The names of a table."""
    return tuple(text.split())


MADE: Mapping[str, tuple[str, ...]] = {
    "passages": words(
        "retrieval_context retrieved_contexts retrieved_context retrieval_contexts retrieved_documents "
        "retrieved_docs retrieved_passages retrieved_chunks retrieved_nodes retrieved_texts retrieval_results "
        "search_results source_documents source_nodes"
    ),
    "answer": words(
        "actual_output actual_answer actual_response generated_answer generated_response model_answer "
        "model_response model_output llm_answer llm_response llm_output rag_answer rag_response bot_answer "
        "bot_response ai_answer ai_response assistant_response candidate_answer predicted_answer prediction "
        "generated_text output_text response completion generation"
    ),
}
"""Names of what an application retrieved or answered, the first one before the next, and before the field's own name:
beside them, that is usually what an annotator wrote."""

_SHOWN_NAMES = 12
_SHOWN_NAME_CHARS = 40

TypeCheck = Callable[[pa.DataType], bool]

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
_LOOKED_UP_AS = ((pa.types.is_string_view, pa.large_string()), (pa.types.is_binary_view, pa.large_binary()))
_LISTS = (
    pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view,
    pa.types.is_fixed_size_list,
)  # fmt: skip


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves: without dictionary encoding and without an extension's name."""
    while pa.types.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType):
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind.storage_type
    return kind


def plain_array(array: pa.Array) -> pa.Array:
    """The same values in their plain type, see ``plain_type``."""
    if isinstance(array.type, pa.BaseExtensionType):
        return plain_array(array.storage)
    if not pa.types.is_dictionary(array.type):
        return array
    kind = array.type.value_type
    copied = next((plain for view, plain in _LOOKED_UP_AS if view(kind)), None)
    if copied is None:
        return plain_array(array.dictionary_decode())
    values = array.dictionary.cast(copied)  # Arrow cannot look up views, as polars' categories are
    return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode().cast(kind)


def list_item_type(kind: pa.DataType) -> pa.DataType | None:
    """The plain type of a list's items, None where ``kind`` is no list."""
    return plain_type(kind.value_type) if any(check(kind) for check in _LISTS) else None


def struct_field_type(kind: pa.DataType, name: str) -> pa.DataType | None:
    """The plain type of a struct's field, None where ``kind`` is no struct or has no such field."""
    has = pa.types.is_struct(kind) and kind.get_field_index(name) >= 0
    return plain_type(kind.field(name).type) if has else None


def with_leaves(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type of plain lists and structs with what ``leaf`` makes of the types within them."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(with_leaves(kind.value_type, leaf)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_leaves(field.type, leaf)) for field in kind])
    return leaf(kind)


def types_within(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and those nested in it, however deep."""
    yield kind
    if pa.types.is_nested(kind):
        for index in range(kind.num_fields):
            yield from types_within(kind.field(index).type)


def unified(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """The type that holds the values of both, else ``pa.ArrowException``."""
    schemas = [pa.schema([("", kind)]) for kind in (first, second)]
    return pa.unify_schemas(schemas, promote_options="permissive").field(0).type


def is_text(kind: pa.DataType) -> bool:
    """Strings, and bytes that should hold UTF-8 (some writers do not mark their strings)."""
    return any(check(plain_type(kind)) for check in _TEXT + _BYTES)


def is_text_or_integer(kind: pa.DataType) -> bool:
    """What a passage's id may be."""
    return is_text(kind) or pa.types.is_integer(plain_type(kind))


def is_id(kind: pa.DataType) -> bool:
    """What a row's id may be: also a UUID and a decimal of whole numbers, as warehouses have them."""
    plain = plain_type(kind)
    is_whole = pa.types.is_decimal(plain) and plain.scale == 0
    return is_text_or_integer(kind) or is_whole or isinstance(kind, pa.UuidType)


def is_passages(kind: pa.DataType) -> bool:
    """A list of texts, or of structs with a ``text`` and perhaps ``title`` and ``passage_id``."""
    item = list_item_type(plain_type(kind))
    if item is None or _is_or_null(item, is_text):
        return item is not None
    members = {"text": is_text, "title": is_text, "passage_id": is_text_or_integer}
    kinds = {name: inner for name in members if (inner := struct_field_type(item, name)) is not None}
    return "text" in kinds and all(_is_or_null(inner, members[name]) for name, inner in kinds.items())


def is_target_spans(kind: pa.DataType) -> bool:
    """A list of structs of the whole numbers ``char_start`` and ``char_end``."""
    item = list_item_type(plain_type(kind))
    ends = () if item is None else (struct_field_type(item, name) for name in ("char_start", "char_end"))
    are_whole = all(end is not None and _is_or_null(end, pa.types.is_integer) for end in ends)
    return item is not None and (pa.types.is_null(item) or are_whole)


def is_moment(kind: pa.DataType) -> bool:
    """A timestamp, a date, or a text that should hold ISO 8601."""
    plain = plain_type(kind)
    return pa.types.is_timestamp(plain) or pa.types.is_date(plain) or is_text(plain)


def _is_or_null(kind: pa.DataType, check: TypeCheck) -> bool:
    """True where the type passes the check, or holds nulls only: pandas and JSON know no type of such values."""
    return pa.types.is_null(plain_type(kind)) or check(kind)


@dataclass(frozen=True, slots=True)
class InputField:
    """A field of the QA record as it may stand in a log."""

    name: str
    needed: bool
    check: TypeCheck
    expected: str


INPUT_FIELDS = (
    InputField("record_id", True, is_id, "a string, an integer or a UUID"),
    InputField("question", True, is_text, "a string"),
    InputField(
        "passages", True, is_passages, "a list of strings or of struct<text: string, title: string, passage_id: string>"
    ),
    InputField("answer", True, is_text, "a string"),
    InputField("target_spans", False, is_target_spans, "a list of struct<char_start: integer, char_end: integer>"),
    InputField("answered_at", False, is_moment, "a timestamp, a date or a string in ISO 8601"),
    InputField("generator", False, is_text, "a string"),
    InputField("prompt", False, is_text, "a string"),
)
_NOT_READ = frozenset({"prompt"})
_MEMBERS = {"passages": ("text", "title", "passage_id"), "target_spans": ("char_start", "char_end")}


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a Delta or Iceberg table whose files are read, see ``attribeam.logs.lake_tables``.

    Attributes:
        kind: "delta" or "iceberg".
        root: its folder, an absolute path or a URI.
        version: number of a Delta version, or id of an Iceberg snapshot.
        deletes_rows: whether rows of its files are deleted, so that they are left out.
    """

    kind: str
    root: str
    version: int
    deletes_rows: bool


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How a log is read; the same for all files of a run, and picklable.

    Attributes:
        columns: (field of the QA record, column of the log) pairs where the names differ.
        extra_columns: columns of the log that are kept in ``QARecord.extra_columns``.
        max_text_chars: the most code points of a row's texts together; a longer row is faulty.
        format: what kind of file it is, see ``attribeam.logs.reader``.
        tables: the tables that files belong to.
    """

    columns: tuple[tuple[str, str], ...] = ()
    extra_columns: tuple[str, ...] = ()
    max_text_chars: int = 1_000_000
    format: str = PARQUET
    tables: tuple[TableVersion, ...] = ()


_CARRIED = b"attribeam.carried"


def carried(description: str) -> dict[bytes, bytes]:
    """The metadata of a field that every audit of the log carries into its evidence, without being asked."""
    return {b"description": description.encode(), _CARRIED: b"1"}


def is_carried(field: pa.Field) -> bool:
    """Whether ``carried`` made the metadata of a log's field, or of the evidence's."""
    return _CARRIED in (field.metadata or {})


_UNREADABLE = b"attribeam.unreadable"


def unreadable(name: str, why: str) -> pa.Field:
    """A column that has no type of Arrow's, which is an error where somebody asks for it; ``why`` follows its name."""
    return pa.field(name, pa.null(), metadata={_UNREADABLE: why.encode()})


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """A column to read; where its items are structs, only their ``members`` (None: the whole column)."""

    column: str
    members: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Which columns of one file hold the fields of the QA record.

    Attributes:
        pairs: (field, column) of every field that the file has, in the order of ``INPUT_FIELDS``.
        extra_fields: the Arrow fields of the extra columns, in the order of ``LogOptions.extra_columns``, then of those
            that the log itself wants carried (see ``carried``).
        notes: which column was chosen where two could hold a field, and the option that names the other.
    """

    pairs: tuple[tuple[str, str], ...]
    extra_fields: tuple[pa.Field, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def from_schema(cls, file: str, schema: pa.Schema, options: LogOptions) -> ColumnMap:
        """Find the columns that ``options`` ask for in a file's schema.

        Raises ``LogFormatError`` if a column is missing, is there twice or has another type than expected.
        """
        mapping = dict(options.columns)
        chosen = {name: column for name in MADE if name not in mapping and (column := _made(name, schema, options))}
        note = "{0} read from {1}, not from {0}; --columns {0}={0} names the other"
        notes = tuple(note.format(name, column) for name, column in chosen.items())
        mapping |= chosen
        columns = {field.name: mapping.get(field.name, field.name) for field in INPUT_FIELDS if field.needed}
        lacking = {name: column for name, column in columns.items() if column not in schema.names}
        if len(lacking) > 1:  # all at once
            needed = ", ".join(repr(shown(column)) for column in lacking.values())
            raise LogFormatError(
                f"{file}: columns {needed} are needed, there are none; {columns_like(needed, schema.names)}; name the "
                f"columns of these fields with --columns {','.join(f'{name}=...' for name in lacking)}"
            )
        pairs = [(field.name, _column_of(field, mapping, file, schema)) for field in INPUT_FIELDS]
        asked = [_extra_field(name, file, schema) for name in options.extra_columns]
        own = (field for field in schema if is_carried(field) and field.name not in options.extra_columns)
        extra_fields = (*asked, *(_extra_field(col.name, file, schema).with_metadata(col.metadata) for col in own))
        return cls(tuple((name, column) for name, column in pairs if column is not None), extra_fields, notes)

    @classmethod
    def of_nothing(cls, options: LogOptions) -> ColumnMap:
        """That of a file that has neither rows nor columns: no field, and extra columns of nulls."""
        return cls((), tuple(_carried_field(name, pa.null()) for name in options.extra_columns))

    def column_of(self, field: str) -> str:
        """The column of a field; the field's own name where the file has none."""
        return dict(self.pairs).get(field, field)

    def has(self, field: str) -> bool:
        """True where the file has a column for the field."""
        return field in dict(self.pairs)

    def parts(self) -> list[ColumnPart]:
        """What has to be read of the file: no other columns, and no other members of passages and spans."""
        own = [ColumnPart(column, _MEMBERS.get(name)) for name, column in self.pairs if name not in _NOT_READ]
        return own + [ColumnPart(field.name) for field in self.extra_fields]


def parse_column_mapping(text: str) -> tuple[tuple[str, str], ...]:
    """The (field, column) pairs of a list such as "record_id=trace_id,answer=response"; else raises ``UsageError``.

    "generator=" says that a log has no such field, whatever its columns are called.
    """
    pairs = [tuple(part.strip() for part in item.split("=", 1)) for item in text.split(",") if item.strip()]
    return checked_columns((pair[0], pair[1] if len(pair) == 2 else None) for pair in pairs)


def checked_columns(pairs: Iterable[tuple[str, str | None]]) -> tuple[tuple[str, str], ...]:
    """The (field, column) pairs; raises ``UsageError`` unless each names a field of a log, no other one's, and a
    column.
    """
    names = [field.name for field in INPUT_FIELDS]
    checked: dict[str, str] = {}
    for name, column in pairs:
        if name not in names or not isinstance(column, str):
            hint = f"did you mean {column}={name}?" if name and column in names else did_you_mean(name, names)
            hint = " without a column" if name in names else f"{'; ' * bool(hint)}{hint}"
            raise UsageError(
                f"--columns should be a list of field=column with a field among {', '.join(names)}, has: {name!r}{hint}"
            )
        if name in checked:
            raise UsageError(f"--columns should name each field once, has {name!r} twice")
        checked[name] = column
    return tuple(checked.items())


def check_same_extra_fields(maps: Mapping[str, ColumnMap]) -> tuple[pa.Field, ...]:
    """The extra fields that all files of a run share; ``maps`` has one per file, in the run's order.

    Where some files hold nothing but nulls, the type is that of the others; of two kinds of texts, whole numbers or
    floating-point numbers it is the wider one. Raises ``LogFormatError`` if an extra column has other different types.
    """
    shared: dict[str, tuple[str, pa.Field]] = {}
    for file, columns in maps.items():
        for field in columns.extra_fields:
            first, ours = shared.setdefault(field.name, (file, field))
            if pa.types.is_null(ours.type):
                shared[field.name] = (file, field)
            elif field.type != ours.type and not pa.types.is_null(field.type):
                if (wider := _wider_type(ours.type, field.type)) is not None:
                    shared[field.name] = (first, ours.with_type(wider))
                    continue
                raise LogFormatError(
                    f"extra column {field.name!r} should have one type in all files, is {shown(ours.type)} in {first} "
                    f"and {shown(field.type)} in {file}; audit the files in separate runs, or leave it out of "
                    "--extra-columns"
                )
    return tuple(field for _, field in shared.values())


def _wider_type(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    if any(map(pa.types.is_uint64, (first, second))) and any(map(pa.types.is_signed_integer, (first, second))):
        return None  # no type of whole numbers holds both
    for checks in (_TEXT, (pa.types.is_integer,), (pa.types.is_floating,)):
        if all(any(check(kind) for check in checks) for kind in (first, second)):
            with suppress(pa.ArrowException):
                return unified(first, second)
    return None


def _made(name: str, schema: pa.Schema, options: LogOptions) -> str | None:
    """The column with what an application made, beside one with the field's own name."""
    check = next(field.check for field in INPUT_FIELDS if field.name == name)
    others = [] if name not in schema.names else [made for made in MADE[name] if made not in options.extra_columns]
    return next((made for made in others if schema.names.count(made) == 1 and check(schema.field(made).type)), None)


def _column_of(field: InputField, mapping: Mapping[str, str], file: str, schema: pa.Schema) -> str | None:
    column = mapping.get(field.name, field.name)
    if not field.needed and (column == "" or (field.name not in mapping and column not in schema.names)):
        return None
    if field.name in _NOT_READ and column in schema.names:
        return column
    kind = _type_of(column, file, schema, way_out=f"name the column of this field with --columns {field.name}=...")
    if not field.needed and pa.types.is_null(kind):
        return None
    if not _is_or_null(kind, field.check):
        way_out = f"name another column with --columns {field.name}=..."
        if field.name == "passages":
            way_out += f", or {IMPORT_HINT}"
        if not field.needed:
            way_out += f", or none with --columns {field.name}="
        raise LogFormatError(f"{file}: column {column!r} should be {field.expected}, is {shown(kind)}; {way_out}")
    return column


def _extra_field(name: str, file: str, schema: pa.Schema) -> pa.Field:
    kind = _type_of(name, file, schema, way_out="correct --extra-columns")
    problem = _why_not_nested(kind)
    if problem is None:
        kind = _carried_type(plain_type(kind))
        if zone := _unknown_zone(kind):
            problem = f"has the time zone {zone!r}, which is none of the time zone database"
        else:
            try:
                pq.write_table(pa.table({"x": pa.array([], kind)}), BytesIO())
                return _carried_field(name, kind)
            except pa.ArrowException as error:
                problem = f"is {shown(kind)}, of which Arrow says: {shown(error).rstrip('.')}"
    raise LogFormatError(
        f"{file}: extra column {name!r} should have a type that Parquet files can carry, {problem}; write the log anew "
        "with another type, or leave it out of --extra-columns"
    )


def _why_not_nested(kind: pa.DataType) -> str | None:
    """What is in the way of types within ``kind``; None if nothing is."""
    kinds = [plain_type(kind)]
    for _ in range(MOST_LEVELS + 2):
        if not kinds:
            return None
        if any(len({field.name for field in kind}) < len(kind) for kind in kinds if pa.types.is_struct(kind)):
            return "has two members of one name"
        kinds = [plain_type(kind.field(index).type) for kind in kinds for index in range(kind.num_fields)]
    return f"is nested more than {MOST_LEVELS} levels deep"


def _carried_field(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"description": "column of the log, from --extra-columns"})


def _carried_type(kind: pa.DataType) -> pa.DataType:
    """The type with plain strings, bytes and lists in the place of views, of which Arrow can select no rows.

    Types of extensions within it are plain ones, too.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return _carried_type(kind.storage_type)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return pa.string() if pa.types.is_string_view(kind) else pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_carried_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_carried_type(kind.key_type), _carried_type(kind.item_type), kind.keys_sorted)
    if not any(check(kind) for check in _LISTS):
        return kind
    item = kind.value_field.with_type(_carried_type(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(item, kind.list_size)
    is_large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    return pa.large_list(item) if is_large else pa.list_(item)


def _unknown_zone(kind: pa.DataType) -> str | None:
    for inner in types_within(kind):
        try:
            if pa.types.is_timestamp(inner):
                pa.scalar(0, inner).as_py()
        except (KeyError, ValueError):
            return str(inner.tz)
    return None


def _type_of(column: str, file: str, schema: pa.Schema, *, way_out: str) -> pa.DataType:
    indices = schema.get_all_field_indices(column)
    if len(indices) == 1:
        field = schema.field(indices[0])
        if why := (field.metadata or {}).get(_UNREADABLE):
            raise LogFormatError(f"{file}: column {shown(column)!r} {why.decode()}")
        return field.type
    actual = "more than one" if indices else "none"
    hint = "" if indices else did_you_mean(column, schema.names, alike=0.75)
    raise LogFormatError(
        f"{file}: one column {shown(column)!r} is needed, there is {actual}; {columns_like(column, schema.names)}; "
        f"{hint}{' ' * bool(hint)}{way_out}"
    )


def columns_like(column: str, names: Sequence[str]) -> str:
    """The columns that a file has; of many, some of those that are most like the one that was looked for."""
    short = [shown(name, _SHOWN_NAME_CHARS) for name in names]
    if len(names) <= _SHOWN_NAMES:
        return f"the file has: {', '.join(short)}"
    near = get_close_matches(shown(column, _SHOWN_NAME_CHARS), short, n=_SHOWN_NAMES, cutoff=0)
    return f"the file has {len(names):,} columns, most like it: {', '.join(near)}"


def shown(value: object, chars: int = 200) -> str:
    """The beginning of a long text, such as that of a type with thousands of members."""
    text = " ".join(str(value).split())
    return text if len(text) <= chars else f"{text[:chars]}..."
