"""Manifests survive their own JSON."""

from __future__ import annotations

import json

import pytest

from attribeam.schemas.errors import SchemaVersionError
from attribeam.schemas.passage_sample import CutPassages, sample_passages
from attribeam.schemas.run_manifest import (
    AuditCounts,
    ChunkManifest,
    DeadLetterCount,
    InputFile,
    OutputFile,
    ReadingNote,
    RunManifest,
    RunStatus,
    sum_counts,
)

COUNTS = AuditCounts(
    rows=3,
    audited=2,
    dead_letters=(DeadLetterCount("validate", "no_passages", 1),),
    spans={"supported": 4, "weak": 1},
    tokens=120,
    claims={"supported": 4},
    answers={"answer": 2},
)
CHUNK = ChunkManifest(
    chunk="00000-log-r0000000000",
    source_file="log.parquet",
    input_sha256="ab",
    row_start=0,
    row_end=3,
    configuration="cd",
    counts=COUNTS,
    evidence=OutputFile("evidence/00000-log-r0000000000.parquet", 5, 900, "ef"),
    dead_letters=OutputFile("dead_letters/00000-log-r0000000000.parquet", 1, 400, "01"),
    seconds=1.5,
    passage_sample=sample_passages(["A text", "Another text."]),
)
RUN = RunManifest(
    status=RunStatus.DONE,
    attribeam_version="0.1.0",
    runner="local",
    started_at="2026-11-19T02:00:00+00:00",
    seconds=2.5,
    load_seconds=1.0,
    rows_per_second=1.2,
    configuration="cd",
    inputs=(InputFile("log.parquet", 1000, 3, "ab", (ReadingNote("answer read from response", 3),)),),
    options={"parser": "bundled"},
    models={"layer": "2"},
    versions={"python": "3.11"},
    counts=COUNTS,
    chunks=("00000-log-r0000000000",),
    cut_passages=CutPassages(9, 12, "characters", 200),
)


def test_a_chunk_manifest_comes_back_from_json() -> None:
    assert ChunkManifest.from_json(CHUNK.to_json()) == CHUNK


def test_a_run_manifest_comes_back_from_json() -> None:
    assert RunManifest.from_json(RUN.to_json()) == RUN


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"counts": 1}', CHUNK.to_json()[:-20]])
def test_what_is_no_manifest_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        ChunkManifest.from_json(text)


def test_counts_of_disjoint_rows_add_up() -> None:
    other = AuditCounts(
        2, 0, (DeadLetterCount("read", "invalid_utf8", 1), DeadLetterCount("validate", "no_passages", 1))
    )
    total = sum_counts([COUNTS, other])
    assert (total.rows, total.audited, total.dead_lettered, total.span_count, total.tokens) == (5, 2, 3, 5, 120)
    assert [letter.rows for letter in total.dead_letters] == [1, 2]
    assert total.is_reconciled


def test_claims_and_kinds_add_up() -> None:
    one = AuditCounts(claims={"weak": 2, "not_judged": 1}, not_judged={"code": 1}, answers={"answer": 3})
    other = AuditCounts(claims={"weak": 1, "no_claim": 4}, answers={"answer": 1, "refusal": 1})
    total = sum_counts([one, other])
    assert (total.claims, total.claim_count) == ({"no_claim": 4, "not_judged": 1, "weak": 3}, 3)
    assert (total.not_judged, total.answers) == ({"code": 1}, {"answer": 4, "refusal": 1})


@pytest.mark.parametrize("manifest", [CHUNK, RUN])
def test_a_manifest_of_another_version_is_refused_whatever_its_fields(manifest: ChunkManifest | RunManifest) -> None:
    fields = json.loads(manifest.to_json()) | {"schema_version": "2.0", "a_new_field": 1}
    del fields["counts"]
    with pytest.raises(SchemaVersionError, match=r"^here is of schema version '2.0', but only files of version '1.2'"):
        type(manifest).from_json(json.dumps(fields), "here")


def test_tokens_that_were_not_counted_stay_unknown() -> None:
    assert sum_counts([COUNTS, AuditCounts(tokens=None)]).tokens is None
