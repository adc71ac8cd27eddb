"""How a trace becomes a row, as a user says: options, and JMESPaths to question, passages and answer, or presets.

A preset names paths in records of free JSON, or in what a provider's interface answers, logged with its request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, cast

from attribeam.schemas.errors import UsageError


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
        with suppress(JMESPathError):  # a function in it does not take the value at hand
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
        ".{text: text || content, title: filename, passage_id: file_id}",
        answer="response.output[?type=='message'].content[] | [?type=='output_text'].text | join('', @)",
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
        ".{text: rag_chunk.text || text, title: title, passage_id: document_name || uri}",
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
        passages="response.source_nodes[].merge(@, node || `{}`).{text: text_resource.text || text,"
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
}
"""By the names that ``--preset`` knows; docs/importing_logs.md shows each."""
