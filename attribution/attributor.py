"""The facade: takes question, passages and answer, and returns the evidence of every target span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeAlias

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.target_spans import choose_target_spans
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.audit_row import AuditRow, Outcome, evidence_of, model_outcomes
from attribeam.attribution.methods.models import ModelChoice, encodes, load_audit_models
from attribeam.attribution.methods.registry import resolve_method
from attribeam.attribution.option_declaration import takes_options
from attribeam.attribution.options import AttributorOptions, MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource, SpanEvidence, SpanKind

if TYPE_CHECKING:
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.models.language_model import LanguageModel

PassageLike: TypeAlias = str | Passage | Mapping[str, str | None] | tuple[str | None, str]

_PASSAGE_FIELDS = tuple(field.name for field in fields(Passage))


class Attributor:
    """A parser and a model together; create one with ``from_pretrained``."""

    def __init__(
        self,
        *,
        parser: AnswerParser,
        model: AttentionModel | None,
        spans: Sequence[SpanKind],
        options: MethodOptions | None = None,
        language: LanguageModel | None = None,
    ) -> None:
        """Assemble loaded parts; without ``options``, the method comes from the model's settings.

        Raises:
            UsageError: if the options name a method that cannot be used.
        """
        self.parser = parser
        self.spans = tuple(spans)
        self._options = options or (MethodOptions() if model is None else model.settings)
        self.method = resolve_method(self._options)
        self._models = LoadedModels(attention=model, language=language, hidden_layer=self._options.hidden_layer)

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
            ModelLoadError: if the model cannot be loaded.
            UsageError: if the method does not exist.
            ValueError: if an option is out of its range.
        """
        method = options.only(MethodOptions)
        choice = ModelChoice.of(model=options.only(ModelOptions), method=method, threads=options.threads)
        models = load_audit_models(choice, resolve_method(method).needs)
        return cls(
            parser=AnswerParser.from_pretrained(options.parser),
            model=models.attention,
            spans=options.spans,
            options=method,
            language=models.language,
        )

    def attribute(
        self,
        *,
        question: str,
        passages: Sequence[PassageLike],
        answer: str,
        target_spans: Sequence[tuple[int, int]] | None = None,
    ) -> list[SpanEvidence]:
        """The evidence of every target span of one answer.

        A passage is its text, a ``Passage``, a mapping with its fields, or a (title, text) pair. ``target_spans`` are
        half-open ranges of code points in ``answer``.

        Raises:
            RowFault: if the row cannot be attributed; its ``reason`` says why.
        """
        record = _record(question, passages, answer, target_spans)
        outcome = self.attribute_many([record])[0]
        if isinstance(outcome, RowFault):
            raise outcome
        return list(outcome)

    def attribute_many(self, records: Sequence[QARecord]) -> list[tuple[SpanEvidence, ...] | RowFault]:
        """One outcome per record, in the order of ``records``; rows run through the model in batches."""
        checked = [self._encoded(record) for record in records]
        parsed = iter(self.parser.parse_many([one[0].answer for one in checked if not isinstance(one, RowFault)]))
        rows = [one if isinstance(one, RowFault) else self._row(*one, next(parsed)) for one in checked]
        outcomes = iter(
            model_outcomes(self.method, self._models, [row for row in rows if not isinstance(row, RowFault)])
        )
        return [row if isinstance(row, RowFault) else self._evidence(row, next(outcomes)) for row in rows]

    def _encoded(self, record: QARecord) -> tuple[QARecord, EncodedRow | None] | RowFault:
        try:
            _check_record(record)
            return record, self.model.encode(record) if encodes(self.method.needs) else None
        except RowFault as fault:
            return fault

    def _row(self, record: QARecord, encoded: EncodedRow | None, parsed: ParsedAnswer) -> AuditRow:
        spans = choose_target_spans(parsed, record.answer, kinds=self.spans, given=record.target_spans)
        return AuditRow(record, parsed, spans, encoded)

    def _evidence(self, row: AuditRow, outcome: Outcome) -> tuple[SpanEvidence, ...] | RowFault:
        if isinstance(outcome, RowFault):
            return outcome
        settings = None if self._models.attention is None else self._models.attention.settings
        try:
            return evidence_of(row, outcome, method=self.method, options=self._options, settings=settings)
        except RowFault as fault:
            return fault


def _record(
    question: str,
    passages: Sequence[PassageLike],
    answer: str,
    target_spans: Sequence[tuple[int, int]] | None,
) -> QARecord:
    try:
        spans = None if target_spans is None else tuple(CharRange(start, end) for start, end in target_spans)
    except ValueError as error:
        raise RowFault(Reason.SPAN_OUT_OF_RANGE, str(error), column="target_spans") from error
    return QARecord(
        record_id="row",
        question=question,
        passages=tuple(_passage(passage) for passage in passages),
        answer=answer,
        source=RowSource("", 0),
        target_spans=spans,
    )


def _passage(passage: PassageLike) -> Passage:
    if isinstance(passage, Passage):
        return passage
    if isinstance(passage, str):
        return Passage(text=passage)
    if isinstance(passage, Mapping):
        unknown = sorted(set(passage) - set(_PASSAGE_FIELDS))
        if unknown or not isinstance(passage.get("text"), str):
            raise ValueError(f"a passage should have 'text' and at most {_PASSAGE_FIELDS}, but has: {sorted(passage)}")
        return Passage(text=str(passage["text"]), title=passage.get("title"), passage_id=passage.get("passage_id"))
    title, text = passage
    return Passage(text=text, title=title)


def _check_record(record: QARecord) -> None:
    """Refuse what a QA log's validation refuses, for callers who build records themselves."""
    if not record.answer.strip():
        raise RowFault(Reason.EMPTY_ANSWER, "the answer should have words, but is empty", column="answer")
    if not any(passage.text.strip() for passage in record.passages):
        raise RowFault(Reason.NO_PASSAGES, "there should be a passage with text, but there is none", column="passages")
    for span in record.target_spans or ():
        if span.char_end > len(record.answer):
            message = f"spans should end within the {len(record.answer)} code points of the answer, one ends at "
            raise RowFault(Reason.SPAN_OUT_OF_RANGE, f"{message}{span.char_end}", column="target_spans")
