"""The stages of an audit: read rows, tokenise them, parse their answers, run the models, make tables of evidence.

Tokens come first, so that an answer too long for the model is refused before the parser sees it. Spans and their
evidence are masked by where they stand in the whole texts: a piece may hold half of an e-mail address, in which nothing
could be recognised.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from attribeam.attribution.answers.answer_parser import AnswerParser, parse_each
from attribeam.attribution.answers.target_spans import choose_target_spans
from attribeam.attribution.methods.audit_row import (
    AuditRow,
    Outcome,
    RowFindings,
    evidence_of,
    model_outcomes,
    runs_models,
)
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.methods.models import load_audit_models
from attribeam.attribution.models.model_directory import load_row_encoder
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.rows import EncodedRow
from attribeam.attribution.verdict.fitted_parts import UNREAD
from attribeam.logs.files import LogStorage
from attribeam.logs.privacy import MASK, Redactor, SlowPatternError, masked_record
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import FaultyRow, RowRange
from attribeam.schemas import EvidencePiece, QARecord, Reason, RowFault, SpanEvidence, Stage
from attribeam.schemas.evidence_record import evidence_table
from attribeam.schemas.qa_record import reading_stage
from attribeam.schemas.run_manifest import sample_passages
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import RowGroup, dead_letter, dead_letter_of_faulty_row, pack_rows, timed_stage

if TYPE_CHECKING:
    import torch

BLOCK_ROWS = 256
_BLOCK_TOKENS = 131_072
_CHARS_PER_TOKEN = 4
_PARSED_ROWS = 64
_PARSED_CHARS = 50_000
"""spaCy needs some kilobytes per character while it parses."""
_MODEL_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="attribeam-model")
"""One thread per process, shared by all groups; it starts with the first block."""
StartedBlock = Sequence[Outcome] | Future[Sequence[Outcome]]
"""One outcome per row of a block, now or in a future of a thread or process; errors surface with the result."""


def audit_stages(
    settings: AuditSettings, evidence: pa.Schema, model: BlockModel | None = None
) -> dict[str, Callable[[RowGroup], RowGroup]]:
    """The stages of an audit by name, in their order: a group of records in, one of evidence tables out.

    ``model`` runs the blocks of rows; without one, each process loads models of its own.
    """
    return {
        "EncodeRows": partial(encode_rows, settings=settings),
        "ParseAnswers": partial(parse_answers, settings=settings),
        "AuditRows": partial(audit_rows, settings=settings, schema=evidence, model=model),
    }


def read_rows(
    group: RowGroup, settings: AuditSettings, storage: LogStorage, fatal_rows: Mapping[int, str] | None = None
) -> RowGroup:
    """Ranges in, the records of their rows out, in order.

    ``fatal_rows`` are not audited, because each has ended a worker process; the value says how it ended. They are None
    before the last try, in which rows that memory does not suffice to read become dead letters, too.
    """

    def records() -> Iterator[QARecord]:
        for rows in group.rows:
            for outcome in _outcomes(rows, settings, storage, last_try=fatal_rows is not None):
                if isinstance(outcome, FaultyRow):
                    group.refuse(dead_letter_of_faulty_row(outcome, reading_stage(outcome.fault.reason), settings))
                elif (how := (fatal_rows or {}).get(outcome.source.source_row)) is not None:
                    message = (
                        f"the worker process should survive any row, but ended by {how} on this row alone; give it "
                        "more memory, or leave the row out of the log"
                    )
                    group.refuse(dead_letter(outcome, RowFault(Reason.WORKER_DIED, message), Stage.READ, settings))
                else:
                    yield outcome

    return group.with_rows(records())


def _outcomes(
    rows: RowRange, settings: AuditSettings, storage: LogStorage, *, last_try: bool
) -> Iterator[QARecord | FaultyRow]:
    outcomes = QALog(rows.file, settings.log_options, storage, rows.stamp).outcomes(
        range(rows.row_start, rows.row_end), duplicate_rows=rows.duplicate_rows, last_try=last_try
    )
    while True:
        with timed_stage("read"):
            outcome = next(outcomes, None)
        if outcome is None:
            return
        yield outcome


def encode_rows(group: RowGroup, settings: AuditSettings) -> RowGroup:
    """Records in, pairs of a record and its tokens out, None where no model reads them.

    A record that is too long for the model, and so for the parser, is a dead letter.
    """

    def rows() -> Iterator[tuple[QARecord, EncodedRow | None]]:
        encoder = load_row_encoder(settings.model) if settings.encodes_rows else None
        for record in group.rows:
            try:
                with timed_stage("encode"):
                    encoded = None if encoder is None else encoder.encode(record)
            except RowFault as fault:
                group.refuse(dead_letter(record, fault, Stage.ATTRIBUTE, settings))
            else:
                yield record, encoded

    return group.with_rows(rows())


def parse_answers(group: RowGroup, settings: AuditSettings) -> RowGroup:
    """Pairs of a record and its tokens in, ``AuditRow``s out; an answer that the parser fails on is a dead letter."""

    def rows() -> Iterator[AuditRow]:
        parser = take_parser(settings.parser)
        for batch in pack_rows(
            group.rows, max_rows=_PARSED_ROWS, weigh=lambda row: len(row[0].answer), max_weight=_PARSED_CHARS
        ):
            with timed_stage("parse"):
                outcomes = parse_each(parser, [record for record, _ in batch])
            for (record, encoded), parsed in zip(batch, outcomes, strict=True):
                if isinstance(parsed, RowFault):
                    group.refuse(dead_letter(record, parsed, Stage.PARSE, settings))
                    continue
                kinds, given = settings.span_kinds, record.target_spans
                with timed_stage("parse"):
                    spans = choose_target_spans(parsed, record.answer, kinds=kinds, given=given)
                yield AuditRow(record, parsed, spans, encoded)
        return_parser(settings.parser, parser)

    return group.with_rows(rows())


_idle_parsers: dict[str, list[AnswerParser]] = defaultdict(list)
_parsers_lock = Lock()


def take_parser(name: str) -> AnswerParser:
    """A parser for the caller alone: an idle one of this process, or else a new one.

    One thread loads at a time: Python 3.11 sometimes fails where two parse literals at once, as numpy does for the
    heads of its files (https://github.com/python/cpython/issues/106905).

    Raises:
        FileNotFoundError, ValueError: as ``AnswerParser.from_pretrained``.
    """
    with _parsers_lock:
        return _idle_parsers[name].pop() if _idle_parsers[name] else AnswerParser.from_pretrained(name)


def return_parser(name: str, parser: AnswerParser) -> None:
    """Make a parser available to the next ``take_parser``; the caller must not use it any more."""
    with _parsers_lock:
        _idle_parsers[name].append(parser)


class BlockModel(Protocol):
    """Runs blocks through the models of a method."""

    @property
    def settings(self) -> MethodOptions | None:
        """The method's options merged with the model's; None without an attention model."""
        ...

    def start(self, rows: Sequence[AuditRow]) -> StartedBlock:
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

    def start(self, rows: Sequence[AuditRow]) -> StartedBlock:
        """See ``BlockModel``."""
        if runs_in_model_thread(self._models.device):
            return _MODEL_THREAD.submit(self._run, rows, time.thread_time)
        return self._run(rows, time.process_time)

    def _run(self, rows: Sequence[AuditRow], cpu_seconds: Callable[[], float]) -> Sequence[Outcome]:
        with timed_stage("attribute", cpu_seconds):
            return model_outcomes(self._method, self._options, self._models, rows)


def runs_in_model_thread(device: torch.device) -> bool:
    """Whether the model runs in its own thread: True on a GPU."""
    return device.type != "cpu"


def audit_rows(group: RowGroup, settings: AuditSettings, schema: pa.Schema, model: BlockModel | None) -> RowGroup:
    """``AuditRow``s in, tables of the evidence schema out, one per block; faulty rows are dead letters.

    Counts the audited rows in the group. Without ``model``, models of this process run; a method that needs none loads
    nothing.
    """

    def tables() -> Iterator[pa.Table]:
        method, redactor, counts = resolve_method(settings.method), Redactor(settings.privacy), group.counts
        runs = (model or OwnModels(settings)) if runs_models(method, settings.method) else None
        merged = None if runs is None else runs.settings
        for pairs in attributed_blocks(group.rows, runs):
            audited: list[tuple[QARecord, tuple[SpanEvidence, ...]]] = []
            with timed_stage("evidence"):
                evidence = evidence_of(pairs, method=method, options=settings.method, settings=merged)
            for (row, outcome), spans in zip(pairs, evidence, strict=True):
                try:
                    with timed_stage("evidence"):
                        if isinstance(spans, RowFault):
                            raise spans
                        audited.append(redacted(row.record, spans, redactor))
                except RowFault as fault:
                    of = Stage.ATTRIBUTE if fault is outcome else Stage.EVIDENCE
                    group.refuse(dead_letter(row.record, fault, of, settings))
                else:
                    if row.encoded is not None:
                        counts.tokens += row.encoded.token_count
                        counts.rows_in_windows += bool(row.encoded.windows)
                    if isinstance(outcome, RowFindings) and outcome.reading is not None:
                        counts.rows_unread += outcome.reading == UNREAD
                        counts.rows_asked += 1
            records = [record for record, _ in audited]
            texts = (passage.text for record in records for passage in record.passages)
            counts.passage_sample = sample_passages(texts, counts.passage_sample)
            counts.notes.update(note for record in records for note in record.notes)
            group.on_rows(len(audited))
            with timed_stage("write"):
                table = evidence_table(audited, schema)
            if table.num_rows:
                yield table

    return group.with_rows(tables())


def attributed_blocks(rows: Iterable[AuditRow], model: BlockModel | None) -> Iterator[list[tuple[AuditRow, Outcome]]]:
    """The rows with what the models found for each, or its fault, in blocks of many batches.

    So rows of similar length can share a batch. Outcomes that are computed elsewhere are waited for when the next block
    was started, or all rows were read; the model works meanwhile.
    """
    waiting: tuple[tuple[AuditRow, ...], Future[Sequence[Outcome]]] | None = None
    for block in pack_rows(rows, max_rows=BLOCK_ROWS, weigh=_token_count, max_weight=_BLOCK_TOKENS):
        outcomes: StartedBlock = [RowFindings() for _ in block] if model is None else model.start(block)
        if waiting is not None:
            yield [*zip(waiting[0], waiting[1].result(), strict=True)]
        waiting = (block, outcomes) if isinstance(outcomes, Future) else None
        if not isinstance(outcomes, Future):
            yield [*zip(block, outcomes, strict=True)]
    if waiting is not None:
        yield [*zip(waiting[0], waiting[1].result(), strict=True)]


def _token_count(row: AuditRow) -> int:
    """Tokens of prompt and response, those of all its windows where a row has some; else an estimate."""
    if row.encoded is not None:
        return row.encoded.token_count
    record = row.record
    return 1 + (len(record.answer) + sum(len(passage.text) for passage in record.passages)) // _CHARS_PER_TOKEN


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
    whole, shown = (
        [text for passage in of.passages for text in (passage.title or "", passage.text)] for of in (record, masked)
    )

    def piece(given: EvidencePiece) -> EvidencePiece:
        passage = masked.passages[given.passage_index]
        text = (passage.title or "") if given.in_title else passage.text
        return replace(given, text=given.chars.of(text), passage_id=passage.passage_id)

    def redacted_span(span: SpanEvidence) -> SpanEvidence:
        values = (_masked_value(value, [record.answer], [masked.answer]) for value in span.unmatched_values)
        top = span.top_passage_index
        return replace(
            span,
            text=span.chars.of(masked.answer),
            evidence=tuple(map(piece, span.evidence)),
            unmatched_values=tuple(values),
            expected=None if span.expected is None else _masked_value(span.expected, whole, shown),
            top_passage_id=span.top_passage_id if top is None else masked.passages[top].passage_id,
        )

    return masked, tuple(map(redacted_span, spans))


def _masked_value(value: str, texts: Sequence[str], masked: Sequence[str]) -> str:
    """A value of the texts, with what is masked wherever it occurs; all masked if it occurs nowhere and any text is."""
    shown: list[str] = []
    for text, mask in zip(texts, masked, strict=True):
        start = text.find(value) if value else -1
        while start >= 0:
            shown.append(mask[start : start + len(value)])
            start = text.find(value, start + 1)
    if not shown and masked != texts:
        return MASK * len(value)
    return "".join(MASK if any(text[at] != value[at] for text in shown) else mark for at, mark in enumerate(value))
