"""Arrow tables as Beam rows with a schema, for pipelines that go on with what was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.typehints import Sequence
from apache_beam.utils.timestamp import Timestamp

_PLAIN: dict[pa.DataType, type] = {
    pa.string(): str,
    pa.bool_(): bool,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
}


def row_type(schema: pa.Schema) -> RowTypeConstraint:
    """The type of the rows of a table of this schema.

    Raises:
        TypeError: if Beam has no such type.
    """
    return RowTypeConstraint.from_fields([(field.name, _field_type(field)) for field in schema])


def rows_of(table: pa.Table) -> Iterator[beam.Row]:
    """The rows of a table in its order; structs are rows, and times are ``Timestamp``s of Beam."""
    names = table.schema.names
    columns = [[_value(value, column.type) for value in column.to_pylist()] for column in table.columns]
    for values in zip(*columns, strict=True):
        yield beam.Row(**dict(zip(names, values, strict=True)))


def _field_type(field: pa.Field) -> Any:
    kind = _type(field.type)
    return Optional[kind] if field.nullable else kind  # noqa: UP045 - Beam's types know no "|"


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return Sequence[_type(kind.value_type)]
    if pa.types.is_struct(kind):
        return RowTypeConstraint.from_fields([(field.name, _field_type(field)) for field in kind])
    if pa.types.is_timestamp(kind):
        return Timestamp
    if kind not in _PLAIN:
        raise TypeError(f"a Beam row should have no column of type {kind}")
    return _PLAIN[kind]


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_value(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return beam.Row(**{field.name: _value(value[field.name], field.type) for field in kind})
    if pa.types.is_timestamp(kind):
        return Timestamp.from_utc_datetime(value)
    return value
