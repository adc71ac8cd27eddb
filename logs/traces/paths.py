"""How a trace becomes a row, as a user says: options, and JMESPaths to question, passages and answer, or presets.

A preset names paths in records of free JSON, or in what a provider's interface answers, logged with its request. A
guess says which paths in the first records lead to texts, and what the import finds by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from attribeam.logs.traces import is_nothing
from attribeam.logs.traces.documents import LIST_KEYS, Document, documents_of
from attribeam.logs.traces.messages import ANSWER_KEYS, QUESTION_KEYS, answer_of, messages_of, question_of
from attribeam.schemas.errors import UsageError

if TYPE_CHECKING:
    from attribeam.logs.traces.trace_log import ExportRows, OpenFile


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How a trace becomes a row; picklable.

    Attributes:
        question_path: JMESPath to the question, so for the other two.
        history: how many earlier messages of a conversation stand in front of the question.
        retrievals: which retrievals of a trace count: "all", "first" or "last".
        tool_outputs: take what tools returned as passages, too.
        passages_table: table with the texts of passages of which a trace has only the ids.
        preset: whose responses a log holds, one of ``PROVIDERS``; None asks each record.
    """

    question_path: str | None = None
    passages_path: str | None = None
    answer_path: str | None = None
    history: int = 0
    retrievals: str = "all"
    tool_outputs: bool = False
    passages_table: str | None = None
    preset: str | None = None


Path = Callable[[object], object]
"""A JMESPath that was checked: gives what it finds in a value, None for nothing."""


class PathSet(NamedTuple):
    """The paths that a user gave, ready to search; None for what the shape of the records tells."""

    question: Path | None = None
    passages: Path | None = None
    answer: Path | None = None


PRESETS: Mapping[str, tuple[str, str, str]] = {
    "root": ("input.question || input.query || input", "output.documents || output.contexts", "output.answer"),
    "langchain": (
        "input.input || input.question || input.query",
        "observations[?type=='RETRIEVER'].output[] || output.context || output.source_documents",
        "output.answer || output.result || output.output",
    ),
    "langgraph": ("input.messages", "observations[?type=='TOOL' || type=='RETRIEVER'].output[]", "output.messages"),
    "llamaindex": (
        "input.query_str || input.query || input",
        "observations[?type=='RETRIEVER'].output.nodes[] || output.source_nodes",
        "output.response || output",
    ),
    "metadata": ("input", "metadata.contexts || metadata.documents || metadata.passages", "output"),
}
"""Paths to question, passages and answer in records of free JSON; docs/importing_logs.md shows what each is for."""


def path_set(options: TraceOptions) -> PathSet:
    """The paths of the options, checked as by ``compiled_path``."""
    paths = {name: getattr(options, f"{name}_path") for name in PathSet._fields}
    return PathSet(*(text if text is None else compiled_path(f"--{name}-path", text) for name, text in paths.items()))


@cache
def compiled_path(flag: str, text: str) -> Path:
    """A JMESPath that ``flag`` gave; ``UsageError`` if it is none, or the library is not installed."""
    try:
        import jmespath
        from jmespath.exceptions import JMESPathError
    except ImportError as error:
        raise UsageError(f"{flag} needs the extra 'traces': pip install 'attribeam[traces]'") from error
    try:
        compiled = jmespath.compile(text)
    except JMESPathError as error:
        raise UsageError(
            f'{flag} should be a JMESPath such as "output.answer" or "observations[?type==\'RETRIEVER\'].output[]", '
            f"was {text!r}: {' '.join(str(error).split())}"
        ) from error

    def search(value: object) -> object:
        with suppress(JMESPathError, TypeError, ValueError):  # a function in it does not take the value at hand
            return cast(object, compiled.search(value))
        return None

    return search


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a provider's answer stands: JMESPaths in an object with the ``request`` and the ``response``.

    Keys are read as snake case, so that one path fits what HTTP and what a client library gives.

    Attributes:
        mark: what only its responses have; that of the wrong ones leads to nothing or to an empty list.
        question: texts or messages; several paths, of which the first that leads to a question counts.
        passages: documents, perhaps with the members ``text``, ``title`` and ``passage_id``.
        answer: a text, or messages.
        way_out: how the log comes to have passages.
    """

    mark: str
    question: tuple[str, ...]
    passages: str
    answer: str
    way_out: str = "log the request, which holds them"


PROVIDERS: Mapping[str, Provider] = {
    "openai-responses": Provider(
        mark="response.output[?type=='file_search_call' || type=='message']",
        question=("request.input",),
        passages="response.output[?type=='file_search_call'].results[]"
        ".{text: not_null(text, content), title: filename, passage_id: file_id}",
        answer="response.output[?type=='message'].content[] | [?type=='output_text'].text | join(`\"\\n\"`, @)",
        way_out='ask for them with include=["file_search_call.results"]',
    ),
    "anthropic": Provider(
        mark="response.type=='message' && response.content[?type]",
        question=("request.messages",),
        passages="request.messages[].content[] | [@, [?type=='tool_result'].content[]][]"
        " | [?type=='document' || type=='search_result'].{text: (source.type=='text' && source.data) || source.content"
        " || content, title: title, passage_id: source.file_id || source.url || source}",
        answer="response.content[?type=='text'].text | join('', @)",
    ),
    "gemini": Provider(
        mark="response.candidates[0].content.parts",
        question=("request.contents", "request.contents[-1]", "request.contents[?role=='user'] | [-1]"),
        passages="response.candidates[0].grounding_metadata.grounding_chunks[].[retrieved_context || maps || web][]"
        ".{text: not_null(rag_chunk.text, text), title: title, passage_id: document_name || uri}",
        answer="response.candidates[0].content.parts[?thought!=`true`].text | join('', @)",
        way_out="they stand in groundingMetadata of the response, which a search gives",
    ),
    "bedrock": Provider(
        mark="response.output.text && (response.citations || response.session_id)",
        question=("request.input.text", "input.text"),
        passages="response.citations[].retrieved_references[].{text: content.text, title: metadata.title,"
        " passage_id: location.*.[uri || url || id][] | [?@] | [0]}",
        answer="response.output.text",
        way_out="this answer cites none, and Bedrock gives no others",
    ),
    "azure-on-your-data": Provider(
        mark="response.choices[0].message.context",
        question=("request.messages",),
        passages="response.choices[0].message.context | [citations, all_retrieved_documents[?!filter_reason]][][]"
        ".{text: content, title: title, passage_id: filepath || url || chunk_id}",
        answer="response.choices[0].message.content",
        way_out="they stand in message.context.citations of the response",
    ),
    "azure-ai-evaluation": Provider(
        mark="inputs.response || inputs.conversation || conversation.messages"
        " || (query && response.response && context)",
        question=("inputs.query || query", "(inputs.conversation || conversation).messages"),
        passages="inputs.context || context || ((inputs.conversation || conversation)"
        " | (messages[].context | [-1]) || context"
        " | citations[].{text: content, title: title, passage_id: id || url} || @)",
        answer="inputs.response || (inputs.conversation || conversation).messages || response.response",
        way_out="they stand in the row's context",
    ),
    "cohere": Provider(
        mark="(response.generation_id && response.text) || response.message.content[?type=='text']",
        question=("request.messages", "type(request.message)=='string' && request.message"),
        passages="request.documents || request.messages[?role=='tool'].content[].document || response.documents ||"
        " (response.message || response).citations[].sources[].document"
        " | [].{text: data.text || data.snippet || data.content || data || text || snippet || content || @,"
        " title: data.title || title, passage_id: id || data.id}",
        answer="response.text || join('', response.message.content[?type=='text'].text)",
    ),
    "llamaindex-response": Provider(
        mark="response.source_nodes",
        question=("request.query_str || request.query || request.message",),
        passages="response.source_nodes[].merge(@, node || `{}`).{text: not_null(text_resource.text, text),"
        " title: metadata.title || metadata.file_name, passage_id: id_ || node_id}",
        answer="response.response || response.answer",
        way_out="they stand in source_nodes of the response",
    ),
    "haystack": Provider(
        mark="response.*.replies[] || response.*.answers[] || (response.answers && response.documents)",
        question=(
            "response.*.answers[].[init_parameters || @][].query | [0]",
            "response.query",
            "request.[*.query, *.question, *.text, data.*.query, data.*.question][] | [0]",
        ),
        passages="(response.*.answers[].[init_parameters || @][].documents | [0]) || (response.*.documents | [-1]) ||"
        " response.documents | [].[init_parameters || @][]"
        ".{text: content, title: meta.title || meta.name || meta.file_path, passage_id: id}",
        answer="(response.*.answers[].[init_parameters || @][].[data || answer][] | [0]) || response.answers[0].answer"
        " || (response.*.replies[].[content || _content || @][] | [0])",
        way_out='run the pipeline with include_outputs_from={"retriever"}',
    ),
    "trulens": Provider(
        mark="response.main_input && response.calls",
        question=("response.main_input",),
        passages="response.calls[?length(stack) > `1`] | [?contains(not_null(stack[-1].method.name, ''), 'retriev') ||"
        " contains(not_null(stack[-1].method.name, ''), 'relevant_documents') ||"
        " contains(not_null(stack[-1].method.name, ''), 'search') ||"
        " ends_with(not_null(stack[-1].method.obj.cls.name, ''), 'Retriever')]"
        ".rets[].[source_nodes || nodes || documents || @][][]",
        answer="response.main_output",
        way_out="instrument the method that retrieves, and give it a name with retrieve or search",
    ),
    "chat": Provider(
        mark="response.choices[0].message || response.output.message",
        question=("request.messages",),
        passages="response.search_results[].{text: snippet, title: title, passage_id: url}",
        answer="response.choices[0].message || response.output.message",
        way_out='mark them in the prompt as context, or log them beside the response as "contexts"',
    ),
}
"""By the names that ``--preset`` knows; docs/importing_logs.md shows each."""

_MOST_RECORDS = 5000
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

_T = TypeVar("_T")
Said = frozenset[int]
"""Hashes of the texts that stand at a place of one row."""
_Found = tuple[str, list[str]]
"""A path, and the texts that stand there."""


@dataclass(slots=True)
class Candidate:
    """What stands at a path: ``said`` by row, and in how many rows nothing, an id, or a question."""

    said: dict[int, Said] = field(default_factory=dict)
    empty: int = 0
    ids: int = 0
    asking: int = 0


@dataclass(slots=True)
class Guess:
    """The candidates of each field by their paths, what the import ``found`` by itself; ``whole`` counts whole rows."""

    rows: int = 0
    whole: int = 0
    candidates: dict[str, dict[str, Candidate]] = field(default_factory=lambda: {name: {} for name in _FIELDS})
    found: dict[str, dict[int, Said]] = field(default_factory=lambda: {name: {} for name in _FIELDS})


def guessed(export: ExportRows, files: Iterable[OpenFile]) -> Guess:
    """Look at the first 5,000 records; errors as those of ``ExportRows.read``."""
    guess = Guess()
    for placed in export.read(files, _MOST_RECORDS):
        row, whole = placed.row, placed.document()
        guess.whole += row.fault is None
        for name in _FIELDS:
            if value := getattr(row, name):
                guess.found[name][guess.rows] = _hashes([value] if isinstance(value, str) else _texts_of(value))
        with suppress(RecursionError):
            if isinstance(whole, dict):
                _look(guess, whole, is_row=not export.kind.is_of_traces)
        guess.rows += 1
    return guess


def _look(guess: Guess, whole: Mapping[str, object], *, is_row: bool) -> None:
    own = {name: value for name, value in whole.items() if name != "observations"}
    given = own if is_row else {"input": own.get("input"), "metadata": own.get("metadata")}
    gave = own if is_row else {"output": own.get("output")}
    spans = [] if is_row else _lists_of_spans(whole.get("observations"))
    values = {
        "question": _values(given, lambda value: None if (asked := _spoken(value, question_of)) is None else asked[0]),
        "answer": _values(gave, lambda value: _spoken(value, answer_of)),
        "passages": (*_values(own, _passages), *spans),
    }
    for name, path, texts in ((name, *pair) for name, pairs in values.items() for pair in pairs):
        candidate = guess.candidates[name].setdefault(path, Candidate())
        said = _hashes(texts)
        if said:
            candidate.said[guess.rows] = candidate.said.get(guess.rows, frozenset()) | said
            candidate.ids += all(map(_ID.fullmatch, texts))
            candidate.asking += all(text.rstrip().endswith(_ASKING) for text in texts)
        else:
            candidate.empty += 1


def guess_lines(guess: Guess, command: str) -> Iterator[str]:
    """The guess as text, and the command that follows from it; ``command`` is its beginning."""
    if not guess.rows:
        yield "looked at 0 rows: the files have none of this format; check --data, and the format's name"
        return
    counts = ", ".join(f"{name} in {len(guess.found[name])}" for name in ("question", "passages", "answer"))
    yield f"looked at {guess.rows} rows; found already: {counts}; whole rows: {guess.whole}"
    options, missing = [], []
    taken: dict[str, Mapping[int, Said]] = {name: said for name, said in guess.found.items() if len(said) == guess.rows}
    for name in _FIELDS:
        is_found, candidates = name in taken, guess.candidates[name]
        refusals = ((path, why) for path, candidate in candidates.items() if (why := _refusal(candidate, name, taken)))
        refused = dict(sorted(refusals, key=lambda pair: (-len(candidates[pair[0]].said), pair[0])))
        good = [path for path in ranked(candidates, name) if path not in refused]
        shown = dict.fromkeys(good[:_SHOWN], "") | ({} if is_found else refused)
        yield f"{name}: {'texts' if name != 'passages' else 'lists'} stand at" if shown else f"{name}: nothing found"
        listed = [*shown.items()][: 2 * _SHOWN]
        width = max((len(path) for path, _ in listed), default=0)
        for path, why in listed:
            reason = f", refused: {why}" if why else ""
            yield f"  {path:<{width}}  in {len(candidates[path].said)} of {guess.rows}{reason}"
        best: Mapping[int, Said] = candidates[good[0]].said if good else {}
        is_found = is_found or 0 < len(best) <= len(guess.found[name])  # no path leads to more
        taken.setdefault(name, best if good and not is_found else guess.found[name])
        if is_found and (circle := _circle(guess.found[name], taken, name)):
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


def _refusal(candidate: Candidate, name: str, taken: Mapping[str, Mapping[int, Said]]) -> str | None:
    if not candidate.said:
        return f"empty in {candidate.empty} rows"
    if candidate.ids == len(candidate.said):
        return "ids, names or times only"
    if name != "passages" and len(candidate.said) >= _LEAST_ROWS and len(set(candidate.said.values())) == 1:
        return "the same text in every row"
    return _circle(candidate.said, taken, name)


def _circle(said: Mapping[int, Said], taken: Mapping[str, Mapping[int, Said]], name: str) -> str | None:
    """What in most rows says nothing but what another field says."""
    for other, theirs in taken.items():
        both = [row for row in said if row in theirs] if other != name else []
        if both and 2 * sum(said[row] == theirs[row] for row in both) > len(both):
            return f"the same as the {other}"
    others = [theirs for other, theirs in taken.items() if other != name]
    repeated = sum(texts <= frozenset().union(*(rows.get(row, ()) for rows in others)) for row, texts in said.items())
    return "the same as question and answer" if name == "passages" and 2 * repeated > len(said) else None


def ranked(candidates: Mapping[str, Candidate], name: str) -> list[str]:
    """The paths to a field, those first that end in a usual key, then by what stands there, and how often."""
    order = {key: position for position, key in enumerate(_FIELDS[name])}

    def rank(path: str) -> tuple[object, ...]:
        key, candidate = path.rpartition(".")[2], candidates[path]
        is_usual = key in order or path.startswith("observations[")
        asking = -candidate.asking if name == "question" else candidate.asking
        return (not is_usual, asking, -len(candidate.said), order.get(key, len(order)), len(path), path)

    return sorted(candidates, key=rank)


def _values(value: object, read: Callable[[object], Any], path: str = "", depth: int = 0) -> Iterator[_Found]:
    """The paths at which ``read`` finds something, with the texts that it finds; none where a field is empty."""
    is_end = not isinstance(value, dict) or (path and messages_of(value) is not None)
    if path and is_end:
        is_empty = is_nothing(value) or value in ([], " ")
        content = () if is_empty else read(value)
        if is_empty or isinstance(content, str) or (content and isinstance(content, tuple)):
            yield path, [content] if isinstance(content, str) else _texts_of(content)
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, item in value.items():
            escaped = key.replace("\\", "\\\\").replace('"', '\\"')
            name = key if _PLAIN_KEY.fullmatch(key) else f'"{escaped}"'
            yield from _values(item, read, f"{path}.{name}" if path else name, depth + 1)


def _spoken(value: object, find: Callable[..., _T | None]) -> _T | None:
    is_text = isinstance(value, str)
    return find(value, plain=is_text) if is_text or messages_of(value) is not None else None


def _passages(value: object) -> tuple[Document, ...] | None:
    return documents_of(value) if isinstance(value, list) and not messages_of(value) else None


def _texts_of(documents: Iterable[Document]) -> list[str]:
    return [document.text or document.passage_id or "" for document in documents]


def _hashes(texts: Iterable[str]) -> Said:
    return frozenset(hash(" ".join(text.split())) for text in texts if text.strip())


def _lists_of_spans(spans: object) -> Iterator[_Found]:
    """Paths to the lists in what spans gave, by their kind, or by their name where the kind says nothing."""
    for span in spans if isinstance(spans, list) else ():
        kind, name = str(span.get("type") or ""), str(span.get("name") or "")
        member, text = ("name", name) if kind in _SPAN_TYPES else ("type", kind)
        which = f"{member}=='" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        for path, texts in _values({"documents": span.get("documents"), "output": span.get("output")}, _passages):
            if texts:
                yield f"observations[?{which}].{path}[]", texts
