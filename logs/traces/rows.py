"""The format with one row per record: data sets of ragas and others, and objects whose fields have usual names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from attribeam.logs.columns import MADE, words
from attribeam.logs.rows import unreadable_moment
from attribeam.logs.traces.assembly import TraceRow, tool_passages
from attribeam.logs.traces.documents import Document, document_of, documents_of
from attribeam.logs.traces.messages import (
    ANSWER_KEYS,
    QUESTION_KEYS,
    Asked,
    Speaker,
    answer_of,
    answered,
    messages_of,
    question_of,
    several_texts,
    with_history,
)
from attribeam.logs.traces.paths import Path, PathSet, TraceOptions
from attribeam.logs.traces.prompt_parts import FROM_PROMPT, prompt_parts
from attribeam.logs.traces.values import (
    Record,
    by_name,
    fault,
    is_nothing,
    microseconds,
    nested,
    opened_text,
    printed_value,
    shape,
    shown_keys,
    text_or_none,
)
from attribeam.schemas import Reason, RowFault

_T = TypeVar("_T")
_HOLDERS = ("vars", "item", "sample", "test_case", "row", "record", "example", "fields", "run", "payload", "data")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a field in snake case, each group in the order in which they count.

    Attributes:
        field: what they are names of.
        made: what the application gave or was given.
        either: may be that, or what somebody wrote beside it.
        last: read only where the record has none of the others, such as what should have been answered.
        holders: members in which the fields of a row may stand one level deeper.
        may_be_null: a member that is null says nothing, so that another one counts; otherwise it is empty on purpose,
            and nothing of a later group stands in its place.
    """

    field: str
    made: tuple[str, ...]
    either: tuple[str, ...]
    last: tuple[str, ...] = ()
    holders: tuple[str, ...] = _HOLDERS
    may_be_null: bool = False


QUESTION = Names(
    "question",
    made=("question", "query", "user_input", "user_query", "user_question", "query_str", "question_text"),
    either=("input", "inputs", "user_message", "user_prompt", "input_text"),
    last=("request", "prompt", "messages", "instruction"),
    may_be_null=True,
)
PASSAGES = Names(
    "passages",
    made=MADE["passages"],
    either=words("passages contexts documents docs chunks ctxs nodes context passage document sources knowledge"),
    last=("reference_contexts", "expected_retrieved_context", "expected_context", "ground_truth_context"),
    holders=(*_HOLDERS, *words("outputs output response result inputs input metadata additional_metadata")),
)
PASSAGE_IDS = Names(
    "passage_ids",
    made=("retrieved_context_ids", "retrieved_document_ids", "retrieved_ids"),
    either=("passage_ids", "document_ids", "context_ids"),
)
ANSWER = Names(
    "answer",
    made=MADE["answer"],
    either=("answer", "output", "outputs", "result", "final_answer", "reply", "multi_responses", "responses"),
    last=words(
        "answers expected ideal ideal_answer ground_truth reference reference_answer expected_output "
        "expected_answer expected_response correct_answer gold_answer golden_answer reference_outputs "
        "ground_truths"
    ),
)


@dataclass(frozen=True, slots=True)
class Choice(Generic[_T]):
    """What was read for a field.

    Attributes:
        name: where it stands; "" where the record has no member for it.
        raw: what stands there.
        value: what was read of it; None where it says nothing.
        others: the other members that could have been meant, and say something else.
        is_last: it is one of ``Names.last``, so that it may be another thing than the field.
    """

    name: str = ""
    raw: object = None
    value: _T | None = None
    others: tuple[str, ...] = ()
    is_last: bool = False


def chosen(whole: Record, names: Names, read: Callable[[str, object], _T | None]) -> Choice[_T]:
    """The member that counts: the first that says something, group by group, at the top or else in a holder.

    ``read`` gives what the member of a name says, None where it says nothing.
    """
    first: Choice[_T] = Choice()
    for place, record in _places(whole, names.holders):
        found = _chosen(place, record, names, read)
        if found.value is not None and not found.is_last:
            return found
        if not first.name or (first.value is None and found.value is not None and not _is_meant(first.raw, names)):
            first = found
    return first


def member(whole: Record, names: tuple[str, ...]) -> tuple[str, object]:
    """Name and value of the first of these members that is there, ("", None) where none is."""
    own = by_name(whole)
    there = (own[name] for name in names if name in own)
    return next(((name, whole[name]) for name in there if not is_nothing(whole[name])), ("", None))


def looked_for(whole: Record, names: Names) -> str:
    """The names that a field is looked for under, and those that a record has."""
    usual = ", ".join((*names.made, *names.either, *names.last))
    return f"none of {usual}; the row has {shown_keys(whole) or 'no members'}"


def choice_note(choice: Choice[_T], names: Names) -> str | None:
    """What to tell of a choice; None where nothing else could be meant."""
    if choice.value is None or not (choice.others or (choice.is_last and not names.may_be_null)):
        return None
    why = f"not from {' or '.join(choice.others)}" if choice.others else "since no more usual field is there"
    return f"{names.field} read from {choice.name}, {why}; --{names.field}-path names another"


def _places(whole: Record, holders: tuple[str, ...]) -> Iterator[tuple[str, Record]]:
    yield "", whole
    own = by_name(whole)
    for holder in (own[name] for name in holders if name in own):
        value = opened_text(whole[holder])
        if isinstance(value, dict):
            yield f"{holder}.", value


def _chosen(place: str, record: Record, names: Names, read: Callable[[str, object], _T | None]) -> Choice[_T]:
    own = by_name(record)
    could = {own[name]: read(own[name], record[own[name]]) for name in (*names.made, *names.either) if name in own}
    unsaid: Choice[_T] = Choice()
    for group in (names.made, names.either, names.last):
        there = [own[name] for name in group if name in own]
        said = {name: read(name, record[name]) for name in there} if group is names.last else could
        name = next((name for name in there if said[name] is not None), None)
        is_last = group is names.last and name is not None
        name = name or next((name for name in there if _is_meant(record[name], names)), None)
        if name is not None:
            others = [one for one in could if could[one] not in (None, said[name])] if not is_last else []
            return Choice(place + name, record[name], said[name], tuple(place + one for one in others), is_last)
        if there and not unsaid.name:
            unsaid = Choice(place + there[0], record[there[0]])
    return unsaid


def _is_meant(value: object, names: Names) -> bool:
    """Whether what says nothing is empty on purpose."""
    is_empty = is_nothing(value) or value == [] or (isinstance(value, str) and not value.strip())
    return is_empty and not names.may_be_null


IDS = ("record_id", "id", "sample_id", "trace_id", "request_id", "row_id", "test_case_id", "question_id", "uuid")
_MOMENT = ("answered_at", "created_at", "timestamp", "time")
_GENERATOR = ("generator", "model", "model_name")
_SESSION = ("session_id", "conversation_id", "thread_id")
_PROMPTS = ("prompt", "full_prompt", "messages", "input", "inputs", "request", "question", "user_input", "query")
_CONVERSATION = re.compile(r"""\s*\[\s*\{\s*['"](?:content|role|type)['"]\s*:""")
"""How a list of messages begins, as Python, JSON and numpy print it."""
_ENVELOPE = frozenset(ANSWER_KEYS) - {"text", "content", "message", "result", "reply"}
"""Keys that say that an answer stands within an object; an answer in JSON may have the others itself."""
_NAME = re.compile(r"\S+\.[a-z0-9]{2,5}|https?://\S+", re.IGNORECASE)
"""A file or an address, but no text: a text ends with its full stop."""
_NUMBERED = re.compile(r"(?:retrieved[ _]?)?(?:context|passage|document|doc|chunk|source)[ _]?(\d{1,3})")
_FOLDER = re.compile(r"(inputs?|outputs?)/")


@dataclass(frozen=True, slots=True)
class Rows:
    """One row per record."""

    wrappers: tuple[str, ...] = words(
        "samples data rows results records test_cases test_results test_run_data items examples entries "
        "evaluations dataset"
    )

    def row(self, record: Record, options: TraceOptions, paths: PathSet) -> TraceRow:
        """The row of a record; its ``record_id`` is None where the record has none, so that one is made.

        Texts that hold lists or objects, as JSON or as Python prints them, are read. Where no member holds passages,
        they are looked for in the prompt.

        Raises:
            RowFault: if it is faulty; the message names the field.
        """
        whole = _opened(record)
        given = _at(paths.question, whole) or chosen(whole, QUESTION, _asked)
        gave = _at(paths.answer, whole) or chosen(whole, ANSWER, _answer)
        found = _at(paths.passages, whole) or chosen(whole, PASSAGES, _documents)
        asked = _asked("", given.raw) if paths.question else given.value
        answer = (_answer("", gave.raw) if paths.answer else gave.value) or _answered_in(given.raw)
        passages = documents_of(found.raw) if paths.passages else _with_ids(found, whole)
        notes = [choice_note(given, QUESTION), choice_note(gave, ANSWER), choice_note(found, PASSAGES)]
        if options.tool_outputs and asked is not None:
            passages = (*(passages or ()), *tool_passages(asked.tool_texts))
        parts = None if passages or found.name else next(filter(None, map(prompt_parts, _prompts(whole))), None)
        if parts is not None:
            passages, asked = parts.passages, parts.asked(asked)
            notes.append(FROM_PROMPT)
        when, moment = member(whole, _MOMENT)
        if moment is not None and microseconds(moment) is None:
            notes.append(unreadable_moment(when))
        row = TraceRow(
            record_id=text_or_none(member(whole, IDS)[1]),
            question=None if asked is None else with_history(asked, options.history),
            passages=passages,
            answer=answer,
            answered_at=microseconds(moment),
            generator=text_or_none(member(whole, _GENERATOR)[1]),
            session_id=text_or_none(member(whole, _SESSION)[1]),
            notes=tuple(one for one in notes if one is not None),
        )
        if row.question is None:
            return row._replace(fault=_missing(Reason.MISSING_VALUE, options.question_path, given, QUESTION, whole))
        if row.answer is None:
            return row._replace(fault=_missing(Reason.EMPTY_ANSWER, options.answer_path, gave, ANSWER, whole))
        if not row.passages:
            missing = _missing(Reason.NO_PASSAGES, options.passages_path, found, PASSAGES, whole)
            has_tools = asked is not None and bool(asked.tool_texts) and not options.tool_outputs
            tools = "; take what tools returned with --tool-outputs" if has_tools else ""
            return row._replace(fault=fault(missing.reason, missing.column, f"{missing}{tools}"))
        return row


def _opened(record: Record) -> Record:
    """The record with names such as ``outputs.answer``, ``outputs/answer`` and ``context_1`` opened."""
    numbered = {int(found[1]): name for name in record if (found := _NUMBERED.fullmatch(name.lower()))}
    if len(numbered) > 1:
        texts = [record[numbered[number]] for number in sorted(numbered)]
        record = {**record, "retrieved_texts": [one for one in texts if not is_nothing(one)]}
    if any(_FOLDER.match(name) for name in record):
        record = {name.replace("/", ".") if _FOLDER.match(name) else name: one for name, one in record.items()}
    return nested(record) if any("." in name for name in record) else record


def _at(path: Path | None, whole: Record) -> Choice[Any] | None:
    return None if path is None else Choice(raw=path(whole))


def _asked(name: str, value: object) -> Asked | None:
    """The question of a text, of a conversation, or of an object that has one, also where these stand in a text."""
    read = _conversation_or_text(name, value)
    if isinstance(read, str):
        opened = opened_text(read)
        inner = question_of(opened) if isinstance(opened, dict) and opened.keys() & {*QUESTION_KEYS} else None
        return inner or question_of(read, plain=True)
    return question_of(read)


def _answer(name: str, value: object) -> str | None:
    """As ``_asked``, for the answer."""
    read = _conversation_or_text(name, value)
    if isinstance(read, str):
        opened = opened_text(read)
        inner = answer_of(opened) if isinstance(opened, dict) and opened.keys() & _ENVELOPE else None
        return inner or answer_of(read, plain=True)
    return None if isinstance(read, list) and several_texts(read) else answer_of(read)


def _answered_in(given: object) -> str | None:
    """The assistant's last message in the conversation that was given."""
    messages = messages_of(_conversation_or_text("", given))
    return None if messages is None else answered(messages)


def _documents(name: str, value: object) -> tuple[Document, ...] | None:
    """The passages of a list, an object or a text; a text that holds none of these is a passage itself.

    A list of names of files and of addresses holds none.
    """
    if not isinstance(value, str):
        found = documents_of(value)
        return None if not found or all(_NAME.fullmatch(one.text or " ") for one in found) else found
    try:
        printed = printed_value(value)
    except ValueError as error:
        message = f"field {name!r} should be a list, is {error}; export the data set as JSON lines"
        raise fault(Reason.INVALID_VALUE, name, message) from error
    if printed is None or isinstance(printed, dict):
        own = document_of(value) if value.strip() else None
        return documents_of(printed) or (None if own is None else (own,))
    return documents_of(printed) or None


def _with_ids(found: Choice[tuple[Document, ...]], whole: Record) -> tuple[Document, ...] | None:
    ids = chosen(whole, PASSAGE_IDS, _listed)
    if ids.value is None:
        return found.value
    if found.value is None:
        return tuple(Document(None, None, text_or_none(one)) for one in ids.value)
    if len(ids.value) != len(found.value):
        raise fault(
            Reason.INVALID_VALUE,
            ids.name,
            f"row should have one passage id per passage, has {len(ids.value)} for {len(found.value)}; correct the "
            "lists",
        )
    pairs = zip(found.value, ids.value, strict=True)
    return tuple(one._replace(passage_id=text_or_none(own)) for one, own in pairs)


def _listed(_: str, value: object) -> list[object] | None:
    value = opened_text(value)
    return (value if isinstance(value, list) else [value]) if not is_nothing(value) and value != [] else None


def _prompts(whole: Record) -> Iterator[str]:
    """The texts that a model may have been given."""
    for value in (member(whole, (name,))[1] for name in _PROMPTS):
        opened = opened_text(value)
        messages = messages_of(opened)
        if messages is not None:
            yield from (one.text for one in messages if one.speaker in (Speaker.SYSTEM, Speaker.USER))
        elif isinstance(value, str):
            yield value
        elif isinstance(opened, dict):
            yield from (one for one in opened.values() if isinstance(one, str))


def _missing(reason: Reason, path: str | None, choice: Choice[_T], names: Names, whole: Record) -> RowFault:
    """What is wrong with a row that has nothing where a field should stand."""
    kind = {"passages": "passages", "answer": "an answer"}.get(names.field, f"a {names.field}")
    if path is None and not choice.name:
        found = f", has {looked_for(whole, names)}; name its place with --{names.field}-path"
        return fault(reason, names.field, f"row should have {kind}{found}")
    found = f" in {path or choice.name}, has {shape(choice.raw)}"
    if names is ANSWER and isinstance(choice.raw, list) and len(choice.raw) > 1:
        found += f", which are several answers; write a row for each, or name one: --answer-path '{choice.name}[0]'"
    if choice.others:
        found += f"; to read {' or '.join(choice.others)} in its place, name it with --{names.field}-path"
    return fault(reason, names.field, f"row should have {kind}{found}")


def _conversation_or_text(name: str, value: object) -> object:
    """The conversation that a text prints, else the value as it is, since a question may begin with a bracket."""
    if not isinstance(value, str):
        return value
    try:
        printed = printed_value(value)
    except ValueError as error:
        if _CONVERSATION.match(value):
            message = (
                f"field {name!r} should be a text or a conversation, is {error}; export the data set as JSON lines"
            )
            raise fault(Reason.INVALID_VALUE, name, message) from error
        return value
    return printed if isinstance(printed, list) and printed and messages_of(printed) is not None else value
