"""Formats with one row per record: ragas data sets, and plain objects whose fields have usual names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attribeam.logs.traces.assembly import missing_passage_texts, tool_passages
from attribeam.logs.traces.documents import documents_of, once_each
from attribeam.logs.traces.json_shapes import first_of, is_nothing, microseconds, nested, shape, text_or_none
from attribeam.logs.traces.messages import Asked, answered, messages_of, with_history
from attribeam.logs.traces.paths import PathSet
from attribeam.logs.traces.python_literals import printed_list
from attribeam.logs.traces.span import Document, Record, TraceOptions, TraceRow, fault
from attribeam.logs.traces.texts import answer_of, question_of
from attribeam.schemas import Reason, RowFault


@dataclass(frozen=True, slots=True)
class Fields:
    """The names under which the fields of a row are looked for, the first one that is there counts."""

    question: tuple[str, ...]
    passages: tuple[str, ...]
    passage_ids: tuple[str, ...]
    answer: tuple[str, ...]


RAGAS = Fields(
    question=("user_input", "question"),
    passages=("retrieved_contexts", "contexts"),
    passage_ids=("retrieved_context_ids",),
    answer=("response", "answer"),
)
PLAIN = Fields(
    question=("question", "query", "user_input", "user_query", "input", "prompt", "messages"),
    passages=(
        "passages",
        "contexts",
        "retrieved_contexts",
        "documents",
        "docs",
        "retrieved_documents",
        "chunks",
        "context",
    ),
    passage_ids=("passage_ids", "retrieved_context_ids", "document_ids", "context_ids"),
    answer=("answer", "response", "output", "completion", "generation", "result"),
)
_ID = ("record_id", "id", "sample_id", "trace_id", "request_id", "row_id")
_MOMENT = ("answered_at", "created_at", "timestamp", "time")
_GENERATOR = ("generator", "model", "model_name")
_SESSION = ("session_id", "conversation_id", "thread_id")
_CONVERSATION = re.compile(r"""\s*\[\s*\{\s*['"](?:content|role|type)['"]\s*:""")
"""How a list of messages begins, as Python, JSON and numpy print it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One row per record, under the names of ``fields``."""

    fields: Fields
    wrappers: tuple[str, ...] = ("samples", "data", "rows")

    def row(self, record: Record, options: TraceOptions, paths: PathSet) -> TraceRow:
        """The row of a record; its ``record_id`` is None where the record has none, so that one is made.

        Lists that stand as texts in a CSV file are read as Python prints them, or as JSON.

        Raises:
            RowFault: if it is faulty; the message names the field.
        """
        whole = nested(record) if any("." in name for name in record) else record
        given = paths.question.search(whole) if paths.question else self._value(whole, self.fields.question)
        asked = _asked(given)
        gave = paths.answer.search(whole) if paths.answer else self._value(whole, self.fields.answer)
        answer = _answer(gave, given)
        found = documents_of(paths.passages.search(whole)) if paths.passages else self._passages(whole)
        if options.tool_outputs and asked is not None:
            found = (*(found or ()), *tool_passages(asked.tool_texts))
        row = TraceRow(
            record_id=text_or_none(first_of(whole, _ID)),
            question=None if asked is None else with_history(asked, options.history),
            passages=once_each(found) if found else found,
            answer=answer,
            answered_at=microseconds(first_of(whole, _MOMENT)),
            generator=text_or_none(first_of(whole, _GENERATOR)),
            session_id=text_or_none(first_of(whole, _SESSION)),
        )
        has_tools = asked is not None and bool(asked.tool_texts)
        return row._replace(fault=self._missing(row, options, given, gave, has_tools=has_tools))

    def _value(self, whole: Record, names: Sequence[str]) -> object:
        """The first of these fields; a list that is printed as text is read."""
        for name in names:
            value = whole.get(name)
            if is_nothing(value):
                continue
            if isinstance(value, str):
                read = _printed(name, value) if name in (*self.fields.passages, *self.fields.passage_ids) else None
                return _messages_or_text(name, value) if read is None else read
            return value
        return None

    def _passages(self, whole: Record) -> tuple[Document, ...] | None:
        contexts = self._value(whole, self.fields.passages)
        ids = self._value(whole, self.fields.passage_ids)
        if ids is not None and not isinstance(ids, list):
            ids = [ids]
        if contexts is None:
            return tuple(Document(None, None, text_or_none(one)) for one in ids) if ids else None
        if isinstance(contexts, list):
            contexts = [one for one in contexts if not is_nothing(one)] if not ids else contexts
        found = documents_of(contexts)
        if found is None or ids is None:
            return found
        if len(ids) != len(found):
            raise fault(
                Reason.INVALID_VALUE,
                self.fields.passage_ids[0],
                f"row should have one passage id per passage, has {len(ids)} for {len(found)}; correct the lists",
            )
        return tuple(one._replace(passage_id=text_or_none(own)) for one, own in zip(found, ids, strict=True))

    def _missing(
        self, row: TraceRow, options: TraceOptions, given: object, gave: object, *, has_tools: bool
    ) -> RowFault | None:
        if row.question is None:
            where = options.question_path or _either(self.fields.question)
            return fault(Reason.MISSING_VALUE, "question", f"row should have a question in {where}, has {shape(given)}")
        if row.answer is None:
            where = options.answer_path or _either(self.fields.answer)
            return fault(Reason.EMPTY_ANSWER, "answer", f"row should have an answer in {where}, has {shape(gave)}")
        if not row.passages:
            where = options.passages_path or _either(self.fields.passages)
            tools = "; take what tools returned with --tool-outputs" if has_tools and not options.tool_outputs else ""
            return fault(Reason.NO_PASSAGES, "passages", f"row should have passages in {where}, has none{tools}")
        return None


def text_fault(row: TraceRow) -> RowFault | None:
    """The fault of a row some of whose passages have only ids."""
    lacking = missing_passage_texts(row.passages or ())
    return None if lacking is None else fault(Reason.PASSAGE_TEXT_MISSING, "passages", lacking)


def _asked(value: object) -> Asked | None:
    """The question of a text as it is, or of a conversation."""
    return question_of(value, plain=isinstance(value, str))


def _answer(gave: object, given: object) -> str | None:
    """The response, or else the assistant's last message in the conversation that was given."""
    found = answer_of(gave, plain=isinstance(gave, str))
    if found is None:
        messages = None if isinstance(given, str) else messages_of(given)
        found = None if messages is None else answered(messages)
    return found


def _printed(name: str, text: str) -> list[object] | None:
    try:
        return printed_list(text)
    except ValueError as error:
        raise fault(
            Reason.INVALID_VALUE,
            name,
            f"field {name!r} should be a list, is {error}; export the data set as JSON lines",
        ) from error


def _messages_or_text(name: str, text: str) -> object:
    """The conversation that a text prints, else the text as it is, since a question may begin with a bracket."""
    try:
        printed = printed_list(text)
    except ValueError as error:
        if _CONVERSATION.match(text):
            message = (
                f"field {name!r} should be a text or a conversation, is {error}; export the data set as JSON lines"
            )
            raise fault(Reason.INVALID_VALUE, name, message) from error
        return text
    return printed if printed and messages_of(printed) is not None else text


def _either(names: Iterable[str]) -> str:
    return " or ".join(list(names)[:3])
