"""Evidence records as an Arrow table, made column by column, which takes less time than row by row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

import pyarrow as pa

from schemas.char_range import CharRange
from schemas.evidence_record import EvidencePiece, SpanEvidence
from schemas.qa_record import QARecord


def evidence_table(rows: Sequence[tuple[QARecord, Sequence[SpanEvidence]]], schema: pa.Schema) -> pa.Table:
    """The spans of records, in their order, as a table of ``schema``, which is one of ``evidence_schema``."""
    records = [record for record, spans in rows for _ in spans]
    spans = [span for _, of_record in rows for span in of_record]
    columns = _plain_columns(records, spans)
    for place, name in enumerate(name for name, _ in records[0].extra_columns) if records else ():
        columns[name] = [record.extra_columns[place][1] for record in records]
    arrays = {name: pa.array(values, type=schema.field(name).type) for name, values in columns.items()}
    arrays["atomic_fact"] = _ranges([span.atomic_fact for span in spans], schema.field("atomic_fact").type)
    arrays["evidence"] = _pieces([span.evidence for span in spans], schema.field("evidence").type)
    return (
        pa.Table.from_arrays([arrays[field.name] for field in schema], schema=schema) if spans else schema.empty_table()
    )


def _plain_columns(records: Sequence[QARecord], spans: Sequence[SpanEvidence]) -> dict[str, list[object]]:
    """The values of every field of the evidence record that has no structs in it; one item a span in both arguments."""
    return {
        "record_id": [one.record_id for one in records],
        "source_file": [one.source.source_file for one in records],
        "source_row": [one.source.source_row for one in records],
        "answered_at": [one.answered_at for one in records],
        "generator": [one.generator for one in records],
        "span_index": [one.span_index for one in spans],
        "span_kind": [one.span_kind.value for one in spans],
        "char_start": [one.chars.char_start for one in spans],
        "char_end": [one.chars.char_end for one in spans],
        "text": [one.text for one in spans],
        "passage_scores": [one.passage_scores for one in spans],
        "top_passage_index": [one.top_passage_index for one in spans],
        "top_passage_id": [one.top_passage_id for one in spans],
        "margin": [one.margin for one in spans],
        "evidence_mass": [one.evidence_mass for one in spans],
        "evidence_isolated": [one.evidence_isolated for one in spans],
        "support": [one.support.value for one in spans],
        "unmatched_values": [one.unmatched_values for one in spans],
    }


def _ranges(of_spans: Sequence[Sequence[CharRange]], kind: pa.ListType) -> pa.ListArray:
    flat = list(chain.from_iterable(of_spans))
    columns = [[one.char_start for one in flat], [one.char_end for one in flat]]
    return _list_array([len(one) for one in of_spans], columns, kind)


def _pieces(of_spans: Sequence[Sequence[EvidencePiece]], kind: pa.ListType) -> pa.ListArray:
    flat = list(chain.from_iterable(of_spans))
    columns: dict[str, list[object]] = {
        "passage_index": [one.passage_index for one in flat],
        "passage_id": [one.passage_id for one in flat],
        "in_title": [one.in_title for one in flat],
        "char_start": [one.chars.char_start for one in flat],
        "char_end": [one.chars.char_end for one in flat],
        "text": [one.text for one in flat],
        "score": [one.score for one in flat],
    }
    return _list_array([len(one) for one in of_spans], [columns[field.name] for field in kind.value_type], kind)


def _list_array(lengths: Sequence[int], columns: Sequence[Sequence[object]], kind: pa.ListType) -> pa.ListArray:
    """Lists of structs from the structs' columns, all lists' items one after the other."""
    fields = list(kind.value_type)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, fields, strict=True)]
    offsets = pa.array([0, *accumulate(lengths)], type=pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(arrays, fields=fields), type=kind)
