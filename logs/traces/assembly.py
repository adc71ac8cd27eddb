"""The spans of one trace, which wait on disk for each other, to one row.

A row has a question, an answer, and the retrieved passages that the answer rests on.
"""

from __future__ import annotations

import json
import pickle
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from attribeam.logs.qa_log import temporary_file_failed
from attribeam.logs.rows import text_bytes
from attribeam.logs.traces import at, shape
from attribeam.logs.traces.documents import (
    FROM_PROMPT,
    SOURCE_KEYS,
    Document,
    Texts,
    among,
    documents_of,
    documents_retrieved,
    once_each,
    prompt_parts,
    with_texts,
)
from attribeam.logs.traces.messages import Asked, Message, answer_of, messages_of, question_of, told, with_history
from attribeam.logs.traces.paths import PathSet, TraceOptions
from attribeam.schemas import Reason, RowFault


class Role(StrEnum):
    """What a span means to us. ``OTHER`` spans, such as embeddings and guardrails, only hold the tree together."""

    CHAIN = "chain"
    MODEL = "model"
    RETRIEVER = "retriever"
    RERANKER = "reranker"
    TOOL = "tool"
    OTHER = "other"


class Span(NamedTuple):
    """One step of a trace.

    ``input`` and ``output`` are texts or parsed JSON, ``documents`` what a retriever or reranker returned (None: look
    for them in ``output``), ``inputs_reranked`` what a reranker was given. Times are microseconds since 1970 in UTC.
    ``is_trace`` marks a record of the trace itself, which is the root whatever its parent; ``is_root`` a span that the
    store calls a root although it has a parent.
    """

    trace_id: str
    span_id: str | None
    parent_id: str | None
    role: Role
    name: str = ""
    kind: str = ""
    started_at: int | None = None
    ended_at: int | None = None
    input: object = None
    output: object = None
    documents: tuple[Document, ...] | None = None
    inputs_reranked: tuple[Document, ...] = ()
    metadata: object = None
    model: str | None = None
    session_id: str | None = None
    failed: bool = False
    is_trace: bool = False
    is_root: bool = False


class Retrieval(NamedTuple):
    """Where a passage stands among the documents that a span retrieved; see ``schemas.qa_record.RETRIEVALS``."""

    span_id: str
    position: int
    passage_index: int


class TraceRow(NamedTuple):
    """One question with its passages and answer. ``fault`` says why there is no row; what is known stands beside it.

    ``notes`` say what was chosen, and what could not be read, in words that are the same for all such rows.
    ``trace_id``, ``span_id`` (the root's) and ``retrievals`` lead back to the trace store; a row of no trace has none.
    """

    record_id: str | None
    question: str | None = None
    passages: tuple[Document, ...] | None = None
    answer: str | None = None
    answered_at: int | None = None
    generator: str | None = None
    session_id: str | None = None
    fault: RowFault | None = None
    notes: tuple[str, ...] = ()
    trace_id: str | None = None
    span_id: str | None = None
    retrievals: tuple[Retrieval, ...] | None = None


MOST_SPANS = 20_000
MOST_BYTES = 1 << 28
"""The largest trace that is read into memory: 20,000 spans of together 256 MiB."""
_TOO_LARGE = f"trace should have at most {MOST_SPANS} spans of 256 MiB, has more; leave it out of the export"

_GROUPS = """
    SELECT min(rowid), trace, count(*) > ? OR sum(length(entry)) > ? FROM spans
    GROUP BY coalesce(trace, rowid) ORDER BY 1
"""


@contextmanager
def temporary_table(schema: str) -> Iterator[sqlite3.Connection]:
    """A database in a temporary file that has no name any more, so that it goes whatever ends the process.

    Raises ``RunError`` if it cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="attribeam-") as folder:
        database = sqlite3.connect(Path(folder, "rows.sqlite"), isolation_level=None)
        for command in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "BEGIN EXCLUSIVE"):
            database.execute(command)
    try:
        database.execute(f"CREATE TABLE {schema}")
        yield database
    except sqlite3.Error as error:
        raise temporary_file_failed(error) from error
    finally:
        database.close()


class SpooledTrace(NamedTuple):
    """One trace: the file and line where it first appears, and its spans in the order of the export.

    A fault stands in the place of spans that are too many, and of a record that could not be read, which has no id.
    """

    file: int
    location: str
    trace_id: str | None
    spans: list[Span] | RowFault


@dataclass(frozen=True, slots=True)
class TraceSpool:
    """Takes spans, and gives traces in the order in which they first appear; see ``trace_spool``."""

    database: sqlite3.Connection

    def add(self, file: int, location: str, entry: Span | RowFault) -> None:
        """Keep a span, or the fault of a record that belongs to no known trace."""
        key = None if isinstance(entry, RowFault) else text_bytes(entry.trace_id)
        self.database.execute("INSERT INTO spans VALUES (?, ?)", (key, pickle.dumps((file, location, entry))))

    def traces(self) -> Iterator[SpooledTrace]:
        """Every trace once."""
        self.database.execute("CREATE INDEX by_trace ON spans (trace)")
        for first, trace, is_too_large in self.database.execute(_GROUPS, (MOST_SPANS, MOST_BYTES)):
            file, location, entry = next(self._entries("rowid", first))
            if isinstance(entry, RowFault):
                yield SpooledTrace(file, location, None, entry)
                continue
            spans = None if is_too_large else [span for *_, span in self._entries("trace", trace)]
            too_large = RowFault(Reason.TRACE_TOO_LARGE, _TOO_LARGE, column=None)
            yield SpooledTrace(file, location, entry.trace_id, spans or too_large)

    def _entries(self, column: str, value: object) -> Iterator[tuple[int, str, Span]]:
        rows = self.database.execute(f"SELECT entry FROM spans WHERE {column} = ? ORDER BY rowid", (value,))
        return (pickle.loads(entry) for (entry,) in rows)


@contextmanager
def trace_spool() -> Iterator[TraceSpool]:
    """A spool; its temporary file, as large as the texts of the spans, goes when the context is left."""
    with temporary_table("spans (trace BLOB, entry BLOB)") as database:
        yield TraceSpool(database)


LAST_TURN = "only the last turn read of a trace that holds several; export each turn as a trace of its own"
_SPEAKING = (Role.CHAIN, Role.MODEL)
_RETRIEVING = (Role.RETRIEVER, Role.RERANKER)
_FEW = 20
_PASSAGE_START = 100
"""How many passages are looked for in a prompt, and how much of each, since it may be cut."""
_MOST_RETRIEVALS = 1000
"""Far fewer than the bytes of a carried value allow."""


class Tree(NamedTuple):
    """The spans of a trace in the order of time.

    ``root`` is None where several spans have parents that were not exported and none has none. ``parents`` are the
    positions in ``spans`` of what each span is directly below.
    """

    spans: tuple[Span, ...]
    root: Span | None
    parents: tuple[int | None, ...]

    def downwards(self) -> dict[int, int | None]:
        """Each span behind the one that it is below, and that; a circle of parents ends where it closes."""
        known: dict[int, int | None] = {}
        for position in range(len(self.spans)):
            way: dict[int, None] = {}
            above: int | None = position
            while above is not None and above not in known and above not in way:
                way[above] = None
                above = self.parents[above]
            above = above if above in known else None
            for span in reversed(way):
                known[span] = above
                above = span
        return known


def tree_of(spans: Sequence[Span]) -> Tree:
    """Order the spans of one trace; of one that was exported twice the last record with an output counts.

    The root is the record of the trace itself, else the earliest span that is marked as root, else the earliest without
    a parent, else the only one whose parent was not exported. Where clocks tie, the order of the export decides.
    """
    kept: dict[object, Span] = {}
    for number, span in enumerate(spans):
        known = kept.get(key := number if span.span_id is None else span.span_id)
        if known is None or span.output is not None or known.output is None:
            kept[key] = span
    spans = sorted(kept.values(), key=lambda span: (not span.is_trace, span.started_at is None, span.started_at or 0))
    positions = {span.span_id: position for position, span in enumerate(spans) if span.span_id is not None}
    named_parents = (None if span.is_trace or not span.parent_id else positions.get(span.parent_id) for span in spans)
    parents = [None if parent == position else parent for position, parent in enumerate(named_parents)]
    named = (span for span in spans if span.is_trace or span.is_root)
    tops = [span for span, parent in zip(spans, parents, strict=True) if parent is None]
    own = [span for span in tops if not span.parent_id]
    speaking = (span for span in own if span.role in _SPEAKING)
    root = next(chain(named, speaking, own, tops if len(tops) == 1 else ()), None)
    return Tree(tuple(spans), root, tuple(parents))


def row_of_trace(trace_id: str, spans: Sequence[Span], options: TraceOptions, texts: Texts, paths: PathSet) -> TraceRow:
    """The row of a trace; its ``fault`` says what is missing. ``texts`` has documents with texts by their ids."""
    whole = tree_of(spans)
    turn = None if paths.question or paths.answer or paths.passages else _last_turn(whole)
    tree = turn or whole
    passages = _passages(tree, options, texts, paths)
    parts = None if passages or paths.passages else next(filter(None, map(prompt_parts, _prompts(tree))), None)
    passages = passages if parts is None else parts.passages
    answering = _answering(tree, passages or ())
    way = _way_to(tree, answering)
    asked = _question(tree, paths, way)
    answer = _answer(tree, paths, way)
    if parts is not None:
        is_roots = paths.question or (tree.root is not None and tree.root.input)
        asked = parts.asked(asked if is_roots else None) or asked
    models = [span.model for span in (*tree.spans, *way) if span.model and span.role is Role.MODEL]
    notes = (LAST_TURN if turn else None, FROM_PROMPT if parts else None)
    moment = None if tree.root is None else tree.root.ended_at or tree.root.started_at
    row = TraceRow(
        record_id=trace_id,
        question=None if asked is None else with_history(asked, options.history),
        passages=passages,
        answer=answer,
        answered_at=moment or max((span.ended_at or span.started_at or 0 for span in tree.spans), default=0) or None,
        generator=models[-1] if models else next((span.model for span in tree.spans if span.model), None),
        session_id=next((span.session_id for span in whole.spans if span.session_id), None),
        notes=tuple(note for note in notes if note is not None),
        trace_id=trace_id,
        span_id=None if tree.root is None or tree.root.is_trace else tree.root.span_id,
        retrievals=tuple(islice(_retrievals(tree, passages or ()), _MOST_RETRIEVALS)),
    )
    return row._replace(fault=_missing(tree, row, options, paths))


def _last_turn(tree: Tree) -> Tree | None:
    """The tree below the last of several turns, which the root of a session holds; None where it holds no such.

    That root says nothing itself, nor does what stands between. Each turn has a question, an answer and a retrieval,
    and no other answer is later.
    """
    if tree.root is None or tree.root.input or tree.root.output:
        return None
    is_silent = [not (span.input or span.output) for span in tree.spans]
    tops: dict[int | None, int] = {None: -1}
    for position, above in tree.downwards().items():
        is_top = not tree.spans[position].parent_id if above is None else tops[above] == above and is_silent[above]
        tops[position] = position if is_top else tops[above]
    said = {top: tree.spans[top] for top in sorted(tops.values()) if top >= 0 and answer_of(tree.spans[top].output)}
    speaking = [top for top, span in said.items() if span.role in _SPEAKING]
    retrieving = {tops[position] for position, span in enumerate(tree.spans) if span.role in _RETRIEVING}
    turns = [top for top in speaking if top in retrieving and question_of(said[top].input)]
    if len(turns) < 2 or turns[-1] != speaking[-1]:
        return None
    below = (span for position, span in enumerate(tree.spans) if tops[position] == turns[-1])
    return tree_of([span._replace(is_root=span is said[turns[-1]]) for span in below])


def passage_text_fault(passages: Iterable[Document]) -> RowFault | None:
    """The fault of passages of which only ids were logged; None where all have texts."""
    missing = sum(document.text is None for document in passages)
    message = (
        f"passages should have texts, {missing} have an id and none under a usual name; name a table of texts with "
        "--passages-table of attribeam import, or their own place with --passages-path, or log them"
    )
    return RowFault(Reason.PASSAGE_TEXT_MISSING, message, column="passages") if missing else None


def _missing(tree: Tree, row: TraceRow, options: TraceOptions, paths: PathSet) -> RowFault | None:
    def at_root(name: str, side: str) -> str:
        """What stands where a text should be, and the way out."""
        said = f"the root span has {shape(getattr(tree.root, side, None))} there; name it with --{name}-path"
        return said if getattr(paths, name) is None else f"--{name}-path finds none; correct it"

    if row.question is None and row.answer is None and tree.root is None:
        message = (
            f"trace should have a root span, none of its {len(tree.spans)} spans is one; export whole traces, and "
            "import the files of an export together"
        )
        return RowFault(Reason.INCOMPLETE_TRACE, message, column=None)
    if row.answer is None:
        failed = any(span.failed for span in ([tree.root] if tree.root else tree.spans))
        reason = Reason.TRACE_FAILED if failed else Reason.EMPTY_ANSWER
        lack = "has none because it failed; leave failed traces out of the export"
        lack = lack if failed else at_root("answer", "output")
        return RowFault(reason, f"trace should have an answer, {lack}", column="answer")
    if row.question is None:
        message = f"trace should have a question, {at_root('question', 'input')}"
        return RowFault(Reason.MISSING_VALUE, message, column="question")
    if not row.passages:
        has_tools = not options.tool_outputs and any(_tool_outputs(tree))
        kinds = ", ".join(dict.fromkeys(span.kind or span.role for span in tree.spans))
        gave = {shape(span.output): span.kind for span in tree.spans if span.role in _RETRIEVING and span.output}
        lack = f"no retriever returned any (its spans are: {kinds})"
        lack = f"its retriever gave {' and '.join(gave)}, which has no known documents" if gave else lack
        lack += f", no other place has {', '.join(SOURCE_KEYS)}, and no prompt marks any; name them with "
        lack += "--passages-path"
        lack += f", such as \"observations[?type=='{next(iter(gave.values()))}'].output.KEY[].KEY\"" if gave else ""
        lack = "--passages-path finds none" if paths.passages else lack
        lack += ", or take what tools returned with --tool-outputs" if has_tools else ""
        return RowFault(Reason.NO_PASSAGES, f"trace should have passages, {lack}", column="passages")
    return passage_text_fault(row.passages)


def _speakers(tree: Tree) -> Iterator[Span]:
    """The spans that may hold question and answer: the root, then chains and models from the top down."""
    depths: dict[int | None, int] = {None: -1}
    for position, above in tree.downwards().items():
        depths[position] = depths[above] + 1
    order = sorted(enumerate(tree.spans), key=lambda pair: (pair[1] is not tree.root, depths[pair[0]]))
    return (span for _, span in order if span.role in _SPEAKING)


def _answering(tree: Tree, passages: Sequence[Document]) -> int | None:
    """The place of the model that answers from the passages; None where none is known to.

    It is the first that said what the root did, else the latest that was given a passage. One that was given the answer
    of an earlier one, but no passage that this lacked, judges it.
    """
    said = None if tree.root is None else answer_of(tree.root.output)
    starts = {number: _blanks_once(doc.text or "")[:_PASSAGE_START] for number, doc in enumerate(passages[:_FEW])}
    answering, its, known = None, "", set[int]()
    for position, span in enumerate(tree.spans):
        answer = answer_of(span.output) if span.role is Role.MODEL and span is not tree.root else None
        if answer is None:
            continue
        if said is not None and answer.strip() == said.strip():
            return position
        asked = question_of(span.input)
        prompt = _blanks_once("\n".join([*_told(span), *(tool.text for tool in (asked.tool_texts if asked else ()))]))
        held = {number for number, start in starts.items() if start and start in prompt}
        if held - known or (held and _blanks_once(its) not in prompt):
            answering, its, known = position, answer, known | held
    return answering


def _blanks_once(text: str) -> str:
    return " ".join(text.split())


def _way_to(tree: Tree, position: int | None) -> list[Span]:
    """The spans that may speak from the root down to this one."""
    above, way = tree.downwards(), list[Span]()
    while position is not None:
        way.append(tree.spans[position])
        position = above[position]
    return [span for span in reversed(way) if span.role in _SPEAKING and span is not tree.root]


def _question(tree: Tree, paths: PathSet, way: Sequence[Span]) -> Asked | None:
    """The question: the root's, or where it was given nothing, that of the highest span that was, first on the way."""
    if paths.question:
        return question_of(paths.question(document_of_trace(tree)))
    for span in (*([tree.root] if tree.root and tree.root.role in _SPEAKING else []), *way, *_speakers(tree)):
        asked = question_of(span.input)
        if asked is not None or (span is tree.root and span.input):
            parts = prompt_parts(asked.question) if asked and span is not tree.root else None
            return asked if parts is None else parts.asked(asked)
    retrievers = (question_of(span.input) for span in tree.spans if span.role in _RETRIEVING)
    return next((asked for asked in retrievers if asked is not None), None)


def _answer(tree: Tree, paths: PathSet, way: Sequence[Span]) -> str | None:
    """The answer: the root's, or where it gave nothing and did not fail, the highest on the way, else the latest."""
    if paths.answer:
        return answer_of(paths.answer(document_of_trace(tree)))
    if tree.root is not None and tree.root.role in _SPEAKING and (tree.root.output or tree.root.failed):
        return answer_of(tree.root.output)
    others = [span for span in _speakers(tree) if span is not tree.root]
    latest = sorted(others, key=lambda span: span.ended_at or span.started_at or 0)
    answers = (answer_of(span.output) for span in (*way, *reversed(latest)))
    return next((answer for answer in answers if answer is not None), None)


def _passages(tree: Tree, options: TraceOptions, texts: Texts, paths: PathSet) -> tuple[Document, ...] | None:
    if paths.passages:
        documents = once_each(documents_of(paths.passages(document_of_trace(tree))) or ())
    else:
        documents = _retrieved(tree, options.retrievals) or ()
    if options.tool_outputs:
        documents = (*documents, *once_each(_tool_outputs(tree)))
    if not documents:
        return None
    retrieving = [span for span in tree.spans if span.role in _RETRIEVING]
    logged = (document for span in retrieving for document in (*_documents(span), *span.inputs_reranked))
    by_id = {doc.passage_id: doc for doc in logged if doc.passage_id and doc.text is not None}
    return with_texts(with_texts(documents, by_id.get), texts)


def _retrieved(tree: Tree, which: str) -> tuple[Document, ...] | None:
    """The documents of the retrievals that count, in the order of time; of several retrievals, each document once.

    What lies below a retriever or a reranker that gave documents is part of it. A retrieval whose documents were
    reranked is replaced by the reranker's. Where no retriever is logged, they are what a chain hands over with its
    answer, or got with its question.
    """
    retrieving = (position for position, span in enumerate(tree.spans) if span.role in _RETRIEVING)
    gave = {position: documents for position in retrieving if (documents := _documents(tree.spans[position]))}
    rerankers = {position: tree.spans[position] for position in gave if tree.spans[position].role is Role.RERANKER}
    below = set[int]()
    for position, above in tree.downwards().items():
        below |= {position} if above in gave or above in below else set()
    are_reranked = among([doc for at, span in rerankers.items() for doc in (*span.inputs_reranked, *gave[at])])
    outer = ((position, documents) for position, documents in gave.items() if position not in below)
    kept = [position for position, documents in outer if position in rerankers or not are_reranked(documents)]
    if not kept:
        sides = () if tree.root is None else (tree.root.output, tree.root.input)
        sources = (documents_of(at(side, key)) for side in sides for key in SOURCE_KEYS)
        return next(filter(None, sources), None)
    chosen = {"first": kept[:1], "last": kept[-1:]}.get(which, kept)
    documents = tuple(document for position in chosen for document in gave[position])
    return documents if len(chosen) == 1 else once_each(documents)  # the answer may count those of one


def _retrievals(tree: Tree, passages: Sequence[Document]) -> Iterator[Retrieval]:
    """Every place where a span retrieved one of the passages: by its text, or by its id where none was logged."""
    backwards = [*enumerate(passages)][::-1]
    texts, ids = ({getattr(doc, name): index for index, doc in backwards} for name in ("text", "passage_id"))
    for span in tree.spans:
        for position, document in enumerate(_documents(span) if span.role in _RETRIEVING else ()):
            index = ids.get(document.passage_id) if document.text is None else texts.get(document.text)
            if index is not None and span.span_id is not None:
                yield Retrieval(span.span_id, position, index)


def _documents(span: Span) -> tuple[Document, ...]:
    """What a retriever or reranker gave; one that failed gave an error, if anything."""
    found = span.documents if span.documents is not None else documents_retrieved(span.output)
    return () if span.failed else found or ()


def _prompts(tree: Tree) -> Iterator[str]:
    return (text for span in reversed(tree.spans) if span.role in _SPEAKING for text in _told(span))


def _told(span: Span) -> Iterator[str]:
    messages = messages_of(span.input)
    if messages is not None:
        yield from told(messages)
    elif asked := question_of(span.input):
        yield asked.question


def _tool_outputs(tree: Tree) -> Iterator[Document]:
    """What tools returned: their spans, or else the messages of tools after the last question."""
    tools = [span for span in tree.spans if span.role is Role.TOOL]
    for span in (tool for tool in tools if not tool.failed):
        for item in _returned(span.output, span.name):
            yield item._replace(passage_id=item.passage_id or span.span_id)
    if not tools:
        talks = (span.input for span in tree.spans if span.role in _SPEAKING and messages_of(span.input) is not None)
        yield from tool_passages(text for asked in map(question_of, talks) if asked for text in asked.tool_texts)


def tool_passages(messages: Iterable[Message]) -> Iterator[Document]:
    """What tools said in a conversation, each document once; a text in JSON may hold several."""
    yield from dict.fromkeys(item for message in messages for item in _returned(message.text, message.name))


def _returned(output: object, tool: str | None) -> Iterator[Document]:
    """The documents in what a tool returned, else all of it as one, called by its tool where they have no title."""
    results = documents_of(output) or ()
    if output and str(output).strip() and (not results or any(item.text is None for item in results)):
        whole = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
        results = (Document(whole),)
    yield from (item._replace(title=item.title or tool or None) for item in results)


def document_of_trace(tree: Tree) -> dict[str, object]:
    """What paths are searched in: the root's input, output and metadata, and all spans as ``observations``."""
    root = tree.root or tree.spans[0]._replace(input=None, output=None, metadata=None)

    def members(span: Span) -> dict[str, object]:
        return {name: getattr(span, name) for name in ("name", "input", "output", "metadata")}

    observations = [
        {"id": span.span_id, "type": span.kind, **members(span)}
        | {"documents": [document._asdict() for document in span.documents or ()]}
        for span in tree.spans
        if not span.is_trace
    ]
    return {"id": root.trace_id, **members(root), "observations": observations}
