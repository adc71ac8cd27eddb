"""Rows in the formats of ALCE and RAGTruth, and logs with labels, written for these tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.labelled_log import labelled_log_schema
from tests.evaluation.dataset_rows import write_rows

DOCUMENTS = (
    {"id": "17", "title": "Brigg Point", "text": "Ada Thorne lit the lamp in 1874."},
    {"id": 18, "title": "Skell Rock", "text": "A bell buoy lies off the rock."},
    {"title": None, "text": "The harbour freezes in winter."},
)


def alce_row(output: str, documents: Sequence[Mapping[str, object]] = DOCUMENTS) -> dict[str, object]:
    return {"question": "What guards the coast?", "answer": "A lamp.", "docs": list(documents), "output": output}


def write_alce(path: Path, rows: Sequence[Mapping[str, object]], *, in_data: bool = True) -> Path:
    path.write_text(json.dumps({"args": {}, "data": list(rows)} if in_data else list(rows)), encoding="utf-8")
    return path


def ragtruth_source(source_id: str, source_info: object, *, task: str = "QA") -> dict[str, object]:
    return {"source_id": source_id, "task_type": task, "source": "own", "source_info": source_info, "prompt": "..."}


def ragtruth_response(
    row_id: str, source_id: str, response: str, marked: Mapping[str, str] | None = None, *, split: str = "test"
) -> dict[str, object]:
    """``marked`` gives texts of the response and their label types."""
    labels = [
        {"start": response.index(text), "end": response.index(text) + len(text), "text": text, "label_type": kind}
        for text, kind in (marked or {}).items()
    ]
    fields = {"id": row_id, "source_id": source_id, "model": "tiny", "split": split, "quality": "good"}
    return {**fields, "labels": labels, "response": response}


def write_ragtruth(
    directory: Path, sources: Sequence[Mapping[str, object]], responses: Sequence[Mapping[str, object]]
) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    write_rows(directory / "source_info.jsonl", sources)
    write_rows(directory / "response.jsonl", responses)
    return directory


def write_log_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Rows of the labelled log's schema; columns that a row leaves out are null."""
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=labelled_log_schema()), path)
    return path
