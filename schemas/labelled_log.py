"""Labels beside the rows of a QA log: their columns, and the Arrow schema of a log that has them."""

from __future__ import annotations

import pyarrow as pa

SPAN_LABELS = "span_labels"
"""Column with one struct a target span, in the order of ``target_spans``."""

UNSUPPORTED_SPANS = "unsupported_spans"
"""Column with the ranges of the answer that a person found unsupported; null where nobody looked."""

LABEL_GROUP = "label_group"
"""Column with the part of the data set that a row is of, such as its task."""

_RANGE = [pa.field("char_start", pa.int32(), nullable=False), pa.field("char_end", pa.int32(), nullable=False)]
_PASSAGE = pa.struct([("passage_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_EVIDENCE = pa.struct([pa.field("passage_index", pa.int32(), nullable=False), *_RANGE])
_SPAN_LABEL = pa.struct(
    [
        ("gold_passages", pa.list_(pa.int32())),
        ("gold_evidence", pa.list_(_EVIDENCE)),
        ("cited_passages", pa.list_(pa.int32())),
        ("supported", pa.bool_()),
    ]
)
_UNSUPPORTED = pa.struct([*_RANGE, pa.field("kind", pa.string())])


def labelled_log_schema() -> pa.Schema:
    """The Arrow schema of a QA log with labels, as ``attribeam import`` writes it; see docs/schema.md."""
    return pa.schema(
        [
            _field("record_id", pa.string(), "id of the row"),
            _field("question", pa.string(), "what was asked"),
            _field("passages", pa.list_(_PASSAGE), "what was retrieved, in the order of the prompt"),
            _field("answer", pa.string(), "what was answered"),
            _field("target_spans", pa.list_(pa.struct(_RANGE)), "ranges of the answer to attribute"),
            _field("generator", pa.string(), "what gave the answer"),
            _field(SPAN_LABELS, pa.list_(_SPAN_LABEL), "labels of the target spans, in their order"),
            _field(UNSUPPORTED_SPANS, pa.list_(_UNSUPPORTED), "ranges of the answer that a person found unsupported"),
            _field(LABEL_GROUP, pa.string(), "part of the data set that the row is of"),
            _field("split", pa.string(), "training, development or test part of the data set"),
        ]
    )


def _field(name: str, kind: pa.DataType, description: str) -> pa.Field:
    return pa.field(name, kind, metadata={"description": description})
