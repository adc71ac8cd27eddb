"""Stages 2 and 3: tokenise records, parse their answers, and choose target spans.

Tokens come first, so that an answer too long for the model is refused before the parser sees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from attribeam.attribution.answers.answer_parser import AnswerParser, parse_each
from attribeam.attribution.answers.target_spans import choose_target_spans
from attribeam.attribution.methods.audit_row import AuditRow, Outcome, RowFindings, model_outcomes, runs_models
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.methods.models import load_audit_models
from attribeam.attribution.models.row_encoder import load_row_encoder
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.logs.files import LogStorage
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import FaultyRow, RowRange
from attribeam.schemas import DeadLetter, QARecord, Reason, RowFault, Stage
from attribeam.schemas.qa_record import reading_stage
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import RowGroup, dead_letter, packs, stage, thread_stage

if TYPE_CHECKING:
    import torch
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pyarrow as pa

from attribeam.attribution.methods.audit_row import evidence_of
from attribeam.attribution.verdict.state_probe import UNREAD
from attribeam.logs.privacy.masked_record import masked_record
from attribeam.logs.privacy.redactor import MASK, Redactor
from attribeam.logs.privacy.settings import SlowPatternError
from attribeam.schemas import CharRange, EvidencePiece, SpanEvidence
from attribeam.schemas.evidence_record import evidence_table
from attribeam.schemas.run_manifest import sample_passages
from attribeam.transforms.row_groups import RowCounts, tell_rows_finished


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


BLOCK_ROWS = 256
BLOCK_TOKENS = 131_072
_CHARS_PER_TOKEN = 4
_MODEL_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="attribeam-model")
"""One thread per process, shared by all groups; it starts with the first block."""


class Pending(Protocol):
    """Outcomes that a thread or another process computes."""

    def result(self) -> Sequence[Outcome]:
        """One outcome per row, once they are ready; exceptions of the model surface here."""
        ...


@dataclass(frozen=True, slots=True)
class AttributedBlock:
    """Rows with what the models found for each, in order, or the fault of a row that they could not process.

    ``settings`` are the method's options merged with the model's, None without a model.
    """

    rows: tuple[AuditRow, ...]
    outcomes: Sequence[Outcome] | Pending
    settings: MethodOptions | None

    @property
    def is_pending(self) -> bool:
        """Whether the outcomes are computed in the model's thread or process; it may be done by now."""
        return not isinstance(self.outcomes, Sequence)

    def pairs(self) -> list[tuple[AuditRow, Outcome]]:
        """Each row and its outcome, once they are ready; exceptions of the model surface here."""
        outcomes = self.outcomes if isinstance(self.outcomes, Sequence) else self.outcomes.result()
        return [*zip(self.rows, outcomes, strict=True)]


class BlockModel(Protocol):
    """Runs blocks through the models of a method."""

    @property
    def settings(self) -> MethodOptions | None:
        """The method's options merged with the model's; None without an attention model."""
        ...

    def start(self, rows: Sequence[AuditRow]) -> Sequence[Outcome] | Pending:
        """Run a block, or start on it."""
        ...


class OwnModels:
    """The models of this process, which are loaded once for all of its threads.

    On a GPU they work in a thread of their own, while other blocks are parsed and written. On a CPU all stages share
    the processors anyway.
    """

    def __init__(self, settings: AuditSettings) -> None:
        """Load the models.

        Raises:
            ModelLoadError: as ``load_audit_models``.
        """
        self._method, self._options = resolve_method(settings.method), settings.method
        self._models = load_audit_models(settings.models, self._method.needs)

    @property
    def settings(self) -> MethodOptions | None:
        """See ``BlockModel``."""
        return None if self._models.attention is None else self._models.attention.settings

    def start(self, rows: Sequence[AuditRow]) -> Sequence[Outcome] | Pending:
        """See ``BlockModel``."""
        if runs_in_model_thread(self._models.device):
            return _MODEL_THREAD.submit(self._run_in_thread, rows)
        with stage("attribute"):
            return model_outcomes(self._method, self._options, self._models, rows)

    def _run_in_thread(self, rows: Sequence[AuditRow]) -> list[Outcome]:
        with thread_stage("attribute"):
            return model_outcomes(self._method, self._options, self._models, rows)


def runs_in_model_thread(device: torch.device) -> bool:
    """Whether the model runs in its own thread: True on a GPU."""
    return device.type != "cpu"


_elsewhere: BlockModel | None = None


def run_blocks_elsewhere(model: BlockModel) -> None:
    """Let all stages of this process use ``model``, which runs in another process, instead of models of their own.

    Beam pickles its stages, so what cannot be pickled belongs to the process.
    """
    global _elsewhere
    _elsewhere = model


def attributed_blocks(group: RowGroup, settings: AuditSettings) -> Iterator[AttributedBlock]:
    """The ``AuditRow``s of a group in blocks of many batches, so that rows of similar length can share a batch.

    A block with pending outcomes comes when the next one was started, or all rows were read; the model works meanwhile.
    A method without a model loads nothing.
    """
    model: BlockModel | None = None
    if runs_models(resolve_method(settings.method), settings.method):
        model = _elsewhere or OwnModels(settings)
    pending: AttributedBlock | None = None
    for rows in packs(group.rows, max_rows=BLOCK_ROWS, weigh=_token_count, max_weight=BLOCK_TOKENS):
        if model is None:
            block = AttributedBlock(rows, [RowFindings() for _ in rows], None)
        else:
            block = AttributedBlock(rows, model.start(rows), model.settings)
        if pending is not None:
            yield pending
        pending = block if block.is_pending else None
        if pending is None:
            yield block
    if pending is not None:
        yield pending


def _token_count(row: AuditRow) -> int:
    """Tokens of prompt and response, those of all its windows where a row has some; else an estimate."""
    if row.encoded is not None:
        return row.encoded.token_count
    record = row.record
    return 1 + (len(record.answer) + sum(len(one.text) for one in record.passages)) // _CHARS_PER_TOKEN


def audit_stages(settings: AuditSettings, evidence: pa.Schema) -> dict[str, Callable[[RowGroup], RowGroup]]:
    """The stages of an audit by name, in their order: a group of records in, one of evidence tables out."""
    return {
        "EncodeRows": partial(encode_rows, settings=settings),
        "ParseAnswers": partial(parse_answers, settings=settings),
        "AuditRows": partial(audit_rows, settings=settings, schema=evidence),
    }


def redacted(
    record: QARecord, spans: Sequence[SpanEvidence], redactor: Redactor
) -> tuple[QARecord, tuple[SpanEvidence, ...]]:
    """The record and its spans with the texts that may be written; all offsets stay.

    Raises:
        RowFault: if a pattern of the user's takes too long on a text of the row.
    """
    try:
        masked = masked_record(record, redactor)
    except SlowPatternError as error:
        message = (
            f"every text should be searched in time, but {error}; mend the pattern, or leave the row out of the log"
        )
        raise RowFault(Reason.REDACTION_FAILED, message) from error
    return masked, tuple(_redacted(span, record, masked) for span in spans)


def _redacted(span: SpanEvidence, record: QARecord, masked: QARecord) -> SpanEvidence:
    def piece(one: EvidencePiece) -> EvidencePiece:
        passage = masked.passages[one.passage_index]
        text = (passage.title or "") if one.in_title else passage.text
        return replace(one, text=one.chars.of(text), passage_id=passage.passage_id)

    def expected(text: str) -> str:
        return _masked_value(text, _passage_texts(record), _passage_texts(masked))

    values = (_masked_value(value, [record.answer], [masked.answer]) for value in span.unmatched_values)
    top = span.top_passage_index
    return replace(
        span,
        text=span.chars.of(masked.answer),
        evidence=tuple(map(piece, span.evidence)),
        unmatched_values=tuple(values),
        expected=None if span.expected is None else expected(span.expected),
        top_passage_id=span.top_passage_id if top is None else masked.passages[top].passage_id,
    )


def _passage_texts(record: QARecord) -> list[str]:
    return [text for passage in record.passages for text in (passage.title or "", passage.text)]


def _masked_value(value: str, texts: Sequence[str], masked: Sequence[str]) -> str:
    """A value of the texts, with what is masked wherever it occurs; all masked if it occurs nowhere and any text is."""
    shown = [place.of(mask) for text, mask in zip(texts, masked, strict=True) for place in _occurrences(value, text)]
    if not shown and masked != texts:
        return MASK * len(value)
    return "".join(MASK if any(one[at] != value[at] for one in shown) else mark for at, mark in enumerate(value))


def _occurrences(value: str, text: str) -> Iterator[CharRange]:
    start = text.find(value) if value else -1
    while start >= 0:
        yield CharRange(start, start + len(value))
        start = text.find(value, start + 1)


def audit_rows(group: RowGroup, settings: AuditSettings, schema: pa.Schema) -> RowGroup:
    """Stages 4 and 5: ``AuditRow``s in, tables of the evidence schema out, one per block; faulty rows are dead letters.

    Counts the audited rows in the group.
    """

    def tables() -> Iterator[pa.Table]:
        method, redactor = resolve_method(settings.method), Redactor(settings.privacy)
        for block in attributed_blocks(group, settings):
            audited: list[tuple[QARecord, tuple[SpanEvidence, ...]]] = []
            pairs = block.pairs()
            with stage("evidence"):
                evidence = evidence_of(pairs, method=method, options=settings.method, settings=block.settings)
            for (row, outcome), spans in zip(pairs, evidence, strict=True):
                try:
                    with stage("evidence"):
                        if isinstance(spans, RowFault):
                            raise spans
                        audited.append(redacted(row.record, spans, redactor))
                except RowFault as fault:
                    of = Stage.ATTRIBUTE if fault is outcome else Stage.EVIDENCE
                    group.refuse(dead_letter(row.record, fault, of, settings))
                else:
                    if isinstance(outcome, RowFindings):
                        _count(group.counts, row, outcome)
            records = [record for record, _ in audited]
            texts = (passage.text for record in records for passage in record.passages)
            group.counts.passage_sample = sample_passages(texts, group.counts.passage_sample)
            group.counts.notes.update(note for record in records for note in record.notes)
            tell_rows_finished(len(audited))
            with stage("write"):
                table = evidence_table(audited, schema)
            if table.num_rows:
                yield table

    return group.of(tables())


def _count(counts: RowCounts, row: AuditRow, found: RowFindings) -> None:
    if row.encoded is not None:
        counts.tokens += row.encoded.token_count
        counts.rows_in_windows += bool(row.encoded.windows)
    counts.rows_unread += found.reading == UNREAD
    counts.rows_asked += found.reading is not None
