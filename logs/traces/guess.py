"""What the first records of an export look like: which paths lead to texts, and what the import finds by itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from attribeam.logs.traces.documents import LIST_KEYS, documents_of
from attribeam.logs.traces.formats import LogKind
from attribeam.logs.traces.messages import messages_of
from attribeam.logs.traces.rows import Rows
from attribeam.logs.traces.span import TraceOptions
from attribeam.logs.traces.texts import ANSWER_KEYS, QUESTION_KEYS
from attribeam.logs.traces.trace_log import ExportRows, OpenFile

MOST_RECORDS = 5000
_SHOWN = 5
_DEEPEST = 6
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPAN_TYPES = ("", "SPAN", "chain", "CHAIN", "UNKNOWN")
"""Kinds of spans that say nothing, so that the name tells more."""


@dataclass(slots=True)
class Guess:
    """How many of the rows looked at have something at a path; ``found`` counts what the import finds by itself."""

    rows: int = 0
    questions: Counter[str] = field(default_factory=Counter)
    passages: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)


def guessed(kind: LogKind, options: TraceOptions, files: Iterable[OpenFile]) -> Guess:
    """Look at the first 5,000 records.

    Raises:
        LogFormatError, DataError, OSError: as ``ExportRows.read``.
    """
    guess = Guess()
    for placed, document in ExportRows(kind, options).read_with_documents(files, MOST_RECORDS):
        guess.rows += 1
        row = placed.row
        fields = {"question": row.question, "passages": row.passages, "answer": row.answer}
        guess.found.update(name for name, value in fields.items() if value)
        guess.found["whole rows"] += row.fault is None
        whole = document()
        with suppress(RecursionError):
            if isinstance(whole, dict):
                _count(guess, whole, is_row=isinstance(kind.format, Rows))
    return guess


def _count(guess: Guess, whole: Mapping[str, object], *, is_row: bool) -> None:
    own = {name: value for name, value in whole.items() if name != "observations"}
    given = own if is_row else {"input": own.get("input"), "metadata": own.get("metadata")}
    gave = own if is_row else {"output": own.get("output")}
    guess.questions.update(set(_texts(given)))
    guess.answers.update(set(_texts(gave)))
    guess.passages.update({*_lists(own), *([] if is_row else _lists_of_spans(whole.get("observations")))})


def guess_lines(guess: Guess, command: str) -> Iterator[str]:
    """The guess as text, and the command that follows from it; ``command`` is its beginning."""
    found = ", ".join(f"{name} in {guess.found[name]}" for name in ("question", "passages", "answer"))
    yield f"looked at {guess.rows} rows; found already: {found}; whole rows: {guess.found['whole rows']}"
    options = []
    for name, counts, keys in (
        ("question", guess.questions, QUESTION_KEYS),
        ("passages", guess.passages, LIST_KEYS),
        ("answer", guess.answers, ANSWER_KEYS),
    ):
        best = ranked(counts, keys)[:_SHOWN]
        yield f"{name}: {'texts' if name != 'passages' else 'lists'} stand at" if best else f"{name}: nothing found"
        width = max((len(path) for path, _ in best), default=0)
        yield from (f"  {path:<{width}}  in {count} of {guess.rows}" for path, count in best)
        if best and guess.found[name] < guess.rows:
            options.append(f"--{name}-path {_quoted(best[0][0])}")
    yield f"try: {command} {' '.join(options)}".rstrip() if options else "every row is found already"


def ranked(counts: Counter[str], keys: tuple[str, ...]) -> list[tuple[str, int]]:
    """The paths, those first that end in a usual key, then by how often they lead somewhere."""
    order = {key: place for place, key in enumerate(keys)}

    def rank(item: tuple[str, int]) -> tuple[object, ...]:
        key = item[0].rpartition(".")[2]
        is_usual = key in order or item[0].startswith("observations[")
        return (not is_usual, -item[1], order.get(key, len(order)), len(item[0]), item[0])

    return sorted(counts.items(), key=rank)


def _texts(value: object, path: str = "", depth: int = 0) -> Iterator[str]:
    """Paths to texts and to conversations."""
    if (isinstance(value, str) and value.strip()) or messages_of(value):
        if path:
            yield path
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, one in value.items():
            yield from _texts(one, _joined(path, key), depth + 1)


def _lists(value: object, path: str = "", depth: int = 0) -> Iterator[str]:
    """Paths to lists of texts or documents."""
    if isinstance(value, list):
        if path and value and not messages_of(value) and documents_of(value):
            yield path
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, one in value.items():
            yield from _lists(one, _joined(path, key), depth + 1)


def _lists_of_spans(spans: object) -> Iterator[str]:
    """Paths to the lists in what spans gave, by their kind, or by their name where the kind says nothing."""
    for one in spans if isinstance(spans, list) else ():
        kind, name = str(one.get("type") or ""), str(one.get("name") or "")
        which = f"name=={_literal(name)}" if kind in _SPAN_TYPES else f"type=={_literal(kind)}"
        for path in _lists({"documents": one.get("documents"), "output": one.get("output")}):
            yield f"observations[?{which}].{path}[]"


def _joined(path: str, key: str) -> str:
    own = key if _PLAIN_KEY.fullmatch(key) else '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{path}.{own}" if path else own


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quoted(path: str) -> str:
    """The path for a shell."""
    return '"' + re.sub(r'([\\"$`])', r"\\\1", path) + '"' if "'" in path else f"'{path}'"
