"""The question in what a trace was given, and the answer in what it gave, whatever JSON they stand in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attribeam.logs.traces.json_shapes import at, parsed
from attribeam.logs.traces.messages import Asked, Message, Speaker, answered, asked, content_text, messages_of

QUESTION_KEYS = (
    "question",
    "user_question",
    "user_input",
    "query",
    "user_query",
    "query_str",
    "input",
    "inputs",
    "prompt",
    "messages",
    "input_messages",
    "message",
    "text",
    "content",
    "request",
    "q",
)
ANSWER_KEYS = (
    "answer",
    "final_answer",
    "response",
    "output",
    "outputs",
    "output_text",
    "result",
    "completion",
    "generation",
    "reply",
    "return_values",
    "messages",
    "output_messages",
    "message",
    "text",
    "content",
    "choices",
    "generations",
    "candidates",
)
_CHOICES = ("choices", "generations", "candidates")
_HISTORY_KEYS = ("chat_history", "history", "messages")
_NO_TEXT_KEYS = frozenset({"role", "type", "id", "name", "model", "status"})
_DEEPEST = 8


def question_of(value: object, *, plain: bool = False, depth: int = 0) -> Asked | None:
    """The question; None where none is found. ``plain`` says that a text is no JSON.

    A list of messages gives the user's last one. In an object, the first of ``QUESTION_KEYS`` that leads to a text
    counts, or else the only value that it has. No other list is searched, since it may hold passages.
    """
    value = value if plain else parsed(value)
    if isinstance(value, str):
        return Asked(value) if value.strip() else None
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
        found = question_of(value[key], depth=depth + 1) if value.get(key) is not None else None
        if found is not None:
            return found if found.earlier else found._replace(earlier=_earlier(value, found.question))
    return question_of(_only_value(value), depth=depth + 1)


def answer_of(value: object, *, plain: bool = False, depth: int = 0) -> str | None:
    """The answer; None where none is found. ``plain`` says that a text is no JSON.

    A list of messages gives the assistant's last one; the chunks of a stream are joined, which several answers
    are not. In an
    object, the first of ``ANSWER_KEYS`` that leads to a text counts, or else the only value that it has; of several
    choices the first. No other list is searched, since it may hold passages.
    """
    value = value if plain else parsed(value)
    if isinstance(value, str):
        return value if value.strip() else None
    if depth > _DEEPEST:
        return None
    if isinstance(value, list):
        return _answer_of_list(value, depth)
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("kwargs"), dict):
        return answer_of(value["kwargs"], depth=depth + 1)
    if isinstance(value.get("parts"), list):
        return content_text(value["parts"], "") or None
    for key in ANSWER_KEYS:
        one = value.get(key)
        while key in _CHOICES and isinstance(one, list) and one:
            one = one[0]
        found = answer_of(one, plain=isinstance(one, str), depth=depth + 1) if one is not None else None
        if found is not None:
            return found
    return answer_of(_only_value(value), depth=depth + 1)


def _answer_of_list(value: list[object], depth: int) -> str | None:
    messages = messages_of(value)
    if messages is not None and not _are_chunks(value):
        return answered(messages)
    joined = joined_chunks(value)
    if joined is not None:
        return joined if joined.strip() else None
    return answer_of(value[0], depth=depth + 1) if len(value) == 1 and depth == 0 else None


def joined_chunks(items: Sequence[object]) -> str | None:
    """The chunks of a stream joined: texts, deltas of chat completions, or pieces of messages; None for anything else.

    Chunks without text, such as the last one with the usage, say nothing.
    """
    pieces = [_piece(one) for one in items]
    if not items or all(piece is None for piece in pieces) or (several_texts(items) and any(map(_has_space, pieces))):
        return None
    if any(piece is None and not _is_silent(one) for piece, one in zip(pieces, items, strict=True)):
        return None
    return "".join(piece for piece in pieces if piece)


def several_texts(items: Sequence[object]) -> bool:
    """Whether a list holds several texts of their own: a stream has white space at the edge of a chunk."""
    texts = [one for one in items if isinstance(one, str)]
    return 1 < len(texts) == len(items) and all(one == one.strip() for one in texts)


def _has_space(text: str | None) -> bool:
    return text is not None and " " in text


def _piece(one: object) -> str | None:
    if isinstance(one, str):
        return one
    if not isinstance(one, dict):
        return None
    choices = one.get("choices")
    if isinstance(choices, list) and choices:
        delta = at(choices[0], "delta")
        if isinstance(delta, dict):
            return content_text(delta.get("content"), "")
        text = at(choices[0], "text")
        return text if isinstance(text, str) and one.get("object") == "text_completion" else None
    if isinstance(one.get("delta"), dict | str):
        return _delta_text(one["delta"], one.get("type"))
    if _is_message_chunk(one):
        return content_text(at(one, "kwargs", "content") or one.get("content"), "")
    if one.get("type") in ("text", "output_text") and isinstance(one.get("text"), str):
        return str(one["text"])
    return None


def _delta_text(delta: object, kind: object) -> str:
    """The text in an event of a stream; the arguments of calls come in such events, too, and are none."""
    if isinstance(delta, str):
        return delta if kind is None or str(kind).endswith("output_text.delta") else ""
    text = at(delta, "text")
    return text if isinstance(text, str) else content_text(at(delta, "content"), "")


def _is_silent(one: object) -> bool:
    """A part of a stream that holds no text: usage, a call of a tool, or the end."""
    return one is None or (isinstance(one, dict) and ("choices" in one or "type" in one or "usage" in one))


def _is_message_chunk(one: Mapping[str, object]) -> bool:
    kind, place = one.get("type"), one.get("id")
    names = [kind, place[-1] if isinstance(place, list) and place else None]
    return any(isinstance(name, str) and name.endswith("MessageChunk") for name in names)


def _are_chunks(value: list[object]) -> bool:
    return all(isinstance(one, dict) and _is_message_chunk(one) for one in value)


def _earlier(value: Mapping[str, object], question: str) -> tuple[Message, ...]:
    """The messages that stand beside a question; its own repetition at their end is left out."""
    for key in _HISTORY_KEYS:
        messages = messages_of(value.get(key))
        if messages:
            is_own = messages[-1].speaker is Speaker.USER and messages[-1].text == question
            before = messages[:-1] if is_own else messages
            return tuple(one for one in before if one.speaker in (Speaker.USER, Speaker.ASSISTANT))
    return ()


def _only_value(value: Mapping[str, object]) -> object:
    """The value of an object that has no other, unless its key says that it is no text; never a list of no messages."""
    if len(value) != 1 or value.keys() & _NO_TEXT_KEYS:
        return None
    (found,) = value.values()
    return found if not isinstance(found, list) or messages_of(found) is not None else None
