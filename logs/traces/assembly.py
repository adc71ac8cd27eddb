"""The spans of one trace to one row: root, question, answer, and which retrieved passages the answer rests on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from attribeam.logs.traces.documents import SOURCE_KEYS, Document, Texts, among, documents_of, once_each, with_texts
from attribeam.logs.traces.messages import Asked, Message, Speaker, answer_of, messages_of, question_of, with_history
from attribeam.logs.traces.paths import PathSet, TraceOptions
from attribeam.logs.traces.prompt_parts import FROM_PROMPT, prompt_parts
from attribeam.logs.traces.values import at, fault, shape
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


_SPEAKING = (Role.CHAIN, Role.MODEL)
_RETRIEVING = (Role.RETRIEVER, Role.RERANKER)
_MOST_RETRIEVALS = 1000
"""Far fewer than the bytes of a carried value allow."""


class Tree(NamedTuple):
    """The spans of a trace in the order of time.

    ``root`` is None where several spans have parents that were not exported and none has none. ``parents`` are the
    places in ``spans`` of what each span is directly below.
    """

    spans: tuple[Span, ...]
    root: Span | None
    parents: tuple[int | None, ...]

    def below(self, places: Collection[int]) -> set[int]:
        """The spans that one of ``places`` is above."""
        found = set[int]()
        for place, above in self._downwards():
            if above in places or above in found:
                found.add(place)
        return found

    def depths(self) -> list[int]:
        """How many spans are above each."""
        depths = [0] * len(self.spans)
        for place, above in self._downwards():
            depths[place] = 0 if above is None else depths[above] + 1
        return depths

    def _downwards(self) -> Iterator[tuple[int, int | None]]:
        """Each span behind the one that it is below, and that; a circle of parents ends where it closes."""
        known = set[int]()
        for place in range(len(self.spans)):
            way: dict[int, None] = {}
            above: int | None = place
            while above is not None and above not in known and above not in way:
                way[above] = None
                above = self.parents[above]
            above = above if above in known else None
            for one in reversed(way):
                yield one, above
                above = one
            known.update(way)


def tree_of(spans: Sequence[Span]) -> Tree:
    """Order the spans of one trace; one that was exported twice counts once.

    The root is the record of the trace itself, else the earliest span that is marked as root, else the earliest without
    a parent, else the only one whose parent was not exported. Where clocks tie, the order of the export decides.
    """
    spans = sorted(_once_each(spans), key=lambda one: (not one.is_trace, one.started_at is None, one.started_at or 0))
    places: dict[str | None, int] = {one.span_id: place for place, one in enumerate(spans) if one.span_id is not None}
    parents = [_parent_place(one, place, places) for place, one in enumerate(spans)]
    return Tree(tuple(spans), _root(spans, parents), tuple(parents))


def _once_each(spans: Iterable[Span]) -> list[Span]:
    """The last record of each span, but none without output in the place of one with."""
    kept: dict[object, Span] = {}
    for number, one in enumerate(spans):
        key = one.span_id if one.span_id is not None else number
        known = kept.get(key)
        if known is None or one.output is not None or known.output is None:
            kept[key] = one
    return list(kept.values())


def _parent_place(span: Span, place: int, places: Mapping[str | None, int]) -> int | None:
    if span.is_trace or not span.parent_id:
        return None
    parent = places.get(span.parent_id)
    return None if parent == place else parent


def _root(spans: Sequence[Span], parents: Sequence[int | None]) -> Span | None:
    tops = [one for one, parent in zip(spans, parents, strict=True) if parent is None]
    named = next((one for one in spans if one.is_trace or one.is_root), None)
    if named is not None:
        return named
    own = [one for one in tops if not one.parent_id]
    if own:
        return next((one for one in own if one.role in _SPEAKING), own[0])
    return tops[0] if len(tops) == 1 else None


def row_of_trace(trace_id: str, spans: Sequence[Span], options: TraceOptions, texts: Texts, paths: PathSet) -> TraceRow:
    """The row of a trace; its ``fault`` says what is missing. ``texts`` has documents with texts by their ids."""
    tree = tree_of(spans)
    passages = _passages(tree, options, texts, paths)
    asked = _question(tree, paths)
    answer = _answer(tree, paths)
    parts = None if passages or paths.passages else next(filter(None, map(prompt_parts, _prompts(tree))), None)
    if parts is not None:
        passages, asked = parts.passages, parts.asked(asked)
    models = [one.model for one in tree.spans if one.model and one.role is Role.MODEL]
    row = TraceRow(
        record_id=trace_id,
        question=None if asked is None else with_history(asked, options.history),
        passages=passages,
        answer=answer,
        answered_at=_answered_at(tree),
        generator=models[-1] if models else next((one.model for one in tree.spans if one.model), None),
        session_id=next((one.session_id for one in tree.spans if one.session_id), None),
        notes=() if parts is None else (FROM_PROMPT,),
        trace_id=trace_id,
        span_id=None if tree.root is None or tree.root.is_trace else tree.root.span_id,
        retrievals=tuple(islice(_retrievals(tree, passages or ()), _MOST_RETRIEVALS)),
    )
    return row._replace(fault=_missing(tree, row, options, paths))


def passage_text_fault(passages: Iterable[Document]) -> RowFault | None:
    """The fault of passages of which only ids were logged; None where all have texts."""
    missing = sum(one.text is None for one in passages)
    message = (
        f"passages should have texts, {missing} have only an id; name a table of texts with --passages-table of "
        "attribeam import, or log the texts"
    )
    return fault(Reason.PASSAGE_TEXT_MISSING, "passages", message) if missing else None


def _missing(tree: Tree, row: TraceRow, options: TraceOptions, paths: PathSet) -> RowFault | None:
    if row.question is None and row.answer is None and tree.root is None:
        return fault(
            Reason.INCOMPLETE_TRACE,
            None,
            f"trace should have a root span, none of its {len(tree.spans)} spans is one; export whole traces, and "
            "import the files of an export together",
        )
    given = None if tree.root is None else tree.root.input
    gave = None if tree.root is None else tree.root.output
    if row.answer is None:
        failed = any(one.failed for one in ([tree.root] if tree.root else tree.spans))
        reason = Reason.TRACE_FAILED if failed else Reason.EMPTY_ANSWER
        found = "has none because it failed; leave failed traces out of the export"
        return fault(
            reason,
            "answer",
            f"trace should have an answer, {found if failed else _found('answer', paths.answer, gave)}",
        )
    if row.question is None:
        message = f"trace should have a question, {_found('question', paths.question, given)}"
        return fault(Reason.MISSING_VALUE, "question", message)
    if not row.passages:
        tools = ", or take what tools returned with --tool-outputs" if any(_tool_outputs(tree)) else ""
        tools = "" if options.tool_outputs else tools
        kinds = ", ".join(dict.fromkeys(one.kind or one.role for one in tree.spans))
        found = f"no retriever returned any (its spans are: {kinds}), no other place has {', '.join(SOURCE_KEYS)}, and "
        found += "no prompt marks any; name them with --passages-path"
        message = f"trace should have passages, {'--passages-path finds none' if paths.passages else found}{tools}"
        return fault(Reason.NO_PASSAGES, "passages", message)
    return passage_text_fault(row.passages)


def _found(name: str, path: object, value: object) -> str:
    """What was found in the place of a text, and the way out."""
    if path is not None:
        return f"--{name}-path finds none; correct it"
    return f"the root span has {shape(value)} there; name it with --{name}-path"


def _answered_at(tree: Tree) -> int | None:
    if tree.root is not None and (moment := tree.root.ended_at or tree.root.started_at):
        return moment
    return max((one.ended_at or one.started_at or 0 for one in tree.spans), default=0) or None


def _speakers(tree: Tree) -> Iterator[Span]:
    """The spans that may hold question and answer: the root, then chains and models from the top down."""
    if tree.root is not None and tree.root.role in _SPEAKING:
        yield tree.root
    depths = tree.depths()
    order = sorted(range(len(tree.spans)), key=lambda place: depths[place])
    yield from (one for one in (tree.spans[place] for place in order) if one.role in _SPEAKING and one is not tree.root)


def _question(tree: Tree, paths: PathSet) -> Asked | None:
    """The question: the root's, or where it was given nothing, that of the highest span that was."""
    if paths.question:
        return question_of(paths.question(document_of_trace(tree)))
    for one in _speakers(tree):
        found = question_of(one.input)
        if found is not None or (one is tree.root and one.input):
            return found
    retrievers = (one for one in tree.spans if one.role in _RETRIEVING)
    return next((found for one in retrievers if (found := question_of(one.input)) is not None), None)


def _answer(tree: Tree, paths: PathSet) -> str | None:
    """The answer: the root's, or where it gave nothing and did not fail, the latest that a chain or model gave."""
    if paths.answer:
        return answer_of(paths.answer(document_of_trace(tree)))
    if tree.root is not None and tree.root.role in _SPEAKING and (tree.root.output or tree.root.failed):
        return answer_of(tree.root.output)
    others = [one for one in _speakers(tree) if one is not tree.root]
    latest = sorted(others, key=lambda one: one.ended_at or one.started_at or 0)
    return next((found for one in reversed(latest) if (found := answer_of(one.output)) is not None), None)


def _passages(tree: Tree, options: TraceOptions, texts: Texts, paths: PathSet) -> tuple[Document, ...] | None:
    if paths.passages:
        found = documents_of(paths.passages(document_of_trace(tree)))
    else:
        found = _retrieved(tree, options.retrievals)
    if options.tool_outputs:
        found = (*(found or ()), *_tool_outputs(tree))
    if not found:
        return None
    own = {one.passage_id: one for one in _all_documents(tree) if one.passage_id and one.text is not None}
    return with_texts(with_texts(once_each(found), own.get), texts)


def _retrieved(tree: Tree, which: str) -> tuple[Document, ...] | None:
    """The documents of the retrievals that count, each once, in the order of time.

    What lies below a retriever or a reranker that gave documents is part of it. A retrieval whose documents were
    reranked is replaced by the reranker's.
    """
    gave = {place: _documents(one) for place, one in enumerate(tree.spans) if one.role in _RETRIEVING}
    gave = {place: found for place, found in gave.items() if found}
    below = tree.below(gave)
    reranked = [
        one
        for place in gave
        if tree.spans[place].role is Role.RERANKER
        for one in (*tree.spans[place].inputs_reranked, *gave[place])
    ]
    are_reranked = among(reranked)
    kept = [
        place
        for place in gave
        if place not in below and (tree.spans[place].role is Role.RERANKER or not are_reranked(gave[place]))
    ]
    if not kept:
        return _sources_of_root(tree)
    chosen = {"first": kept[:1], "last": kept[-1:]}.get(which, kept)
    return tuple(one for place in chosen for one in gave[place])


def _retrievals(tree: Tree, passages: Sequence[Document]) -> Iterator[Retrieval]:
    """Every place where a span retrieved one of the passages: by its text, or by its id where none was logged."""
    texts = {one.text: index for index, one in reversed([*enumerate(passages)])}
    ids = {one.passage_id: index for index, one in reversed([*enumerate(passages)])}
    for span in tree.spans:
        for position, one in enumerate(_documents(span) if span.role in _RETRIEVING else ()):
            index = ids.get(one.passage_id) if one.text is None else texts.get(one.text)
            if index is not None and span.span_id is not None:
                yield Retrieval(span.span_id, position, index)


def _documents(span: Span) -> tuple[Document, ...]:
    found = span.documents if span.documents is not None else documents_of(span.output)
    return found or ()


def _all_documents(tree: Tree) -> Iterator[Document]:
    for one in tree.spans:
        if one.role in _RETRIEVING:
            yield from (*_documents(one), *one.inputs_reranked)


def _sources_of_root(tree: Tree) -> tuple[Document, ...] | None:
    """Documents that a chain hands over with its answer, or got with its question, where no retriever is logged."""
    if tree.root is None:
        return None
    for value in (tree.root.output, tree.root.input):
        for key in SOURCE_KEYS:
            found = documents_of(at(value, key))
            if found:
                return found
    return None


def _prompts(tree: Tree) -> Iterator[str]:
    """What models were told, the last model first."""
    for one in reversed(tree.spans):
        messages = messages_of(one.input) if one.role in _SPEAKING else None
        for message in messages or ():
            if message.speaker in (Speaker.SYSTEM, Speaker.USER):
                yield message.text
        if messages is None and one.role in _SPEAKING and (found := question_of(one.input)) is not None:
            yield found.question


def _tool_outputs(tree: Tree) -> Iterator[Document]:
    """What tools returned: their spans, or else the messages of tools after the last question."""
    spans = [one for one in tree.spans if one.role is Role.TOOL]
    for one in spans:
        text = answer_of(one.output)
        if text is not None:
            yield Document(text, one.name or None, one.span_id)
    if not spans:
        yield from tool_passages(message for one in tree.spans for message in _messages_of_tools(one))


def tool_passages(messages: Iterable[Message]) -> Iterator[Document]:
    """What tools said in a conversation, each text once."""
    yield from dict.fromkeys(Document(one.text, one.name) for one in messages if one.text.strip())


def _messages_of_tools(span: Span) -> tuple[Message, ...]:
    if span.role not in _SPEAKING or messages_of(span.input) is None:
        return ()
    found = question_of(span.input)
    return () if found is None else found.tool_texts


def document_of_trace(tree: Tree) -> dict[str, object]:
    """What paths are searched in: the root's input, output and metadata, and all spans as ``observations``."""
    root = tree.root or tree.spans[0]._replace(input=None, output=None, metadata=None)
    return {
        "id": root.trace_id,
        "name": root.name,
        "input": root.input,
        "output": root.output,
        "metadata": root.metadata,
        "observations": [_observation(one) for one in tree.spans if not one.is_trace],
    }


def _observation(span: Span) -> dict[str, object]:
    return {
        "id": span.span_id,
        "type": span.kind,
        "name": span.name,
        "input": span.input,
        "output": span.output,
        "metadata": span.metadata,
        "documents": [one._asdict() for one in span.documents or ()],
    }
