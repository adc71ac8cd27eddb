"""The facade: takes question, passages and answer, and returns the evidence of every target span.

In a process that was forked from one with an attributor, torch has one thread: the others stayed in the parent, and a
pass that needs them would wait for them forever.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

from attribeam.attribution.answers.answer_parser import AnswerParser, parse_each
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.target_spans import choose_target_spans
from attribeam.attribution.methods.audit_row import AuditRow, audit_provenance, evidence_of, model_outcomes
from attribeam.attribution.methods.method import LoadedModels, resolve_method
from attribeam.attribution.methods.models import (
    ModelChoice,
    encodes,
    load_audit_models,
    load_parser,
    with_chosen_dtypes,
)
from attribeam.attribution.option_declaration import takes_options
from attribeam.attribution.options import AttributorOptions, MethodOptions, ModelOptions
from attribeam.attribution.rows import (
    EncodedRow,
    PassageLike,
    Refusal,
    RowLike,
    SpanLike,
    SpanOutcome,
    check_record,
    record_of,
    records_of,
)
from attribeam.attribution.verdict.judge import judge_of
from attribeam.attribution.verdict.verified import with_calibrated_mass
from attribeam.schemas import QARecord, RowFault, SpanEvidence, SpanKind, Stage
from attribeam.schemas.errors import UsageError

if TYPE_CHECKING:
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.attribute_table import ArrowTable, ColumnNames, TableAudit, TableEvidence
    from attribeam.schemas.evidence_html import Explanation


class Attributor:
    """A parser and a model together; create one with ``from_pretrained``.

    Threads may share one. It cannot be pickled. A process that is forked from its own uses it with one thread of torch.

    While it loads or attributes, torch has the ``threads`` of ``from_pretrained``, one by default as in ``attribeam
    audit``; afterwards it has as many as before. On a busy machine of 2 cores, two threads took four times the
    processor time and the wall time of one for the same rows.
    """

    def __init__(
        self,
        *,
        parser: AnswerParser,
        models: LoadedModels,
        spans: Sequence[SpanKind],
        options: MethodOptions | None = None,
        threads: int | None = None,
    ) -> None:
        """Assemble loaded parts; without ``options``, the method comes from the attention model's settings.

        Without ``threads``, torch's own number is left as it is.

        Raises:
            UsageError: if the options name a method that cannot be used.
        """
        settle_after_fork()
        self.parser = parser
        self.spans = tuple(spans)
        self._threads = threads
        self._models = models
        self._options = options or (MethodOptions() if models.attention is None else models.attention.settings)
        self.method = resolve_method(self._options)

    @property
    def model(self) -> AttentionModel:
        """The attention model.

        Raises:
            RuntimeError: if the method does not use one.
        """
        if self._models.attention is None:
            raise RuntimeError(f"the method {self.method.name} has no attention model, but one was asked for")
        return self._models.attention

    @classmethod
    @takes_options(AttributorOptions)
    def from_pretrained(cls, options: AttributorOptions) -> Attributor:
        """Load model and parser.

        Omitting an option is the same as passing None: the model directory decides, then the paper's default.

        Raises:
            ModelLoadError: if the model or the parser cannot be loaded.
            DataError: if the verdict's files do not hold what they should.
            UsageError: if the method does not exist.
            ValueError: if an option is out of its range.
        """
        settle_after_fork(options.threads)
        method = with_calibrated_mass(options.only(MethodOptions), model=options.model)
        judge_of(method.asked_verdict)
        needs = resolve_method(method).needs
        with torch_threads(options.threads):
            model, method = with_chosen_dtypes(options.only(ModelOptions), method, needs)
            models = load_audit_models(ModelChoice(model=model, method=method), needs)
            parser = load_parser(options.parser)
        return cls(parser=parser, models=models, spans=options.spans, options=method, threads=options.threads)

    def attribute(
        self,
        *,
        question: str,
        passages: Sequence[PassageLike],
        answer: str,
        target_spans: Sequence[SpanLike] | None = None,
    ) -> list[SpanEvidence]:
        """The evidence of every target span of one answer.

        A passage is its text, a ``Passage``, a mapping with its fields, or a (title, text) pair. ``target_spans`` are
        half-open ranges of code points in ``answer``; a range that is given twice has a record for each, and is one
        claim.

        Raises:
            DataError: if a field is None or has another type than it should.
            RowFault: if the row cannot be attributed; its ``reason`` says why.
        """
        return [*self._spans_of(record_of(question, passages, answer, target_spans))]

    def explain(
        self,
        *,
        question: str,
        passages: Sequence[PassageLike],
        answer: str,
        target_spans: Sequence[SpanLike] | None = None,
    ) -> Explanation:
        """The evidence of one answer, which a notebook shows as the report does; ``attribute`` says what is taken.

        Raises:
            DataError, RowFault: as ``attribute``.
        """
        from attribeam.schemas.evidence_html import Explanation

        record = record_of(question, passages, answer, target_spans)
        return Explanation(record, self._spans_of(record))

    def _spans_of(self, record: QARecord) -> tuple[SpanEvidence, ...]:
        (outcome,) = self.attribute_many([record])
        if isinstance(outcome, RowFault):
            raise outcome
        return outcome

    def attribute_many(self, rows: Iterable[RowLike]) -> list[tuple[SpanEvidence, ...] | RowFault]:
        """One outcome per row, in the order of ``rows``; they run through the model in batches.

        A row is a ``QARecord``, or a dict with the names of a log's columns: ``question``, ``passages`` and ``answer``,
        perhaps ``target_spans``. Their values may be what ``attribute`` takes; None makes the row's outcome a
        ``RowFault``. Other keys are not read.

        Raises:
            UsageError: if ``rows`` is a table, which ``attribute_table`` takes, or a single row.
            DataError: if a row lacks a field, or a field has another type than it should.
        """
        given = records_of(rows)
        outcomes = iter(self._outcomes([row for row in given if isinstance(row, QARecord)]))
        merged = (row if isinstance(row, RowFault) else next(outcomes) for row in given)
        return [outcome.fault if isinstance(outcome, Refusal) else outcome for outcome in merged]

    def attribute_table(
        self,
        data: ArrowTable,
        *,
        columns: ColumnNames | None = None,
        extra_columns: Iterable[str] = (),
        name: str = "table",
        max_text_chars: int = 1_000_000,
        progress: bool = False,
    ) -> TableEvidence:
        """The evidence of all rows of a table as a table, and dead letters for rows that cannot be audited.

        The records are those of ``attribeam audit`` for a log with the same rows.

        ``data`` is a table of pyarrow, pandas, polars, DuckDB or any other library that gives Arrow data, or a
        ``datasets.Dataset``. Its columns are those of a log, see docs/schema.md; ``columns`` has those that are called
        otherwise by the names of their fields, as {"answer": "response"} or as the option ``--columns`` has them, with
        "" for a field that the table does not have, whatever its columns are called. ``extra_columns`` are carried
        through to the evidence, and ``name`` is the ``source_file`` of the records. A row with more code points in its
        texts than ``max_text_chars`` is a dead letter.

        Raises:
            UsageError: if ``data`` is no table, or a name is none of a field.
            LogFormatError: if a column is missing, is there twice or has another type than expected.
        """
        from attribeam.attribution.attribute_table import table_log

        log = table_log(data, columns=columns, extra_columns=extra_columns, name=name, max_text_chars=max_text_chars)
        return self._table_audit().of(log, progress=progress)

    def attribute_batches(
        self,
        data: ArrowTable,
        *,
        columns: ColumnNames | None = None,
        extra_columns: Iterable[str] = (),
        name: str = "table",
        max_text_chars: int = 1_000_000,
        progress: bool = False,
    ) -> Iterator[TableEvidence]:
        """As ``attribute_table``, for up to 256 rows at a time, for a table whose evidence does not fit into memory."""
        from attribeam.attribution.attribute_table import table_log

        log = table_log(data, columns=columns, extra_columns=extra_columns, name=name, max_text_chars=max_text_chars)
        return self._table_audit().batches(log, progress=progress)

    def provenance(self) -> dict[str, str]:
        """What the evidence depends on besides its input: models, parser, method, verdict, settings and versions.

        ``attribute_table`` writes it into the metadata of its tables.
        """
        fields = audit_provenance(self.method, self._options, self._models)
        return {**fields, "parser": self.parser.identity, "spacy_version": version("spacy")}

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Attributor cannot be pickled: let each process load its own with from_pretrained, or fork processes "
            "after it is loaded"
        )

    def _table_audit(self) -> TableAudit:
        from attribeam.attribution.attribute_table import TableAudit

        return TableAudit(self._outcomes, self.provenance(), self.method.gives_mass)

    def _outcomes(self, records: Sequence[QARecord]) -> list[SpanOutcome]:
        """One outcome per record, in order, by the stages of an audit."""
        with torch_threads(self._threads):
            encoded = [self._encoded(record) for record in records]
            rows: list[AuditRow | Refusal] = []
            for start in range(0, len(encoded), _PARSED_AT_ONCE):
                batch = encoded[start : start + _PARSED_AT_ONCE]
                parsed = iter(parse_each(self.parser, [pair[0] for pair in batch if not isinstance(pair, Refusal)]))
                rows += [pair if isinstance(pair, Refusal) else self._row(*pair, next(parsed)) for pair in batch]
            good = [row for row in rows if not isinstance(row, Refusal)]
            outcomes = model_outcomes(self.method, self._options, self._models, good)
            settings = None if self._models.attention is None else self._models.attention.settings
            pairs = [*zip(good, outcomes, strict=True)]
            evidence = evidence_of(pairs, method=self.method, options=self._options, settings=settings)
        results: Iterator[SpanOutcome] = (
            Refusal(Stage.ATTRIBUTE if spans is outcome else Stage.EVIDENCE, spans)
            if isinstance(spans, RowFault)
            else spans
            for outcome, spans in zip(outcomes, evidence, strict=True)
        )
        return [row if isinstance(row, Refusal) else next(results) for row in rows]

    def _encoded(self, record: QARecord) -> tuple[QARecord, EncodedRow | None] | Refusal:
        stage = Stage.VALIDATE
        try:
            check_record(record)
            stage = Stage.ATTRIBUTE
            return record, self.model.encode(record) if encodes(self.method.needs) else None
        except RowFault as fault:
            return Refusal(stage, fault)

    def _row(self, record: QARecord, encoded: EncodedRow | None, parsed: ParsedAnswer | RowFault) -> AuditRow | Refusal:
        if isinstance(parsed, RowFault):
            return Refusal(Stage.PARSE, parsed)
        spans = choose_target_spans(parsed, record.answer, kinds=self.spans, given=record.target_spans)
        return AuditRow(record, parsed, spans, encoded)


_PARSED_AT_ONCE = 64
_first_process: int | None = None
_lock = Lock()
_users, _before = 0, 1


def settle_after_fork(threads: int | None = None) -> None:
    """Remember the first process that calls this, and let torch have one thread in each that is forked from it.

    Raises:
        UsageError: if ``threads``, which are asked for, are more than one in a forked process.
    """
    global _first_process
    if _first_process is None:
        _first_process = os.getpid()
    if _first_process == os.getpid():
        return
    if threads is not None and threads > 1:
        raise UsageError(
            f"threads should be 1 in a process that was forked from one with an Attributor, was: {threads}; start "
            "processes with spawn, which may have more"
        )
    import torch

    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Let torch have this many threads inside; afterwards it has as many as before. None leaves its own.

    Several of a process's threads may be inside at once: the number that the first of them found is the one before.
    """
    global _users, _before
    settle_after_fork()
    if threads is None or _first_process != os.getpid():
        yield
        return
    import torch

    with _lock:
        _before = _before if _users else torch.get_num_threads()
        _users += 1
        before = _before
    try:
        torch.set_num_threads(threads)
        yield
    finally:
        torch.set_num_threads(before)
        with _lock:
            _users -= 1
