"""Writing an audit directory of any size with made-up texts, without running an audit."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attribeam.lab.benchmarks.generated_rows import BenchmarkRow, benchmark_rows, made_up_pages
from attribeam.schemas import (
    AnswerKind,
    CharRange,
    EvidencePiece,
    Passage,
    QARecord,
    RowSource,
    SpanEvidence,
    SpanKind,
    Support,
    dead_letter_schema,
    evidence_row,
    evidence_schema,
)
from attribeam.schemas.run_manifest import (
    AuditCounts,
    ChunkManifest,
    InputFile,
    OutputFile,
    RunManifest,
    RunStatus,
    sum_counts,
)

SPANS_PER_ANSWER = 10
_DIFFERENT_ANSWERS = 500
_PIECES = 3
_PAGES = 200
_GENERATORS = ("gull-1", "tern-2", "skua-3")
_TENANTS = tuple(f"tenant-{number:02}" for number in range(12))
_EXTRA = (pa.field("tenant", pa.string()),)
_STARTED = datetime(2026, 11, 1, tzinfo=UTC)
_SUPPORTED_THRESHOLD, _WEAK_THRESHOLD = 0.3, 0.15


@dataclass(frozen=True, slots=True)
class _Texts:
    """The answers that are repeated, with the evidence rows of all their spans."""

    rows: tuple[BenchmarkRow, ...]
    evidence: pa.Table


def write_report_audit(root: Path, *, answers: int, seed: int = 13) -> Path:
    """Write ``root/log.parquet`` and ``root/audit`` with ten spans per answer; returns the path of the audit.

    Texts repeat every 500 answers, but ids, times, evidence mass, support and unmatched values do not.
    """
    audit = root / "audit"
    for folder in ("evidence", "dead_letters", "_chunks"):
        (audit / folder).mkdir(parents=True)
    log = root / "log.parquet"
    texts = _texts(str(log), min(answers, _DIFFERENT_ANSWERS), seed)
    random_numbers = np.random.default_rng(seed)
    chunks: list[ChunkManifest] = []
    with pq.ParquetWriter(log, _log_schema(), compression="zstd") as writer:
        for start in range(0, answers, len(texts.rows)):
            rows = texts.rows[: answers - start]
            writer.write_table(_log_table(rows, start))
            evidence = _evidence(texts.evidence.slice(0, len(rows) * SPANS_PER_ANSWER), start, random_numbers)
            chunks.append(_write_chunk(audit, str(log), evidence, range(start, start + len(rows))))
    manifest = _manifest(log, sum_counts(one.counts for one in chunks), tuple(one.chunk for one in chunks))
    (audit / "run_manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    return audit


def _write_chunk(audit: Path, log: str, evidence: pa.Table, rows: range) -> ChunkManifest:
    name = f"00000-log-r{rows.start:010d}"
    files = [OutputFile(f"{folder}/{name}.parquet", 0, 0, "") for folder in ("evidence", "dead_letters")]
    for file, table in zip(files, (evidence, dead_letter_schema().empty_table()), strict=True):
        pq.write_table(table, audit / file.path, compression="zstd")
    spans = {one["values"]: one["counts"] for one in pc.value_counts(evidence["support"]).to_pylist()}
    counts = AuditCounts(
        rows=len(rows),
        audited=len(rows),
        spans=spans,
        claims=spans,
        tokens=None,
        rows_in_windows=None,
        answers={AnswerKind.ANSWER.value: len(rows)},
    )
    whole = replace(files[0], row_count=evidence.num_rows)
    manifest = ChunkManifest(name, log, "", rows.start, rows.stop, "", counts, whole, files[1], 1.0)
    (audit / "_chunks" / f"{name}.json").write_text(manifest.to_json(), encoding="utf-8")
    return manifest


def _texts(log: str, answers: int, seed: int) -> _Texts:
    rows = tuple(benchmark_rows(made_up_pages(seed=seed, pages=_PAGES), rows=answers, seed=seed))
    rng = random.Random(seed)
    spans = [
        evidence_row(_record(row, log, number), span) for number, row in enumerate(rows) for span in _spans(row, rng)
    ]
    return _Texts(rows, pa.Table.from_pylist(spans, schema=evidence_schema(extra_fields=_EXTRA)))


def _record(row: BenchmarkRow, log: str, number: int) -> QARecord:
    passages = tuple(Passage(one.text, one.title, one.passage_id) for one in row.passages)
    return QARecord(
        record_id=row.record_id,
        question=row.question,
        passages=passages,
        answer=row.answer,
        source=RowSource(log, number),
        answered_at=_STARTED,
        generator=_GENERATORS[number % len(_GENERATORS)],
        extra_columns=(("tenant", _TENANTS[number % len(_TENANTS)]),),
    )


def _spans(row: BenchmarkRow, rng: random.Random) -> list[SpanEvidence]:
    """Ten spans that divide the answer, each with three pieces of evidence."""
    ends = [len(row.answer) * place // SPANS_PER_ANSWER for place in range(SPANS_PER_ANSWER + 1)]
    return [_span(row, index, CharRange(*ends[index : index + 2]), rng) for index in range(SPANS_PER_ANSWER)]


def _span(row: BenchmarkRow, index: int, chars: CharRange, rng: random.Random) -> SpanEvidence:
    pieces = tuple(_piece(row, rng) for _ in range(_PIECES))
    scores = tuple(sum(one.score for one in pieces if one.passage_index == place) for place in range(len(row.passages)))
    best = max(range(len(scores)), key=lambda place: scores[place])
    return SpanEvidence(
        span_index=index,
        span_kind=SpanKind.MENTIONS if index % 2 else SpanKind.FACTS,
        chars=chars,
        text=chars.of(row.answer),
        atomic_fact=(chars,),
        evidence=tuple(sorted(pieces, key=lambda one: -one.score)),
        passage_scores=scores,
        top_passage_index=best,
        top_passage_id=row.passages[best].passage_id,
        margin=0.5,
        evidence_mass=0.0,
        evidence_isolated=False,
        support=Support.SUPPORTED,
        unmatched_values=(),
        claim_index=index,
    )


def _piece(row: BenchmarkRow, rng: random.Random) -> EvidencePiece:
    place = rng.randrange(len(row.passages))
    passage = row.passages[place]
    start = rng.randrange(len(passage.text) - 40)
    chars = CharRange(start, start + rng.randint(5, 40))
    return EvidencePiece(place, passage.passage_id, False, chars, chars.of(passage.text), rng.uniform(0.5, 8))


def _evidence(spans: pa.Table, start: int, random_numbers: np.random.Generator) -> pa.Table:
    """The evidence rows of one repetition of the texts, which begins at row ``start`` of the log."""
    rows = spans["source_row"].to_numpy() + start
    mass = random_numbers.beta(2.5, 1, len(rows)).astype(np.float32)
    support = np.select([mass >= _SUPPORTED_THRESHOLD, mass >= _WEAK_THRESHOLD], ["supported", "weak"], "unsupported")
    unmatched = [["1984"] if one else [] for one in random_numbers.random(len(rows)) < 0.02]
    times = [_STARTED + timedelta(minutes=float(row % 40_000)) for row in rows]
    changed = {
        "record_id": pa.array([_record_id(row) for row in rows]),
        "source_row": pa.array(rows, pa.int64()),
        "answered_at": pa.array(times, pa.timestamp("us", "UTC")),
        "evidence_mass": pa.array(mass, pa.float32()),
        "support": pa.array(support, pa.string()),
        "unmatched_values": pa.array(unmatched, spans.schema.field("unmatched_values").type),
    }
    for name, values in changed.items():
        spans = spans.set_column(spans.schema.get_field_index(name), spans.schema.field(name), values)
    return spans


def _log_schema() -> pa.Schema:
    passage = pa.struct([("passage_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
    texts = [("record_id", pa.string()), ("question", pa.string()), ("passages", pa.list_(passage))]
    return pa.schema([*texts, ("answer", pa.string())])


def _log_table(rows: tuple[BenchmarkRow, ...], start: int) -> pa.Table:
    plain = [
        {
            "record_id": _record_id(start + number),
            "question": row.question,
            "passages": [{"passage_id": one.passage_id, "title": one.title, "text": one.text} for one in row.passages],
            "answer": row.answer,
        }
        for number, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(plain, schema=_log_schema())


def _record_id(row: int) -> str:
    return f"row-{row:07d}"


def _manifest(log: Path, counts: AuditCounts, chunks: tuple[str, ...]) -> RunManifest:
    content = log.read_bytes()
    return RunManifest(
        status=RunStatus.DONE,
        attribeam_version="made up",
        runner="made up",
        started_at=_STARTED.isoformat(),
        seconds=1.0,
        load_seconds=0.0,
        rows_per_second=1.0,
        configuration="",
        inputs=(InputFile(str(log), len(content), counts.rows, hashlib.sha256(content).hexdigest()),),
        options={"columns": []},
        models={
            "model": "made up",
            "supported_threshold": str(_SUPPORTED_THRESHOLD),
            "weak_threshold": str(_WEAK_THRESHOLD),
        },
        versions={},
        counts=counts,
        chunks=chunks,
    )
