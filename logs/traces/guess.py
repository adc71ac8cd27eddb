"""What the first records of an export look like: which paths lead to texts, and what the import finds by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from attribeam.logs.traces.documents import LIST_KEYS, Document, documents_of
from attribeam.logs.traces.formats import LogKind
from attribeam.logs.traces.messages import ANSWER_KEYS, QUESTION_KEYS, answer_of, messages_of, question_of
from attribeam.logs.traces.paths import TraceOptions
from attribeam.logs.traces.rows import Rows
from attribeam.logs.traces.trace_log import ExportRows, OpenFile
from attribeam.logs.traces.values import is_nothing

MOST_RECORDS = 5000
_SHOWN = 5
_DEEPEST = 6
_LEAST_ROWS = 3
"""How many rows have to say the same before that is no chance."""
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPAN_TYPES = ("", "SPAN", "chain", "CHAIN", "UNKNOWN")
"""Kinds of spans that say nothing, so that the name tells more."""
_ID = re.compile(r"[A-Za-z]*(?=[^\s]*[\d_/@-])[\w.:/#@+-]{1,200}", re.ASCII)
_FIELDS = {"question": QUESTION_KEYS, "answer": ANSWER_KEYS, "passages": LIST_KEYS}

_ASKING = ("?", "？", "؟")

Said = frozenset[int]
"""Hashes of the texts that stand at a place of one row."""


@dataclass(slots=True)
class Place:
    """What stands at a path: ``said`` by row, and in how many rows nothing, an id, or a question."""

    said: dict[int, Said] = field(default_factory=dict)
    empty: int = 0
    ids: int = 0
    asking: int = 0


@dataclass(slots=True)
class Guess:
    """The places of each field by their paths, and what the import ``found`` by itself; ``whole`` counts whole rows."""

    rows: int = 0
    whole: int = 0
    places: dict[str, dict[str, Place]] = field(default_factory=lambda: {name: {} for name in _FIELDS})
    found: dict[str, dict[int, Said]] = field(default_factory=lambda: {name: {} for name in _FIELDS})


def guessed(kind: LogKind, options: TraceOptions, files: Iterable[OpenFile]) -> Guess:
    """Look at the first 5,000 records; errors as those of ``ExportRows.read``."""
    guess = Guess()
    for placed in ExportRows(kind, options).read(files, MOST_RECORDS):
        row, whole = placed.row, placed.document()
        guess.whole += row.fault is None
        for name in _FIELDS:
            if found := getattr(row, name):
                guess.found[name][guess.rows] = _hashes([found] if isinstance(found, str) else _texts_of(found))
        with suppress(RecursionError):
            if isinstance(whole, dict):
                _look(guess, whole, is_row=isinstance(kind.format, Rows))
        guess.rows += 1
    return guess


def _look(guess: Guess, whole: Mapping[str, object], *, is_row: bool) -> None:
    own = {name: value for name, value in whole.items() if name != "observations"}
    given = own if is_row else {"input": own.get("input"), "metadata": own.get("metadata")}
    gave = own if is_row else {"output": own.get("output")}
    spans = [] if is_row else _lists_of_spans(whole.get("observations"))
    values = {
        "question": _values(given, _question),
        "answer": _values(gave, _answer),
        "passages": (*_values(own, _passages), *spans),
    }
    for name, path, texts in ((name, *pair) for name, pairs in values.items() for pair in pairs):
        place = guess.places[name].setdefault(path, Place())
        said = _hashes(texts)
        if said:
            place.said[guess.rows] = place.said.get(guess.rows, frozenset()) | said
            place.ids += all(map(_ID.fullmatch, texts))
            place.asking += all(text.rstrip().endswith(_ASKING) for text in texts)
        else:
            place.empty += 1


def guess_lines(guess: Guess, command: str) -> Iterator[str]:
    """The guess as text, and the command that follows from it; ``command`` is its beginning."""
    if not guess.rows:
        yield "looked at 0 rows: the files have none of this format; check --data, and the format's name"
        return
    found = ", ".join(f"{name} in {len(guess.found[name])}" for name in ("question", "passages", "answer"))
    yield f"looked at {guess.rows} rows; found already: {found}; whole rows: {guess.whole}"
    options, missing = [], []
    taken: dict[str, Mapping[int, Said]] = {name: one for name, one in guess.found.items() if len(one) == guess.rows}
    for name in _FIELDS:
        is_found, places = name in taken, guess.places[name]
        refusals = ((path, why) for path, one in places.items() if (why := _refusal(one, name, taken)))
        refused = dict(sorted(refusals, key=lambda pair: (-len(places[pair[0]].said), pair[0])))
        good = [path for path in ranked(places, name) if path not in refused]
        shown = dict.fromkeys(good[:_SHOWN], "") | ({} if is_found else refused)
        yield f"{name}: {'texts' if name != 'passages' else 'lists'} stand at" if shown else f"{name}: nothing found"
        listed = [*shown.items()][: 2 * _SHOWN]
        width = max((len(path) for path, _ in listed), default=0)
        for path, why in listed:
            reason = f", refused: {why}" if why else ""
            yield f"  {path:<{width}}  in {len(places[path].said)} of {guess.rows}{reason}"
        if not is_found:
            taken[name] = places[good[0]].said if good else guess.found[name]
        elif circle := _circle(guess.found[name], taken, name):
            yield f"  what is found already is refused: {circle}"
            is_found = False
        if not is_found and good:
            path = good[0]
            quoted = '"' + re.sub(r'([\\"$`])', r"\\\1", path) + '"' if "'" in path else f"'{path}'"
            options.append(f"--{name}-path {quoted}")
        elif not is_found:
            missing.append(name)
    if missing:
        yield f"no command is proposed, since nothing that was seen can be the {' or the '.join(missing)}"
    elif options:
        yield f"try: {command} {' '.join(options)}"
    else:
        yield "every row is found already" if guess.whole == guess.rows else "import says what the other rows lack"


def _refusal(place: Place, name: str, taken: Mapping[str, Mapping[int, Said]]) -> str | None:
    if not place.said:
        return f"empty in {place.empty} rows"
    if place.ids == len(place.said):
        return "ids, names or times only"
    if name != "passages" and len(place.said) >= _LEAST_ROWS and len(set(place.said.values())) == 1:
        return "the same text in every row"
    return _circle(place.said, taken, name)


def _circle(said: Mapping[int, Said], taken: Mapping[str, Mapping[int, Said]], name: str) -> str | None:
    """What in most rows says nothing but what another field says."""
    for other, theirs in taken.items():
        both = [row for row in said if row in theirs] if other != name else []
        if both and 2 * sum(said[row] == theirs[row] for row in both) > len(both):
            return f"the same as the {other}"
    others = [theirs for other, theirs in taken.items() if other != name]
    repeated = sum(texts <= frozenset().union(*(one.get(row, ()) for one in others)) for row, texts in said.items())
    return "the same as question and answer" if name == "passages" and 2 * repeated > len(said) else None


def ranked(places: Mapping[str, Place], name: str) -> list[str]:
    """The paths to a field, those first that end in a usual key, then by what stands there, and how often."""
    order = {key: place for place, key in enumerate(_FIELDS[name])}

    def rank(path: str) -> tuple[object, ...]:
        key, one = path.rpartition(".")[2], places[path]
        is_usual = key in order or path.startswith("observations[")
        asking = -one.asking if name == "question" else one.asking
        return (not is_usual, asking, -len(one.said), order.get(key, len(order)), len(path), path)

    return sorted(places, key=rank)


def _values(
    value: object, read: Callable[[object], object], path: str = "", depth: int = 0
) -> Iterator[tuple[str, list[str]]]:
    """The paths at which ``read`` finds something, with the texts that it finds; none where a field is empty."""
    is_end = not isinstance(value, dict) or (path and messages_of(value) is not None)
    if path and is_end and (is_nothing(value) or value in ([], " ")):
        yield path, []
    elif path and is_end:
        found = read(value)
        if isinstance(found, str):
            yield path, [found]
        elif found and isinstance(found, tuple):
            yield path, _texts_of(found)
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, one in value.items():
            escaped = key.replace("\\", "\\\\").replace('"', '\\"')
            name = key if _PLAIN_KEY.fullmatch(key) else f'"{escaped}"'
            yield from _values(one, read, f"{path}.{name}" if path else name, depth + 1)


def _question(value: object) -> str | None:
    is_spoken = isinstance(value, str) or messages_of(value) is not None
    asked = question_of(value, plain=isinstance(value, str)) if is_spoken else None
    return None if asked is None else asked.question


def _answer(value: object) -> str | None:
    is_spoken = isinstance(value, str) or messages_of(value) is not None
    return answer_of(value, plain=isinstance(value, str)) if is_spoken else None


def _passages(value: object) -> tuple[Document, ...] | None:
    return documents_of(value) if isinstance(value, list) and not messages_of(value) else None


def _texts_of(documents: Iterable[Document]) -> list[str]:
    return [one.text or one.passage_id or "" for one in documents]


def _hashes(texts: Iterable[str]) -> Said:
    return frozenset(hash(" ".join(one.split())) for one in texts if one.strip())


def _lists_of_spans(spans: object) -> Iterator[tuple[str, list[str]]]:
    """Paths to the lists in what spans gave, by their kind, or by their name where the kind says nothing."""
    for one in spans if isinstance(spans, list) else ():
        kind, name = str(one.get("type") or ""), str(one.get("name") or "")
        which = f"name=={_literal(name)}" if kind in _SPAN_TYPES else f"type=={_literal(kind)}"
        for path, texts in _values({"documents": one.get("documents"), "output": one.get("output")}, _passages):
            if texts:
                yield f"observations[?{which}].{path}[]", texts


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
