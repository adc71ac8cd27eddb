"""Stages 2 and 3: tokenise records, parse their answers, and choose target spans.

Tokens come first, so that an answer too long for the model is refused before the parser sees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Lock

from attribeam.attribution.answers.answer_parser import AnswerParser, parse_each
from attribeam.attribution.answers.target_spans import choose_target_spans
from attribeam.attribution.methods.audit_row import AuditRow
from attribeam.attribution.models.row_encoder import load_row_encoder
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.logs.files import LogStorage
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import FaultyRow, RowRange
from attribeam.schemas import DeadLetter, QARecord, Reason, RowFault, Stage
from attribeam.schemas.dead_letter import reading_stage
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import RowGroup, dead_letter, packs, stage


def read_rows(
    group: RowGroup, settings: AuditSettings, storage: LogStorage, fatal_rows: Mapping[int, str] | None = None
) -> RowGroup:
    """Ranges in, the records of their rows out, in order.

    ``fatal_rows`` are not audited, because each has ended a worker process; the value says how it ended. They are None
    before the last try, in which rows that memory does not suffice to read become dead letters, too.
    """
    fatal = fatal_rows or {}

    def records() -> Iterator[QARecord]:
        for rows in group.rows:
            for outcome in _outcomes(rows, settings, storage, last_try=fatal_rows is not None):
                if isinstance(outcome, FaultyRow):
                    group.refuse(_letter_of(outcome, settings))
                elif (how := fatal.get(outcome.source.source_row)) is not None:
                    group.refuse(dead_letter(outcome, worker_died(how), Stage.READ, settings))
                else:
                    yield outcome

    return group.of(records())


def _outcomes(
    rows: RowRange, settings: AuditSettings, storage: LogStorage, *, last_try: bool
) -> Iterator[QARecord | FaultyRow]:
    outcomes = QALog(rows.file, settings.log_options, storage, rows.stamp).outcomes(
        range(rows.row_start, rows.row_end), duplicate_rows=rows.duplicate_rows, last_try=last_try
    )
    while True:
        with stage("read"):
            outcome = next(outcomes, None)
        if outcome is None:
            return
        yield outcome


def _letter_of(row: FaultyRow, settings: AuditSettings) -> DeadLetter:
    return DeadLetter(
        record_id=row.record_id,
        source=row.source,
        stage=reading_stage(row.fault.reason),
        reason=row.fault.reason,
        message=str(row.fault),
        column=row.fault.column,
        answer=row.answer if settings.dead_letter_text else None,
    )


def worker_died(how: str) -> RowFault:
    """The fault of a row whose worker process ended by, say, "signal SIGKILL"."""
    return RowFault(
        Reason.WORKER_DIED,
        f"the worker process should survive any row, but ended by {how} on this row alone; give it more memory, or "
        "leave the row out of the log",
    )


MICRO_BATCH_ROWS = 64
MICRO_BATCH_CHARS = 50_000
"""spaCy needs some kilobytes per character while it parses."""


@dataclass(frozen=True, slots=True)
class TokenisedRow:
    """A record and its tokens, short enough for the model and so for the parser; None where no model reads them."""

    record: QARecord
    encoded: EncodedRow | None


def encode_rows(group: RowGroup, settings: AuditSettings) -> RowGroup:
    """Records in, ``TokenisedRow``s out; a record that is too long for the model is a dead letter."""

    def rows() -> Iterator[TokenisedRow]:
        encoder = load_row_encoder(settings.model) if settings.encodes_rows else None
        for record in group.rows:
            try:
                with stage("encode"):
                    row = TokenisedRow(record, None if encoder is None else encoder.encode(record))
            except RowFault as fault:
                group.refuse(dead_letter(record, fault, Stage.ATTRIBUTE, settings))
            else:
                yield row

    return group.of(rows())


def parse_answers(group: RowGroup, settings: AuditSettings) -> RowGroup:
    """``TokenisedRow``s in, ``AuditRow``s out; an answer that the parser fails on is a dead letter."""

    def rows() -> Iterator[AuditRow]:
        parser = take_parser(settings.parser)
        batches = packs(group.rows, max_rows=MICRO_BATCH_ROWS, weigh=_answer_chars, max_weight=MICRO_BATCH_CHARS)
        for batch in batches:
            with stage("parse"):
                outcomes = parse_each(parser, [row.record for row in batch])
            for row, parsed in zip(batch, outcomes, strict=True):
                record = row.record
                if isinstance(parsed, RowFault):
                    group.refuse(dead_letter(record, parsed, Stage.PARSE, settings))
                    continue
                with stage("parse"):
                    spans = choose_target_spans(
                        parsed, record.answer, kinds=settings.span_kinds, given=record.target_spans
                    )
                yield AuditRow(record, parsed, spans, row.encoded)
        return_parser(settings.parser, parser)

    return group.of(rows())


def _answer_chars(row: TokenisedRow) -> int:
    return len(row.record.answer)


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
