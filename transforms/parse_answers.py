"""Stages 2 and 3: tokenised rows in, answers parsed and target spans chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam

from attribution.answers.answer_parser import AnswerParser
from attribution.answers.parsed_answer import ParsedAnswer
from attribution.answers.target_spans import choose_target_spans
from schemas import QARecord, Reason, RowFault, Stage, TargetSpan
from transforms.audit_row import AuditRow, TokenisedRow
from transforms.audit_settings import AuditSettings
from transforms.dead_letters import DEAD_LETTERS, DeadLetterOffice
from transforms.pack_rows import PackRows
from transforms.parser_pool import give_parser_back, take_parser
from transforms.stage_clock import stage

MICRO_BATCH_ROWS = 64
MICRO_BATCH_CHARS = 50_000
"""spaCy needs some kilobytes a character while it parses."""


@dataclass
class ParseAnswers(beam.PTransform):
    """Parses every answer: an ``AuditRow`` (main output), or a dead letter where the parser fails on it."""

    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, rows: beam.PCollection) -> beam.pvalue.DoOutputsTuple:
        gather = beam.ParDo(PackRows(MICRO_BATCH_ROWS, weigh=answer_chars, max_weight=MICRO_BATCH_CHARS))
        parse = beam.ParDo(ParseRows(self.settings)).with_output_types(AuditRow)
        return (
            rows
            | "GatherRows" >> gather.with_output_types(beam.typehints.Tuple[TokenisedRow, ...])
            | "Parse" >> parse.with_outputs(DEAD_LETTERS, main="parsed")
        )


class ParseRows(beam.DoFn):
    """A micro-batch of rows in, one outcome a row out, in order."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._office = DeadLetterOffice(Stage.PARSE, settings.dead_letter_text)

    def setup(self) -> None:
        self._parser = take_parser(self._settings.parser)

    def teardown(self) -> None:
        give_parser_back(self._settings.parser, self._parser)

    def process(self, rows: Sequence[TokenisedRow]) -> Iterator[AuditRow | beam.pvalue.TaggedOutput]:
        with stage("parse"):
            outcomes = parse_each(self._parser, [row.record.answer for row in rows])
        for row, outcome in zip(rows, outcomes, strict=True):
            if isinstance(outcome, RowFault):
                yield self._office.refuse(row.record, outcome)
            else:
                yield AuditRow(row.record, outcome, self._spans(row.record, outcome), row.encoded)

    def _spans(self, record: QARecord, parsed: ParsedAnswer) -> tuple[TargetSpan, ...]:
        with stage("parse"):
            return choose_target_spans(
                parsed, record.answer, kinds=self._settings.span_kinds, given=record.target_spans
            )


def answer_chars(row: TokenisedRow) -> int:
    """Code points of the answer."""
    return len(row.record.answer)


def parse_each(parser: AnswerParser, answers: Sequence[str]) -> list[ParsedAnswer | RowFault]:
    """One outcome an answer. Where a batch fails, its answers are parsed one by one, and only the bad ones fail.

    A parser is a program of others that meets any text; what it raises on one is that row's fault. Running out of
    memory is not.
    """
    try:
        return list(parser.parse_many(answers))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - does not go on: a lone answer becomes a fault, others are tried alone
        if len(answers) == 1:
            message = f"the parser should take any answer, raised {type(error).__name__}; try another --parser"
            return [RowFault(Reason.PARSE_FAILED, message, column="answer")]
    return [outcome for answer in answers for outcome in parse_each(parser, [answer])]
