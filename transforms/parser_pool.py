"""Loaded answer parsers that no stage is using now; spaCy pipelines serve one thread at a time."""

from __future__ import annotations

from collections import defaultdict
from threading import Lock

from attribution.answers.answer_parser import AnswerParser

_idle: dict[str, list[AnswerParser]] = defaultdict(list)
_lock = Lock()


def take_parser(name: str) -> AnswerParser:
    """A parser for the caller alone: an idle one of this process where there is one, else a new one.

    Raises:
        FileNotFoundError, ValueError: as ``AnswerParser.from_pretrained``.
    """
    with _lock:
        if _idle[name]:
            return _idle[name].pop()
    return AnswerParser.from_pretrained(name)


def give_parser_back(name: str, parser: AnswerParser) -> None:
    """Let the next ``take_parser`` have it; the caller must not use it any more."""
    with _lock:
        _idle[name].append(parser)
