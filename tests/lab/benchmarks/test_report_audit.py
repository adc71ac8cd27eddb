import pyarrow.parquet as pq
import pytest

from attribeam.lab.benchmarks.report_audit import SPANS_PER_ANSWER, write_report_audit
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.html_page import write_html_report

ANSWERS = 503


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    return write_report_audit(tmp_path_factory.mktemp("audit"), answers=ANSWERS, seed=1)


def test_every_answer_has_ten_spans_and_its_own_row(audit):
    evidence = pq.read_table(audit / "evidence", columns=["record_id", "source_row", "span_index"])
    assert evidence.num_rows == ANSWERS * SPANS_PER_ANSWER
    assert sorted(set(evidence["source_row"].to_pylist())) == list(range(ANSWERS))
    assert len(set(evidence["record_id"].to_pylist())) == ANSWERS
    assert set(evidence["span_index"].to_pylist()) == set(range(SPANS_PER_ANSWER))


def test_spans_and_evidence_are_cut_out_of_the_log(audit):
    log = {row["record_id"]: row for row in pq.read_table(audit.parent / "log.parquet").to_pylist()}
    for span in pq.read_table(audit / "evidence").slice(0, 4000).to_pylist():
        row = log[span["record_id"]]
        assert row["answer"][span["char_start"] : span["char_end"]] == span["text"]
        for piece in span["evidence"]:
            passage = row["passages"][piece["passage_index"]]["text"]
            assert passage[piece["char_start"] : piece["char_end"]] == piece["text"]


def test_manifest_counts_match_the_evidence(audit):
    counts = AuditDirectory.open(audit).counts
    support = pq.read_table(audit / "evidence", columns=["support"])["support"].to_pylist()
    assert dict(counts.spans) == {name: support.count(name) for name in ("supported", "weak", "unsupported")}
    assert min(counts.spans.values()) > 0
    assert counts.audited == ANSWERS


def test_report_reads_it_with_the_texts_of_the_log(audit, tmp_path):
    write_html_report(audit, tmp_path / "report.html", answers=20)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The worklist holds the 20 riskiest of 503 answers." in page
    assert "Only spans and evidence can be shown" not in page
