"""Small QA logs for tests: rows as Python values, with the types of the documented input format."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

PASSAGE = pa.struct([("passage_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
SPAN = pa.struct([("char_start", pa.int32()), ("char_end", pa.int32())])
LOG_SCHEMA = pa.schema(
    [
        ("record_id", pa.string()), ("question", pa.string()), ("passages", pa.list_(PASSAGE)), ("answer", pa.string()),
        ("target_spans", pa.list_(SPAN)), ("answered_at", pa.timestamp("us", tz="UTC")), ("generator", pa.string()),
    ]
)  # fmt: skip
BROKEN_TEXT = b"caf\xe9 \xff"


def log_row(number, **changes):
    passages = [
        {"passage_id": f"p{number}", "title": "Brigg Point", "text": f"Ada Thorne lit lamp {number} in 1874."},
        {"passage_id": None, "title": None, "text": "The keeper lived in the tower."},
    ]
    row = {
        "record_id": f"row-{number}",
        "question": "Who lit the lamp?",
        "passages": passages,
        "answer": f"Ada Thorne lit lamp {number} in 1874, and the keeper lived there. 🙂",
    }
    return {**row, **changes}


def write_log(path, rows, *, schema=LOG_SCHEMA, row_group_size=1000):
    """Write rows; a text may be given as bytes, and bytes that are no UTF-8 reach the file as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = [broken_array([row.get(field.name) for row in rows], field.type) for field in schema]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), path, row_group_size=row_group_size)
    return str(path)


def broken_array(values, kind):
    """An array of ``kind`` whose strings may hold any bytes."""
    return _without_check(pa.array(list(values), _bytes_type(kind)), kind)


def _bytes_type(kind):
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(_bytes_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _bytes_type(field.type)) for field in kind])
    return kind


def _without_check(array, kind):
    """The same buffers under another type."""
    children = []
    if pa.types.is_list(kind):
        children = [_without_check(array.values, kind.value_type)]
    elif pa.types.is_struct(kind):
        children = [_without_check(array.field(index), field.type) for index, field in enumerate(kind)]
    count = kind.num_buffers
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:count], children=children)


def write_jsonl(path, rows):
    """The rows as JSON lines; a text may be given as bytes, as for ``write_log``."""
    with path.open("wb") as file:
        for row in rows:
            text = json.dumps(row, ensure_ascii=False, default=_surrogates)
            file.write(text.encode("utf-8", errors="surrogateescape") + b"\n")
    return str(path)


def _surrogates(value):
    return value.decode("utf-8", errors="surrogateescape")
