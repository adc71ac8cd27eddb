"""The formats with one row per record: data sets of ragas and others, and responses of providers with their requests.

Fields have usual names. A record of responses is ``{"request": ..., "response": ...}`` under any usual names, both in
one object, or a response with the question beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from attribeam.logs.columns import MADE, words
from attribeam.logs.rows import unreadable_moment
from attribeam.logs.traces import (
    HUMP,
    Record,
    by_name,
    first_of,
    is_nothing,
    microseconds,
    nested,
    object_of,
    opened_text,
    parsed,
    printed_value,
    shape,
    shown_keys,
    text_or_none,
)
from attribeam.logs.traces.assembly import TraceRow, tool_passages
from attribeam.logs.traces.documents import (
    FROM_PROMPT,
    Document,
    are_ids,
    document_of,
    documents_of,
    once_each,
    prompt_parts,
)
from attribeam.logs.traces.messages import (
    ANSWER_KEYS,
    QUESTION_KEYS,
    Asked,
    answer_of,
    answered,
    content_text,
    joined_response,
    messages_of,
    question_of,
    several_texts,
    told,
    with_history,
)
from attribeam.logs.traces.paths import PROVIDERS, Path, PathSet, Provider, TraceOptions, compiled_path
from attribeam.schemas import Reason, RowFault

_T = TypeVar("_T")
_HOLDERS = words("vars item sample test_case row record example fields run payload data source json_payload chat")
_LISTS = ("messages", "answers")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a field in snake case, each group in the order in which they count.

    Attributes:
        field: what they are names of.
        made: what the application gave or was given.
        either: may be that, or what somebody wrote beside it.
        last: read only where the record has none of the others, such as what should have been answered.
        holders: members in which the fields of a row may stand one or two levels deeper; of a list its last item.
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
    made=(*MADE["passages"], "retriever_resources"),
    either=words("passages contexts documents docs chunks ctxs nodes context passage document sources knowledge"),
    last=("reference_contexts", "expected_retrieved_context", "expected_context", "ground_truth_context"),
    holders=(
        *_HOLDERS,
        *words("outputs output response result inputs input metadata additional_metadata reference"),
        "messages",
        "answers",
    ),
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
        "ground_truths text"
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
    held = [*_held("", whole, names)]
    first: Choice[_T] = Choice()
    for prefix, record in [("", whole), *held, *(deeper for one in held for deeper in _held(*one, names))]:
        choice = _chosen_in(prefix, record, names, read)
        if choice.value is not None and not choice.is_last:
            return choice
        if not first.name or (first.value is None and choice.value is not None and not _is_meant(first.raw, names)):
            first = choice
    return first


def _held(prefix: str, record: Record, names: Names) -> Iterator[tuple[str, Record]]:
    """The objects that stand in the holders of a record, each behind its place; of a list the last one."""
    own = by_name(record)
    for name in (own[holder] for holder in names.holders if holder in own):
        value = opened_text(record[name])
        if isinstance(value, list) and value and name in _LISTS:
            name, value = f"{name}[-1]", value[-1]
        if isinstance(value, Mapping):
            yield f"{prefix}{name}.", value


def member(sides: Iterable[Record], names: tuple[str, ...]) -> tuple[str, object]:
    """Name and value of the first of these members that one of the sides has, ("", None) where none is there."""
    named = ((own[name], side) for side in sides for own in [by_name(side)] for name in names if name in own)
    return next(((name, side[name]) for name, side in named if not is_nothing(side[name])), ("", None))


def _choice_note(choice: Choice[_T], names: Names) -> str | None:
    if choice.value is None or not (choice.others or (choice.is_last and not names.may_be_null)):
        return None
    why = f"not from {' or '.join(choice.others)}" if choice.others else "since no more usual field is there"
    return f"{names.field} read from {choice.name}, {why}; --{names.field}-path names another"


def _chosen_in(prefix: str, record: Record, names: Names, read: Callable[[str, object], _T | None]) -> Choice[_T]:
    own = by_name(record)
    could = {own[name]: read(own[name], record[own[name]]) for name in (*names.made, *names.either) if name in own}
    unsaid: Choice[_T] = Choice()
    for group in (names.made, names.either, names.last):
        present = [own[name] for name in group if name in own]
        said = {name: read(name, record[name]) for name in present} if group is names.last else could
        name = next((name for name in present if said[name] is not None), None)
        is_last = group is names.last and name is not None
        name = name or next((name for name in present if _is_meant(record[name], names)), None)
        if name is not None:
            others = [other for other in could if could[other] not in (None, said[name])] if not is_last else []
            return Choice(prefix + name, record[name], said[name], tuple(prefix + other for other in others), is_last)
        if present and not unsaid.name:
            unsaid = Choice(prefix + present[0], record[present[0]])
    return unsaid


def _is_meant(value: object, names: Names) -> bool:
    is_empty = is_nothing(value) or value == [] or (isinstance(value, str) and not value.strip())
    return is_empty and not names.may_be_null


IDS = ("record_id", "id", "sample_id", "trace_id", "request_id", "row_id", "test_case_id", "question_id", "uuid")
_MOMENT = ("answered_at", "created_at", "timestamp", "time")
_GENERATOR = ("generator", "model", "model_name")
_SESSION = ("session_id", "conversation_id", "thread_id")
_PROMPTS = words("prompt full_prompt messages input inputs request question user_input query system_prompt")
_CONVERSATION = re.compile(r"""\s*\[\s*\{\s*['"](?:content|role|type)['"]\s*:""")
"""How a list of messages begins, as Python, JSON and numpy print it."""
_ENVELOPE = frozenset(ANSWER_KEYS) - {"text", "content", "message", "result", "reply"}
"""Keys that say that an answer stands within an object; an answer in JSON may have the others itself."""
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
        they are looked for in the prompt. A ``RowFault`` that is raised names the field.
        """
        whole = _opened(record)
        given = _at(paths.question, whole) or chosen(whole, QUESTION, _asked)
        gave = _at(paths.answer, whole) or chosen(whole, ANSWER, _answer)
        retrieved = _at(paths.passages, whole) or chosen(whole, PASSAGES, _documents)
        asked = _asked("", given.raw) if paths.question else given.value
        answer = _answer("", gave.raw) if paths.answer else gave.value
        if not answer or gave.is_last:
            said = answered(messages_of(_conversation_or_text("", given.raw)) or [])
            answer, gave = (said, Choice()) if said else (answer, gave)
        if answer and isinstance(gave.raw, str) and retrieved.name.startswith(f"{gave.name}."):  # as JSON, with these
            answer = answer_of(opened_text(gave.raw)) or answer
        passages = documents_of(retrieved.raw) if paths.passages else _with_ids(retrieved, whole)
        notes = [_choice_note(given, QUESTION), _choice_note(gave, ANSWER), _choice_note(retrieved, PASSAGES)]
        if options.tool_outputs and asked is not None:
            passages = (*(passages or ()), *tool_passages(asked.tool_texts))
        parts = None if passages or retrieved.name else next(filter(None, map(prompt_parts, _prompts(whole))), None)
        if parts is not None:
            passages, asked = parts.passages, parts.asked(asked)
            notes.append(FROM_PROMPT)
        sides = [whole, object_of(opened_text(whole.get(given.name.rpartition(".")[0])))]
        when, moment = member(sides, _MOMENT)
        if moment is not None and microseconds(moment) is None:
            notes.append(unreadable_moment(when))
        row = TraceRow(
            record_id=text_or_none(member(sides, IDS)[1]),
            question=None if asked is None else with_history(asked, options.history),
            passages=passages,
            answer=answer,
            answered_at=microseconds(moment),
            generator=text_or_none(member(sides, _GENERATOR)[1]),
            session_id=text_or_none(member(sides, _SESSION)[1]),
            notes=tuple(note for note in notes if note is not None),
        )
        if row.question is None:
            return row._replace(fault=_missing(Reason.MISSING_VALUE, options.question_path, given, QUESTION, whole))
        if row.answer is None:
            return row._replace(fault=_missing(Reason.EMPTY_ANSWER, options.answer_path, gave, ANSWER, whole))
        if not row.passages:
            missing = _missing(Reason.NO_PASSAGES, options.passages_path, retrieved, PASSAGES, whole)
            has_tools = asked is not None and bool(asked.tool_texts) and not options.tool_outputs
            tools = "; take what tools returned with --tool-outputs" if has_tools else ""
            return row._replace(fault=RowFault(missing.reason, f"{missing}{tools}", column=missing.column))
        return row


def _opened(record: Record) -> Record:
    """The record with names such as ``outputs.answer``, ``outputs/answer`` and ``context_1`` opened."""
    numbered = {int(match[1]): name for name in record if (match := _NUMBERED.fullmatch(name.lower()))}
    if len(numbered) > 1:
        texts = (record[numbered[number]] for number in sorted(numbered))
        record = {**record, "retrieved_texts": [text for text in texts if not is_nothing(text)]}
    if any(_FOLDER.match(name) for name in record):
        record = {name.replace("/", ".") if _FOLDER.match(name) else name: value for name, value in record.items()}
    return nested(record) if any("." in name for name in record) else record


def _at(path: Path | None, whole: Record) -> Choice[Any] | None:
    return None if path is None else Choice(raw=path(whole))


def _asked(name: str, value: object) -> Asked | None:
    """The question of a text, of a conversation, or of an object that has one, also where these stand in a text."""
    read = _conversation_or_text(name, value)
    return _inside(read, QUESTION_KEYS, question_of) or question_of(read, plain=isinstance(read, str))


def _answer(name: str, value: object) -> str | None:
    """As ``_asked``, for the answer."""
    read = _conversation_or_text(name, value)
    if isinstance(read, list) and several_texts(read):
        return None
    return _inside(read, _ENVELOPE, answer_of) or answer_of(read, plain=isinstance(read, str))


def _inside(value: object, keys: Iterable[str], find: Callable[[object], _T | None]) -> _T | None:
    """What is found in an object with one of the ``keys`` that a text prints."""
    opened = opened_text(value) if isinstance(value, str) else None
    return find(opened) if isinstance(opened, dict) and not opened.keys().isdisjoint(keys) else None


def _documents(name: str, value: object) -> tuple[Document, ...] | None:
    """The passages of a list, an object or a text; a text that holds none of these is a passage itself.

    A list of names of files, of addresses or of ids holds none.
    """
    if not isinstance(value, str):
        return None if are_ids(value) else documents_of(value) or None
    printed = _printed(name, value, "a list")
    if printed is None or isinstance(printed, dict):
        document = None if is_nothing(value) else document_of(value)
        return documents_of(value if printed is None else printed) or (None if document is None else (document,))
    return _documents(name, printed)


def _with_ids(retrieved: Choice[tuple[Document, ...]], whole: Record) -> tuple[Document, ...] | None:
    def listed(_: str, value: object) -> list[object] | None:
        value = opened_text(value)
        return None if is_nothing(value) else (value if isinstance(value, list) else [value]) or None

    ids = chosen(whole, PASSAGE_IDS, listed)
    if ids.value is None:
        named = opened_text(retrieved.raw) if retrieved.value is None else None
        return documents_of(named) if are_ids(named) else retrieved.value
    if retrieved.value is None:
        return tuple(Document(None, None, text_or_none(item)) for item in ids.value)
    if len(ids.value) != len(retrieved.value):
        counts = f"{len(ids.value)} for {len(retrieved.value)}"
        message = f"row should have one passage id per passage, has {counts}; correct the lists"
        raise RowFault(Reason.INVALID_VALUE, message, column=ids.name)
    pairs = zip(retrieved.value, ids.value, strict=True)
    return tuple(document._replace(passage_id=text_or_none(passage_id)) for document, passage_id in pairs)


def _prompts(whole: Record) -> Iterator[str]:
    for value in (member([whole], (name,))[1] for name in _PROMPTS):
        opened = opened_text(value)
        messages = messages_of(opened)
        if messages is not None:
            yield from told(messages)
        elif isinstance(value, str):
            yield value
        elif isinstance(opened, dict):
            yield from (text for text in opened.values() if isinstance(text, str))


def _missing(reason: Reason, path: str | None, choice: Choice[_T], names: Names, whole: Record) -> RowFault:
    """What is wrong with a row that has nothing where a field should stand."""
    kind = {"passages": "passages", "answer": "an answer"}.get(names.field, f"a {names.field}")
    actual = f" in {path or choice.name}, has {shape(choice.raw)}"
    if path is None and not choice.name:
        usual = ", ".join((*names.made, *names.either, *names.last))
        actual = f", has none of {usual}; the row has {shown_keys(whole) or 'no members'}; name its place with"
        actual += f" --{names.field}-path"
    elif names is ANSWER and isinstance(choice.raw, list) and len(choice.raw) > 1:
        actual += f", which are several answers; write a row for each, or name one: --answer-path '{choice.name}[0]'"
    if choice.others:
        actual += f"; to read {' or '.join(choice.others)} in its place, name it with --{names.field}-path"
    elif path is None and choice.name:
        advice = "log them" if names is PASSAGES else "log it as a text"
        actual += f"; {advice}, or name another place with --{names.field}-path"
    return RowFault(reason, f"row should have {kind}{actual}", column=names.field)


def _conversation_or_text(name: str, value: object) -> object:
    """The conversation that a text prints, else the value as it is, since a question may begin with a bracket."""
    if not isinstance(value, str):
        return value
    is_one = _CONVERSATION.match(value) is not None
    printed = _printed(name, value, "a text or a conversation") if is_one else opened_text(value)
    return printed if isinstance(printed, list) and printed and messages_of(printed) is not None else value


def _printed(name: str, text: str, expected: str) -> object:
    try:
        return printed_value(text)
    except ValueError as error:
        message = f"field {name!r} should be {expected}, is {error}; export the data set as JSON lines"
        raise RowFault(Reason.INVALID_VALUE, message, column=name) from error


_REQUESTS = ("request", "req", "request_body", "input", "inputs", "params", "kwargs", "body")
_RESPONSES = ("response", "resp", "response_body", "result", "output", "outputs", "completion", "record_json")
_QUESTIONS = (*QUESTION.made, "input", "prompt", "messages", "request")
_PASSAGE = {"text", "title", "passage_id"}
_IDS = ("record_id", "id", "custom_id", "trace_id", "request_id", "response_id", "generation_id")
_MOMENTS = ("answered_at", "created_at", "timestamp", "time", "created", "create_time", "ts")
_MODELS = ("generator", "model", "model_name", "model_version", "model_id")
_SESSIONS = ("session_id", "conversation_id", "thread_id")
_SYSTEM = ("system", "instructions", "system_instruction", "preamble")
_TOOL_SAID = "function_call_output"


@dataclass(frozen=True, slots=True)
class ResponseRows(Rows):
    """One response with its request per record; a record of no known provider is read as a plain row."""

    def row(self, record: Record, options: TraceOptions, paths: PathSet) -> TraceRow:
        """See ``Rows.row``; paths are searched in the record as it is logged."""
        known = _known(record, options.preset)
        if known is None:
            return Rows.row(self, record, options, paths)
        provider, whole = known
        values = {
            "question": paths.question(record) if paths.question else _question(provider, whole),
            "passages": paths.passages(record) if paths.passages else _found(provider.passages, whole),
            "answer": paths.answer(record) if paths.answer else _found(provider.answer, whole),
        }
        sides = [side for side in (whole, whole["response"], whole["request"]) if isinstance(side, dict)]
        if not paths.passages and isinstance(documents := values["passages"], list):
            values["passages"] = [_passage(document) for document in documents]
        if not paths.passages and not values["passages"]:  # they may stand beside the response, or in the prompt
            values = {name: whole[name] for name in (*PASSAGES.made, *PASSAGES.either) if name in whole} | values
            del values["passages"]
            values["system_prompt"] = "\n".join(content_text(first_of(side, _SYSTEM)) for side in sides)
        for name, names in (("id", _IDS), ("time", _MOMENTS), ("model", _MODELS), ("session_id", _SESSIONS)):
            values[name] = next((value for side in sides if (value := first_of(side, names)) is not None), None)
        row = Rows.row(self, values, options, PathSet())
        if row.passages:
            row = row._replace(passages=once_each(row.passages))  # several citations may name one
        if row.fault is not None and row.question is None and not options.question_path:
            message = (
                'record should have a question, has none in its request or beside the response; log {"request": ..., '
                '"response": ...}, or name where it stands with --question-path'
            )
            return row._replace(fault=RowFault(Reason.MISSING_VALUE, message, column="question"))
        if row.fault is not None and row.fault.reason is Reason.NO_PASSAGES and not options.passages_path:
            tools = ", or take what tools returned with --tool-outputs" if "--tool-outputs" in str(row.fault) else ""
            message = f"record should have passages, has none where they usually stand; {provider.way_out}{tools}"
            return row._replace(fault=RowFault(Reason.NO_PASSAGES, message, column="passages"))
        return row


def _known(record: Record, preset: str | None) -> tuple[Provider, dict[str, object]] | None:
    """The provider of a record, and the record with ``request``, ``response`` and what may be asked ``beside`` them.

    None where it is of none.
    """
    flat = nested(record) if any("." in name for name in record) else record
    whole = {_snake(name): _in_snake_case(value) for name, value in flat.items()}
    request = next(_sides(whole, _REQUESTS))
    beside = [value for name in _QUESTIONS if isinstance(value := whole.get(name), str | list)]
    calls = [{**whole, "request": request, "response": side, "beside": beside} for side in _sides(whole, _RESPONSES)]
    named = [*PROVIDERS.values()] if preset is None else [PROVIDERS[preset]]
    known = ((provider, call) for call in calls for provider in named if _found(provider.mark, call))
    return next(known, (named[0], calls[0]) if len(named) == 1 else None)


def _sides(whole: Record, names: tuple[str, ...]) -> Iterator[object]:
    """The objects under these names, as HTTP logs have them in a body, and last the record itself."""
    for side in (_in_snake_case(joined_response(parsed(whole.get(name)))) for name in names):
        if isinstance(side, dict):
            body = _in_snake_case(parsed(side.get("body")))
            yield body if isinstance(body, dict) else side
    yield whole


def _question(provider: Provider, whole: dict[str, object]) -> object:
    """The first value that leads to a question; last those ``beside`` the response."""
    beside = whole["beside"]
    values = [*(_found(path, whole) for path in provider.question), *(beside if isinstance(beside, list) else [])]
    for value in values:
        items = value if isinstance(value, list) else []  # of which some may be references to files
        said = (msg for msg in items if isinstance(msg, dict) and (msg.get("role") or msg.get("type") == _TOOL_SAID))
        asked = [*said] or value
        if question_of(asked, plain=isinstance(asked, str)) is not None:
            return asked
        if text := content_text(asked):
            return text
    return None


def _passage(item: object) -> object:
    """A document with a plain text, and with an id where it has no text; what no mapping made stays as it is.

    The text of an object with keys of its own is its longest one.
    """
    if not isinstance(item, dict) or item.keys() != _PASSAGE:
        return item
    content, title, passage_id = parsed(item["text"]), text_or_none(item["title"]), text_or_none(item["passage_id"])
    text = content_text(content)
    if not text and isinstance(content, dict):
        text = max((member for member in content.values() if isinstance(member, str)), key=len, default="")
    if not text and content != "":  # only named
        return {"text": None, "title": title, "passage_id": passage_id or title}
    return {"text": text, "title": title, "passage_id": passage_id}


def _found(path: str, whole: object) -> object:
    return compiled_path("a log of responses", path)(whole)


def _in_snake_case(value: object) -> object:
    """The value with ``retrievedContext`` as ``retrieved_context``, and so all keys at any depth."""
    if isinstance(value, dict):
        return {_snake(key): _in_snake_case(item) for key, item in value.items()}
    return [_in_snake_case(item) for item in value] if isinstance(value, list) else value


def _snake(name: str) -> str:
    return HUMP.sub("_", name).lower()
