"""The example log and its audit with the bundled models: exact, complete and repeatable."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attribeam import Attributor
from attribeam.pipeline.command_line import main

EXAMPLES = Path(__file__).parents[2] / "examples"
AUDIT = (
    *("audit", "--input", str(EXAMPLES / "qa_logs.parquet"), "--rows-per-chunk", "40"),
    *("--extra-columns", "tenant,thumbs", "--quiet"),
)


def _source() -> list[dict]:
    with (EXAMPLES / "qa_logs.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _run(output: Path, *, workers: int) -> Path:
    assert main([*AUDIT, "--output", str(output), "--workers", str(workers)]) == 0
    return output


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _run(tmp_path_factory.mktemp("audit") / "one", workers=1)


@pytest.fixture(scope="module")
def evidence(audit: Path) -> list[dict]:
    return _rows(audit / "evidence")


@pytest.fixture(scope="module")
def dead_letters(audit: Path) -> list[dict]:
    return _rows(audit / "dead_letters")


def _rows(folder: Path) -> list[dict]:
    return pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("*.parquet"))).to_pylist()


def _pieces(evidence: list[dict]) -> Iterator[tuple[dict, dict]]:
    return ((row, piece) for row in evidence for piece in row["evidence"])


def test_every_row_is_audited_or_dead_lettered_as_the_source_expects(
    evidence: list[dict], dead_letters: list[dict]
) -> None:
    reasons = {letter["source_row"]: letter["reason"] for letter in dead_letters}
    audited = {row["source_row"] for row in evidence}
    outcomes = [reasons.get(n, "audited" if n in audited else "lost") for n in range(len(_source()))]
    assert outcomes == [row["expected"] for row in _source()]
    assert audited.isdisjoint(reasons)
    assert len(reasons) == len(dead_letters)


def test_dead_letters_name_their_rows_and_hold_no_answer_text(dead_letters: list[dict]) -> None:
    source = _source()
    for letter in dead_letters:
        row = source[letter["source_row"]]
        assert letter["record_id"] == row["record_id"]
        assert letter["answer"] is None
        words = row["answer"].split()
        assert not words or " ".join(words[:3]) not in letter["message"]


def test_each_span_is_the_text_at_its_code_points(evidence: list[dict]) -> None:
    source = _source()
    for row in evidence:
        answer = source[row["source_row"]]["answer"]
        assert answer[row["char_start"] : row["char_end"]] == row["text"] != ""
        assert all(0 <= part["char_start"] < part["char_end"] <= len(answer) for part in row["atomic_fact"])


def test_each_piece_of_evidence_is_the_text_at_its_code_points(evidence: list[dict]) -> None:
    source = _source()
    pieces = list(_pieces(evidence))
    assert pieces
    for row, piece in pieces:
        passage = source[row["source_row"]]["passages"][piece["passage_index"]]
        text = passage["title"] if piece["in_title"] else passage["text"]
        assert text[piece["char_start"] : piece["char_end"]] == piece["text"] != ""
        assert piece["passage_id"] == passage["passage_id"]


def test_a_table_of_the_same_rows_has_the_same_evidence_and_dead_letters(audit: Path) -> None:
    log = str(EXAMPLES / "qa_logs.parquet")
    found = Attributor.from_pretrained("bundled").attribute_table(
        pq.read_table(log), extra_columns=["tenant", "thumbs"], name=log
    )
    for table, folder in ((found.evidence, "evidence"), (found.dead_letters, "dead_letters")):
        written = pa.concat_tables(pq.read_table(path) for path in sorted((audit / folder).glob("*.parquet")))
        assert table.schema.equals(written.schema)
        assert [_without_scores(row) for row in table.to_pylist()] == [
            _without_scores(row) for row in written.to_pylist()
        ]
        assert [_scores(row) for row in table.to_pylist()] == [
            pytest.approx(_scores(row), rel=1e-3, abs=1e-3) for row in written.to_pylist()
        ]


def _without_scores(value: object) -> object:
    """What is decided: no numbers that depend on which rows share a batch, and no words of the command line."""
    if isinstance(value, dict):
        return {name: _without_scores(one) for name, one in value.items() if name != "message"}
    if isinstance(value, list):
        return [_without_scores(one) for one in value]
    return None if isinstance(value, float) else value


def _scores(value: object) -> list[float]:
    if isinstance(value, dict | list):
        return [score for one in (value.values() if isinstance(value, dict) else value) for score in _scores(one)]
    return [value] if isinstance(value, float) else []


def _load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_qa_logs", EXAMPLES / "make_qa_logs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return _load_script()


@pytest.fixture(scope="module")
def source(script: ModuleType) -> list[dict]:
    return script.read_source()


@pytest.fixture(scope="module")
def log() -> pa.Table:
    return pq.read_table(EXAMPLES / "qa_logs.parquet")


def test_the_log_is_what_the_script_makes_of_the_source(script: ModuleType, source: list[dict], log: pa.Table) -> None:
    made = script.make_table(source)
    assert log.schema.equals(made.schema)
    assert log.equals(made)


def test_the_manifest_reconciles_with_the_files(audit: Path, evidence: list[dict], dead_letters: list[dict]) -> None:
    manifest = json.loads((audit / "run_manifest.json").read_text(encoding="utf-8"))
    counts = manifest["counts"]
    assert manifest["status"] == "done"
    assert counts["rows"] == len(_source()) == counts["audited"] + len(dead_letters)
    assert counts["spans"] == dict(Counter(row["support"] for row in evidence))


def test_given_spans_are_audited_and_no_others_beside_them(evidence: list[dict]) -> None:
    for n, row in enumerate(_source()):
        if row["expected"] == "audited" and "target_texts" in row:
            spans = [one for one in evidence if one["source_row"] == n]
            assert [span["text"] for span in spans] == row["target_texts"]
            assert {span["span_kind"] for span in spans} == {"given"}


def test_columns_are_carried_through(evidence: list[dict]) -> None:
    source = _source()
    for row in evidence:
        logged = source[row["source_row"]]
        assert (row["record_id"], row["tenant"], row["thumbs"]) == (
            logged["record_id"],
            logged["tenant"],
            logged["thumbs"],
        )
        assert row["generator"] == logged["generator"]
        assert f"{row['answered_at']:%Y-%m-%dT%H:%M:%SZ}" == logged["answered_at"]


@pytest.mark.parametrize(
    ("record_id", "value"),
    [
        ("qa-009", "sixteen"),
        ("qa-010", "Lennart Voss"),
        ("qa-017", "ten"),
        ("qa-044", "4.8.2"),
        ("qa-063", "Karl Tamm"),
    ],
)
def test_an_invented_value_is_unmatched(evidence: list[dict], record_id: str, value: str) -> None:
    unmatched = [one for row in evidence if row["record_id"] == record_id for one in row["unmatched_values"]]
    assert any(value in one for one in unmatched)


@pytest.mark.parametrize(
    ("record_id", "value"),
    [("qa-004", "1250"), ("qa-024", "446"), ("qa-050", "14300"), ("qa-052", "12 percent"), ("qa-065", "23,040")],
)
def test_another_format_of_a_number_is_matched(evidence: list[dict], record_id: str, value: str) -> None:
    rows = [row for row in evidence if row["record_id"] == record_id and value in row["text"]]
    assert rows
    assert all(value not in one for row in rows for one in row["unmatched_values"])
