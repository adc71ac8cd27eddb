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
    rows = log_rows(count, first=first)
    return pa.Table.from_pylist([{**row, "dt": DAYS[index % 3]} for index, row in enumerate(rows)], schema=DATED)


def delta_table(root):
    """Version 0 has six rows, version 1 two more, version 2 lacks ``ferry-0``, version 3 has larger files."""
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(str(root), dated_rows(6), partition_by=["dt"])
    write_deltalake(str(root), dated_rows(2, first=6), mode="append")
    table = DeltaTable(str(root))
    table.delete("record_id = 'ferry-0'")
    table.optimize.compact()
    return root


def edit_log(root, **changes):
    """Change members of the actions in the first file of a Delta table's log."""
    log = root / "_delta_log" / "00000000000000000000.json"
    actions = map(json.loads, log.read_text().splitlines())
    edited = [{kind: {**own, **changes.get(kind, {})} for kind, own in action.items()} for action in actions]
    log.write_text("\n".join(map(json.dumps, edited)))


def protocol(reader, writer, *features):
    """What a client must know to read a table."""
    own = {"readerFeatures": features, "writerFeatures": features} if features else {}
    return {"minReaderVersion": reader, "minWriterVersion": writer, **own}


def with_deletion_vector(root, rows):
    """A Delta table of six rows in one file, of which ``rows`` are deleted by a vector that stands in the log."""
    from deltalake import write_deltalake

    write_deltalake(str(root), dated_rows(6))
    packed = _vector(rows)
    text = b85encode(packed).translate(bytes.maketrans(_B85, _Z85)).decode()
    vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(packed), "cardinality": len(rows)}
    edit_log(root, protocol=protocol(3, 7, "deletionVectors"), add={"deletionVector": vector})
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
