"""Conversations: the messages of every common API and framework, the question that was asked last, the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from attribeam.logs.traces.json_shapes import at, nested, parsed


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


_SPEAKERS = {
    "user": Speaker.USER,
    "human": Speaker.USER,
    "humanmessage": Speaker.USER,
    "humanmessagechunk": Speaker.USER,
    "assistant": Speaker.ASSISTANT,
    "ai": Speaker.ASSISTANT,
    "model": Speaker.ASSISTANT,
    "aimessage": Speaker.ASSISTANT,
    "aimessagechunk": Speaker.ASSISTANT,
    "tool": Speaker.TOOL,
    "function": Speaker.TOOL,
    "toolmessage": Speaker.TOOL,
    "functionmessage": Speaker.TOOL,
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "systemmessage": Speaker.SYSTEM,
}
_TEXT_PARTS = (None, "text", "input_text", "output_text")
_TOOL_PARTS = ("tool_call_response", "tool_result", "function_call_output")
_SILENT_ITEMS = ("function_call", "reasoning", "tool_call", "tool_use", "thinking")
_DEEPEST = 8


def messages_of(value: object) -> list[Message] | None:
    """The messages of a list of them, None where ``value`` is no such list.

    Messages that say nothing, such as the request for a tool, are left out.
    """
    value = parsed(value)
    if isinstance(value, dict) and "messages" in value:
        return messages_of(value["messages"])
    if not isinstance(value, list) or not value:
        return None
    if len(value) == 1 and isinstance(value[0], list) and not _is_pair(value[0]):
        return messages_of(value[0])
    found = [_message(one) for one in value]
    if any(one is None for one in found):
        return None
    return [one for some in found if some is not None for one in some if one.text]


def asked(messages: Sequence[Message]) -> Asked | None:
    """What the user asked last; None where no user speaks."""
    places = [index for index, one in enumerate(messages) if one.speaker is Speaker.USER]
    if not places:
        return None
    last = places[-1]
    earlier = tuple(one for one in messages[:last] if one.speaker in (Speaker.USER, Speaker.ASSISTANT))
    tools = tuple(one for one in messages[last:] if one.speaker is Speaker.TOOL)
    return Asked(messages[last].text, earlier, tools)


def answered(messages: Sequence[Message]) -> str | None:
    """The last message of the assistant, unless the user has spoken since."""
    for one in reversed(messages):
        if one.speaker is Speaker.ASSISTANT:
            return one.text
        if one.speaker is Speaker.USER:
            return None
    return None


def with_history(question: Asked, count: int) -> str:
    """The question behind the last ``count`` messages before it, each on lines of its own under its speaker."""
    earlier = question.earlier[-count:] if count else ()
    names = {Speaker.USER: "User", Speaker.ASSISTANT: "Assistant"}
    lines = [f"{names[one.speaker]}: {one.text}" for one in earlier]
    return "\n".join([*lines, f"User: {question.question}"]) if lines else question.question


def content_text(content: object, glue: str = "\n", depth: int = 0) -> str:
    """The text of a message's content: a text, a list of parts, or a part; pictures, thoughts and calls are no text."""
    if isinstance(content, str):
        return content
    if depth > _DEEPEST:
        return ""
    if isinstance(content, list):
        texts = [content_text(one, glue, depth + 1) for one in content]
        return glue.join(text for text in texts if text)
    if not isinstance(content, dict):
        return ""
    if "message_content" in content:
        return content_text(content["message_content"], glue, depth + 1)
    if content.get("type") not in _TEXT_PARTS:
        return ""
    for name in ("text", "content", "value", "parts"):
        if content.get(name) is not None:
            return content_text(content[name], glue, depth + 1)
    return ""


def _message(one: object) -> list[Message] | None:
    """The messages in an item of a list: one, or one per result of a tool; None where it is no message."""
    if _is_pair(one):
        one = {"role": one[0], "content": one[1]}  # type: ignore[index]
    if isinstance(one, list) and len(one) == 1:
        return _message(one[0])
    if not isinstance(one, dict):
        return None
    if any("." in key for key in one):
        one = nested(one)
    if isinstance(one.get("message"), dict):
        one = one["message"]
    elif isinstance(one.get("kwargs"), dict):
        one = {"type": _class_of(one), **_members(one["kwargs"])}
    elif isinstance(one.get("data"), dict):
        one = {**one, **_members(one["data"])}
    one = _members(one)
    if one.get("type") in _SILENT_ITEMS:
        return []
    if one.get("type") == "function_call_output":
        return [Message(Speaker.TOOL, content_text(one.get("output")))]
    return _plain_message(one)


def _plain_message(one: Mapping[str, object]) -> list[Message] | None:
    speaker = _speaker(one.get("role")) or _speaker(one.get("type"))
    if speaker is None or not any(name in one for name in ("content", "parts", "text", "contents", "tool_calls")):
        return None
    content = next((one[name] for name in ("content", "parts", "contents", "text") if one.get(name) is not None), None)
    results = list(_tool_results(content))
    if results:
        spoken = content_text(content)
        return [*results, *([Message(speaker, spoken)] if spoken else [])]
    name = one.get("name")
    text = content_text(content, "" if speaker is Speaker.ASSISTANT else "\n")
    return [Message(speaker, text, name if isinstance(name, str) else None)]


def _tool_results(content: object) -> list[Message]:
    """What tools said, where it stands among the parts of a message."""
    if not isinstance(content, list):
        return []
    found = []
    for part in content:
        if isinstance(part, dict) and part.get("type") in _TOOL_PARTS:
            values = (part.get(name) for name in ("response", "result", "content", "output"))
            said = content_text(next((value for value in values if value is not None), ""))
            if said:
                found.append(Message(Speaker.TOOL, said))
    return found


def _members(one: object) -> Mapping[str, object]:
    return one if isinstance(one, dict) else {}


def _class_of(one: Mapping[str, object]) -> object:
    """The class in a message as LangChain serialises it: the last part of its id."""
    place = one.get("id")
    return place[-1] if isinstance(place, list) and place else at(one, "kwargs", "type")


def _speaker(role: object) -> Speaker | None:
    return _SPEAKERS.get(role.lower()) if isinstance(role, str) else None


def _is_pair(one: object) -> bool:
    """A message as ("human", "text")."""
    return isinstance(one, list) and len(one) == 2 and _speaker(one[0]) is not None and isinstance(one[1], str | list)
