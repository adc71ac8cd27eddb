"""Audit directories, with their logs or of many nights, written without running an audit; texts of our own."""

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.pipeline.made_metrics import made_manifest

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.html_page import html_page
from attribeam.schemas import (
    CharRange,
    ClaimKind,
    DeadLetter,
    EvidencePiece,
    Passage,
    QARecord,
    Reason,
    RowSource,
    SpanEvidence,
    SpanKind,
    Stage,
    Support,
    SupportedHow,
    UnsupportedReason,
    dead_letter_row,
    dead_letter_schema,
    evidence_schema,
)
from attribeam.schemas.evidence_record import evidence_table
from attribeam.schemas.run_manifest import AuditCounts, ChunkManifest, DeadLetterCount, InputFile, OutputFile, RunStatus


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.texts = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag, **wanted):
        for name, attributes in self.tags:
            if name == tag and all((attributes.get(key) or "").startswith(value) for key, value in wanted.items()):
                yield attributes


PASSAGES = (
    Passage("The ferry to Aln leaves the east pier at noon.", "Timetable", "pier-1"),
    Passage("The west pier is closed in winter.", None, "pier-2"),
)
ANSWER = "The ferry leaves at noon. It carries 40 cars."
EXTRA_FIELDS = (pa.field("team", pa.string()),)


@dataclass(frozen=True, slots=True)
class MadeAudit:
    """Where it lies, and what went in."""

    root: Path
    log: Path
    records: tuple[QARecord, ...]

    @property
    def opened(self):
        return AuditDirectory.open(self.root)

    def page(self, *, previous=None, answers=1000):
        return html_page(self.opened, previous=previous and previous.opened, answers=answers)


def place(part, text):
    """Where the part first stands in the text."""
    return CharRange(text.index(part), text.index(part) + len(part))


def made_record(log, row, *, answer=ANSWER, record_id=None):
    name, question = f"ferry-{row}" if record_id is None else record_id, "When does the ferry leave?"
    carried = {"generator": "gull-1", "extra_columns": (("team", "harbour"),)}
    return QARecord(name, question, PASSAGES, answer, RowSource(str(log), row), **carried)


def bare_span(text, part, support, index=0, **fields):
    """One part of a text without evidence; a claim of its own unless ``fields`` say otherwise."""
    plain = SpanEvidence(
        span_index=index, claim_index=index, span_kind=SpanKind.FACTS, chars=place(part, text), text=part,
        atomic_fact=(place(part, text),), evidence=(), passage_scores=(0.0,), top_passage_index=None,
        top_passage_id=None, margin=None, evidence_mass=0.5, evidence_isolated=False, support=support,
        unmatched_values=(),
    )  # fmt: skip
    return replace(plain, **fields)


def supported_span(answer=ANSWER):
    """``leaves at noon`` is supported by the first passage, in two pieces, one of them in the title."""
    part, piece = "leaves at noon", "leaves the east pier at noon"
    pieces = (
        EvidencePiece(0, "pier-1", False, place(piece, PASSAGES[0].text), piece, 6.5),
        EvidencePiece(0, "pier-1", True, CharRange(0, 4), "Time", 0.5),
    )
    top = {"passage_scores": (7.0, 0.5), "top_passage_index": 0, "top_passage_id": "pier-1", "margin": 0.75}
    fact = (CharRange(0, place(part, answer).char_end),)
    return bare_span(answer, part, Support.SUPPORTED, atomic_fact=fact, evidence=pieces, evidence_mass=0.625, **top)


def unsupported_span(answer=ANSWER):
    """``40 cars`` has nothing, and a number that no passage has."""
    fact = (CharRange(0, place("40 cars", answer).char_end),)
    told = {"span_kind": SpanKind.MENTIONS, "passage_scores": (0.0, 0.0), "evidence_mass": 0.0625}
    return bare_span(answer, "40 cars", Support.UNSUPPORTED, 1, atomic_fact=fact, unmatched_values=("40",), **told)


def no_claim(kind, index=0, **changed):
    """A span of this kind, which claims nothing, or if it is code, a table or in another language, is not judged."""
    unread = (ClaimKind.CODE, ClaimKind.TABLE, ClaimKind.LANGUAGE)
    support = Support.NOT_JUDGED if kind in unread else Support.NO_CLAIM
    alone = replace(supported_span(), span_index=index, claim_index=None, claim_kind=kind, support=support)
    return replace(alone, **changed)


def told_spans():
    """The supported span, which is quoted, and the unsupported one, for which the evidence has "twelve"."""
    reason = UnsupportedReason.OTHER_VALUE
    quoted = replace(supported_span(), how=SupportedHow.QUOTED)
    return quoted, replace(unsupported_span(), reason=reason, expected="twelve")


def made_audit(
    folder,
    *,
    record_ids=("ferry-0", "ferry-1", "ferry-2"),
    spans=None,
    status=RunStatus.DONE,
    rows_per_chunk=2,
    columns=(),
    models=None,
    change=lambda record: record,
    extra_fields=EXTRA_FIELDS,
):
    """An audit of a log with these ids and one more row, ``ferry-bad``, that became a dead letter.

    ``spans`` are those of the rows that have others than the supported and the unsupported one; ``models`` goes into
    the manifest; ``change`` makes each record what it should be, with values for ``extra_fields``.
    """
    log = folder / "log.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    records = tuple(change(made_record(log, row, record_id=name)) for row, name in enumerate(record_ids))
    write_made_log(log, [*records, made_record(log, len(records), answer="", record_id="ferry-bad")], columns)
    root = folder / "audit"
    spans = spans or {}
    usual = (supported_span(), unsupported_span())
    schema = evidence_schema(extra_fields=extra_fields)
    table = evidence_table([(record, spans.get(record.source.source_row, usual)) for record in records], schema)
    evidence = table.to_pylist()
    source = RowSource(str(log), len(records))
    letter = DeadLetter("ferry-bad", source, Stage.VALIDATE, Reason.EMPTY_ANSWER, "an answer was expected")
    chunks = _write_chunks(root, log, evidence, schema, dead_letter_row(letter), rows_per_chunk)
    content = log.read_bytes()
    audited = InputFile(str(log), len(content), len(records) + 1, hashlib.sha256(content).hexdigest())
    told = {"options": {"columns": [list(pair) for pair in columns]}, "models": {"model": "tiny", **(models or {})}}
    manifest = made_manifest(_counts(evidence, 1), status=status, inputs=(audited,), chunks=chunks, **told)
    (root / "run_manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    tell_sizes(root)
    return MadeAudit(root, log, records)


def tell_sizes(root):
    """Put the sizes of the files of evidence and dead letters into their manifests."""
    for path in (root / "_chunks").iterdir():
        chunk = ChunkManifest.from_json(path.read_text(encoding="utf-8"))
        files = {name: getattr(chunk, name) for name in ("evidence", "dead_letters")}
        sized = {name: replace(file, size_bytes=(root / file.path).stat().st_size) for name, file in files.items()}
        path.write_text(replace(chunk, **sized).to_json(), encoding="utf-8")


def say_version(root, pattern, version):
    """Let the first file of an audit that the pattern matches say that it is of another schema version."""
    path = min(root.glob(pattern))
    if path.suffix == ".json":
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"schema_version": version}))
    else:
        pq.write_table(pq.read_table(path).replace_schema_metadata({"attribeam.schema_version": version}), path)
        tell_sizes(root)
    return path


def carry_instead(root, ticks, kind):
    """Put a time of ``kind`` into the extra column of every evidence row, which no audit of today would carry."""
    for path in (root / "evidence").iterdir():
        table = pq.read_table(path)
        column = pa.array([ticks] * len(table), pa.int64()).view(kind)
        pq.write_table(table.set_column(table.schema.names.index("team"), "team", column), path)
    tell_sizes(root)


def write_made_log(path, records, columns=()):
    """The records as a log, in columns of other names where ``columns`` says so, in row groups of two."""
    names = dict(columns)
    fields = ("record_id", "question", "passages", "answer")
    table = pa.Table.from_pylist([{name: asdict(record)[name] for name in fields} for record in records])
    pq.write_table(table.rename_columns([names.get(name, name) for name in table.column_names]), path, row_group_size=2)


def _write_chunks(root, log, evidence, schema, letter, rows_per_chunk):
    """Two files a chunk and its manifest; the dead letter is the log's last row."""
    for folder in ("evidence", "dead_letters", "_chunks"):
        (root / folder).mkdir(parents=True)
    last_row = int(str(letter["source_row"]))
    names = []
    for start in range(0, last_row + 1, rows_per_chunk):
        rows = range(start, min(start + rows_per_chunk, last_row + 1))
        names.append(f"00000-log-r{start:010d}")
        inside = [row for row in evidence if row["source_row"] in rows]
        letters = [letter] if last_row in rows else []
        for kind, own, fields in (("evidence", inside, schema), ("dead_letters", letters, dead_letter_schema())):
            pq.write_table(pa.Table.from_pylist(own, schema=fields), root / kind / f"{names[-1]}.parquet")
        counts = _counts(inside, len(letters))
        spans = OutputFile(f"evidence/{names[-1]}.parquet", counts.span_count, 0, "")
        dead = OutputFile(f"dead_letters/{names[-1]}.parquet", len(letters), 0, "")
        manifest = ChunkManifest(names[-1], str(log), "", rows.start, rows.stop, "", counts, spans, dead, 1.0)
        (root / "_chunks" / f"{names[-1]}.json").write_text(manifest.to_json(), encoding="utf-8")
    return tuple(names)


def _counts(evidence, dead_letters):
    audited = len({row["source_row"] for row in evidence})
    letters = (DeadLetterCount("validate", "empty_answer", dead_letters),) if dead_letters else ()
    counted = [row for row in evidence if row["claim_index"] in (None, row["span_index"])]
    unread = [row for row in counted if row["support"] == "not_judged"]
    first = [row for row in evidence if row["span_index"] == 0]
    return AuditCounts(
        audited + dead_letters, audited, letters, spans=_numbers(evidence, "support"), tokens=50 * audited,
        claims=_numbers(counted, "support"), not_judged=_numbers(unread, "claim_kind"),
        answers=_numbers(first, "answer_kind"),
    )  # fmt: skip


def _numbers(rows, column):
    return dict(sorted(Counter(str(row[column]) for row in rows).items()))


SPAN = {
    "source_file": "log.parquet", "source_row": 0, "span_kind": "facts", "evidence_mass": 0.5, "support": "supported",
    "unmatched_values": [], "evidence": [], "passage_scores": [], "answer_kind": "answer",
}  # fmt: skip


def span_batches(rows, *, size=3):
    """The rows, ``size`` per batch; a field that a row leaves out is that of ``SPAN``, or null."""
    whole = pa.Table.from_pylist([{**SPAN, **row} for row in rows], schema=evidence_schema(extra_fields=_extra(rows)))
    yield from whole.to_batches(max_chunksize=size)


def added(tally, rows, *, size=3):
    """The tally when it has added these rows."""
    for batch in span_batches(rows, size=size):
        tally.add(batch)
    return tally


def _extra(rows):
    known = set(evidence_schema().names)
    names = {name for row in rows for name in row if name not in known}
    return [pa.field(name, pa.string()) for name in sorted(names)]


FIRST_NIGHT = datetime(2026, 9, 1, 2, tzinfo=UTC)


def made_night(
    root,
    night,
    *,
    unsupported=60,
    status=RunStatus.DONE,
    errors=None,
    groups=None,
    failed_gate=False,
    configuration="same",
    name=None,
    path="log.parquet",
    answered_at=None,
):
    """An audit of 1,000 claims, ``night`` nights after the first one; groups are (value, supported, unsupported)."""
    started = FIRST_NIGHT + timedelta(days=night)
    folder = root / (f"{started:%Y-%m-%d}" if name is None else name)
    (folder / "evidence").mkdir(parents=True)
    (folder / "_attribeam").touch()
    (folder / "evidence" / "00000-log-r0000000000.parquet").write_bytes(b"evidence")
    (folder / "report.html").write_text("page", encoding="utf-8")
    claims = {"supported": 1000 - unsupported, "weak": 0, "unsupported": unsupported}
    letters = (DeadLetterCount("validate", "empty_answer", 2),)
    counts = AuditCounts(200, 198, letters, spans=claims, claims=claims, answers={"answer": 198})
    told = {"status": status, "inputs": (InputFile(path, 1000, 200, ""),), "configuration": configuration}
    manifest = made_manifest(counts, started_at=started.isoformat(), **told)
    (folder / "run_manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    gate = {"metric": "weak_share", "operator": ">", "limit": 0.01, "value": 0.05, "failed": failed_gate}
    names = ("value", "supported", "unsupported")
    told = {
        column: [{"weak": 0, **dict(zip(names, one, strict=True))} for one in values]
        for column, values in (groups or {}).items()
    }
    metrics = {
        "started_at": manifest.started_at, "answered_at": answered_at, "groups": told, "quality_gates": [gate],
        "metrics": {"mean_answer_risk": 0.25, "answers_at_risk": None},
        "standard_errors": {"unsupported_share": 0.002} if errors is None else dict(errors),
    }  # fmt: skip
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    return folder


def made_history(root, unsupported):
    """A folder of audits, one a night, with so many unsupported claims of 1,000."""
    for night, number in enumerate(unsupported):
        made_night(root, night, unsupported=number)
    return root
