"""A small QA log of texts of our own, and the options that audit it with small models."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        ("record_id", pa.string()),
        ("question", pa.string()),
        ("passages", pa.list_(pa.struct([("passage_id", pa.string()), ("title", pa.string()), ("text", pa.string())]))),
        ("answer", pa.string()),
        ("team", pa.string()),
    ]
)


def log_rows(count: int, *, first: int = 0) -> list[dict[str, object]]:
    """Rows about ferries; no two are alike."""
    return [
        {
            "record_id": f"ferry-{number}",
            "question": f"When does ferry {number} leave?",
            "passages": [
                {"passage_id": "a", "title": "Timetable", "text": f"Ferry {number} leaves the east pier at noon."},
                {"passage_id": "b", "title": None, "text": "The west pier is closed in winter."},
            ],
            "answer": f"Ferry {number} leaves at noon." + " It is on time." * (number % 3),
            "team": "harbour",
        }
        for number in range(first, first + count)
    ]


def write_log(path: Path, rows: list[dict[str, object]], *, row_group_size: int | None = None) -> Path:
    """The rows as a Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path, row_group_size=row_group_size)
    return path
