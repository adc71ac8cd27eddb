"""What an audit says while it runs and when it is done, and what its manifest says of rows."""

import errno
import io
import os
from dataclasses import replace

import pytest
from tests.pipeline.made_metrics import made_manifest, made_metrics

from attribeam.pipeline.console import (
    LineProgress,
    Progress,
    choose_progress,
    progress_line,
    readable_duration,
    summary_lines,
)
from attribeam.pipeline.metrics import EvidenceTotals, RunMetrics
from attribeam.pipeline.run_record import with_row_notes
from attribeam.report.overview import AgreementTally
from attribeam.schemas.run_manifest import (
    AuditCounts,
    ChunkManifest,
    DeadLetterCount,
    InputFile,
    OutputFile,
    ReadingNote,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.5, "9.5 s"), (42, "42 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (7620, "2 h 07 min")],
)
def test_durations_are_readable(seconds, text):
    assert readable_duration(seconds) == text


def test_a_line_tells_rows_speed_and_time_left_without_the_rows_of_earlier_runs():
    line = progress_line(finished=600, total=1000, initial=200, seconds=40)
    assert line == "audit: 600 of 1,000 rows (60%), 10.0 rows/s, 40 s left"


class FullDisk(io.StringIO):
    def write(self, _):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_progress_that_cannot_be_written_stops_nothing():
    progress = choose_progress(quiet=False, stream=FullDisk())
    progress.start(total=3, finished=0)
    progress.note("a worker has died")
    progress.close()


def test_lines_go_where_nobody_watches_and_nothing_where_quiet_was_asked_for():
    stream = io.StringIO()
    assert isinstance(choose_progress(quiet=False, stream=stream), LineProgress)
    assert type(choose_progress(quiet=True, stream=stream)) is Progress


def _summary(metrics, *, output, earlier_rows=0, page=False):
    return "\n".join(summary_lines(metrics, output=output, earlier_rows=earlier_rows, page=page))


@pytest.mark.parametrize(("kinds", "is_said"), [(["given"], True), (["given", "facts"], False)])
def test_the_summary_tells_what_given_spans_alone_made_of_rows_without_any(kinds, is_said):
    totals = EvidenceTotals({("given", "supported"): 4, ("sentences", "weak"): 2}, 6, None, 0, 0)
    manifest = replace(_manifest(AuditCounts(rows=4, audited=4)), options={"span_kinds": kinds})
    assert ("given: 2 spans are the sentences" in _summary(RunMetrics(manifest, totals), output="out")) is is_said


def test_the_summary_tells_reasons_below_the_unsupported_claims_and_hows_below_the_supported_ones():
    counts = AuditCounts(rows=4, audited=4, claims={"supported": 8, "unsupported": 5})
    told = {"hows": {"quoted": 8}, "reasons": {"negated": 1, "other_value": 3, "other_time": 1}}
    totals = EvidenceTotals({}, claims=13, evidence_mass=None, unmatched_spans=0, isolated_spans=0, **told)
    lines = [line.split()[:2] for line in summary_lines(RunMetrics(_manifest(counts), totals), output="out")]
    start = lines.index(["supported", "8"])
    below = ["unsupported", "5"], ["other_value", "3"], ["negated", "1"], ["other_time", "1"]
    assert lines[start + 1 : start + 7] == [["quoted", "8"], ["weak", "0"], *below]


def test_the_summary_tells_what_is_no_claim_what_is_not_judged_and_why_and_the_answers_risks():
    lines = _lines(_summary(made_metrics(), output="out"))
    for line in (
        "claims 100", "weak 5 5.0%", "spans without a claim 4", "spans not judged 25", "code 5", "language 20",
        "refusals 6 16.2%", "refusals in part 2 5.4%", "answers at risk 3 15.0% of 20 with claims",
        "mean answer risk 0.25",
    ):  # fmt: skip
        assert line in lines
    assert not any(line.startswith("not_calibrated") for line in lines)


def test_the_summary_tells_rows_reasons_shares_and_places():
    letters = (DeadLetterCount("validate", "no_passages", 1), DeadLetterCount("validate", "empty_answer", 2))
    counts = AuditCounts(1200, 1197, letters, claims={"supported": 6, "weak": 1, "unsupported": 3}, tokens=99)
    text = _summary(RunMetrics(_manifest(counts)), output="audits/x/", earlier_rows=200, page=True)
    lines = _lines(text)
    for line in (
        "Audit done in 55 s (20.0 rows/s after 5.0 s of loading)", "200 of 1,200 rows were finished by an earlier run",
        "rows read 1,200", "dead-lettered 3 0.2%", "empty_answer 2", "unsupported 3 30.0%",
        "page to look at audits/x/report.html", "evidence audits/x/evidence/*.parquet",
        "metrics audits/x/metrics.json, audits/x/metrics.prom",
        "Look first at the 3 claims with support = 'unsupported', then at the 3 dead letters and the reasons.",
    ):  # fmt: skip
        assert line in lines
    assert lines.index("empty_answer 2") < lines.index("no_passages 1")
    assert "\x1b" not in text


def test_the_summary_tells_citations_that_agree_rows_that_no_verdict_read_and_why_claims_have_none():
    counts = AuditCounts(rows=8, audited=8, claims={"supported": 8, "not_calibrated": 2}, rows_unread=2, rows_asked=6)
    totals = EvidenceTotals({}, 10, None, 0, 0, citations=AgreementTally("citation_agrees", told=8, agreeing=6))
    manifest = replace(_manifest(counts), models={"model": "mini"})
    lines = _lines(_summary(RunMetrics(manifest, totals), output="out"))
    for line in (
        "in the verdict's band 6 75.0%", "too long for the verdict 2 25.0%", "not_calibrated 2 20.0%",
        "with a citation 8 80.0%", "evidence lies there 6 75.0%",
    ):  # fmt: skip
        assert line in lines
    (told,) = (line for line in lines if line.startswith("support: not_calibrated: nothing says"))
    assert "mini" in told
    assert told.endswith("run attribeam calibrate, see docs/verifiers.md")


def test_the_summary_of_no_rows_divides_by_nothing():
    text = _summary(RunMetrics(_manifest(AuditCounts())), output="out")
    assert "nothing left to do" in text
    assert "Look first" not in text
    assert "report.html" not in text


def _lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def _manifest(counts):
    return made_manifest(counts, seconds=55.0, load_seconds=5.0, rows_per_second=20.0, models={})


def _chunk(file, *notes):
    output = OutputFile("", 0, 0, "")
    return ChunkManifest("", file, "", 0, 0, "", AuditCounts(), output, output, 1.0, notes=notes)


def test_notes_of_chunks_are_added_up_for_their_file():
    told = ReadingNote("answer read from response", 3)
    files = tuple(InputFile(name, 10, 3, "ab", (told,)) for name in ("a.jsonl", "b.jsonl"))
    notes = [ReadingNote("no time", 1), ReadingNote("no text", 2)], [ReadingNote("no time", 1)]
    chunks = [_chunk("a.jsonl", *own) for own in notes]
    first, second = with_row_notes(files, chunks)
    assert first.notes == (told, ReadingNote("no text", 2), ReadingNote("no time", 2))
    assert second == files[1]
