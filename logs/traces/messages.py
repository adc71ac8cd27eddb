"""The question in what a trace was given, and the answer in what it gave, whatever JSON or messages they stand in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from attribeam.logs.columns import words
from attribeam.logs.traces import at, in_snake_case, is_null_text, nested, object_of, objects_in, parsed, unprinted


class Speaker(StrEnum):
    """Whose message it is."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class Message(NamedTuple):
    """One message; ``name`` is that of a tool."""

    speaker: Speaker
    text: str
    name: str | None = None


class Asked(NamedTuple):
    """The last question of a conversation, the messages before it, and what tools said after it."""

    question: str
    earlier: tuple[Message, ...] = ()
    tool_texts: tuple[Message, ...] = ()


_SPEAKER_NAMES = {
    Speaker.USER: "user human humanmessage humanmessagechunk",
    Speaker.ASSISTANT: "assistant ai model aimessage aimessagechunk",
    Speaker.TOOL: "tool function toolmessage functionmessage",
    Speaker.SYSTEM: "system developer systemmessage",
}
_SPEAKERS = {name: speaker for speaker, names in _SPEAKER_NAMES.items() for name in names.split()}
_NAMES = {Speaker.USER: "User", Speaker.ASSISTANT: "Assistant"}
"""Who talks in a conversation, as its history names them."""
_TURN = re.compile(
    r"<\|im_start\|>[ \t]*(?P<chatml>\w+)|<\|start_header_id\|>(?P<llama>\w+)<\|end_header_id\|>"
    r"|<start_of_turn>(?P<gemma>\w+)|<\|(?P<bare>system|user|assistant|tool)\|>"
    r"|(?P<of_user>\[INST\]|<</SYS>>)|(?P<of_assistant>\[/INST\])|(?P<of_system><<SYS>>)"
)
"""What begins a message in a chat template of open models."""
_TOKENS = r"(?:\s|<\|(?:im_end|eot_id|end|end_of_text|endoftext|begin_of_text)\|>|<end_of_turn>|<[be]os>|</?s>)++"
_AROUND_TURN = re.compile(rf"\A{_TOKENS}|{_TOKENS}\Z")
_TEXT_PARTS = ("text", "input_text", "output_text")
_TOOL_PART = re.compile(r"tool_call_response|tool_result|function_call_output|dynamic-tool|tool-(?!call).+")
_TOOL_MEMBERS = ("response", "result", "content", "output")
_SILENT_ITEMS = ("function_call", "reasoning", "tool_call", "tool_use", "thinking")
_DEEPEST = 8


def messages_of(value: object) -> list[Message] | None:
    """The messages of a list of them, None where ``value`` is no such list.

    Messages that say nothing, such as the request for a tool, are left out.
    """
    value = parsed(value)
    if isinstance(value, str):
        return templated(value)
    if isinstance(value, dict) and "messages" in value:
        return messages_of(value["messages"])
    if not isinstance(value, list) or not value:
        return None
    if len(value) == 1 and isinstance(value[0], list) and not _is_pair(value[0]):
        return messages_of(value[0])
    messages: list[Message] = []
    for item in value:
        if (some := _messages_in(item)) is None:
            return None
        messages += [message for message in some if message.text]
    return messages


def templated(text: str) -> list[Message] | None:
    """The messages of a text that a chat template made; None for any other text."""
    turns = [*_TURN.finditer(text)]
    if not turns or _AROUND_TURN.sub("", text[: turns[0].start()]):
        return None
    messages = []
    for turn, end in zip(turns, [*(turn.start() for turn in turns[1:]), len(text)], strict=True):
        role = next(role for role in turn.groupdict().items() if role[1])
        speaker = _speaker(role[0].removeprefix("of_")) or _speaker(role[1])
        if speaker is None:
            return None
        messages.append(Message(speaker, _AROUND_TURN.sub("", text[turn.end() : end])))
    return [message for message in messages if message.text]


def asked(messages: Sequence[Message]) -> Asked | None:
    """What the user asked last; None where no user speaks."""
    last = max((index for index, message in enumerate(messages) if message.speaker is Speaker.USER), default=None)
    if last is None:
        return None
    earlier = tuple(message for message in messages[:last] if message.speaker in _NAMES)
    tools = tuple(message for message in messages[last:] if message.speaker is Speaker.TOOL)
    return Asked(messages[last].text, earlier, tools)


def answered(messages: Sequence[Message]) -> str | None:
    """The last message of the assistant, unless the user or a tool has spoken since."""
    dialogue = [message for message in messages if message.speaker is not Speaker.SYSTEM]
    return dialogue[-1].text if dialogue and dialogue[-1].speaker is Speaker.ASSISTANT else None


def told(messages: Sequence[Message]) -> Iterator[str]:
    """What a model was told: the texts of the user, the last one first, and then those of the system."""
    for speaker in (Speaker.USER, Speaker.SYSTEM):
        yield from (message.text for message in reversed(messages) if message.speaker is speaker)


def with_history(question: Asked, count: int) -> str:
    """The question behind the last ``count`` messages before it, each on lines of its own under its speaker."""
    earlier = question.earlier[-count:] if count else ()
    lines = [f"{_NAMES[message.speaker]}: {message.text}" for message in earlier]
    return "\n".join([*lines, f"User: {question.question}"]) if lines else question.question


def content_text(content: object, glue: str = "\n", depth: int = 0) -> str:
    """The text of a message's content: a text, a list of parts, or a part; pictures, thoughts and calls are no text."""
    if isinstance(content, str):
        return content
    if depth > _DEEPEST:
        return ""
    if isinstance(content, list):
        texts = [content_text(part, glue, depth + 1) for part in content]
        return glue.join(text for text in texts if text)
    if not isinstance(content, dict):
        return ""
    if "message_content" in content:
        return content_text(content["message_content"], glue, depth + 1)
    if str(content.get("type") or "text").lower() not in _TEXT_PARTS:
        return ""
    return content_text(_given(content, ("text", "content", "value", "parts")), glue, depth + 1)


def _messages_in(entry: object) -> list[Message] | None:
    """The messages in an item of a list: one, or one per result of a tool; None where it is no message."""
    if _is_pair(entry):
        entry = {"role": entry[0], "content": entry[1]}  # type: ignore[index]
    if isinstance(entry, list) and len(entry) == 1:
        return _messages_in(entry[0])
    if not isinstance(entry, dict):
        return None
    item: Mapping[str, Any] = nested(entry) if any("." in key for key in entry) else entry
    inner = next((item[name] for name in ("message", "item") if isinstance(item.get(name), dict)), None)
    if inner is not None:
        item = inner
    elif isinstance(item.get("kwargs"), dict):
        item = {"type": _class(item), **item["kwargs"]}
    elif isinstance(item.get("data"), dict):
        item = {**item, **item["data"]}
    if item.get("type") in _SILENT_ITEMS:
        return []
    if item.get("type") == "function_call_output":
        return [Message(Speaker.TOOL, content_text(item.get("output")))]
    speaker = _speaker(item.get("role")) or _speaker(item.get("type"))
    if speaker is None or not any(name in item for name in ("content", "parts", "text", "contents", "tool_calls")):
        return None
    content = _given(item, ("content", "parts", "contents", "text"))
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    returned = (part for part in parts if _TOOL_PART.fullmatch(str(part.get("type"))))
    results = [Message(Speaker.TOOL, said) for said in map(_returned_text, returned) if said]
    if results:
        text = content_text(content)
        return [*results, *([Message(speaker, text)] if text else [])]
    name = item.get("name")
    text = content_text(content, "" if speaker is Speaker.ASSISTANT else "\n")
    return [Message(speaker, text, name if isinstance(name, str) else None)]


def _returned_text(part: Mapping[str, Any]) -> str:
    """The text of what a tool returned: that of its parts, or the JSON of another value."""
    value = _given(object_of(part.get("toolInvocation")) or part, _TOOL_MEMBERS)
    if at(value, "type") in ("json", "content"):
        value = at(value, "value")
    parts = value if isinstance(value, list) else [value]
    is_said = not value or isinstance(value, str) or any(at(one, "type") for one in parts)
    return content_text(value) if is_said else json.dumps(value, ensure_ascii=False, default=str)


def _given(item: Mapping[str, object], names: Sequence[str]) -> object:
    """The first of these members that is not null."""
    return next((item[name] for name in names if item.get(name) is not None), None)


def _speaker(role: object) -> Speaker | None:
    return _SPEAKERS.get(role.lower()) if isinstance(role, str) else None


def _is_pair(msg: object) -> bool:
    return isinstance(msg, list) and len(msg) == 2 and _speaker(msg[0]) is not None and isinstance(msg[1], str | list)


QUESTION_KEYS = words(
    "question user_question user_input query user_query query_str input inputs prompt messages "
    "input_messages message text content request q"
)
ANSWER_KEYS = words(
    "answer final_answer response output outputs output_text result completion generation reply "
    "return_values messages output_messages message text content choices generations candidates replies"
)
_CHOICES = ("choices", "generations", "candidates", "replies")
_HISTORY_KEYS = ("chat_history", "history", "messages")
_NO_TEXT_KEYS = frozenset({"role", "type", "id", "name", "model", "status", "error", "reason"})
"""Last words of keys whose values are no text that somebody said."""
_PRINTED_MESSAGE = re.compile(
    r"""content=('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+") (?:additional_kwargs|response_metadata)=\{.*""", re.DOTALL
)
"""A message of LangChain as ``str`` prints it."""


def question_of(value: object, *, plain: bool = False, depth: int = 0) -> Asked | None:
    """The question; None where none is found. ``plain`` says that a text is no JSON.

    A list of messages gives the user's last one. In an object, the first of ``QUESTION_KEYS`` that leads to a text
    counts, or else the only value that it has. No other list is searched, since it may hold passages.
    """
    value = value if plain else parsed(value)
    if isinstance(value, str):
        own = asked(templated(value) or ())
        return own or (None if is_null_text(value) else Asked(value))
    messages = messages_of(value)
    if messages is not None:
        return asked(messages)
    if depth > _DEEPEST:
        return None
    if isinstance(value, list):
        return question_of(value[0], depth=depth + 1) if len(value) == 1 and depth == 0 else None
    if not isinstance(value, dict):
        return None
    for key in QUESTION_KEYS:
        question = question_of(value[key], depth=depth + 1) if value.get(key) is not None else None
        if question is not None:
            return question if question.earlier else question._replace(earlier=_earlier(value, question.question))
    return question_of(_only_value(value), depth=depth + 1)


def answer_of(value: object, *, plain: bool = False, depth: int = 0) -> str | None:
    """The answer; None where none is found. ``plain`` says that a text is no JSON.

    A list of messages gives the assistant's last one; the chunks of a stream are joined, which several answers are
    not. In an object, the first of ``ANSWER_KEYS`` that leads to a text counts, or else the only value that it has; of
    several choices the first. No other list is searched, since it may hold passages.
    """
    value = value if plain else parsed(value)
    if isinstance(value, str):
        value = joined_chunks(_events(value)) or unprinted(value, _PRINTED_MESSAGE)
        return None if is_null_text(value) else value
    if depth > _DEEPEST:
        return None
    if isinstance(value, list):
        messages = messages_of(value)
        if messages is not None and not all(isinstance(item, dict) and _is_message_chunk(item) for item in value):
            return answered(messages)
        if (joined := joined_chunks(value)) is not None:
            return joined if joined.strip() else None
        return answer_of(value[0], depth=depth + 1) if len(value) == 1 and depth == 0 else None
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("kwargs"), dict) and value.keys().isdisjoint(ANSWER_KEYS):
        return answer_of(value["kwargs"], depth=depth + 1)
    if isinstance(value.get("parts"), list):
        return content_text(value["parts"], "") or None
    if messages := messages_of([value]):
        return messages[-1].text
    for key in ANSWER_KEYS:
        member = value.get(key)
        while key in _CHOICES and isinstance(member, list) and member:
            member = member[0]
        answer = answer_of(member, plain=isinstance(member, str), depth=depth + 1) if member is not None else None
        if answer is not None:
            return answer
    return answer_of(_only_value(value), depth=depth + 1)


def _events(text: str) -> list[object]:
    """The objects of a stream of server-sent events, or of JSON in lines; none where a text is no such stream."""
    if not text.lstrip().startswith(("data:", "event:", ":", "{")):
        return []
    lines = [line for line in text.splitlines() if line.strip()]
    if all(line.startswith("{") for line in lines):
        return [parsed(line) for line in lines]
    if not all(line.startswith(("data:", "event:", "id:", "retry:", ":")) for line in lines):
        return []
    data = (line.removeprefix("data:").strip() for line in lines if line.startswith("data:"))
    return [parsed(item) for item in data if item != "[DONE]"]


def joined_response(side: object) -> object:
    """The response whose events or chunks a stream had, of OpenAI's or Gemini's kind; anything else as it is."""
    events = [*objects_in(_events(side) if isinstance(side, str) else side)]
    wholes = [event["response"] for event in events if isinstance(event.get("response"), dict)]
    chunks = [chunk for event in events for chunk in islice(objects_in(event.get("candidates")), 1)]
    if wholes or not chunks:
        return wholes[-1] if wholes else side
    parts = [part for chunk in chunks for part in objects_in(at(chunk.get("content"), "parts"))]
    merged = {name: value for part in (*events, *chunks) for name, value in part.items()}
    return {**merged, "candidates": [{**merged, "content": {"role": "model", "parts": parts}}]}


def joined_chunks(items: Sequence[object]) -> str | None:
    """The chunks of a stream joined: texts, deltas of chat completions, or pieces of messages; None for anything else.

    Chunks without text, such as the last one with the usage, say nothing.
    """
    pieces = [_piece(item) for item in items]
    texts = [piece for piece in pieces if piece is not None]
    if not texts or (several_texts(items) and any(" " in text for text in texts)):
        return None
    silent = (bit for piece, bit in zip(pieces, items, strict=True) if piece is None)
    if not all(bit is None or (isinstance(bit, dict) and bit.keys() & _SILENT_KEYS) for bit in silent):
        return None
    return "".join(texts)


_SILENT_KEYS = frozenset(
    words("choices type usage messageStart messageStop contentBlockStart contentBlockStop metadata")
)
"""Members of chunks that say nothing."""


def several_texts(items: Sequence[object]) -> bool:
    """Whether a list holds several texts of their own: a stream has white space at the edge of a chunk."""
    texts = [item for item in items if isinstance(item, str)]
    return 1 < len(texts) == len(items) and all(text == text.strip() for text in texts)


def _piece(chunk: object) -> str | None:
    if isinstance(chunk, str):
        return chunk
    if not isinstance(chunk, dict):
        return None
    choices = chunk.get("choices")
    if isinstance(choices, list) and choices:
        delta, text = at(choices[0], "delta"), at(choices[0], "text")
        if isinstance(delta, dict):
            return content_text(delta.get("content"), "")
        return text if isinstance(text, str) and chunk.get("object") == "text_completion" else None
    delta, kind = at(chunk, "contentBlockDelta", "delta") or chunk.get("delta"), chunk.get("type")
    if isinstance(delta, str):  # the arguments of calls come in such events, too, and are no text
        return delta if kind is None or str(kind).endswith("output_text.delta") else ""
    if isinstance(delta, dict):
        text = delta.get("text")
        return text if isinstance(text, str) else content_text(delta.get("content"), "")
    if _is_message_chunk(chunk):
        said = at(chunk, "kwargs", "content") or at(chunk, "message", "content") or chunk.get("response")
        return content_text(said or chunk.get("content"), "")
    return chunk["text"] if kind in ("text", "output_text") and isinstance(chunk.get("text"), str) else None


def _class(item: Mapping[str, object]) -> object:
    """The class that LangChain names as the last part of an id."""
    path = item.get("id")
    return path[-1] if isinstance(path, list) and path else None


def _is_message_chunk(chunk: Mapping[str, object]) -> bool:
    is_of_ollama = isinstance(chunk.get("done"), bool) and not chunk.keys().isdisjoint(("message", "response"))
    return is_of_ollama or any(str(name).endswith("MessageChunk") for name in (chunk.get("type"), _class(chunk)))


def _earlier(value: Mapping[str, object], question: str) -> tuple[Message, ...]:
    """The messages that stand beside a question; its own repetition at their end is left out."""
    messages = next(filter(None, (messages_of(value.get(key)) for key in _HISTORY_KEYS)), [])
    if messages and messages[-1].speaker is Speaker.USER and messages[-1].text == question:
        messages.pop()
    return tuple(message for message in messages if message.speaker in _NAMES)


def _only_value(value: Mapping[str, object]) -> object:
    """The value of an object that has no other, unless its key says that it is no text; never a list of no messages."""
    if len(value) != 1:
        return None
    ((key, member),) = value.items()
    if in_snake_case(key).rpartition("_")[2] in _NO_TEXT_KEYS:
        return None
    return member if not isinstance(member, list) or messages_of(member) is not None else None
