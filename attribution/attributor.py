"""The facade: question, passages and answer in, evidence of every target span out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TypeAlias

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.target_spans import choose_target_spans
from attribeam.attribution.attention.attention_model import AttentionModel, load_attention_model
from attribeam.attribution.evidence.span_evidence import span_evidence
from attribeam.attribution.option_declaration import takes_options
from attribeam.attribution.options import AttributorOptions, MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource, SpanEvidence, SpanKind

PassageLike: TypeAlias = str | Passage | Mapping[str, str | None] | tuple[str | None, str]

_PASSAGE_FIELDS = tuple(field.name for field in fields(Passage))


class Attributor:
    """Parser and model together; made by ``from_pretrained``."""

    def __init__(self, *, parser: AnswerParser, model: AttentionModel, spans: Sequence[SpanKind]) -> None:
        self.parser = parser
        self.model = model
        self.spans = tuple(spans)

    @classmethod
    @takes_options(AttributorOptions)
    def from_pretrained(cls, options: AttributorOptions) -> Attributor:
        """Load model and parser.

        Leaving an option out is the same as giving None: the model directory decides, then the paper's default.

        Raises:
            ModelLoadError: if the model cannot be loaded.
            ValueError: if an option is out of its range.
        """
        return cls(
            parser=AnswerParser.from_pretrained(options.parser),
            model=load_attention_model(
                options.only(ModelOptions), method=options.only(MethodOptions), threads=options.threads
            ),
            spans=options.spans,
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
        """One outcome a record, in the order of ``records``; rows run through the model in batches."""
        encoded = [self._encode(record) for record in records]
        good = [(record, row) for record, row in zip(records, encoded, strict=True) if isinstance(row, EncodedRow)]
        attributed = self.model.attribute([row for _, row in good], [len(record.passages) for record, _ in good])
        parsed = self.parser.parse_many([record.answer for record, _ in good])
        found = (
            tokens if isinstance(tokens, RowFault) else self._evidence(record, row, tokens, tree)
            for (record, row), tokens, tree in zip(good, attributed, parsed, strict=True)
        )
        return [*_merged(encoded, found)]

    def _encode(self, record: QARecord) -> EncodedRow | RowFault:
        try:
            _check_record(record)
            return self.model.encode(record)
        except RowFault as fault:
            return fault

    def _evidence(
        self, record: QARecord, encoded: EncodedRow, tokens: TokenAttribution, parsed: ParsedAnswer
    ) -> tuple[SpanEvidence, ...] | RowFault:
        spans = choose_target_spans(parsed, record.answer, kinds=self.spans, given=record.target_spans)
        try:
            return span_evidence(
                record=record, parsed=parsed, spans=spans, encoded=encoded, tokens=tokens, settings=self.model.settings
            )
        except RowFault as fault:
            return fault


def _merged(
    encoded: Sequence[EncodedRow | RowFault], found: Iterator[tuple[SpanEvidence, ...] | RowFault]
) -> Iterator[tuple[SpanEvidence, ...] | RowFault]:
    """Put the outcomes of the rows that could be encoded back among the faults of those that could not."""
    for row in encoded:
        yield row if isinstance(row, RowFault) else next(found)


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
            raise ValueError(f"a passage should have 'text' and at most {_PASSAGE_FIELDS}, has: {sorted(passage)}")
        return Passage(text=str(passage["text"]), title=passage.get("title"), passage_id=passage.get("passage_id"))
    title, text = passage
    return Passage(text=text, title=title)


def _check_record(record: QARecord) -> None:
    """Refuse what a QA log's validation refuses, for callers that bring records of their own."""
    if not record.answer.strip():
        raise RowFault(Reason.EMPTY_ANSWER, "the answer should have words, is empty", column="answer")
    if not any(passage.text.strip() for passage in record.passages):
        raise RowFault(Reason.NO_PASSAGES, "there should be a passage with text, there is none", column="passages")
    for span in record.target_spans or ():
        if span.char_end > len(record.answer):
            message = f"spans should end within the {len(record.answer)} code points of the answer, one ends at "
            raise RowFault(Reason.SPAN_OUT_OF_RANGE, f"{message}{span.char_end}", column="target_spans")
