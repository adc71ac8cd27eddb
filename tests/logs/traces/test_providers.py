"""What providers and frameworks answer: each of them, however request and response are logged, and what is lacking."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.logs.traces.exports import ANSWER, MODEL, PASSAGES, QUESTION, imported, write_lines
from tests.logs.traces.responses import (
    RECORDS,
    TURNS,
    anthropic,
    azure,
    bedrock,
    cohere,
    gemini,
    haystack_replies,
    llamaindex,
    openai,
    trulens,
)

from attribeam.logs.columns import LogOptions
from attribeam.logs.qa_log import QALog
from attribeam.logs.traces.assembly import TraceRow
from attribeam.logs.traces.formats import LOG_KINDS
from attribeam.logs.traces.paths import PathSet, TraceOptions
from attribeam.schemas import QARecord, Reason
from attribeam.schemas.errors import UsageError

pytest.importorskip("jmespath", reason="the extra 'traces' is not installed")

Logged = Mapping[str, object]
TEXTS = [text for _, text in PASSAGES]
CASES = [(name, record) for name, records in RECORDS.items() for record in records]
PAIRS = [record for _, record in CASES if {"request", "response"} <= record.keys()]


def row_of(record: Logged, **options: object) -> TraceRow:
    """The row of a record as ``attribeam import responses`` reads it."""
    form = LOG_KINDS["responses"].format
    return form.row(record, TraceOptions(**options), PathSet())  # type: ignore[union-attr,arg-type]


def check_story(row: TraceRow) -> None:
    """The row is that of the story."""
    assert row.fault is None, str(row.fault)
    assert (row.question, row.answer) == (QUESTION, ANSWER)
    assert "\n".join(str(one.text) for one in row.passages or ()) == "\n".join(TEXTS)


@pytest.mark.parametrize(("name", "record"), CASES, ids=[f"{index}-{name}" for index, (name, _) in enumerate(CASES)])
def test_record_is_read_alike_with_its_preset_and_without(name: str, record: Logged) -> None:
    check_story(row_of(record))
    assert row_of(record, preset=name) == row_of(record)
    assert row_of({"odd": None, **record}) == row_of(record)


def _http(one: Logged) -> Logged:
    return {"request": {"url": "/", "body": one["request"]}, "response": {"status_code": 200, "body": one["response"]}}


def _snake(one: Logged) -> Logged:
    """The keys as a client library in Python has them."""
    text = re.sub(r'(?<=[a-z0-9])[A-Z](?=\w*":)', lambda letter: f"_{letter[0].lower()}", json.dumps(one))
    found: Logged = json.loads(text)
    return found


SHAPES: Mapping[str, Callable[[Logged], Logged]] = {
    "input-output": lambda one: {"input": one["request"], "output": one["response"]},
    "texts": lambda one: {"request_body": json.dumps(one["request"]), "response_body": json.dumps(one["response"])},
    "bodies": _http,
    "camel case": lambda one: {"requestBody": one["request"], "responseBody": one["response"]},
    "snake case": _snake,
    "question beside": lambda one: {"question": QUESTION, **one},
    "with more": lambda one: {"id": "a1", "timestamp": 1795168800, "user": "u", "latency_ms": 3, **one},
}


@pytest.mark.parametrize("shape", [*SHAPES])
@pytest.mark.parametrize("record", PAIRS)
def test_request_and_response_stand_under_any_usual_name(record: Logged, shape: str) -> None:
    check_story(row_of(SHAPES[shape](record)))


@pytest.mark.parametrize("record", [openai(), anthropic(), gemini(), bedrock(), azure(), cohere()])
def test_request_and_response_may_be_one_object(record: Mapping[str, Mapping[str, object]]) -> None:
    check_story(row_of({**record["request"], **record["response"]}))


@pytest.mark.parametrize("name", ["question", "query", "prompt", "input", "user_input", "request"])
@pytest.mark.parametrize("record", [openai(), gemini(), bedrock(), azure(), llamaindex(), haystack_replies()])
def test_response_may_stand_beside_a_plain_question(record: Logged, name: str) -> None:
    check_story(row_of({name: QUESTION, "response": record.get("response") or record["outputs"]}))
    check_story(row_of({name: TURNS, "response": record.get("response") or record["outputs"]}))


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("record", [openai(), anthropic(), gemini(), bedrock(), azure(), cohere(), llamaindex()])
def test_response_alone_lacks_its_question(record: Mapping[str, dict[str, object]], is_whole: bool) -> None:
    row = row_of({"response": record["response"]} if is_whole else record["response"])
    assert (row.question, row.answer) == (None, ANSWER)
    assert row.fault is not None
    assert (row.fault.reason, row.fault.column) == (Reason.MISSING_VALUE, "question")
    assert "--question-path" in str(row.fault)
    assert '{"request": ..., "response": ...}' in str(row.fault)


def test_provenance_is_kept() -> None:
    row = row_of(openai())
    assert (row.record_id, row.generator, row.answered_at) == ("resp_1", MODEL, 1_795_168_800_000_000)
    assert [(one.passage_id, one.title) for one in row.passages or ()][:1] == [("brigg-1", "brigg-1.pdf")]
    batch = {"id": "batch_1", "custom_id": "mine", "error": None, "response": {"body": openai()["response"]}}
    assert row_of({"question": QUESTION, **batch}).record_id == "batch_1"
    assert row_of(bedrock()).session_id == "s1"


def _of(record: Logged, place: str, value: object) -> Logged:
    """A copy of a record with another value at a dotted place."""
    copy = json.loads(json.dumps(record))
    *steps, last = [int(step) if step.isdecimal() else step for step in place.split(".")]
    inner = copy
    for step in steps:
        inner = inner[step]
    inner[last] = value
    found: Logged = copy
    return found


WEB = [{"web": {"uri": "https://b.example/1", "title": "b.example"}}]
PDF = [
    {
        "type": "document",
        "title": "b.pdf",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
    },
    {"type": "text", "text": QUESTION},
]


@pytest.mark.parametrize(
    ("record", "reason", "words"),
    [
        (
            _of(openai(), "response.output.1.results", None),
            Reason.NO_PASSAGES,
            r'include=\["file_search_call.results"\]',
        ),
        (_of(openai(), "response.output", openai()["response"]["output"][2:]), Reason.NO_PASSAGES, "include="),  # type: ignore[index]
        (_of(anthropic(), "request", {"messages": TURNS}), Reason.NO_PASSAGES, "log the request"),
        (_of(gemini(), "response.candidates.0.groundingMetadata", {}), Reason.NO_PASSAGES, "groundingMetadata"),
        (_of(bedrock(), "response.citations", []), Reason.NO_PASSAGES, "cites none"),
        (_of(azure(), "response.choices.0.message.context", {"intent": "x"}), Reason.NO_PASSAGES, "citations"),
        (_of(llamaindex(), "response.source_nodes", []), None, ""),
        (_of(cohere(), "response.message.content", []), None, ""),
        (_of(trulens(), "calls", trulens()["calls"][1:]), Reason.NO_PASSAGES, "instrument"),  # type: ignore[index]
        (_of(openai(), "response.output.2.content", [{"type": "refusal", "refusal": "No."}]), Reason.EMPTY_ANSWER, ""),
    ],
)
def test_what_is_lacking_is_said_with_the_way_out(record: Logged, reason: Reason | None, words: str) -> None:
    row = row_of(record)
    assert row.fault is not None
    assert reason is None or row.fault.reason is reason
    assert re.search(words, str(row.fault))


@pytest.mark.parametrize(
    ("record", "passage_id"),
    [
        (_of(gemini(), "response.candidates.0.groundingMetadata.groundingChunks", WEB), "https://b.example/1"),
        (_of(anthropic(), "request.messages.0.content", PDF), "b.pdf"),
        (_of(bedrock(), "response.citations.1.retrievedReferences.1.content", {"type": "IMAGE"}), "s3://brigg/brigg-2"),
    ],
)
def test_passage_without_a_text_keeps_its_id_for_a_table_of_texts(
    record: Logged, passage_id: str, tmp_path: Path
) -> None:
    assert passage_id in [one.passage_id for one in row_of(record).passages or () if one.text is None]
    good = write_lines(tmp_path / "a.jsonl", [record, openai()])
    table = write_lines(tmp_path / "texts.jsonl", [{"passage_id": passage_id, "text": TEXTS[0]}])
    _, (row,), (letter,) = imported("responses", good, output=tmp_path / "log.parquet")
    assert row["record_id"] == "resp_1"
    assert letter["reason"] == "passage_text_missing"
    options = TraceOptions(passages_table=table)
    assert len(imported("responses", good, output=tmp_path / "log.parquet", options=options)[1]) == 2


PART = {"type": "input_text", "text": QUESTION}
NODE = {"id_": "brigg-1", "text_resource": {"text": TEXTS[0], "mimetype": None}, "metadata": {}, "class_name": "Node"}
TALK = [*TURNS, {"role": "assistant", "content": ANSWER, "context": {"citations": [{"content": TEXTS[0], "id": "1"}]}}]
V1 = {"answer": ANSWER, "type": "generative", "context": None, "meta": {}}


@pytest.mark.parametrize(
    "record",
    [
        _of(openai(), "request.input", [*TURNS[:-1], {"role": "user", "content": [PART]}]),
        _of(openai(), "request.input", [{"type": "item_reference", "id": "m"}, TURNS[-1]]),
        _of(anthropic(), "request.messages.0.content.1.source.content", TEXTS[1]),
        _of(gemini(), "request.contents", QUESTION),
        _of(gemini(), "request.contents", [QUESTION]),
        _of(gemini(), "request.contents", [{"role": one["role"], "parts": [{"text": one["content"]}]}
                                           for one in TURNS]),
        _of(gemini(), "response.candidates.0.groundingMetadata.groundingChunks", [
            {"retrievedContext": {"uri": "u", "ragChunk": {"text": text, "pageSpan": {"firstPage": 1}}}}
            for text in TEXTS
        ]),
        _of(azure(), "response.choices.0.message.context", {"citations": [{"content": text} for text in TEXTS]}),
        {"query": QUESTION, "response": ANSWER, "context": TEXTS, "ground_truth": "Wrong."},
        {"query": TURNS, "response": [{"role": "assistant", "content": ANSWER}], "context": "\n".join(TEXTS)},
        {"conversation": {"messages": [*TALK[:-1], {**TALK[-1], "context": "\n".join(TEXTS)}]}},
        _of(cohere(), "request.documents", TEXTS),
        _of(cohere(), "request.documents", [{"data": json.dumps({"text": text})} for text in TEXTS]),
        _of(cohere(), "request.documents", [{"data": {"k": "v", "claim": text}} for text in TEXTS]),
        _of(cohere(), "request", {"messages": [*TURNS, {
            "role": "tool", "tool_call_id": "1",
            "content": [{"type": "document", "document": {"id": "1", "data": text}} for text in TEXTS],
        }]}),
        _of(llamaindex(), "response.source_nodes", [{"node": {**NODE, "text_resource": {"text": one}}}
                                                    for one in TEXTS]),
        {"query": QUESTION, "response": ANSWER, "source_nodes": llamaindex()["response"]["source_nodes"]},  # type: ignore[index]
        {"query": QUESTION, "answers": [V1], "documents": [{"content": text, "id": text} for text in TEXTS]},
        {
            "data": {"retriever": {"query": QUESTION}},
            "result": {"retriever": {"documents": [{"content": text} for text in TEXTS]}, "llm": {"replies": [ANSWER]}},
        },
        _of(trulens(), "calls.0.rets", [{"page_content": text, "metadata": {}} for text in TEXTS]),
        _of(trulens(), "calls.0.rets", {"source_nodes": [{"node": {"text": text}} for text in TEXTS]}),
    ],
)  # fmt: skip
def test_other_spellings_of_the_same(record: Logged) -> None:
    check_story(row_of(record))


def test_conversation_gives_history_and_the_last_turn() -> None:
    row = row_of({"conversation": {"messages": TALK}})
    assert (row.question, row.answer) == (QUESTION, ANSWER)
    assert [one.text for one in row.passages or ()] == TEXTS[:1]
    assert row_of(azure(), history=1).question == f"Assistant: What is it?\nUser: {QUESTION}"


def test_plain_row_is_still_read() -> None:
    check_story(row_of({"question": QUESTION, "contexts": TEXTS, "answer": ANSWER}))


def test_paths_are_searched_in_the_record_as_it_is_logged(tmp_path: Path) -> None:
    record = {"askedFor": QUESTION, "response": gemini()["response"]}
    path = write_lines(tmp_path / "a.jsonl", [record])
    options = TraceOptions(question_path="askedFor")
    _, (row,), _ = imported("responses", path, output=tmp_path / "log.parquet", options=options)
    assert (row["question"], row["answer"]) == (QUESTION, ANSWER)


def test_audit_reads_responses_without_an_import(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [*(record for _, record in CASES), {"response": openai()["response"]}])
    *found, last = QALog(path, LogOptions(format="responses")).outcomes()
    assert len(found) == len(CASES)
    assert all(isinstance(one, QARecord) and one.answer == ANSWER for one in found)
    assert not isinstance(last, QARecord)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name.startswith("jmespath"):
            raise ImportError(name)
        return own(name, *rest)  # type: ignore[arg-type]

    from attribeam.logs.traces.paths import compiled_path

    compiled_path.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    path = write_lines(tmp_path / "a.jsonl", [openai()])
    with pytest.raises(UsageError, match=r"a log of responses needs the extra 'traces': pip install"):
        imported("responses", path, output=tmp_path / "log.parquet")
