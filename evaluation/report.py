"""What an evaluation leaves behind: a JSON file for scripts, and a table for people."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from evaluation.bootstrap import CONFIDENCE, Interval
from evaluation.comparison import MethodScore
from evaluation.highlight_overlap import HighlightScore
from evaluation.labelled_answer import SkippedRow


@dataclass(frozen=True, slots=True)
class RunDescription:
    """What the figures of one run depend on; the same for all of its methods.

    Attributes:
        dataset, data_file, data_sha256: the data set, its file's name and digest.
        skipped_rows: rows of the file that are no part of the evaluation.
        single_passage_spans: spans whose row has one passage only, so that every answer but none is right.
        bootstrap_draws, bootstrap_seed: of the intervals.
        limit: the number of answers asked for, None for all.
        provenance: model, parser, settings and versions.
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


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_report(path: Path, scores: Sequence[MethodScore], description: RunDescription) -> None:
    """A JSON list with one object a method; the file is replaced as a whole.

    Raises:
        OSError: if it cannot be written.
    """
    entries = [{**asdict(score), "confidence": CONFIDENCE, **asdict(description)} for score in scores]
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)


def table(scores: Sequence[MethodScore], description: RunDescription) -> str:
    """The figures of all methods, one line each, with what was skipped and what failed below."""
    lines = [_cells(score) for score in scores]
    header: tuple[str, ...] = ("method", "accuracy %", "95% interval", "vs words", "95% interval", "nothing found")
    parts = [_title(scores, description), _columns(header, lines)]
    if any(score.highlights is not None for score in scores):
        parts.append(_highlight_table("highlights", [(score.method, score.highlights) for score in scores]))
        parts.append(_highlight_table("sentences", [(score.method, score.sentences) for score in scores]))
    return "\n".join([*parts, *_remarks(scores, description)])


def _highlight_table(title: str, scores: Sequence[tuple[str, HighlightScore | None]]) -> str:
    header = (title, "recall %", "precision %", "F1 %", "95% interval", "vs words", "95% interval")
    return _columns(header, [_overlap(method, score) for method, score in scores if score is not None])


def _overlap(method: str, score: HighlightScore) -> tuple[str, ...]:
    return (
        method,
        _number(score.recall),
        _number(score.precision),
        _number(score.f1),
        _interval(score.f1_interval),
        *_difference(score.f1_difference_to_words, score.f1_difference_interval),
    )


def _difference(difference: float | None, interval: Interval | None) -> tuple[str, str]:
    return (
        "" if difference is None else f"{difference:+.1f}",
        "" if interval is None else _interval(interval, sign="+"),
    )


def _columns(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]
    return "\n".join(_aligned(line, widths) for line in (header, tuple("-" * width for width in widths), *lines))


def _title(scores: Sequence[MethodScore], description: RunDescription) -> str:
    return f"{description.dataset} ({description.data_file}): {scores[0].spans} spans of {scores[0].rows} answers"


def _cells(score: MethodScore) -> tuple[str, ...]:
    return (
        score.method,
        _number(score.passage_accuracy),
        _interval(score.interval),
        *_difference(score.difference_to_words, score.difference_interval),
        str(score.spans_without_evidence),
    )


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.ljust(width) if not place else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join([first, *rest]).rstrip()


def _remarks(scores: Sequence[MethodScore], description: RunDescription) -> list[str]:
    remarks = [f"skipped row {skip.row}: {skip.reason}" for skip in description.skipped_rows]
    if description.single_passage_spans:
        remarks.append(f"{description.single_passage_spans} spans have one passage to choose from")
    for score in scores:
        reasons = sorted({failed.reason for failed in score.failed_rows})
        if reasons:
            remarks.append(
                f"{score.method}: {len(score.failed_rows)} rows failed and count as wrong: {', '.join(reasons)}"
            )
    return remarks


def _number(value: float) -> str:
    return f"{value:.1f}"


def _interval(interval: Interval, *, sign: str = "") -> str:
    return f"{interval.low:{sign}.1f} to {interval.high:{sign}.1f}"
