"""Measure how well the support flag separates supported spans from unsupported ones.

``python -m lab.benchmarks.support_check`` audits answers with labelled spans, using the shipped defaults. It prints the
AUROC of the evidence mass and of the flag, for all spans and for each kind.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from attribeam.attribution.attributor import Attributor
from attribeam.attribution.option_declaration import BUNDLED_VERDICT_NAME, positive_integer, whole_number
from attribeam.attribution.options import ATTN_UNION_DEP, UNIONS
from attribeam.evaluation.datasets.dataset_file import DataRow, read_rows
from attribeam.evaluation.measures import (
    FailedRow,
    auroc,
    estimate_cells,
    row_draws,
    text_table,
    verdict_in_use,
)
from attribeam.evaluation.measures.judged_answers import audited_records, flag_order
from attribeam.report.messages import CommandParser, Messages, one_line, print_lines
from attribeam.schemas import CharRange, QARecord, RowFault, RowSource, SpanEvidence, Support
from attribeam.schemas.errors import AttribeamError, DataError, ExitCode
from lab.data_files import passage_of, span_chars

SHIPPED_ROWS = Path(__file__).with_name("support_rows.jsonl")
"""The rows that were written for this project."""
EVERYDAY_ROWS = Path(__file__).with_name("everyday_rows.jsonl")
"""More of them: short, freely worded answers over help pages, policies, leaflets and the like."""


class SpanTruth(StrEnum):
    """The kinds of labelled spans; the passages support the first two and not the others."""

    SUPPORTED = "supported"
    PARAPHRASE = "paraphrase"
    WRONG_NUMBER = "wrong number"
    WRONG_NAME = "wrong name"
    WRONG_DATE = "wrong date"
    INVENTED_CLAUSE = "invented clause"
    TRUE_BUT_ABSENT = "true but absent"
    CONTRADICTED = "contradicted"

    @property
    def supported(self) -> bool:
        """Whether the passages say it, in the same or in other words."""
        return self in (SpanTruth.SUPPORTED, SpanTruth.PARAPHRASE)


@dataclass(frozen=True, slots=True)
class SupportAnswer:
    """One answer; ``truths`` holds the kind of each of its target spans, of which there is at least one."""

    record: QARecord
    truths: tuple[SpanTruth, ...]

    @property
    def truth_of(self) -> dict[CharRange, SpanTruth]:
        """The kind of each target span, by its range."""
        return dict(zip(self.record.target_spans or (), self.truths, strict=True))


def load_support_rows(path: Path) -> tuple[SupportAnswer, ...]:
    """The answers of a ``.jsonl`` or ``.jsonl.xz`` file, in order; ``lab/NOTES.md`` shows a row.

    Raises:
        DataError: if the file cannot be read or a row is faulty; the message names row and field, not the text.
    """
    return tuple(_answer(row, path) for row in read_rows(path))


def _answer(row: DataRow, path: Path) -> SupportAnswer:
    answer, spans, passages = row.text("answer"), row.objects("spans"), row.objects("passages")
    if not spans or not passages:
        raise row.error("spans" if passages else "passages", "should have at least one item, was empty")
    chars = [span_chars(span, answer) for span in spans]
    if len(set(chars)) < len(chars):
        raise row.error("spans", f"should have {len(chars)} different ranges, some are equal")
    record = QARecord(
        record_id=row.text("record_id"),
        question=row.text("question"),
        passages=tuple(passage_of(passage) for passage in passages),
        answer=answer,
        source=RowSource(path.name, row.row),
        target_spans=tuple(chars),
    )
    return SupportAnswer(record, tuple(_truth(span) for span in spans))


def _truth(span: DataRow) -> SpanTruth:
    kind = span.text("kind")
    if kind not in [*SpanTruth]:
        raise span.error("kind", f"should be one of {[*map(str, SpanTruth)]}, was: {kind!r}")
    truth = SpanTruth(kind)
    if span.boolean("supported") is not truth.supported:
        raise span.error("supported", f"should be {str(truth.supported).lower()} for kind {kind!r}, was the opposite")
    return truth


@dataclass(frozen=True, slots=True)
class FlaggedSpan:
    """What an audit says about one labelled span; ``row`` is the answer's index among the audited answers."""

    row: int
    truth: SpanTruth
    evidence: SpanEvidence

    @property
    def flag(self) -> float:
        """A number that orders spans by support level, and by evidence mass within a level."""
        return flag_order(self.evidence.support, self.evidence.measured_mass)


def flagged_spans(
    answers: Sequence[SupportAnswer], attributor: Attributor
) -> tuple[list[FlaggedSpan], list[FailedRow]]:
    """What the audit says about every labelled span, answer by answer, and the answers that it refused."""
    spans: list[FlaggedSpan] = []
    failed: list[FailedRow] = []
    for index, outcome in audited_records([answer.record for answer in answers], attributor):
        answer = answers[index]
        if isinstance(outcome, RowFault):
            failed.append(FailedRow.of(answer.record, outcome))
        else:
            row = index - len(failed)
            spans += [FlaggedSpan(row, answer.truth_of[evidence.chars], evidence) for evidence in outcome]
    return spans, failed


def kind_lines(spans: Sequence[FlaggedSpan], *, draws: int, seed: int) -> list[tuple[str, ...]]:
    """The table's lines: all spans, then each kind that occurs, over the same resamples of rows.

    An unsupported kind is compared with all supported spans, a supported one with all unsupported ones.
    """
    counts = row_draws(1 + max(span.row for span in spans), draws=draws, seed=seed)
    lines = [_line("all", spans, spans, counts)]
    for kind in SpanTruth:
        own = [span for span in spans if span.truth is kind]
        others = [span for span in spans if span.truth.supported is not kind.supported]
        lines += [_line(kind, own, [*own, *others], counts)] if own else []
    return lines


def _line(
    kind: str, own: Sequence[FlaggedSpan], compared: Sequence[FlaggedSpan], counts: npt.NDArray[np.int64]
) -> tuple[str, ...]:
    right, rows = [span.truth.supported for span in compared], [span.row for span in compared]
    areas = [
        auroc(numbers, right, rows, counts)
        for numbers in ([span.evidence.measured_mass for span in compared], [span.flag for span in compared])
    ]
    shares = (
        _share(own, Support.UNSUPPORTED, Support.WEAK),
        _share(own, Support.SUPPORTED),
    )
    return (kind, str(len(own)), *(cell for area in areas for cell in estimate_cells(area, digits=3)), *shares)


def _share(spans: Sequence[FlaggedSpan], *levels: Support) -> str:
    return f"{100 * sum(span.evidence.support in levels for span in spans) / len(spans):.1f}"


_MISSED_SHARE = 0.05


def suggested_thresholds(spans: Sequence[FlaggedSpan]) -> tuple[float, float] | None:
    """The thresholds of evidence mass, supported and weak, that these spans suggest; None if one side is missing.

    ``supported`` maximises the share of supported spans called supported minus the share of unsupported spans called
    supported (Youden's index); spans with unmatched values are never called supported. If several values do, it is
    their mean. 95% of the supported spans reach ``weak``, which never exceeds ``supported``.
    """
    right = np.array([span.truth.supported for span in spans], dtype=np.bool_)
    if right.all() or not right.any():
        return None
    masses = np.array([span.evidence.measured_mass for span in spans])
    open_masses = np.where([bool(span.evidence.unmatched_values) for span in spans], -1.0, masses)
    cuts = np.linspace(0, 1, 1001)
    gain = _share_from(open_masses[right], cuts) - _share_from(open_masses[~right], cuts)
    supported = float(cuts[gain >= gain.max() - 1e-9].mean())
    return round(supported, 3), round(min(float(np.quantile(masses[right], _MISSED_SHARE)), supported), 3)


def _share_from(masses: npt.NDArray[np.float64], cuts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The share of masses at or above each cut."""
    return 1 - np.searchsorted(np.sort(masses), cuts, side="left") / len(masses)


_HEADER = ("kind", "spans", "AUROC mass", "95% interval", "AUROC flag", "95% interval", "flagged %", "supported %")


def support_lines(
    answers: Sequence[SupportAnswer], attributor: Attributor, *, data: Path, draws: int, seed: int
) -> Iterator[str]:
    """The lines to print: the table of ``answers``, which were loaded from ``data``, thresholds and failed rows.

    Raises:
        DataError: if no answer could be audited.
    """
    spans, failed = flagged_spans(answers, attributor)
    if not spans:
        reasons = sorted({failure.reason for failure in failed})
        raise DataError(f"data file {data} should have answers that can be audited, has none: {reasons}")
    rows = len(answers) - len(failed)
    yield one_line(f"{data.name}: {len(spans)} spans of {rows} answers, {attributor.method.name}")
    yield from text_table(_HEADER, kind_lines(spans, draws=draws, seed=seed)).split("\n")
    yield verdict_in_use(attributor.provenance())
    if (suggested := suggested_thresholds(spans)) is not None:
        yield f"thresholds of mass that these rows suggest: supported {suggested[0]}, weak {suggested[1]}"
    for supported, text, levels in (
        (False, "unsupported spans called unsupported or weak", (Support.UNSUPPORTED, Support.WEAK)),
        (True, "supported spans called supported", (Support.SUPPORTED,)),
    ):
        own = [span for span in spans if span.truth.supported is supported]
        if own:
            yield f"{text}: {_share(own, *levels)}%"
    for failure in failed:
        yield f"row {failure.row} failed and is left out: {failure.reason}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    args = _parse_arguments(arguments)
    try:
        answers = load_support_rows(args.rows)
        attributor = Attributor.from_pretrained(
            args.model,
            parser=args.parser,
            spans="given",
            threads=args.threads,
            method=args.method,
            verdict=args.verdict,
            device=args.device,
        )
        print_lines(*support_lines(answers, attributor, data=args.rows, draws=args.bootstrap_draws, seed=args.seed))
    except AttribeamError as error:
        Messages("lab.benchmarks.support_check").say(str(error))
        return error.exit_code
    return ExitCode.DONE


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(prog="python -m lab.benchmarks.support_check", description=__doc__)
    add = parser.add_argument
    add("--rows", type=Path, default=SHIPPED_ROWS, metavar="FILE", help="labelled rows (default: those of the lab)")
    add("--model", default="bundled", help="bundled, a hub id or a directory (default: bundled)")
    add("--parser", default="bundled", help="bundled, a spaCy pipeline or a directory")
    add("--method", choices=UNIONS, default=ATTN_UNION_DEP)
    add("--verdict", default=BUNDLED_VERDICT_NAME, help="bundled, mass or a directory (default: bundled)")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:1 (default: auto)")
    add("--threads", type=positive_integer, help="CPU threads of torch")
    add("--bootstrap-draws", type=positive_integer, default=2000, help="number of resamples (default: 2000)")
    add("--seed", type=whole_number, default=0, help="seed of the resamples (default: 0)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
