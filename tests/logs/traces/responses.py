"""The small story as providers and frameworks answer it, written after their own references."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.logs.traces.exports import ANSWER, MODEL, PASSAGES, QUESTION

_HALF = ANSWER.index(" in 1874")
PARTS = (ANSWER[:_HALF], ANSWER[_HALF:])
TURNS = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "What is it?"},
    {"role": "user", "content": QUESTION},
]


def openai(*, results: bool = True) -> dict[str, object]:
    """``responses.create`` with file search."""
    found = [
        {"attributes": {}, "file_id": one, "filename": f"{one}.pdf", "score": 0.9, "text": text}
        for one, text in PASSAGES
    ]
    marks = [{"type": "file_citation", "index": 5, "file_id": "brigg-1", "filename": "brigg-1.pdf"}]
    return {
        "request": {"model": MODEL, "input": QUESTION, "tools": [{"type": "file_search", "vector_store_ids": ["v"]}]},
        "response": {
            "id": "resp_1",
            "object": "response",
            "created_at": 1795168800,
            "model": MODEL,
            "text": {"format": {"type": "text"}},
            "prompt": None,
            "output": [
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "file_search_call", "id": "fs_1", "queries": ["lamp"], "results": found if results else None},
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": ANSWER, "annotations": marks}],
                },
            ],
        },
    }


def anthropic() -> dict[str, object]:
    """Messages with documents of every kind of text, and citations."""
    document = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": PASSAGES[0][1]},
        "title": "brigg-1",
        "citations": {"enabled": True},
    }
    chunks = {
        "type": "document",
        "source": {"type": "content", "content": [{"type": "text", "text": PASSAGES[1][1]}]},
        "title": "brigg-2",
    }
    cited = {
        "type": "char_location",
        "cited_text": PASSAGES[0][1],
        "document_index": 0,
        "document_title": "brigg-1",
        "start_char_index": 0,
        "end_char_index": 32,
    }
    return {
        "request": {
            "model": MODEL,
            "max_tokens": 100,
            "messages": [
                {"role": "user", "content": [document, chunks, {"type": "text", "text": QUESTION}]},
            ],
        },
        "response": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [
                {"type": "thinking", "thinking": "The lamp.", "signature": "x"},
                {"type": "text", "text": PARTS[0], "citations": [cited]},
                {"type": "text", "text": PARTS[1]},
            ],
            "stop_reason": "end_turn",
        },
    }


def anthropic_searched() -> dict[str, object]:
    """Search results that a tool returned."""
    found = [
        {"type": "search_result", "source": one, "title": "Brigg Point", "content": [{"type": "text", "text": text}]}
        for one, text in PASSAGES
    ]
    record: dict[str, object] = anthropic()
    record["request"] = {
        "messages": [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "x"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": found}]},
        ]
    }
    return record


def gemini() -> dict[str, object]:
    """``generateContent`` over HTTP, with a retrieval."""
    chunks = [{"retrievedContext": {"uri": f"gs://brigg/{one}", "title": one, "text": text}} for one, text in PASSAGES]
    return {
        "request": {"contents": [{"parts": [{"text": QUESTION}]}], "tools": [{"retrieval": {}}]},
        "response": {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [{"text": "A thought.", "thought": True}, *({"text": part} for part in PARTS)],
                    },
                    "groundingMetadata": {
                        "groundingChunks": chunks,
                        "groundingSupports": [{"segment": {"endIndex": 5}, "groundingChunkIndices": [0]}],
                    },
                }
            ],
            "modelVersion": MODEL,
            "responseId": "g1",
        },
    }


def bedrock() -> dict[str, object]:
    """``retrieve_and_generate`` of boto3."""
    cited = [
        {
            "content": {"type": "TEXT", "text": text},
            "location": {"type": "S3", "s3Location": {"uri": f"s3://brigg/{one}"}},
            "metadata": {"x-amz-bedrock-kb-source-uri": f"s3://brigg/{one}"},
        }
        for one, text in PASSAGES
    ]
    part = {"textResponsePart": {"text": PARTS[0], "span": {"start": 0, "end": 10}}}
    return {
        "request": {"input": {"text": QUESTION}, "retrieveAndGenerateConfiguration": {"type": "KNOWLEDGE_BASE"}},
        "response": {
            "sessionId": "s1",
            "output": {"text": ANSWER},
            "citations": [
                {"generatedResponsePart": part, "retrievedReferences": cited[:1]},
                {"generatedResponsePart": part, "retrievedReferences": cited},
            ],
        },
    }


def azure() -> dict[str, object]:
    """Chat completions of Azure On Your Data; the last document was filtered out before the model saw it."""
    found = [
        {"content": text, "title": "Brigg Point", "url": f"https://b.example/{one}", "filepath": one, "chunk_id": "0"}
        for one, text in PASSAGES
    ]
    out = {**found[0], "content": "Rain.", "filepath": "rain", "filter_reason": "score"}
    return {
        "request": {"messages": TURNS, "data_sources": [{"type": "azure_search"}]},
        "response": {
            "id": "c1",
            "model": MODEL,
            "created": 1795168800,
            "object": "extensions.chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": ANSWER,
                        "context": {
                            "citations": found[:1],
                            "intent": '["lamp"]',
                            "all_retrieved_documents": [*found, out],
                        },
                    },
                }
            ],
        },
    }


def azure_evaluation() -> dict[str, object]:
    """A row of what ``evaluate`` of azure-ai-evaluation writes."""
    return {
        "inputs.query": QUESTION,
        "inputs.response": ANSWER,
        "inputs.context": "\n".join(text for _, text in PASSAGES),
        "inputs.ground_truth": "A wrong field.",
        "outputs.groundedness.groundedness": 5,
        "outputs.groundedness.groundedness_reason": "Another wrong field.",
    }


def cohere() -> dict[str, object]:
    """Chat of version 2."""
    cited = {
        "start": 0,
        "end": 10,
        "text": ANSWER[:10],
        "sources": [{"type": "document", "id": "brigg-1", "document": {"id": "brigg-1", "snippet": PASSAGES[0][1]}}],
    }
    return {
        "request": {
            "model": MODEL,
            "messages": TURNS,
            "documents": [{"id": one, "data": {"title": "Brigg Point", "snippet": text}} for one, text in PASSAGES],
        },
        "response": {
            "id": "c1",
            "finish_reason": "COMPLETE",
            "message": {"role": "assistant", "content": [{"type": "text", "text": ANSWER}], "citations": [cited]},
        },
    }


def cohere_first() -> dict[str, object]:
    """Chat of version 1."""
    return {
        "request": {"message": QUESTION, "chat_history": [{"role": "USER", "message": "Hello."}]},
        "response": {
            "response_id": "r1",
            "generation_id": "g1",
            "text": ANSWER,
            "citations": [{"start": 0, "end": 10, "text": ANSWER[:10], "document_ids": ["brigg-1"]}],
            "documents": [{"id": one, "text": text, "title": "Brigg Point"} for one, text in PASSAGES],
        },
    }


def llamaindex() -> dict[str, object]:
    """A ``Response`` beside the query."""
    nodes = [
        {
            "node": {
                "id_": one,
                "embedding": None,
                "metadata": {"file_name": f"{one}.md"},
                "relationships": {},
                "text": text,
                "class_name": "TextNode",
            },
            "score": 0.8,
            "class_name": "NodeWithScore",
        }
        for one, text in PASSAGES
    ]
    return {"query": QUESTION, "response": {"response": ANSWER, "source_nodes": nodes, "metadata": {}}}


def haystack() -> dict[str, object]:
    """What ``Pipeline.run`` was given, and what it gave with an answer builder."""
    documents = [{"id": one, "content": text, "blob": None, "meta": {}, "score": 0.8} for one, text in PASSAGES]
    answer = {
        "type": "haystack.dataclasses.answer.GeneratedAnswer",
        "init_parameters": {"data": ANSWER, "query": QUESTION, "documents": documents, "meta": {}},
    }
    return {
        "request": {"retriever": {"query": QUESTION}, "prompt_builder": {"question": QUESTION}},
        "response": {"answer_builder": {"answers": [answer]}},
    }


def haystack_replies() -> dict[str, object]:
    """A pipeline that ends with its generator, whose ranker's documents stand behind the retriever's."""
    documents = [{"id": one, "content": text, "meta": {"name": one}} for one, text in PASSAGES]
    more = {"id": "rain", "content": "Rain.", "meta": {}}
    reply = {"role": "assistant", "meta": {"model": MODEL}, "name": None, "content": [{"text": ANSWER}]}
    return {
        "inputs": {"retriever": {"query": QUESTION}},
        "outputs": {
            "retriever": {"documents": [*documents, more]},
            "ranker": {"documents": documents},
            "llm": {"replies": [reply]},
        },
    }


def trulens() -> dict[str, object]:
    """A record with the calls of an instrumented application, whose first call is the application's own."""

    def call(steps: list[tuple[str, str]], rets: object) -> dict[str, object]:
        stack = [
            {"path": f"app.{name}", "method": {"obj": {"cls": {"name": kind}, "id": 1}, "name": name}}
            for kind, name in steps
        ]
        return {"call_id": name_of(steps), "stack": stack, "args": {"query": QUESTION}, "rets": rets}

    def name_of(steps: list[tuple[str, str]]) -> str:
        return "-".join(name for _, name in steps)

    app = ("SearchApp", "query")
    found = [text for _, text in PASSAGES]
    return {
        "record_id": "record_1",
        "app_id": "app_1",
        "ts": "2026-11-20T10:00:00",
        "main_input": QUESTION,
        "main_output": ANSWER,
        "calls": [
            call([app, ("SearchApp", "retrieve")], found),
            call([app, ("SearchApp", "generate")], ANSWER),
            call([app], ANSWER),
        ],
    }


def trulens_table() -> dict[str, object]:
    """The same as ``get_records_and_feedback`` gives it."""
    record = trulens()
    return {
        "app_id": "app_1",
        "record_id": "record_1",
        "input": json.dumps(QUESTION),
        "output": json.dumps(ANSWER),
        "record_json": json.dumps(record),
    }


RECORDS: Mapping[str, tuple[dict[str, object], ...]] = {
    "openai-responses": (openai(),),
    "anthropic": (anthropic(), anthropic_searched()),
    "gemini": (gemini(),),
    "bedrock": (bedrock(),),
    "azure-on-your-data": (azure(),),
    "azure-ai-evaluation": (azure_evaluation(),),
    "cohere": (cohere(), cohere_first()),
    "llamaindex-response": (llamaindex(),),
    "haystack": (haystack(), haystack_replies()),
    "trulens": (trulens(), trulens_table()),
}
"""Records of each provider by the name of its preset."""
