"""What providers' interfaces and frameworks answer, logged with the request: one mapping each to the plain names.

A record is ``{"request": ..., "response": ...}`` under any usual names, both in one object, or a response with the
question beside it. Keys are read as snake case, so that one path fits what HTTP and what a client library gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from attribeam.logs.traces.assembly import TraceRow
from attribeam.logs.traces.documents import once_each
from attribeam.logs.traces.messages import content_text, question_of
from attribeam.logs.traces.paths import PathSet, TraceOptions, compiled_path
from attribeam.logs.traces.rows import QUESTION, Rows
from attribeam.logs.traces.values import Record, fault, first_of, nested, parsed, shape, text_or_none
from attribeam.schemas import Reason


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a provider's answer stands: JMESPaths in an object with the ``request`` and the ``response``.

    Attributes:
        mark: what only its responses have; that of the wrong ones leads to nothing or to an empty list.
        question: texts or messages; several paths, of which the first that leads to a question counts.
        passages: documents, perhaps with members named as those of ``_PASSAGE``.
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

_REQUESTS = ("request", "req", "request_body", "input", "inputs", "params", "kwargs", "body")
_RESPONSES = ("response", "resp", "response_body", "result", "output", "outputs", "completion", "record_json")
_QUESTIONS = (*QUESTION.made, "input", "prompt", "messages", "request")
_PASSAGE = {"text", "title", "passage_id"}
_IDS = ("record_id", "id", "custom_id", "trace_id", "request_id", "response_id", "generation_id")
_MOMENTS = ("answered_at", "created_at", "timestamp", "time", "created", "create_time", "ts")
_MODELS = ("generator", "model", "model_name", "model_version", "model_id")
_SESSIONS = ("session_id", "conversation_id", "thread_id")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class ResponseRows(Rows):
    """One response with its request per record; a record of no known provider is read as a plain row."""

    def row(self, record: Record, options: TraceOptions, paths: PathSet) -> TraceRow:
        """See ``Rows.row``; paths are searched in the record as it is logged.

        Raises:
            RowFault: if it is faulty.
            UsageError: if the extra for paths is not installed.
        """
        known = _known(record, options.preset)
        if known is None:
            return Rows.row(self, record, options, paths)
        provider, whole = known
        values = {
            "question": paths.question(record) if paths.question else _question(provider, whole),
            "passages": paths.passages(record) if paths.passages else _passages(provider, whole),
            "answer": paths.answer(record) if paths.answer else _found(provider.answer, whole),
        }
        sides = [one for one in (whole, whole["response"], whole["request"]) if isinstance(one, dict)]
        for name, names in (("id", _IDS), ("time", _MOMENTS), ("model", _MODELS), ("session_id", _SESSIONS)):
            values[name] = next((one for side in sides if (one := first_of(side, names)) is not None), None)
        row = Rows.row(self, values, options, PathSet())
        if row.passages:
            row = row._replace(passages=once_each(row.passages))  # several citations may name one
        if row.fault is not None and row.question is None and not options.question_path:
            message = (
                'record should have a question, has none in its request or beside the response; log {"request": ..., '
                '"response": ...}, or name where it stands with --question-path'
            )
            return row._replace(fault=fault(Reason.MISSING_VALUE, "question", message))
        if row.fault is not None and row.fault.reason is Reason.NO_PASSAGES and not options.passages_path:
            message = f"record should have passages, has {shape(values['passages'])}; {provider.way_out}"
            return row._replace(fault=fault(Reason.NO_PASSAGES, "passages", message))
        return row


def _known(record: Record, preset: str | None) -> tuple[Provider, dict[str, object]] | None:
    """The provider of a record, and the record with ``request``, ``response`` and what may be asked ``beside`` them.

    None where it is of none.
    """
    flat = nested(record) if any("." in name for name in record) else record
    whole = {_snake(name): _in_snake_case(value) for name, value in flat.items()}
    request = next(_sides(whole, _REQUESTS))
    beside = [one for name in _QUESTIONS if isinstance(one := whole.get(name), str | list)]
    found = [{**whole, "request": request, "response": one, "beside": beside} for one in _sides(whole, _RESPONSES)]
    named = [*PROVIDERS.values()] if preset is None else [PROVIDERS[preset]]
    known = ((provider, one) for one in found for provider in named if _found(provider.mark, one))
    return next(known, (named[0], found[0]) if len(named) == 1 else None)


def _sides(whole: Record, names: tuple[str, ...]) -> Iterator[object]:
    """The objects under these names, as HTTP logs have them in a body, and last the record itself."""
    for name in names:
        one = _in_snake_case(parsed(whole.get(name)))
        if isinstance(one, dict):
            body = _in_snake_case(parsed(one.get("body")))
            yield body if isinstance(body, dict) else one
    yield whole


def _question(provider: Provider, whole: dict[str, object]) -> object:
    """The first value that leads to a question; last those ``beside`` the response."""
    beside = whole["beside"]
    found = [*(_found(path, whole) for path in provider.question), *(beside if isinstance(beside, list) else [])]
    for one in found:
        one = _but_items(one)
        if question_of(one, plain=isinstance(one, str)) is not None:
            return one
        if text := content_text(one):
            return text
    return None


def _but_items(value: object) -> object:
    """Messages without the other items of a conversation, such as references to files."""
    messages = [one for one in value if isinstance(one, dict) and "role" in one] if isinstance(value, list) else []
    return messages or value


def _passages(provider: Provider, whole: dict[str, object]) -> object:
    found = _found(provider.passages, whole)
    return [_passage(one) for one in found] if isinstance(found, list) else found


def _passage(one: object) -> object:
    """A document with a plain text, and with an id where it has no text; what no mapping made stays as it is."""
    if not isinstance(one, dict) or one.keys() != _PASSAGE:
        return one
    text, title = _text(parsed(one["text"])), text_or_none(one["title"])
    passage_id = text_or_none(one["passage_id"])
    return {"text": text, "title": title, "passage_id": passage_id or (title if text is None else None)}


def _text(value: object) -> str | None:
    """The text of a content; of an object with keys of its own, its longest text."""
    text = content_text(value)
    if not text and isinstance(value, dict):
        text = max((one for one in value.values() if isinstance(one, str)), key=len, default="")
    return text or None


def _found(path: str, whole: object) -> object:
    return compiled_path("a log of responses", path)(whole)


def _in_snake_case(value: object) -> object:
    """The value with ``retrievedContext`` as ``retrieved_context``, and so all keys at any depth."""
    if isinstance(value, dict):
        return {_snake(key): _in_snake_case(one) for key, one in value.items()}
    return [_in_snake_case(one) for one in value] if isinstance(value, list) else value


def _snake(name: str) -> str:
    return _CAPITAL.sub("_", name).lower()
