"""Stages 2 and 3: tokenise records, parse their answers, and choose target spans.

Tokens come first, so that an answer too long for the model is refused before the parser sees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

from attribeam.attribution.answers.answer_parser import AnswerParser, parse_each
from attribeam.attribution.answers.target_spans import choose_target_spans
from attribeam.attribution.methods.audit_row import AuditRow
from attribeam.attribution.models.row_encoder import load_row_encoder
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import QARecord, RowFault, Stage
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import RowGroup, dead_letter, packs
from attribeam.transforms.stage_metrics import stage

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
