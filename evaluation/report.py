"""The output of an evaluation: a JSON file for scripts and a table for people."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attribeam.evaluation.comparison import FailedRow, MethodScore
from attribeam.evaluation.datasets.dataset_file import data_files
from attribeam.evaluation.measures.accuracy import HighlightScore
from attribeam.evaluation.measures.bootstrap import CONFIDENCE, Interval
from attribeam.report.messages import one_line, print_lines
from attribeam.schemas.errors import RunError
from attribeam.schemas.labelled_answer import SkippedRow
from attribeam.schemas.written_files import file_sha256, new_file


def text_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table for the terminal: header, rule and lines, the first column flush left and the others flush right."""
    shown = [[one_line(cell) for cell in line] for line in (header, *lines)]
    widths = [max(len(line[column]) for line in shown) for column in range(len(header))]
    return "\n".join(_aligned(line, widths) for line in (shown[0], ["-" * width for width in widths], *shown[1:]))


def interval_cell(interval: Interval | None, *, digits: int = 1, sign: str = "") -> str:
    """Both ends of an interval, empty for None; set ``sign`` to "+" to show a plus sign."""
    return "" if interval is None else f"{interval.low:{sign}.{digits}f} to {interval.high:{sign}.{digits}f}"


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
    return "  ".join([line[0].ljust(widths[0]), *cells]).rstrip()


def write_json(path: Path, value: object) -> None:
    """Write plain data; the file is replaced atomically, so that no reader sees half of it.

    Raises:
        OSError: if it cannot be written.
    """
    with new_file(path) as file:
        file.write((json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def skip_remarks(skipped: Sequence[SkippedRow]) -> list[str]:
    """One line per reason, with the number of rows."""
    counts = Counter(one.reason for one in skipped)
    return [f"{count} rows skipped: {one_line(reason)}" for reason, count in sorted(counts.items())]


def failure_remarks(failed: Sequence[FailedRow], *, consequence: str) -> list[str]:
    """One line per reason, with the number of rows and what happens to them."""
    counts = Counter(one.reason for one in failed)
    return [f"{count} rows failed and {consequence}: {one_line(reason)}" for reason, count in sorted(counts.items())]


def write_figures(path: Path | None, report: Any) -> None:
    """Write a dataclass as one JSON object; do nothing without a path.

    Raises:
        RunError: if it cannot be written.
    """
    if path is None:
        return
    try:
        write_json(path, asdict(report))
    except OSError as error:
        raise RunError(f"--output {path} could not be written: {error}") from error
    print_lines(f"written to {path}")


@dataclass(frozen=True, slots=True)
class RunDescription:
    """What the figures of one run depend on; the same for all of its methods.

    Attributes:
        dataset, data_file, data_sha256: the data set, and its file's name and digest.
        skipped_rows: rows of the file that are not part of the evaluation.
        single_passage_spans: spans whose row has only one passage, which any method gets right if it finds anything.
        bootstrap_draws, bootstrap_seed: number and seed of the resamples.
        limit: the number of answers that was asked for, None for all.
        provenance: model, parser, settings and versions.
        strict_isolation: whether spans with only isolated evidence lose it.
    """

    dataset: str
    data_file: str
    data_sha256: str
    skipped_rows: tuple[SkippedRow, ...]
    single_passage_spans: int
    bootstrap_draws: int
    bootstrap_seed: int
    limit: int | None
    provenance: Mapping[str, str]
    strict_isolation: bool = False


def data_digest(path: Path, dataset: str) -> str:
    """SHA-256 of a data set's file, in hex; of several files in a directory, that of their digests in order."""
    digests = [file_sha256(file) for file in data_files(path, dataset)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def write_comparison(path: Path, scores: Sequence[MethodScore], description: RunDescription) -> None:
    """Write a JSON list with one object per method; the file is replaced atomically.

    Raises:
        OSError: if it cannot be written.
    """
    entries = [{**asdict(score), "confidence": CONFIDENCE, **asdict(description)} for score in scores]
    write_json(path, entries)


def comparison_table(scores: Sequence[MethodScore], description: RunDescription) -> str:
    """The figures of all methods, one line each, followed by what was skipped and what failed."""
    lines = [_cells(score) for score in scores]
    header: tuple[str, ...] = ("method", "accuracy %", "95% interval", "vs words", "95% interval", "nothing found")
    parts = [_title(scores, description), text_table(header, lines)]
    if any(score.highlights is not None for score in scores):
        parts.append(_highlight_table("highlights", [(score.method, score.highlights) for score in scores]))
        parts.append(_highlight_table("sentences", [(score.method, score.sentences) for score in scores]))
    if any(score.ms_per_span is not None for score in scores):
        parts.append(text_table(("cost", "ms per span", "peak memory MiB"), [_cost(score) for score in scores]))
    return "\n".join([*parts, *map(one_line, _remarks(scores, description))])


def _cost(score: MethodScore) -> tuple[str, str, str]:
    values = (score.ms_per_span, score.peak_memory_mib)
    time_cell, memory_cell = ("" if value is None else _number(value) for value in values)
    return score.method, time_cell, memory_cell


def _highlight_table(title: str, scores: Sequence[tuple[str, HighlightScore | None]]) -> str:
    header = (title, "recall %", "precision %", "F1 %", "95% interval", "vs words", "95% interval")
    return text_table(header, [_overlap(method, score) for method, score in scores if score is not None])


def _overlap(method: str, score: HighlightScore) -> tuple[str, ...]:
    return (
        method,
        _number(score.recall),
        _number(score.precision),
        _number(score.f1),
        interval_cell(score.f1_interval),
        *_difference(score.f1_difference_to_words, score.f1_difference_interval),
    )


def _difference(difference: float | None, interval: Interval | None) -> tuple[str, str]:
    return (
        "" if difference is None else f"{difference:+.1f}",
        interval_cell(interval, sign="+"),
    )


def _title(scores: Sequence[MethodScore], description: RunDescription) -> str:
    of = f"{scores[0].spans} spans of {scores[0].rows} answers"
    return f"{description.dataset} ({one_line(description.data_file)}): {of}"


def _cells(score: MethodScore) -> tuple[str, ...]:
    return (
        score.method,
        _number(score.passage_accuracy),
        interval_cell(score.interval),
        *_difference(score.difference_to_words, score.difference_interval),
        str(score.spans_without_evidence),
    )


_MOST_SKIPPED_LINES = 20
_FALLBACK = "decided by isolated evidence, because they have no other"


def _remarks(scores: Sequence[MethodScore], description: RunDescription) -> list[str]:
    skipped = description.skipped_rows
    remarks = [f"skipped row {skip.row}: {skip.reason}" for skip in skipped]
    if len(skipped) > _MOST_SKIPPED_LINES:
        remarks = skip_remarks(skipped)
    if description.single_passage_spans:
        remarks.append(f"{description.single_passage_spans} spans have only one passage to choose from")
    for score in scores:
        if score.isolated_spans:
            how = "left without evidence, because all of it is isolated" if description.strict_isolation else _FALLBACK
            remarks.append(f"{score.method}: {score.isolated_spans} of {score.spans} spans {how}")
        reasons = sorted({failed.reason for failed in score.failed_rows})
        if reasons:
            remarks.append(
                f"{score.method}: {len(score.failed_rows)} rows failed and count as wrong: {', '.join(reasons)}"
            )
    return remarks


def _number(value: float) -> str:
    return f"{value:.1f}"


def verdict_in_use(provenance: Mapping[str, str]) -> str:
    """One line on the thresholds that decided, from the provenance of an attributor."""
    if "answer_risk_threshold" in provenance:
        risk = provenance["answer_risk_threshold"]
        return f"verdict in use: {provenance['verdict']}, an answer has an unsupported claim from risk {risk} on"
    if "supported_threshold" in provenance:
        supported, weak = provenance["supported_threshold"], provenance["weak_threshold"]
        return f"verdict in use: mass, supported from {supported} on, unsupported below {weak}"
    return "verdict in use: none, no thresholds are known for this model and method"
