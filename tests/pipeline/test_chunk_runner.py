"""An audit whose rows are longer than the model's context: nothing is cut, and every row is accounted for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.attribution.verdict.judged_rows import save_probed_verdict
from tests.logs.log_files import log_row, write_log
from tests.pipeline.audit_fixtures import save_tiny_audit

from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.chunk_attempt import ChunkAttempt
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.workers.worker import run_chunk
from attribeam.schemas import dead_letter_schema, evidence_schema
from attribeam.schemas.run_manifest import sum_counts
from attribeam.transforms.audit_settings import AuditSettings

LONG = {1: 60, 4: 25}
TOO_LONG = 3
ROWS = 6


def passages_of(number: int) -> list[dict[str, object]]:
    """Two short ones, or so many that the model has to read them in windows, or one that fits nowhere."""
    if number == TOO_LONG:
        return [{"text": "A lamp."}, {"text": "tower " * 900}]
    return [
        {"title": f"Lamp {index}" if index % 3 else None, "text": f"Ada Thorne lit lamp {index} 🙂 in {1800 + index}."}
        for index in range(LONG.get(number, 2))
    ]


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> ChunkAttempt:
    root = tmp_path_factory.mktemp("audit")
    rows = [log_row(number, passages=passages_of(number)) for number in range(ROWS)]
    return run_chunk(
        RowRange(write_log(root / "log.parquet", rows), 0, ROWS),
        settings=save_tiny_audit(root / "models"),
        schemas=OutputSchemas(evidence_schema(), dead_letter_schema()),
        folder=root / "attempt",
        on_rows=lambda _: None,
    )


def test_every_row_is_audited_but_the_one_with_a_passage_that_fits_nowhere(attempt: ChunkAttempt) -> None:
    assert attempt.counts.is_reconciled
    assert (attempt.counts.rows, attempt.counts.audited) == (ROWS, ROWS - 1)
    (letter,) = pq.read_table(Path(attempt.folder) / attempt.dead_letters.path).to_pylist()
    assert (letter["source_row"], letter["stage"], letter["reason"]) == (TOO_LONG, "attribute", "too_many_tokens")
    assert "passage 2 of 2 has" in letter["message"]


def test_manifest_counts_the_rows_in_windows_and_the_tokens_of_all_windows(attempt: ChunkAttempt) -> None:
    assert attempt.counts.rows_in_windows == len(LONG)
    assert attempt.counts.tokens is not None
    assert attempt.counts.tokens > 60 * 20
    assert sum_counts([attempt.counts, attempt.counts]).rows_in_windows == 2 * len(LONG)


def test_evidence_lies_where_it_says_in_passages_of_all_windows(attempt: ChunkAttempt) -> None:
    seen: dict[int, set[int]] = {}
    for span in pq.read_table(Path(attempt.folder) / attempt.evidence.path).to_pylist():
        passages = passages_of(span["source_row"])
        assert len(span["passage_scores"]) == len(passages)
        for piece in span["evidence"]:
            passage = passages[piece["passage_index"]]
            text = str(passage["title"] if piece["in_title"] else passage["text"])
            assert text[piece["char_start"] : piece["char_end"]] == piece["text"]
            seen.setdefault(span["source_row"], set()).add(piece["passage_index"])
    assert seen.keys() == {*range(ROWS)} - {TOO_LONG}
    assert min(seen[1]) < 20
    assert max(seen[1]) >= 40


def test_row_that_only_the_decoder_cannot_read_is_judged_without_it_and_counted(tmp_path: Path) -> None:
    rows = [log_row(number, passages=passages_of(number)) for number in range(ROWS)]
    decoder = save_tiny_model(tmp_path / "decoder")
    method = MethodOptions(verdict=str(save_probed_verdict(tmp_path / "own", decoder)), language_model=str(decoder))
    settings = AuditSettings(model=ModelOptions(device="cpu"), method=method)
    log = write_log(tmp_path / "log.parquet", rows)
    counts = {}
    for name, asked in (("probed", settings), ("plain", replace(settings, method=MethodOptions()))):
        made = run_chunk(
            RowRange(log, 0, ROWS),
            settings=asked,
            schemas=OutputSchemas(evidence_schema(), dead_letter_schema()),
            folder=tmp_path / name,
            on_rows=lambda _: None,
        )
        counts[name] = made.counts
        assert made.counts.audited == ROWS
    assert (counts["probed"].rows_unread, counts["plain"].rows_unread) == (1, None)
    assert (counts["probed"].rows_asked, counts["plain"].rows_asked) == (ROWS, None)
    assert sum_counts([counts["probed"], counts["probed"]]).rows_unread == 2
    assert sum_counts([counts["plain"]]).rows_unread is None
