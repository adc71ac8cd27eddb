"""The output of an evaluation: a JSON file for scripts and tables for people."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from attribeam.evaluation.comparison import FailedRow, MethodScore
from attribeam.evaluation.datasets.dataset_file import data_files
from attribeam.evaluation.measures.accuracy import HighlightScore
from attribeam.evaluation.measures.bootstrap import Interval
from attribeam.report.messages import one_line
from attribeam.schemas.labelled_answer import SkippedRow
from attribeam.schemas.written_files import file_sha256, new_file


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run found: ``report`` for the JSON file, dataclasses or plain data, and the same as text."""

    report: object
    text: str


def text_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table for the terminal: header, rule and lines, the first column flush left and the others flush right."""
    shown = [[one_line(cell) for cell in line] for line in (header, *lines)]
    widths = [max(len(line[column]) for line in shown) for column in range(len(header))]
    return "\n".join(_aligned(line, widths) for line in (shown[0], ["-" * width for width in widths], *shown[1:]))


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
    return "  ".join([line[0].ljust(widths[0]), *cells]).rstrip()


def interval_cell(interval: Interval | None, *, digits: int = 1, sign: str = "") -> str:
    """Both ends of an interval, empty for None; set ``sign`` to "+" to show a plus sign."""
    return "" if interval is None else f"{interval.low:{sign}.{digits}f} to {interval.high:{sign}.{digits}f}"


def write_json(path: Path, value: object) -> None:
    """Write plain data; the file is replaced atomically, so that no reader sees half of it.

    Raises:
        OSError: if it cannot be written.
    """
    with new_file(path) as file:
        file.write((json.dumps(value, indent=2, ensure_ascii=False, default=asdict) + "\n").encode())


def skip_remarks(skipped: Sequence[SkippedRow]) -> list[str]:
    """One line per reason, with the number of rows."""
    counts = Counter(one.reason for one in skipped)
    return [f"{count} rows skipped: {one_line(reason)}" for reason, count in sorted(counts.items())]


def failure_remarks(failed: Sequence[FailedRow], *, consequence: str) -> list[str]:
    """One line per reason, with the number of rows and what happens to them."""
    counts = Counter(one.reason for one in failed)
    return [f"{count} rows failed and {consequence}: {one_line(reason)}" for reason, count in sorted(counts.items())]


def data_digest(path: Path, dataset: str) -> str:
    """SHA-256 of a data set's file, in hex; of several files in a directory, that of their digests in order."""
    digests = [file_sha256(file) for file in data_files(path, dataset)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


_HIGHLIGHT_HEADER = ("recall %", "precision %", "F1 %", "95% interval", "vs words", "95% interval")
_HEADER = ("method", "accuracy %", "95% interval", "vs words", "95% interval", "nothing found")


def comparison_table(scores: Sequence[MethodScore], remarks: Sequence[str], *, title: str) -> str:
    """The figures of all methods, one line each, between a title and remarks."""
    lines = [
        (
            score.method,
            f"{score.passage_accuracy:.1f}",
            interval_cell(score.interval),
            *_difference(score.difference_to_words, score.difference_interval),
            str(score.spans_without_evidence),
        )
        for score in scores
    ]
    parts = [one_line(title), text_table(_HEADER, lines)]
    for name in ("highlights", "sentences"):
        overlaps = [(score.method, getattr(score, name)) for score in scores]
        if any(overlap is not None for _, overlap in overlaps):
            own = [_overlap(method, overlap) for method, overlap in overlaps if overlap is not None]
            parts.append(text_table((name, *_HIGHLIGHT_HEADER), own))
    if any(score.ms_per_span is not None for score in scores):
        parts.append(text_table(("cost", "ms per span", "peak memory MiB"), [_cost(score) for score in scores]))
    return "\n".join([*parts, *map(one_line, remarks)])


def _cost(score: MethodScore) -> tuple[str, str, str]:
    values = (score.ms_per_span, score.peak_memory_mib)
    time_cell, memory_cell = ("" if value is None else f"{value:.1f}" for value in values)
    return score.method, time_cell, memory_cell


def _overlap(method: str, score: HighlightScore) -> tuple[str, ...]:
    return (
        method,
        *(f"{share:.1f}" for share in (score.recall, score.precision, score.f1)),
        interval_cell(score.f1_interval),
        *_difference(score.f1_difference_to_words, score.f1_difference_interval),
    )


def _difference(difference: float | None, interval: Interval | None) -> tuple[str, str]:
    return "" if difference is None else f"{difference:+.1f}", interval_cell(interval, sign="+")


_MOST_SKIPPED_LINES = 20
_FALLBACK = "decided by isolated evidence, because they have no other"
_STRICT = "left without evidence, because all of it is isolated"


def comparison_remarks(
    scores: Sequence[MethodScore], skipped: Sequence[SkippedRow], *, single_passage_spans: int, strict_isolation: bool
) -> list[str]:
    """What was skipped, and which spans and rows of each method count in a way of their own."""
    remarks = [f"skipped row {skip.row}: {skip.reason}" for skip in skipped]
    if len(skipped) > _MOST_SKIPPED_LINES:
        remarks = skip_remarks(skipped)
    if single_passage_spans:
        remarks.append(f"{single_passage_spans} spans have only one passage to choose from")
    for score in scores:
        if score.isolated_spans:
            how = _STRICT if strict_isolation else _FALLBACK
            remarks.append(f"{score.method}: {score.isolated_spans} of {score.spans} spans {how}")
        if score.failed_rows:
            reasons = ", ".join(sorted({failed.reason for failed in score.failed_rows}))
            remarks.append(f"{score.method}: {len(score.failed_rows)} rows failed and count as wrong: {reasons}")
    return remarks


def verdict_in_use(provenance: Mapping[str, str]) -> str:
    """One line on the thresholds that decided, from the provenance of an attributor."""
    if "answer_risk_threshold" in provenance:
        risk = provenance["answer_risk_threshold"]
        return f"verdict in use: {provenance['verdict']}, an answer has an unsupported claim from risk {risk} on"
    if "supported_threshold" in provenance:
        supported, weak = provenance["supported_threshold"], provenance["weak_threshold"]
        return f"verdict in use: mass, supported from {supported} on, unsupported below {weak}"
    return "verdict in use: none, no thresholds are known for this model and method"
