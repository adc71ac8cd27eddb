"""The evidence record, one per target span, its Arrow schema, and tables of records.

Tables are made column by column, which is faster than row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.schemas.errors import SCHEMA_VERSION
from attribeam.schemas.qa_record import RANGE, CharRange, QARecord, described_fields


class ClaimKind(StrEnum):
    """What a span is; only a ``CLAIM`` is judged."""

    CLAIM = "claim"
    DISCOURSE = "discourse"
    """Words about the answer or its sources: "Based on the given passages", "follow these steps"."""
    REFUSAL = "refusal"
    """What the answer says it cannot say: "the passages do not mention a date"."""
    HEADING = "heading"
    """A heading, a label, or a line that introduces a list."""
    QUESTION = "question"
    OFFER = "offer"
    """Courtesy to the reader: "let me know if you have other questions"."""
    LANGUAGE = "language"
    """A language or script that parser and model do not read, in the answer or in most of its passages."""
    CODE = "code"
    """Code, or a formula."""
    TABLE = "table"
    """A cell of a table or a field that says too little to be judged: a check mark, "true"."""

    @property
    def is_judgeable(self) -> bool:
        """False for what cannot be read as a statement: another language, code, a check mark in a table."""
        return self not in (ClaimKind.LANGUAGE, ClaimKind.CODE, ClaimKind.TABLE)


class AnswerKind(StrEnum):
    """What an answer is as a whole."""

    ANSWER = "answer"
    """It makes claims."""
    REFUSAL = "refusal"
    """It refuses, and claims nothing."""
    PARTIAL = "partial"
    """It makes claims, and refuses something."""
    NOT_JUDGED = "not_judged"
    """Nothing in it can be judged: another language, code, tables."""
    NO_CLAIM = "no_claim"
    """It neither claims nor refuses."""


_T = TypeVar("_T")


class SpanKind(StrEnum):
    """How a target span was chosen."""

    GIVEN = "given"
    SENTENCES = "sentences"
    FACTS = "facts"
    MENTIONS = "mentions"
    WORDS = "words"


class Support(StrEnum):
    """Whether the passages support a span; the first three are verdicts on claims (``VERDICTS``)."""

    SUPPORTED = "supported"
    WEAK = "weak"
    UNSUPPORTED = "unsupported"
    NO_CLAIM = "no_claim"
    """The span claims nothing: a heading, a question, words about the answer or its sources."""
    NOT_JUDGED = "not_judged"
    """The span cannot be judged here: another language, code, a table; its ``claim_kind`` says which."""
    NOT_CALIBRATED = "not_calibrated"
    """The span is a claim, but nothing says how much evidence is enough with this model."""


class UnsupportedReason(StrEnum):
    """Why an unsupported claim is called so."""

    NOT_IN_PASSAGES = "not_in_passages"
    """The passages say nothing of the kind."""
    OTHER_VALUE = "other_value"
    """The evidence has another number, amount or unit."""
    OTHER_ENTITY = "other_entity"
    """The evidence says it of another person, place or thing."""
    OTHER_TIME = "other_time"
    """The evidence has another year, date or time of the day."""
    NEGATED = "negated"
    """The evidence says the opposite: one of the two is negated."""
    REVERSED = "reversed"
    """The evidence has the roles the other way round: who did what to whom."""


class SupportedHow(StrEnum):
    """How the passages support a supported claim."""

    QUOTED = "quoted"
    """A passage says it word by word."""
    PARAPHRASED = "paraphrased"
    """A passage says it in other words."""
    COMBINED = "combined"
    """Several passages or sentences say it together."""


VERDICTS = (Support.SUPPORTED, Support.WEAK, Support.UNSUPPORTED)
"""What a claim can be called, best first."""


@dataclass(frozen=True, slots=True)
class TargetSpan:
    """A span of the answer to attribute."""

    kind: SpanKind
    chars: CharRange


@dataclass(frozen=True, slots=True)
class EvidencePiece:
    """Whole words of one passage that hold neighbouring evidence tokens.

    ``chars`` is a range of the passage's text, or of its title if ``in_title``. ``score`` is the sum of the attribution
    scores w(t, d_j) of its tokens (Section 3.2), in attention mass.
    """

    passage_index: int
    passage_id: str | None
    in_title: bool
    chars: CharRange
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class TokenEvidence:
    """One evidence token of a passage's text or title, and its attribution score w(t, d_j), in attention mass."""

    passage_index: int
    in_title: bool
    chars: CharRange
    score: float


@dataclass(frozen=True, slots=True)
class SpanEvidence:
    """What the passages say about one target span; ``text == answer[char_start:char_end]`` of its ``chars``.

    ``atomic_fact`` are the ranges of the answer whose attributions were united for this span, the span itself
    included. ``evidence`` is ordered by falling score. ``passage_scores`` has one sum of scores per passage. ``margin``
    is the lead of the best passage over the second as a share of all scores, 0 to 1 (1 if there is no second);
    ``top_passage_index``, counted from 0, and ``margin`` are None if no passage got any score. ``evidence_isolated``:
    all evidence was isolated; it stands unfiltered, or with ``strict_isolation`` there is none. ``evidence_mass`` is
    the share of the span's attention on its evidence, 0 to 1; None if the method has no such share. ``sentence_cut``:
    the span's sentence was too long for the parser, so that its atomic fact may be incomplete.

    ``claim_index`` is the ``span_index`` of the claim whose verdict the span takes: its own for a claim, None where
    there is no claim. ``support_score`` is a calibrated probability, 0 to 1, that the passages support the claim; None
    where it was not judged. ``answer_kind`` and ``answer_risk``, a calibrated probability that the answer has an
    unsupported claim, are the same for all spans of an answer. ``expected`` is what the evidence has instead of what an
    unsupported claim says, in its words: "twelve" beside "fifteen". ``reason``, ``expected``, ``how`` and
    ``evidence_agrees`` are None where the verdict does not tell, as that by evidence mass. ``token_evidence`` has every
    evidence token, in the order of the prompt; None unless it was asked for.
    """

    span_index: int
    span_kind: SpanKind
    chars: CharRange
    text: str
    atomic_fact: tuple[CharRange, ...]
    evidence: tuple[EvidencePiece, ...]
    passage_scores: tuple[float, ...]
    top_passage_index: int | None
    top_passage_id: str | None
    margin: float | None
    evidence_mass: float | None
    evidence_isolated: bool
    support: Support
    unmatched_values: tuple[str, ...]
    sentence_cut: bool = False
    claim_kind: ClaimKind = ClaimKind.CLAIM
    claim_index: int | None = None
    support_score: float | None = None
    answer_kind: AnswerKind = AnswerKind.ANSWER
    answer_risk: float | None = None
    unsupported_words: tuple[CharRange, ...] = ()
    reason: UnsupportedReason | None = None
    expected: str | None = None
    how: SupportedHow | None = None
    evidence_agrees: bool | None = None
    cited_passages: tuple[int, ...] = ()
    citation_agrees: bool | None = None
    token_evidence: tuple[TokenEvidence, ...] | None = None

    @property
    def is_claim(self) -> bool:
        """True for a claim itself; False for what takes its verdict from one, claims nothing or is not judged."""
        return self.claim_index == self.span_index

    @property
    def is_counted(self) -> bool:
        """True for what counts once: a claim, and a span without one; see ``attribeam.schemas.evidence_record``."""
        return self.claim_index in (None, self.span_index)

    @property
    def why(self) -> str:
        """Why it has its verdict: "other value — evidence says: twelve", "quoted"; empty where nothing is told.

        It may hold text of a passage.
        """
        reason = (self.reason or self.how or "").replace("_", " ")
        return f"{reason} — evidence says: {self.expected}" if self.expected else reason

    def _repr_html_(self) -> str:
        from attribeam.schemas.evidence_html import span_html

        return span_html(self)

    @property
    def measured_mass(self) -> float:
        """The evidence mass.

        Raises:
            ValueError: if the method has none.
        """
        if self.evidence_mass is None:
            raise ValueError("a method with an evidence mass was expected, this one has none; use attn-union-dep")
        return self.evidence_mass


def span_of_row(row: Mapping[str, Any]) -> SpanEvidence:
    """What a row of ``evidence_table`` says of its span, from Python values."""
    values = {field.name: row[field.name] for field in fields(SpanEvidence) if field.name != "chars"}
    values |= {name: make(row[name]) for name, make in _MADE.items() if row[name] is not None}
    return SpanEvidence(chars=_range_of(row), **values)


def stored_evidence(row: Mapping[str, Any]) -> SpanEvidence:
    """The same without its verdict."""
    unjudged: Any = {field.name: field.default for field in fields(SpanEvidence) if field.name in _OF_VERDICT}
    return replace(span_of_row(row), support=Support.NOT_CALIBRATED, **unjudged)


_OF_VERDICT = frozenset(
    {"claim_kind", "support_score", "answer_kind", "answer_risk", "unsupported_words", "reason", "expected", "how"}
    | {"evidence_agrees", "cited_passages", "citation_agrees"}
)


def _range_of(row: Mapping[str, Any]) -> CharRange:
    return CharRange(row["char_start"], row["char_end"])


def _ranges_of(rows: Sequence[Mapping[str, Any]]) -> tuple[CharRange, ...]:
    return tuple(map(_range_of, rows))


def _located(kind: Callable[..., _T], row: Mapping[str, Any]) -> _T:
    """A piece or token of evidence, whose range is two fields of its row."""
    return kind(chars=_range_of(row), **{name: value for name, value in row.items() if name not in _RANGE_FIELDS})


_MADE: Mapping[str, Callable[[Any], object]] = {
    "span_kind": SpanKind,
    "support": Support,
    "claim_kind": ClaimKind,
    "answer_kind": AnswerKind,
    "reason": UnsupportedReason,
    "how": SupportedHow,
    "passage_scores": tuple,
    "unmatched_values": tuple,
    "cited_passages": tuple,
    "atomic_fact": _ranges_of,
    "unsupported_words": _ranges_of,
    "evidence": lambda rows: tuple(_located(EvidencePiece, row) for row in rows),
    "token_evidence": lambda rows: tuple(_located(TokenEvidence, row) for row in rows),
}


def evidence_schema(
    *, extra_fields: Sequence[pa.Field] = (), metadata: Mapping[str, str] | None = None, has_mass: bool = True
) -> pa.Schema:
    """The Arrow schema of ``evidence/``; every field carries its description in its metadata.

    ``extra_fields`` are the fields of ``--extra-columns``; ``metadata`` is the run's provenance. Without ``has_mass``
    the evidence mass may be null.

    Raises:
        ValueError: if an extra field has the name of a field of the record.
    """
    own = described_fields(_EVIDENCE_FIELDS, nullable=() if has_mass else ("evidence_mass",))
    taken = {field.name for field in own}.intersection(field.name for field in extra_fields)
    if taken:
        raise ValueError(
            f"extra column {min(taken)!r} has the name of a field of the evidence record; "
            "rename it in the log or leave it out of --extra-columns"
        )
    return pa.schema([*own, *extra_fields], metadata={"attribeam.schema_version": SCHEMA_VERSION, **(metadata or {})})


_RANGE_FIELDS = ("char_start", "char_end")
_INDEX, _IN_TITLE = pa.field("passage_index", pa.int32(), False), pa.field("in_title", pa.bool_(), False)
_TEXT, _SCORE = pa.field("text", pa.string(), False), pa.field("score", pa.float32(), False)
_PIECE = pa.struct([_INDEX, pa.field("passage_id", pa.string()), _IN_TITLE, *RANGE, _TEXT, _SCORE])
_TOKEN = pa.struct([_INDEX, _IN_TITLE, *RANGE, _SCORE])

_EVIDENCE_FIELDS: tuple[tuple[str, pa.DataType, bool, str], ...] = (
    ("record_id", pa.string(), False, "id of the audited row, from the log"),
    ("source_file", pa.string(), False, "input file of the row"),
    ("source_row", pa.int64(), False, "0-based row within source_file"),
    ("answered_at", pa.timestamp("us", tz="UTC"), True, "when the answer was given, from the log"),
    ("generator", pa.string(), True, "what gave the answer, from the log"),
    ("span_index", pa.int32(), False, "0-based index of the target span within the row"),
    ("span_kind", pa.string(), False, "how the span was chosen: given, sentences, facts, mentions, words"),
    ("char_start", pa.int32(), False, "first code point of the span in the answer"),
    ("char_end", pa.int32(), False, "code point after the span's last in the answer"),
    ("text", pa.string(), False, "answer[char_start:char_end]"),
    ("atomic_fact", pa.list_(pa.struct(RANGE)), False, "ranges of the answer whose attributions were united"),
    ("evidence", pa.list_(_PIECE), False,
     "passages' words that hold evidence, best score first; offsets into the passage"),
    ("passage_scores", pa.list_(pa.float32()), False, "summed attribution score of each passage"),
    ("top_passage_index", pa.int32(), True, "0-based index of the passage with the largest score"),
    ("top_passage_id", pa.string(), True, "id of that passage, from the log"),
    ("margin", pa.float32(), True, "share of the best passage minus share of the second"),
    ("evidence_mass", pa.float32(), False, "share of the span's attention that lies on kept evidence, 0 to 1"),
    ("evidence_isolated", pa.bool_(), False, "only isolated evidence tokens were found, and they were kept"),
    ("support", pa.string(), False, "supported, weak, unsupported, no_claim, not_judged or not_calibrated"),
    ("unmatched_values", pa.list_(pa.string()), False,
     "numbers, dates and names of the span that occur nowhere in the passages with evidence"),
    ("sentence_cut", pa.bool_(), False, "the span's sentence was too long for the parser and was cut"),
    ("claim_kind", pa.string(), False,
     "what the span is: claim, discourse, refusal, heading, question, offer, language, code, table"),
    ("claim_index", pa.int32(), True, "span_index of the claim whose verdict the span takes; its own for a claim"),
    ("support_score", pa.float32(), True, "calibrated probability that the passages support the claim, 0 to 1"),
    ("answer_kind", pa.string(), False, "what the answer is: answer, refusal, partial, no_claim, not_judged"),
    ("answer_risk", pa.float32(), True, "calibrated probability that the answer has an unsupported claim, 0 to 1"),
    ("unsupported_words", pa.list_(pa.struct(RANGE)), False,
     "ranges of the answer, within an unsupported or weak span, that speak most against it"),
    ("reason", pa.string(), True, f"why an unsupported claim is called so: {', '.join(UnsupportedReason)}"),
    ("expected", pa.string(), True, "what the evidence has instead of what the unsupported claim says, in its words"),
    ("how", pa.string(), True, f"how the passages support a supported claim: {', '.join(SupportedHow)}"),
    ("evidence_agrees", pa.bool_(), True,
     "evidence lies where passages have the claim's words; null if they lack them"),
    ("cited_passages", pa.list_(pa.int32()), False,
     "0-based indices of the passages that the answer cites for the claim"),
    ("citation_agrees", pa.bool_(), True, "the claim's best passages include a cited one; null where none is cited"),
    ("token_evidence", pa.list_(_TOKEN), True, "every evidence token with its score; null without --token-evidence"),
)  # fmt: skip

_OF_RECORD = {
    **{name: attrgetter(name) for name in ("record_id", "answered_at", "generator")},
    **{name: attrgetter(f"source.{name}") for name in ("source_file", "source_row")},
}
_STRUCTS = {"atomic_fact": "", "evidence": "chars.", "unsupported_words": "", "token_evidence": "chars."}
"""Fields with lists of structs, and where an item keeps its range."""
_OF_SPAN = {
    name: attrgetter(f"chars.{name}" if name in _RANGE_FIELDS else name)
    for name, *_ in _EVIDENCE_FIELDS
    if name not in _OF_RECORD and name not in _STRUCTS
}


def evidence_table(rows: Sequence[tuple[QARecord, Sequence[SpanEvidence]]], schema: pa.Schema) -> pa.Table:
    """The spans of records, in their order, as a table of ``schema``, which comes from ``evidence_schema``.

    An extra column that the log of these records lacks is null.
    """
    records = [record for record, spans in rows for _ in spans]
    spans = [span for _, of_record in rows for span in of_record]
    if not spans:
        return schema.empty_table()
    columns = {name: [*map(value, records)] for name, value in _OF_RECORD.items()}
    columns |= {name: [*map(value, spans)] for name, value in _OF_SPAN.items()}
    for index, (name, _) in enumerate(records[0].extra_columns):
        columns[name] = [record.extra_columns[index][1] for record in records]
    arrays = {name: pa.array(values, type=schema.field(name).type) for name, values in columns.items()}
    for name, prefix in _STRUCTS.items():
        arrays[name] = _struct_lists([getattr(span, name) for span in spans], schema.field(name).type, prefix)
    every = [arrays[field.name] if field.name in arrays else pa.nulls(len(spans), field.type) for field in schema]
    return pa.Table.from_arrays(every, schema=schema)


def _struct_lists(lists: Sequence[Sequence[object] | None], kind: pa.ListType, prefix: str) -> pa.ListArray:
    """Lists of structs, made from columns with the items of all lists; the range of an item is below ``prefix``."""
    items = [*chain.from_iterable(of_span or () for of_span in lists)]
    fields = [*kind.value_type]
    names = [f"{prefix}{field.name}" if field.name in _RANGE_FIELDS else field.name for field in fields]
    columns = [pa.array([*map(attrgetter(name), items)], field.type) for name, field in zip(names, fields, strict=True)]
    offsets = pa.array(accumulate((len(of_span or ()) for of_span in lists), initial=0), pa.int32())
    absent = pa.array([of_span is None for of_span in lists]) if None in lists else None
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, fields=fields), type=kind, mask=absent)


COUNTED_COLUMNS = ("span_index", "claim_index")
"""What ``counted_rows`` needs of a batch."""

CLAIM_COLUMNS = (*COUNTED_COLUMNS, "support")
"""What ``claim_rows`` needs of a batch."""

CLAIM_SUPPORTS = (*VERDICTS, Support.NOT_CALIBRATED)
"""What ``support`` says of claims; the others say that there is none, or none that can be judged."""


def counted_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that stand for themselves: without those that take their verdict from the row of their claim."""
    is_counted = pc.equal(batch.column("claim_index"), batch.column("span_index"))
    return batch.filter(pc.fill_null(is_counted, True))


def claim_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The counted rows that are claims."""
    return batch.filter(claim_mask(batch))


def judged_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The counted rows that are claims with a verdict."""
    counted = counted_rows(batch)
    return counted.filter(pc.is_in(counted.column("support"), value_set=pa.array(VERDICTS)))


def claim_mask(batch: pa.RecordBatch) -> pa.BooleanArray:
    """True for each row that ``SpanEvidence.is_claim``."""
    return pc.fill_null(pc.equal(batch.column("claim_index"), batch.column("span_index")), False)
