"""Stages 2 and 3: tokenise records, parse their answers, and choose target spans.

Tokens come first, so that an answer too long for the model is refused before the parser sees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

import apache_beam as beam

from attribeam.attribution.answers.answer_parser import AnswerParser, parse_each
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.target_spans import choose_target_spans
from attribeam.attribution.methods.audit_row import AuditRow
from attribeam.attribution.models.row_encoder import load_row_encoder
from attribeam.schemas import QARecord, RowFault, Stage, TargetSpan
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.dead_letters import DEAD_LETTERS, DeadLetterOffice
from attribeam.transforms.elements import PackRows, TokenisedRow, register_row_coders
from attribeam.transforms.stage_metrics import stage


@dataclass
class EncodeRows(beam.PTransform):
    """Tokenises every row once: a ``TokenisedRow`` (main output), or a dead letter if it is too long.

    If the method needs no attention model, rows pass without tokens.
    """

    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()
        register_row_coders()

    def expand(self, records: beam.PCollection) -> beam.pvalue.DoOutputsTuple:
        encode = beam.ParDo(Encode(self.settings)).with_output_types(TokenisedRow)
        return records | encode.with_outputs(DEAD_LETTERS, main="rows")


class Encode(beam.DoFn):
    """A record in, one outcome out."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._office = DeadLetterOffice(Stage.ATTRIBUTE, settings)

    def setup(self) -> None:
        self._encoder = load_row_encoder(self._settings.model) if self._settings.encodes_rows else None

    def process(self, record: QARecord) -> Iterator[TokenisedRow | beam.pvalue.TaggedOutput]:
        try:
            with stage("encode"):
                encoded = None if self._encoder is None else self._encoder.encode(record)
        except RowFault as fault:
            yield self._office.refuse(record, fault)
        else:
            yield TokenisedRow(record, encoded)


_idle_parsers: dict[str, list[AnswerParser]] = defaultdict(list)
_parsers_lock = Lock()


def take_parser(name: str) -> AnswerParser:
    """A parser for the caller alone: an idle one of this process, or else a new one.

    Raises:
        FileNotFoundError, ValueError: as ``AnswerParser.from_pretrained``.
    """
    with _parsers_lock:
        if _idle_parsers[name]:
            return _idle_parsers[name].pop()
    return AnswerParser.from_pretrained(name)


def return_parser(name: str, parser: AnswerParser) -> None:
    """Make a parser available to the next ``take_parser``; the caller must not use it any more."""
    with _parsers_lock:
        _idle_parsers[name].append(parser)


MICRO_BATCH_ROWS = 64
MICRO_BATCH_CHARS = 50_000
"""spaCy needs some kilobytes per character while it parses."""


@dataclass
class ParseAnswers(beam.PTransform):
    """Parses every answer: an ``AuditRow`` (main output), or a dead letter if the parser fails."""

    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, rows: beam.PCollection) -> beam.pvalue.DoOutputsTuple:
        gather = beam.ParDo(pack_for_parser())
        parse = beam.ParDo(ParseRows(self.settings)).with_output_types(AuditRow)
        return (
            rows
            | "GatherRows" >> gather.with_output_types(beam.typehints.Tuple[TokenisedRow, ...])
            | "Parse" >> parse.with_outputs(DEAD_LETTERS, main="parsed")
        )


def pack_for_parser() -> PackRows:
    """Micro-batches of ``TokenisedRow``."""
    return PackRows(MICRO_BATCH_ROWS, weigh=answer_chars, max_weight=MICRO_BATCH_CHARS)


class ParseRows(beam.DoFn):
    """Turns a micro-batch of rows into one outcome per row, in order."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._office = DeadLetterOffice(Stage.PARSE, settings)

    def setup(self) -> None:
        self._parser = take_parser(self._settings.parser)

    def teardown(self) -> None:
        return_parser(self._settings.parser, self._parser)

    def process(self, rows: Sequence[TokenisedRow]) -> Iterator[AuditRow | beam.pvalue.TaggedOutput]:
        with stage("parse"):
            outcomes = parse_each(self._parser, [row.record for row in rows])
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
