"""Small Delta and Iceberg tables, and rows that are deleted within their files."""

import json
import struct
from base64 import b85encode

import pyarrow as pa
from tests.pipeline.audit_process import SCHEMA, log_rows

DAYS = ("2026-01-01", "2026-01-02", None)
DATED = SCHEMA.append(pa.field("dt", pa.string()))
_MAGIC = 1_681_511_377
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def dated_rows(count, *, first=0):
    """Rows that take turns in ``DAYS``."""
    rows = log_rows(count, first=first)
    return pa.Table.from_pylist([{**row, "dt": DAYS[index % 3]} for index, row in enumerate(rows)], schema=DATED)


def delta_table(root, *, partitioned=True):
    """Version 0 has six rows, version 1 two more, version 2 lacks ``ferry-0``, version 3 has larger files."""
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(str(root), dated_rows(6), partition_by=["dt"] if partitioned else None)
    write_deltalake(str(root), dated_rows(2, first=6), mode="append")
    table = DeltaTable(str(root))
    table.delete("record_id = 'ferry-0'")
    table.optimize.compact()
    return root


def with_deletion_vector(root, rows):
    """A Delta table of six rows in one file, of which ``rows`` are deleted by a vector that stands in the log."""
    from deltalake import write_deltalake

    write_deltalake(str(root), dated_rows(6))
    log = root / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    feature = ["deletionVectors"]
    for action in actions:
        if "protocol" in action:
            features = {"readerFeatures": feature, "writerFeatures": feature}
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        if "add" in action:
            packed = _vector(rows)
            action["add"]["deletionVector"] = {
                "storageType": "i",
                "pathOrInlineDv": b85encode(packed).translate(bytes.maketrans(_B85, _Z85)).decode(),
                "sizeInBytes": len(packed),
                "cardinality": len(rows),
            }
    log.write_text("\n".join(map(json.dumps, actions)))
    return root


def _vector(rows):
    """A deletion vector of one array of a roaring bitmap, as the Delta protocol packs it."""
    bitmap = struct.pack("<IIHHI", 12_346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    packed = struct.pack("<iqi", _MAGIC, 1, 0) + bitmap
    return packed + bytes(-len(packed) % 4)


def iceberg_table(root):
    """As ``delta_table``, without the last version; the table itself, whose folder is ``root``."""
    from pyiceberg.catalog.sql import SqlCatalog

    root.mkdir(parents=True)
    catalog = SqlCatalog("small", uri="sqlite:///:memory:", warehouse=f"file://{root.parent}")
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.qa", schema=DATED, location=f"file://{root}")
    with table.update_spec() as spec:
        spec.add_identity("dt")
    table.append(dated_rows(6))
    table.append(dated_rows(2, first=6))
    table.delete("record_id = 'ferry-0'")
    return table
