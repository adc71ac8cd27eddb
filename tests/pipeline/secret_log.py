"""A log with secrets in every field, all made up, and a search for them in everything that an audit wrote."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.logs.log_files import PASSAGE, SPAN

EMAIL, PHONE, CARD, CASE = "marta.quill@harbour-post.example", "+1 202-555-0147", "4111 1111 1111 1111", "CASE-40712"
CASE_PATTERNS = Path(__file__).with_name("case_patterns.txt")
BARE_CARD = 5555555555554444
HARD = (
    "1. 4012888888881881", "in 2024. 4012888888881881", "98765 43210\n91234 56789", "GB82 WEST 1234 5698 7654 32",
    r"john\_smith@harbour-post.example", "Card 4917 4845", "8989 7107 is old",
)  # fmt: skip
"""Forms that once were shown in part; the last two are one card number."""

TRACES = (
    "marta", "quill", "harbour-post", "202-555", "555-0147", "4111 1111", str(BARE_CARD), "CASE-4", "40712",
    "40128888", "98765 ", " 43210", "91234 ", " 56789", "GB82", "WEST 1234", "5698 76", "john", "smith", "4917 4",
    "8989 7",
)  # fmt: skip
"""Parts of the secrets; none of them may be anywhere, whole or cut."""

SCHEMA = pa.schema(
    [
        ("record_id", pa.string()), ("question", pa.string()), ("passages", pa.list_(PASSAGE)),
        ("answer", pa.string()), ("target_spans", pa.list_(SPAN)), ("generator", pa.string()),
        ("note", pa.large_string()), ("raw", pa.binary()), ("account", pa.int64()),
        ("tags", pa.dictionary(pa.int32(), pa.string())),
        ("contacts", pa.list_(pa.struct([("kind", pa.string()), ("value", pa.string())]))),
        ("labels", pa.map_(pa.string(), pa.string())), ("hard", pa.list_(pa.string())),
    ]
)  # fmt: skip
EXTRA_COLUMNS = ("note", "raw", "account", "tags", "contacts", "labels", "hard")


def secret_rows(count):
    """Rows about a harbour office; the second and every sixth after it is faulty."""
    return [_row(number) for number in range(count)]


def _row(number):
    answer = f"Write to {EMAIL} about ferry {number}. The office answers at {PHONE} for case {CASE} and card {CARD}."
    at = answer.index(EMAIL)
    cuts = [(0, at + 6), (at + 6, at + 20), (answer.index("The office"), len(answer))]
    told = f"The office of ferry {number} is reached at {EMAIL} or {PHONE}."
    text = f"{told} It keeps {CASE} and the card {CARD} on file."
    passages = [
        {"passage_id": f"page-{PHONE}", "title": f"Office of {EMAIL}, {CASE}", "text": text},
        {"passage_id": f"{CASE}", "title": None, "text": f"The west pier is closed. Call {PHONE}."},
        *({"passage_id": f"hard-{at}", "title": None, "text": text} for at, text in enumerate(HARD)),
    ]
    return {
        "record_id": f"{number}-{EMAIL}", "question": f"Who is {EMAIL}, {PHONE}, {CASE}, {CARD}?", "passages": passages,
        "answer": " " if number % 6 == 1 else answer,
        "target_spans": None if number % 6 == 1 else [{"char_start": one, "char_end": other} for one, other in cuts],
        "generator": f"gull for {EMAIL}", "note": f"Called {PHONE} with card {CARD}.", "raw": f"mail: {EMAIL}".encode(),
        "account": BARE_CARD, "tags": CASE, "labels": [(EMAIL, CASE)], "hard": HARD,
        "contacts": [{"kind": "mail", "value": EMAIL}, {"kind": PHONE, "value": CARD}],
    }  # fmt: skip


def write_secret_log(path, rows):
    pq.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), path, row_group_size=2)
    return path


def leaks(output):
    """(file, trace) of every trace of a secret in the bytes of a file, its decoded values or its metadata."""
    for path in sorted(one for one in output.rglob("*") if one.is_file()):
        texts = [path.read_bytes().decode("latin-1"), path.name]
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            texts += [repr(table.to_pylist()), repr(table.schema.metadata)]
        yield from ((path.name, trace) for trace in TRACES if any(trace in text for text in texts))
