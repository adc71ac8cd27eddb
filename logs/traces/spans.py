"""What every format is mapped to: a span of a trace, a retrieved document, and the row that a trace comes to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from attribeam.schemas import Reason, RowFault


class Role(StrEnum):
    """What a span means to us. ``OTHER`` spans, such as embeddings and guardrails, only hold the tree together."""

    CHAIN = "chain"
    MODEL = "model"
    RETRIEVER = "retriever"
    RERANKER = "reranker"
    TOOL = "tool"
    OTHER = "other"


class Document(NamedTuple):
    """A retrieved passage as a trace has it; ``text`` is None where only its id was logged."""

    text: str | None
    title: str | None = None
    passage_id: str | None = None
    score: float | None = None


class Span(NamedTuple):
    """One step of a trace.

    ``input`` and ``output`` are texts or parsed JSON, ``documents`` what a retriever or reranker returned (None: look
    for them in ``output``), ``inputs_reranked`` what a reranker was given. Times are microseconds since 1970 in UTC.
    ``is_trace`` marks a record of the trace itself, which is the root whatever its parent; ``is_root`` a span that the
    store calls a root although it has a parent.
    """

    trace_id: str
    span_id: str | None
    parent_id: str | None
    role: Role
    name: str = ""
    kind: str = ""
    started_at: int | None = None
    ended_at: int | None = None
    input: object = None
    output: object = None
    documents: tuple[Document, ...] | None = None
    inputs_reranked: tuple[Document, ...] = ()
    metadata: object = None
    model: str | None = None
    session_id: str | None = None
    failed: bool = False
    is_trace: bool = False
    is_root: bool = False


class TraceRow(NamedTuple):
    """One question with its passages and answer. ``fault`` says why there is no row; what is known stands beside it.

    ``notes`` say what was chosen, and what could not be read, in words that are the same for all such rows.
    """

    record_id: str | None
    question: str | None = None
    passages: tuple[Document, ...] | None = None
    answer: str | None = None
    answered_at: int | None = None
    generator: str | None = None
    session_id: str | None = None
    fault: RowFault | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How a trace becomes a row; picklable.

    Attributes:
        question_path: JMESPath to the question, see ``attribeam.logs.traces.field_choice``; so for the other two.
        history: how many earlier messages of a conversation stand in front of the question.
        retrievals: which retrievals of a trace count: "all", "first" or "last".
        tool_outputs: take what tools returned as passages, too.
        passages_table: table with the texts of passages of which a trace has only the ids.
        preset: whose responses a log holds, see ``attribeam.logs.traces.providers``; None asks each record.
    """

    question_path: str | None = None
    passages_path: str | None = None
    answer_path: str | None = None
    history: int = 0
    retrievals: str = "all"
    tool_outputs: bool = False
    passages_table: str | None = None
    preset: str | None = None


def fault(reason: Reason, column: str | None, message: str) -> RowFault:
    """The fault of a trace or a record."""
    return RowFault(reason, message, column=column)
