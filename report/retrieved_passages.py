"""How often the logs of an audit retrieved each passage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from report.answers import AnswerLogs
from report.log_files import LogState, open_log

_BATCH_ROWS = 4096


def retrieved_passages(logs: AnswerLogs) -> Counter[str] | None:
    """Rows of the logs by the id of a passage that they retrieved; None unless every log is still as audited.

    Only the ids are read. Rows that became dead letters count as well.
    """
    if any(log.state is not LogState.AS_AUDITED for log in logs.files.values()):
        return None
    counts: Counter[str] = Counter()
    column = logs.columns.get("passages", "passages")
    for path in logs.files:
        for ids in _id_lists(path, column):
            counts.update(_rows_by_id(ids))
    return counts


def _id_lists(path: str, column: str) -> Iterable[pa.Array]:
    """The lists of passage ids of a log, batch by batch; nothing where its passages have no ids."""
    with open_log(path) as source:
        parquet = pq.ParquetFile(source, pre_buffer=False)
        paths = [parquet.schema.column(index).path for index in range(len(parquet.schema))]
        leaves = [path for path in paths if path.startswith(f"{column}.") and path.endswith(".passage_id")]
        if leaves:
            for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=leaves, use_threads=False):
                yield batch.column(0)


def _rows_by_id(lists: pa.Array) -> dict[str, int]:
    ids = pc.struct_field(pc.list_flatten(lists), "passage_id")
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    table = pa.table({"row": pc.list_parent_indices(lists), "passage": ids.cast(pa.string())})
    distinct = table.group_by(["row", "passage"]).aggregate([])
    counts = pc.value_counts(distinct["passage"].drop_null())
    return {item["values"]: item["counts"] for item in counts.to_pylist()}
