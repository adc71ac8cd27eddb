"""Which columns of a log hold which fields of the QA record; checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from schemas import evidence_schema
from transforms.audit_settings import AuditSettings
from transforms.column_types import (
    TypeCheck,
    is_moment,
    is_passages,
    is_target_spans,
    is_text,
    is_text_or_integer,
    plain_type,
)


class InputFormatError(ValueError):
    """A file does not have the columns that are needed; the message says which, what is there, and the way out."""


@dataclass(frozen=True, slots=True)
class InputField:
    """A field of the QA record as it may stand in a log."""

    name: str
    needed: bool
    check: TypeCheck
    expected: str


INPUT_FIELDS = (
    InputField("record_id", True, is_text_or_integer, "a string or an integer"),
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
_LEAVES = {"passages": ("text", "title", "passage_id"), "target_spans": ("char_start", "char_end")}


@dataclass(frozen=True, slots=True)
class InputFormat:
    """Where the fields of the QA record stand in one file.

    Attributes:
        columns: (field, column) of every field that the file has, in the order of ``INPUT_FIELDS``.
        extra_fields: the Arrow fields of the extra columns, in the order of ``--extra-columns``.
    """

    columns: tuple[tuple[str, str], ...]
    extra_fields: tuple[pa.Field, ...]

    @classmethod
    def from_schema(cls, file: str, schema: pa.Schema, settings: AuditSettings) -> InputFormat:
        """Find the columns that ``settings`` ask for in a file's schema.

        Raises:
            InputFormatError: if a column is missing, is there twice or has another type than expected.
        """
        mapping = dict(settings.columns)
        found = [(field.name, _column_of(field, mapping, file, schema)) for field in INPUT_FIELDS]
        extra_fields = tuple(_extra_field(name, file, schema) for name in settings.extra_columns)
        try:
            evidence_schema(extra_fields=extra_fields)
        except ValueError as error:
            raise InputFormatError(str(error)) from error
        return cls(tuple((name, column) for name, column in found if column is not None), extra_fields)

    def column_of(self, field: str) -> str:
        """The column of a field; the field's own name where the file has none."""
        return dict(self.columns).get(field, field)

    def has(self, field: str) -> bool:
        """True where the file has a column for the field."""
        return field in dict(self.columns)

    def leaf_paths(self, schema: pq.ParquetSchema) -> list[str]:
        """The Parquet leaf columns to read: not those of other columns, nor other members of the structs."""
        wanted = [(column, _LEAVES.get(name)) for name, column in self.columns if name not in _NOT_READ]
        wanted += [(field.name, None) for field in self.extra_fields]
        paths = [schema.column(index).path for index in range(len(schema))]
        return [path for path in paths if any(_is_leaf_of(path, column, leaves) for column, leaves in wanted)]


def parse_column_mapping(text: str) -> tuple[tuple[str, str], ...]:
    """The (field, column) pairs of a list such as "record_id=trace_id,answer=response".

    "generator=" says that a log has no such field, whatever its columns are called.

    Raises:
        InputFormatError: if the list is no such list, or names an unknown field or the same one twice.
    """
    pairs = [tuple(part.strip() for part in item.split("=", 1)) for item in text.split(",") if item.strip()]
    names = [field.name for field in INPUT_FIELDS]
    for pair in pairs:
        if len(pair) != 2 or pair[0] not in names:
            raise InputFormatError(
                f"--columns should be a list of field=column with a field among {', '.join(names)}, has: {pair[0]!r}"
            )
    if len({pair[0] for pair in pairs}) < len(pairs):
        raise InputFormatError(f"--columns should name each field once, was: {text!r}")
    return tuple((pair[0], pair[1]) for pair in pairs)


def check_same_extra_fields(formats: Mapping[str, InputFormat]) -> tuple[pa.Field, ...]:
    """The extra fields that all files of a run share; ``formats`` has one format a file, in the run's order.

    Raises:
        InputFormatError: if an extra column has different types.
    """
    files = list(formats)
    shared = formats[files[0]].extra_fields if files else ()
    for file in files[1:]:
        for ours, theirs in zip(shared, formats[file].extra_fields, strict=True):
            if ours.type != theirs.type:
                raise InputFormatError(
                    f"extra column {ours.name!r} should have one type in all files, is {ours.type} in {files[0]} and "
                    f"{theirs.type} in {file}; audit the files in separate runs, or leave it out of --extra-columns"
                )
    return shared


def _column_of(field: InputField, mapping: Mapping[str, str], file: str, schema: pa.Schema) -> str | None:
    column = mapping.get(field.name, field.name)
    if not field.needed and (column == "" or (field.name not in mapping and column not in schema.names)):
        return None
    kind = _type_of(column, file, schema, way_out=f"name the column of this field with --columns {field.name}=...")
    if not field.needed and pa.types.is_null(kind):
        return None
    if not field.check(kind):
        way_out = f"name another column with --columns {field.name}=..."
        if not field.needed:
            way_out += f", or none with --columns {field.name}="
        raise InputFormatError(f"{file}: column {column!r} should be {field.expected}, is {kind}; {way_out}")
    return column


def _extra_field(name: str, file: str, schema: pa.Schema) -> pa.Field:
    kind = plain_type(_type_of(name, file, schema, way_out="correct --extra-columns"))
    return pa.field(name, kind, metadata={"description": "column of the log, from --extra-columns"})


def _type_of(column: str, file: str, schema: pa.Schema, *, way_out: str) -> pa.DataType:
    indices = schema.get_all_field_indices(column)
    if len(indices) == 1:
        return schema.field(indices[0]).type
    found = "more than one" if indices else "none"
    raise InputFormatError(
        f"{file}: one column {column!r} is needed, there is {found}; the file has: {', '.join(schema.names)}; {way_out}"
    )


def _is_leaf_of(path: str, column: str, leaves: tuple[str, ...] | None) -> bool:
    if path == column:
        return True
    if not path.startswith(f"{column}."):
        return False
    inner = path[len(column) + 1 :].split(".")
    return leaves is None or len(inner) <= 2 or inner[-1] in leaves
