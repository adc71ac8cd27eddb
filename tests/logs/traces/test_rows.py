"""From records of an export to rows: their layouts, the texts in them, and passages within prompts."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.logs.traces.exports import csv_of, lines_of, opened

from attribeam.logs import traces
from attribeam.logs.traces import microseconds, nested, parsed, printed_value, shape
from attribeam.logs.traces.documents import documents_of, prompt_parts
from attribeam.logs.traces.formats import LOG_KINDS
from attribeam.logs.traces.messages import Asked, answer_of, messages_of, question_of
from attribeam.logs.traces.paths import TraceOptions
from attribeam.logs.traces.trace_log import ExportRows
from attribeam.schemas import Reason

Q = "How long is the pump under warranty?"
A = "The pump is under warranty for two years."
GOLD = "Two years, says the leaflet."
ONE, TWO = "The pump has a warranty of two years.", "The filter has a warranty of one year."
OTHER = "A page on pumps that an annotator chose."
PLAIN = {"question": Q, "answer": A}
PLAIN_COLUMNS = {name: [one] for name, one in PLAIN.items()}


def read(kind, content):
    rows = ExportRows(LOG_KINDS[kind], TraceOptions())
    return [placed.row for placed in rows.read([opened(content)])], rows.seen


def lines(*records):
    return lines_of(records)


def sheet(*records):
    return csv_of(records)


def parquet(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def whole(value):
    return json.dumps(value, indent=1).encode()


def with_contexts(value):
    return lines({**PLAIN, "contexts": value})


CASE = {"input": Q, "actual_output": A, "expected_output": GOLD, "context": [OTHER], "retrieval_context": [ONE, TWO]}
CAMEL = {"name": "t", "input": Q, "actualOutput": A, "context": [OTHER], "retrievalContext": [ONE, TWO]}
NODES = [{"node": {"id_": "n1", "text": ONE}, "score": 0.7}, {"node": {"text_resource": {"text": TWO}}, "score": 0.6}]
PAGES = [{"page_content": ONE, "metadata": {"source": "a.md"}}, {"page_content": TWO, "metadata": {}}]
PROMPT = f"Answer from the context.\n\nContext:\n{ONE}\n\n{TWO}\n\nQuestion: {Q}\nAnswer:"
TURN = [{"role": "user", "content": f"Context:\n{OTHER}\n\nQuestion: Who chose it?"},
    {"role": "assistant", "content": "An annotator."}]  # fmt: skip

TWO_PASSAGES = {
    "DeepEval test case": lines(CASE),
    "DeepEval test run": whole({"testCases": [CAMEL], "conversationalTestCases": []}),
    "DeepEval latest test run": whole({"testRunData": {"testFile": None, "testCases": [CAMEL]}}),
    "DeepEval results": whole({"test_results": [{**CASE, "success": True, "metrics_data": []}], "confident_link": ""}),
    "ragas 0.1": lines({**PLAIN, "contexts": [ONE, TWO], "ground_truth": GOLD, "ground_truths": [GOLD]}),
    "ragas 0.2": lines({"user_input": Q, "retrieved_contexts": [ONE, TWO], "reference_contexts": [OTHER],
        "response": A}),
    "ragas 0.3 in CSV": sheet({"user_input": Q, "retrieved_contexts": [ONE, TWO], "response": A, "reference": GOLD,
        "faithfulness": 0.5}),
    "graded answers": sheet({"Question": Q, "Answer": GOLD, "Generated Answer": A, "Retrieved Contexts": [ONE, TWO],
        "Grade": "correct"}),
    "gold beside response": lines({**PLAIN, "answer": GOLD, "response": A, "contexts": [ONE, TWO]}),
    "gold beside generated_answer": lines({**PLAIN, "answer": GOLD, "generated_answer": A, "docs": [ONE, TWO]}),
    "gold beside prediction": lines({**PLAIN, "answer": GOLD, "prediction": A, "context": [ONE, TWO]}),
    "gold contexts": lines({**PLAIN, "passages": [OTHER], "retrieved_contexts": [ONE, TWO]}),
    "retrieved_context": lines({**PLAIN, "retrieved_context": [ONE, TWO], "expected_retrieved_context": [OTHER]}),
    "results in an object with an id": whole({"id": "run-7", "model": "m", "results": [{**CASE}]}),
    "rows of the data set viewer": whole({"features": [], "rows": [{"row_idx": 0, "row": {**CASE}}]}),
    "columns of a data frame": json.dumps({name: {"0": one} for name, one in CASE.items()}).encode(),
    "lists of a data set": json.dumps({name: [one] for name, one in CASE.items()}).encode(),
    "table of MLflow": whole({"columns": ["inputs", "outputs", "context"], "data": [[Q, A, [ONE, TWO]]]}),
    "MLflow's evaluation": sheet({"inputs/question": Q, "outputs/answer": A, "outputs/contexts": json.dumps([ONE,
        TWO])}),
    "agent evaluation of MLflow": sheet({"request": json.dumps({"messages": [{"role": "user", "content": Q}]}),
        "response": json.dumps({"choices": [{"message": {"role": "assistant", "content": A}}]}),
        "retrieved_context": json.dumps([{"doc_uri": "a", "content": ONE}, {"doc_uri": "b", "content": TWO}]),
        "expected_response": GOLD}),
    "LangSmith experiment": sheet({"inputs.question": Q, "outputs.answer": A, "outputs.documents": PAGES,
        "reference.answer": GOLD}),
    "LangSmith example": lines({"inputs": {"question": Q}, "outputs": {"output": A, "contexts": [ONE, TWO]}}),
    "promptfoo": whole({"results": {"results": [{"prompt": {"raw": "..."}, "vars": {"question": Q, "context": [ONE,
        TWO]}, "response": {"output": A}}]}}),
    "struct of lists": parquet(**PLAIN_COLUMNS, context=[{"text": [ONE, TWO]}]),
    "HotpotQA": lines({**PLAIN, "context": {"title": ["a", "b"], "sentences": [[ONE], [TWO]]}}),
    "HotpotQA's own file": lines({**PLAIN, "context": [["a", [ONE]], ["b", [TWO]]]}),
    "files beside their texts": lines({**PLAIN, "documents": ["a.pdf", "https://b.example/c"], "context": [ONE, TWO]}),
    "numbered columns": sheet({**PLAIN, "Context 2": TWO, "Context 1": ONE, "Context 3": None}),
    "sources": lines({**PLAIN, "sources": [{"file": "a.pdf", "content": ONE}, {"file": "b.pdf", "content": TWO}]}),
    "answers that were expected and given": sheet({"Question": Q, "Expected Answer": GOLD, "Actual Answer": A,
        "Context": [ONE, TWO], "Verdict": "pass"}),
    "MS MARCO": lines({**PLAIN, "passages": {"is_selected": [1, 0], "passage_text": [ONE, TWO], "url": ["a", "b"]}}),
    "map of ids": parquet(**PLAIN_COLUMNS, contexts=pa.array([[("d1", ONE), ("d2",
        TWO)]], pa.map_(pa.string(), pa.string()))),
    "lists as BigQuery writes Parquet": parquet(
        question=[Q], answer=[A], passages=[{"list": [{"element": {"text": ONE}}, {"element": {"text": TWO}}]}]
    ),
    "ids in objects beside texts": with_contexts([{"doc": {"id": 1}, "text": ONE}, {"doc": {"id": 2}, "text": TWO}]),
    "texts by ids": with_contexts({"d1": ONE, "d2": TWO}),
    "documents by ids": with_contexts({"d1": {"text": ONE}, "d2": {"text": TWO, "title": "Filter"}}),
    "texts with scores": with_contexts([[ONE, 0.8], [TWO, 0.2]]),
    "scores with texts": with_contexts([[0.8, ONE], [0.2, TWO]]),
    "ids, texts and scores": with_contexts([["d1", ONE, 0.5], ["d2", TWO, 0.4]]),
    "texts with metadata": with_contexts([[ONE, {"source": "a"}], [TWO, {"source": "b"}]]),
    "lists of several retrievals": with_contexts([[ONE], [TWO]]),
    "LlamaIndex nodes": lines({"query": Q, "response": A, "source_nodes": NODES}),
    "LlamaIndex response": lines({"query": Q, "response": {"response": A, "source_nodes": NODES}}),
    "DPR": lines({**PLAIN, "ctxs": [{"id": "1", "title": "a", "text": ONE}, {"id": "2", "title": "b", "text": TWO}]}),
    "answer in JSON with its sources": lines({"prompt": Q, "response": json.dumps({"text": A, "sources": [{"title": "a",
        "text": ONE}, {"title": "b", "text": TWO}], "type": "chat"})}),
    "JSON in a text": sheet({**PLAIN, "contexts": json.dumps(PAGES)}),
    "object of JSON in a text": sheet({**PLAIN, "contexts": json.dumps({"documents": [ONE, TWO]})}),
    "Python in a text": sheet({**PLAIN, "contexts": PAGES}),
    "texts of JSON": with_contexts([json.dumps(one) for one in PAGES]),
    "printed documents of LangChain": with_contexts([f"page_content={ONE!r}", f"page_content={TWO!r} metadata={{}}"]),
    "list of printed documents": sheet({**PLAIN,
        "contexts": f"[Document(id='a', metadata={{}}, page_content={ONE!r}), Document(text={TWO!r})]"}),
    "array of numpy": sheet({**PLAIN, "contexts": f"array([{ONE!r}, {TWO!r}], dtype=object)"}),
    "prompt only": lines({"prompt": PROMPT, "completion": A}),
    "prompt beside the question": lines({**PLAIN, "prompt": f"<docs><doc>{ONE}</doc><doc>{TWO}</doc></docs>"}),
    "conversation with its context": lines({"messages": [{"role": "system",
        "content": f"Use these.\n<context>\n[1] {ONE}\n[2] {TWO}\n</context>"}, {"role": "user", "content": Q},
        {"role": "assistant", "content": A}]}),
    "conversation beside its reference": lines({"user_input": [{"type": "human", "content": Q}, {"type": "ai",
        "content": A}], "reference": GOLD, "retrieved_contexts": [ONE, TWO]}),
    "turns that each bring their passages": lines({"messages": [*TURN, {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": A}]}),
    "passages of an earlier turn": lines({"messages": [{"role": "user", "content": PROMPT.replace(Q, "Is it new?")},
        {"role": "assistant", "content": "Yes."}, {"role": "user", "content": Q},
        {"role": "assistant", "content": A}]}),
    "example in the system prompt": lines({"messages": [{**TURN[0], "role": "system"},
        {"role": "user", "content": PROMPT}, {"role": "assistant", "content": A}]}),
    "hit of Elasticsearch": lines({"_id": "1", "_source": {**PLAIN, "contexts": [ONE, TWO]}}),
    "entry of Cloud Logging": lines({"jsonPayload": {**PLAIN, "contexts": [ONE, TWO]}, "severity": "INFO"}),
    "Dify": lines({**PLAIN, "metadata": {"retriever_resources": [{"content": ONE}, {"content": TWO}]}}),
    "Flowise": lines({"question": Q, "text": A, "sourceDocuments": [{"pageContent": ONE}, {"pageContent": TWO}]}),
    "RAGFlow": lines({"question": Q, "data": {"answer": A, "reference": {"chunks": [{"content": ONE}, {"content": TWO}],
        "doc_aggs": []}}}),
    "Haystack": lines({"query": Q, "answers": [{"answer": A, "documents": [{"content": ONE}, {"content": TWO}]}]}),
    "Open WebUI": lines({"chat": {"messages": [{"role": "user", "content": Q}, {"role": "assistant", "content": A,
        "sources": [{"source": {"name": "a"}, "document": [ONE]}, {"document": [TWO]}]}]}}),
    "labels before texts": with_contexts([{"chunk": "c1", "snippet": ONE}, {"document": "2", "body": TWO}]),
    "names that speak of vectors": parquet(**PLAIN_COLUMNS, vector_store=["x"],
        retrieved_contexts=[[ONE, TWO]], e=[[0.5]]),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO_PASSAGES)
def test_what_was_generated_and_retrieved_is_read(name):
    (row,), _ = read("jsonl", TWO_PASSAGES[name])
    assert (row.question, row.answer, row.fault) == (Q, A, None)
    assert [one.text for one in row.passages] == [ONE, TWO]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (f"[1] {ONE}", f"[1] {ONE}"), (f"[Note] {ONE}", f"[Note] {ONE}"), (f"['Quoted'] {ONE}", f"['Quoted'] {ONE}"),
        (f"[[Warranty]] {ONE}", f"[[Warranty]] {ONE}"),
        (f"[Leaflet](https://pump.example): {ONE}", f"[Leaflet](https://pump.example): {ONE}"),
        ('{"make": "Pump", "years": 2}', '{"make": "Pump", "years": 2}'), (f"{{name}}: {ONE}", f"{{name}}: {ONE}"),
        ([json.dumps({"text": ONE, "price": 5})], json.dumps({"text": ONE, "price": 5})), (ONE, ONE),
        (["page_content='C:\\users'"], "page_content='C:\\users'"), (["page_content='1\n2'"], "page_content='1\n2'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["ragas", "jsonl"])
def test_text_that_only_looks_like_a_list_is_one_passage(kind, value, text):
    (row,), _ = read(kind, with_contexts(value))
    assert [one.text for one in row.passages] == [text]


@pytest.mark.parametrize(
    ("record", "note"),
    [
        (CASE, "passages read from retrieval_context, not from context; --passages-path names another"),
        (CAMEL, "passages read from retrievalContext, not from context; --passages-path names another"),
        ({**PLAIN, "response": GOLD, "context": ONE},
            "answer read from response, not from answer; --answer-path names another"),
        ({"question": Q, "ground_truth": GOLD, "context": ONE},
            "answer read from ground_truth, since no more usual field is there; --answer-path names another"),
        ({"question": Q, "answers": {"text": [A]}, "context": ONE},
            "answer read from answers, since no more usual field is there; --answer-path names another"),
        ({**PLAIN, "query": "pump warranty", "context": ONE},
            "question read from question, not from query; --question-path names another"),
        ({"prompt": PROMPT, "completion": A},
            "passages read from the prompt, since no other place has any; --passages-path names another"),
        ({**PLAIN, "contexts": [ONE], "timestamp": "yesterday"},
            "answered_at stays empty where timestamp holds no time that can be read"),
        ({**PLAIN, "contexts": [ONE, None]}, "a passage without text stays in its place, and is empty"),
    ],
)  # fmt: skip
def test_choice_is_told(record, note):
    rows, seen = read("jsonl", lines(record, {**PLAIN, "contexts": [TWO]}))
    assert [one.fault for one in rows] == [None, None]
    assert +seen.notes == {note: 1}


@pytest.mark.parametrize(
    "record",
    [
        {**PLAIN, "contexts": [ONE], "ground_truth": GOLD, "reference": GOLD, "expected_output": GOLD},
        {**PLAIN, "contexts": [ONE], "retrieved_contexts": [ONE], "response": A},
        {**PLAIN, "contexts": [ONE], "prompt": "Tell the user.", "timestamp": "2026-11-20", "generation": {"a": 5}},
    ],
)  # fmt: skip
def test_nothing_is_told_where_nothing_else_could_be_meant(record):
    _, seen = read("jsonl", lines(record))
    assert not +seen.notes


@pytest.mark.parametrize(
    ("texts", "empty"),
    [
        ([ONE, TWO, TWO], None), ([ONE, TWO], "nan"),
        *(([{"title": "Pump", "text": ONE}], empty) for empty in ({"title": "Filter", "url": "https://pump.example"},
            {"title": "Filter", "text": None}, {"text": ""}, None)),
    ],
)  # fmt: skip
def test_passage_without_text_among_others_keeps_its_place(texts, empty):
    (row,), _ = read("jsonl", with_contexts([texts[0], empty, *texts[1:]]))
    found = [one.text for one in row.passages]
    assert found == [ONE, "", *[TWO] * (len(texts) - 1)]


def test_columns_of_numbers_are_left_out_and_counted():
    content = parquet(question=[Q, Q], answer_vector=[A, A], answer=[A, A], contexts=[[ONE]] * 2, e=[[0.5, 1.5]] * 2)
    rows, seen = read("jsonl", content)
    assert [one.fault for one in rows] == [None, None]
    assert +seen.notes == {"column 'e' is not read, since it holds lists of numbers": 2}
    assert read("jsonl", parquet(**PLAIN_COLUMNS, vector_context=[ONE]))[0][0].passages is None


@pytest.mark.parametrize(
    ("record", "reason", "message"),
    [
        ({**CASE, "actual_output": None}, Reason.EMPTY_ANSWER, "should have an answer in actual_output, has null"),
        ({**PLAIN, "response": "", "contexts": [ONE]}, Reason.EMPTY_ANSWER,
            "in response, has an empty text; to read answer in its place, name it with --answer-path"),
        ({**PLAIN, "response": "None", "contexts": [ONE]}, Reason.EMPTY_ANSWER,
            "in response, has a printed null; to read answer in its place, name it with --answer-path"),
        ({"question": Q, "response": {"candidates": [{"finishReason": "SAFETY"}]}, "contexts": [ONE]},
            Reason.EMPTY_ANSWER, "in response, has an object with the keys candidates"),
        ({"question": Q, "answer": 24}, Reason.EMPTY_ANSWER,
            "in answer, has a number; log it as a text, or name another place with --answer-path"),
        ({**CASE, "retrieval_context": []}, Reason.NO_PASSAGES,
            "in retrieval_context, has an empty list; to read context in its place, name it with --passages-path"),
        ({"question": Q, "answer": [A, GOLD], "contexts": [ONE]}, Reason.EMPTY_ANSWER,
            "2 texts, which are several answers; write a row for each, or name one: --answer-path 'answer[0]'"),
        ({"question": Q, "responses": ["Two", "two"], "contexts": [ONE]}, Reason.EMPTY_ANSWER, "several answers"),
        ({**PLAIN, "hits": [ONE]}, Reason.NO_PASSAGES,
            "sources, knowledge, reference_contexts, expected_retrieved_context, expected_context, "
            "ground_truth_context; the row has question, answer, hits; name its place with --passages-path"),
        ({"ask": Q, "contexts": [ONE]}, Reason.MISSING_VALUE, "should have a question, has none of question, query, "),
        ({"question": Q, "says": A}, Reason.EMPTY_ANSWER, "the row has question, says; name its place with"),
        ({**PLAIN, "contexts": [None]}, Reason.NO_PASSAGES,
            "in contexts, has a list of 1 item; log them, or name another place with --passages-path"),
    ],
)  # fmt: skip
def test_dead_letter_says_what_was_looked_for_and_what_is_there(record, reason, message):
    (row,), _ = read("jsonl", lines(record))
    assert row.fault.reason == reason
    assert message in str(row.fault)


def test_row_that_cannot_be_read_keeps_its_id():
    (row,), _ = read("jsonl", lines({"id": "r7", **PLAIN, "contexts": "['a b' 'c d']"}))
    assert row.fault is not None
    assert (row.record_id, row.fault.reason, row.fault.column) == ("r7", Reason.INVALID_VALUE, "contexts")


@pytest.mark.parametrize(
    "row",
    [{"documents": ["doc-1", "b.pdf"], "document_texts": [ONE, TWO]}, {"contexts": "['doc-1', 'b.pdf']"},
        {"sources": ["doc-1", "b.pdf"]}],
)  # fmt: skip
def test_list_of_ids_has_no_texts(row):
    (row,), _ = read("jsonl", lines({**PLAIN, **row}))
    assert row.fault is not None
    assert row.fault.reason is Reason.PASSAGE_TEXT_MISSING
    assert [one[:3] for one in row.passages or ()] == [(None, None, "doc-1"), (None, None, "b.pdf")]


@pytest.mark.parametrize("texts", [
    ["$5"], ["42", "17"], ["2024-05-01"], ["+49-341-55"], ["SKU-1234"], ["true/false"], ["me@x.com"], ["x=1+2"],
])  # fmt: skip
def test_short_values_are_texts(texts):
    (row,), _ = read("jsonl", lines({**PLAIN, "contexts": texts}))
    assert [document.text for document in row.passages] == texts


@pytest.mark.parametrize("texts", [["Moss."], ["Rock", "Sea"], ["光は赤い"], ["a-1", "It is lit."]])
def test_list_of_short_texts_is_passages(texts):
    assert (
        [one.text for one in documents_of(texts)] == [one.text for one in documents_of({"documents": texts})] == texts
    )


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ([A], A), (["The pump", " is", " new."], "The pump is new."), (json.dumps({"answer": A, "confidence": 0.9}), A),
        ('{"make": "Pump", "result": 2}', '{"make": "Pump", "result": 2}'), ("[1] says so.", "[1] says so."),
        ({"content": A}, A), ("None.", "None."), ("none", "none"),
        ('{"text": "Pump", "years": 2}', '{"text": "Pump", "years": 2}'),
    ],
)  # fmt: skip
def test_answer_is_opened_where_it_holds_one(value, answer):
    (row,), _ = read("jsonl", lines({"question": Q, "answer": value, "contexts": [ONE]}))
    assert row.answer == answer


@pytest.mark.parametrize(
    "name", ["hits", "logs", "results", "records", "rows", "samples", "test_cases", "testCases", "data", "items"]
)
@pytest.mark.parametrize("around", [{}, {"version": 1}, {"id": "run", "type": "evaluation"}])
def test_wrapper_gives_its_rows(name, around):
    rows, _ = read("jsonl", whole({**around, name: [CASE, CAMEL]}))
    assert [one.answer for one in rows] == [A, A]


def test_hits_of_a_search_are_rows_and_those_of_a_row_are_its_own():
    row = {**PLAIN, "contexts": [ONE]}
    rows, _ = read("jsonl", whole({"took": 1, "hits": {"total": 1, "hits": [{"_id": "7", "_source": row}]}}))
    assert [(one.record_id, one.answer) for one in rows] == [("7", A)]
    (one,), _ = read("jsonl", lines({"ask": Q, "contexts": [ONE], "reply": A, "hits": [{"text": TWO}]}))
    assert one.answer == A


@pytest.mark.parametrize("holder", ["row", "test_case", "_source", "jsonPayload"])
def test_row_in_an_envelope_keeps_its_id(holder):
    about = {"record_id": "7", "timestamp": 1_795_168_800, "model": "m", "session_id": "s"}
    inner = {**PLAIN, "contexts": [ONE], **about}
    for value in (inner, json.dumps(inner)):
        (row,), _ = read("jsonl", lines({"row_idx": 3, holder: value}))
        found = row.record_id, row.answered_at, row.generator, row.session_id
        assert found == ("7", 1_795_168_800_000_000, "m", "s")
    (row,), _ = read("jsonl", lines({"id": "outer", holder: inner}))
    assert row.record_id == "outer"


def test_column_that_is_named_twice_has_one_value():
    """As ``to_csv`` of a data frame whose index is a column, too."""
    good = f"id,question,context,answer,id\n7,{Q},{ONE},{A},7\n"
    (row,), _ = read("jsonl", good.encode())
    assert (row.record_id, row.fault) == ("7", None)
    (row,), _ = read("jsonl", good.replace(",7\n", ",8\n").encode())
    assert "line 2 should have one value in 'id', which line 1 names twice, has two" in str(row.fault)


LANGCHAIN = {
    "lc": 1, "type": "constructor", "id": ["langchain", "schema", "HumanMessage"], "kwargs": {"content": "Who?"},
}  # fmt: skip
QUESTIONS = {
    "text": "Who?", "object": {"question": "Who?", "top_k": 4}, "only value": {"sentence": "Who?"},
    "json in a text": json.dumps({"query": "Who?"}),
    "messages": {"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Who?"}]},
    "parts": [{"role": "user", "parts": [{"type": "text", "content": "Who?"}, {"type": "blob", "content": "eA=="}]}],
    "content parts": [{"role": "user", "content": [{"type": "text", "text": "Who?"}, {"type": "image_url"}]}],
    "langchain": {"messages": [[LANGCHAIN]]}, "langchain pair": {"messages": [["human", "Who?"]]},
    "langchain data": [{"type": "human", "data": {"content": "Who?"}}],
    "openinference": [{"message": {"role": "user", "content": "Who?"}}],
    "openinference flat": [{"message.role": "user", "message.content": "Who?"}],
    "openinference contents": [{"message": {"role": "user", "contents": [{"message_content": {"type": "text",
        "text": "Who?"}}]}}],
    "responses api": {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text",
        "text": "Who?"}]}]},
    "nested inputs": {"inputs": {"input": {"query": "Who?"}}},
}  # fmt: skip
ANSWERS = {
    "text": "Ada.", "object": {"answer": "Ada.", "sources": ["x"]},
    "chat completion": {"id": "1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Ada."}}]},
    "anthropic": {"role": "assistant", "content": [{"type": "thinking"}, {"type": "text", "text": "Ada."}]},
    "langchain": {"generations": [[{"text": "Ada.", "message": {"kwargs": {"content": "Ada."}}}]]},
    "langgraph": {"messages": [{"type": "human", "content": "Who?"}, {"type": "ai", "content": "Ada."}]},
    "otel": [{"role": "assistant", "parts": [{"type": "text", "content": "Ada."}], "finish_reason": "stop"}],
    "chunks of text": ["Ad", "a", "."],
    "deltas": [{"choices": [{"delta": {"role": "assistant", "content": "Ad"}}]},
        {"choices": [{"delta": {"content": "a."}}]}, {"choices": [], "usage": {"total_tokens": 3}}],
    "message chunks": [{"type": "AIMessageChunk", "content": "Ad"}, {"type": "AIMessageChunk", "content": "a."}],
    "stream as the server sent it": 'event: delta\ndata: {"choices": [{"delta": {"content": "Ad"}}]}\n\n'
        'data: {"choices": [{"delta": {"content": "a."}}]}\n\ndata: [DONE]\n\n',
    "stream of ollama": [{"message": {"role": "assistant", "content": "Ad"}, "done": False},
        {"message": {"role": "assistant", "content": "a."}, "done": False},
        {"message": {"role": "assistant", "content": ""}, "done": True}],
    "stream of JSON in lines": '{"response": "Ad", "done": false}\n{"response": "a.", "done": true}\n',
    "stream of converse": [{"messageStart": {"role": "assistant"}}, {"contentBlockDelta": {"delta": {"text": "Ada"}}},
        {"contentBlockDelta": {"delta": {"text": "."}}}, {"messageStop": {"stopReason": "end_turn"}}],
    "stream of events": [{"type": "message_start", "message": {}}, {"type": "content_block_delta",
        "delta": {"type": "text_delta", "text": "Ada."}}, {"type": "message_stop"}],
    "quotes kept in an object": {"answer": "Ada."},
    "responses api": {"output": [{"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "Ada."}]}]},
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Ada."}]}}]},
    "message that Python printed": "content='Ada.' additional_kwargs={} response_metadata={'model': 'm'} id='run-1'",
    "converse": {"output": {"message": {"role": "assistant", "content": [{"text": "Ada."}]}}, "stopReason": "end_turn"},
    "haystack": {"llm": {"replies": ["Ada."], "meta": [{"model": "m"}]}},
    "chain of OpenLLMetry": {"outputs": "Ada.", "kwargs": {"tags": ["seq:step:1"], "name": "x"}},
    "items that are done": [{"type": "response.output_item.done", "item": {"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "Ada."}]}}],
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_question_is_found(name):
    assert question_of(QUESTIONS[name]).question == "Who?"


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_is_found(name):
    assert answer_of(ANSWERS[name]) == "Ada."


@pytest.mark.parametrize(
    "value",
    [
        None, "", " \n", "null", "NaN", {}, [], {"top_k": 4}, {"language": "en", "region": "north"}, [1, 2], 5, True,
        [{"role": "system"}],
    ],
)  # fmt: skip
def test_what_holds_no_question_gives_none(value):
    assert question_of(value) is None


SPOKE_LAST = [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Who?"}]
SEARCHED = [{"role": "assistant", "content": "I search.", "tool_calls": [{"id": "1"}]}, {"role": "tool",
    "content": "Ada."}, {"role": "assistant", "content": None, "tool_calls": [{"id": "2"}]}]  # fmt: skip
SEVERAL = ["It is new.", "It is old."], ["Two years", "two long years", "2 years"]


@pytest.mark.parametrize(
    "value",
    [
        *(None, "", {}, [], {"a": 1, "b": "text of what?"}, [[]], 7, [{"role": "user", "content": "Who?"}]),
        *({"error": {"message": "Rate limit reached.", "code": None}}, {"error": "It timed out."}),
        *("null", "None", "nan", " NULL ", "\\N", "undefined", {"answer": "None"}, {"stop_reason": "refusal"}),
        *({"messages": SPOKE_LAST}, {"messages": SEARCHED}, *SEVERAL, *({"output": texts} for texts in SEVERAL)),
    ],
)
def test_what_holds_no_answer_or_several_gives_none(value):
    assert answer_of(value) is None


def test_history_beside_a_question_comes_without_the_question_itself():
    talk = [["human", "Hi"], ["ai", "Hello"], ["human", "Who?"]]
    earlier = question_of({"question": "Who?", "chat_history": talk}).earlier
    assert [one.text for one in earlier] == ["Hi", "Hello"]


FOUND = [{"id": "a", "content": "One."}, {"content": "Two."}]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "tool_result", "content": [{"type": "text", "text": "One."}]}, "One."),
        ({"type": "tool-result", "toolName": "s", "output": {"type": "json", "value": FOUND}}, json.dumps(FOUND)),
        ({"type": "tool-result", "output": {"type": "text", "value": "One."}}, "One."),
        ({"type": "tool-result", "output": {"type": "content", "value": [{"type": "text", "text": "One."}]}}, "One."),
        ({"type": "tool-result", "toolName": "s", "result": FOUND}, json.dumps(FOUND)),
        ({"type": "tool-search", "state": "output-available", "input": {}, "output": FOUND}, json.dumps(FOUND)),
        ({"type": "dynamic-tool", "toolName": "s", "output": {"documents": FOUND}}, json.dumps({"documents": FOUND})),
        ({"type": "tool-invocation", "toolInvocation": {"state": "result", "result": FOUND}}, json.dumps(FOUND)),
        ({"type": "tool_result", "content": [{"type": "image", "source": {"data": "abc="}}]}, None),
        ({"type": "tool-call", "toolName": "s", "input": {"output": "x"}}, None),
    ],
)  # fmt: skip
def test_what_a_tool_returned_is_its_message(part, text):
    talk = [{"role": "user", "content": "Who?"}, {"role": "tool", "content": [part]}]
    assert [one.text for one in messages_of(talk)][1:] == ([] if text is None else [text])


def test_plain_text_is_never_taken_for_json():
    assert question_of('["a"] is what?', plain=True).question == '["a"] is what?'
    assert answer_of('"Ada."', plain=True) == '"Ada."'


def test_deep_json_ends():
    value = "Who?"
    for _ in range(200):
        value = {"input": value}
    assert question_of(value) is None
    assert answer_of(value) is None
    assert messages_of(value) is None


DOCUMENTS = {
    "texts": ["One.", "Two."],
    "langchain": {"documents": [{"page_content": "One.", "metadata": {"source": "a"}, "type": "Document"},
        {"page_content": "Two.", "metadata": {"source": "b"}}]},
    "langchain serialised": [{"lc": 1, "id": ["langchain", "Document"], "kwargs": {"page_content": "One.",
        "metadata": {"id": "a"}}}, {"lc": 1, "id": ["langchain", "Document"], "kwargs": {"page_content": "Two.",
        "metadata": {"id": "b"}}}],
    "llamaindex": {"nodes": [{"node": {"id_": "a", "text": "One."}, "score": 1}, {"node": {"id_": "b", "text": "Two."},
        "score": 0}]},
    "pinecone": {"matches": [{"id": "a", "metadata": {"text": "One."}}, {"id": "b", "metadata": {"text": "Two."}}]},
    "elastic": {"hits": {"hits": [{"_id": "a", "_source": {"text": "One."}}, {"_id": "b",
        "_source": {"text": "Two."}}]}},
    "fields of elastic": {"hits": {"hits": [{"_id": "a", "fields": {"body": ["One."]}}, {"_id": "b",
        "fields": {"body": ["Two."]}}]}},
    "chroma": {"ids": [["a", "b"]], "documents": [["One.", "Two."]], "distances": [[0.1, 0.2]]},
    "pairs with scores": [[{"page_content": "One."}, 0.5], [{"page_content": "Two."}, 0.4]],
    "openinference": [{"document.content": "One."}, {"document.content": "Two."}],
    "json": json.dumps([{"content": "One."}, {"content": "Two."}]),
    "columns": {"text": ["One.", "Two."], "id": ["a", "b"], "score": [0.9, 0.8]},
    "columns in one more list": {"documents": [["One.", "Two."]], "ids": [["a", "b"]], "metadatas": [[{}, {}]]},
    "texts with scores": [["One.", 0.9], ["Two.", 0.8]],
    "printed by Python": "[Document(id='a', page_content='One.'), Document(page_content='Two.', metadata={'id': 'b'})]",
    "texts of Bedrock": {"retrievalResults": [{"content": {"type": "TEXT", "text": text}, "location": {}}
        for text in ("One.", "Two.")]},
    "texts of OpenAI": {"data": [{"file_id": "f", "content": [{"type": "text", "text": text}]}
        for text in ("One.", "Two.")]},
    "qdrant": {"points": [{"id": "a", "payload": {"text": "One."}}, {"id": "b", "payload": {"text": "Two."}}]},
    "texts of Weaviate": {"objects": [{"uuid": "u", "properties": {"text": text}} for text in ("One.", "Two.")]},
    "Vertex AI Search": {"results": [{"document": {"id": one, "derivedStructData": {"title": "T",
        "extractive_segments": [{"content": text}]}}} for one, text in (("a", "One."), ("b", "Two."))]},
    "milvus": [[{"id": "a", "entity": {"text": "One."}}, {"id": "b", "entity": {"text": "Two."}}]],
    "azure": {"value": [{"@search.score": 2.5, "chunk_id": one, "chunk": text}
        for one, text in (("a", "One."), ("b", "Two."))]},
    "tavily": {"query": "x", "results": [{"url": "a", "content": "One."}, {"url": "b", "content": "Two."}]},
    "llamaindex 0.12": [{"node": {"id_": "a", "text_resource": {"text": "One."}}, "score": 1}, {"node": {"id_": "b",
        "text_resource": {"text": "Two."}}}],
}  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_found(name):
    found = documents_of(DOCUMENTS[name])
    assert [one.text for one in found] == ["One.", "Two."]
    has_ids = not any(word in name for word in ("texts", "pairs", "openinference", "json"))
    assert [one.passage_id for one in found] == (["a", "b"] if has_ids else [None, None])


@pytest.mark.parametrize(
    "value",
    [
        None, "", {}, 5, [1], [None], {"count": 3}, [{"score": 1}], {"scores": [0.1]}, "nan", [{"text": ""}],
        [{"title": "Moss"}, {"title": "Sea"}], [{"text": "One."}, {"count": 3}],
        {"turns": [{"role": "user", "content": "Who?"}]}, {"a": [{"text": "x"}], "b": [{"text": "y"}]},
    ],
)  # fmt: skip
def test_what_holds_no_document_gives_none(value):
    assert not documents_of(value)


@pytest.mark.parametrize(
    ("flat", "tree"),
    [
        ({"d.10.x": "ten", "d.9.x": "nine", "d.999999999999.x": "far", "a.b": 1, "a.c.d": 2, "plain": 3},
         {"d": [{"x": "nine"}, {"x": "ten"}, {"x": "far"}], "a": {"b": 1, "c": {"d": 2}}, "plain": 3}),
        ({"input": "text", "input.value": "Who?"}, {"input": {"": "text", "value": "Who?"}}),
        ({"input.value": "Who?", "input": "text"}, {"input": {"value": "Who?", "": "text"}}),
        ({"a": {"b": 1}, "a.c": 2}, {"a": {"b": 1, "c": 2}}),
        ({"a.c": 2, "a": {"b": 1}}, {"a": {"c": 2, "b": 1}}),
        ({".".join("a" * 5000): 1}, {".".join("a" * 5000): 1}),
    ],
    ids=["numbers in order", "value first", "value last", "object first", "object last", "very many parts"],
)  # fmt: skip
def test_dotted_keys_are_opened(flat, tree):
    assert nested(flat) == tree


@pytest.mark.parametrize(
    "moment",
    [
        "2026-11-20T10:00:00Z", "2026-11-20 10:00:00.000000", "2026-11-20 10:00:00.000 UTC", "2026-11-20 10:00:00 Z",
        "2026-11-20 12:00:00.000 +0200", "2026-11-20T12:00:00+02:00", 1_795_168_800,
        1_795_168_800_000, 1_795_168_800_000_000, 1_795_168_800_000_000_000, "1795168800000000000", 1_795_168_800.0,
    ],
)  # fmt: skip
def test_moments_of_every_kind_are_the_same(moment):
    assert microseconds(moment) == 1_795_168_800_000_000


def test_id_and_moment_of_mongodb_are_read():
    record = {"_id": {"$oid": "65a1"}, "createdAt": {"$date": {"$numberLong": "1795168800000"}}, "contexts": [ONE]}
    [row], _ = read("jsonl", lines({**PLAIN, **record}))
    assert (row.record_id, row.answered_at) == ("65a1", 1_795_168_800_000_000)


@pytest.mark.parametrize(
    "moment", [None, "", "soon", float("nan"), float("inf"), 0, -1, 10**30, True, [], "2026-13-40"]
)
def test_what_is_no_moment_gives_none(moment):
    assert microseconds(moment) is None


@pytest.mark.parametrize("text", ["[1] what?", "{not json", '"Quoted" he said', "plain", "[" * 100_000])
def test_text_that_only_looks_like_json_stays(text):
    assert parsed(text) == text


def test_keys_that_may_be_texts_are_not_shown():
    assert shape({"top_k": 3, "Who is Marta?": "a keeper"}) == "an object with the keys top_k, ..."
    assert shape({"ann@pier.example": 1}) == "an object with the keys ..."


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(value=st.lists(VALUES, max_size=5))
def test_list_that_python_printed_is_read_back(value):
    assert printed_value(repr(value)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('["a", null]', ["a", None]), ("['it\\'s', \"o'clock\"]", ["it's", "o'clock"]),
        ("[nan, 'b', -1.5]", [None, "b", -1.5]), ("array(['a', 'b'], dtype=object)", ["a", "b"]),
        ("[HumanMessage(content='Who?', metadata=None)]", [{"type": "HumanMessage", "content": "Who?",
            "metadata": None}]),
        ("[{'score': np.float64(0.5), 'id': UUID('a1')}]", [{"score": 0.5, "id": "a1"}]),
        ("[{'text': 'a', 'on': datetime.datetime(2026, 5, 1, tzinfo=utc), 'of': np.nan}]", [{"text": "a",
            "on": [2026, 5, 1], "of": None}]),
        ("[One., Two, and three., Four?]", ["One.", "Two, and three.", "Four?"]),
        ("[One, and two.]", None), ("[One., so two.]", None),
        ("  [ ]", []), ("a text", None), ("", None), ("{'a': 1}", {"a": 1}),
        ("{'a': array(['x'], dtype=object)}", {"a": ["x"]}), ("[Note] The pump", None), ("[1] The pump", None),
        ("[1]: the pump, see [2]", None), ("[A](https://pump.example) says so", None), ("['Quoted'] remark", None),
        ('["Quoted"] remark', None), ("['Tis] the season", None), ("[[Warranty]] The pump", None),
        ("[...] and the pump [...]", None), ("{name} is replaced", None), ("[x for x in y]", None), ("[" * 5000, None),
    ],
)  # fmt: skip
def test_what_other_writers_print(text, expected):
    assert printed_value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "['cut, 'off'", "[{id=1, text=a}, {id=2, text=b}]", "['a' 'b']", "['a'\n 'b']", "[open('x')]",
        "[__import__('os')]", "['" * 5000 + "]",
    ],
)  # fmt: skip
def test_what_is_no_list_is_an_error_and_runs_nothing(text):
    with pytest.raises(ValueError, match=r"list|plain value|quotes"):
        printed_value(text)


def test_list_of_python_is_limited_and_one_of_json_is_not(monkeypatch):
    monkeypatch.setattr(traces, "_MOST_LITERAL_CHARS", 100)
    assert printed_value(f'["{"x" * 200}"]') == ["x" * 200]
    with pytest.raises(ValueError, match="no JSON and has more than 100 characters"):
        printed_value(f"['{'x' * 200}']")


ASKED, LIT, KEPT = "Who lit it?", "The lamp was lit in 1874.", "Ada kept it, and: nobody else."
PROMPTS = {
    "LangChain's hub": f"Use the following pieces of context.\nQuestion: {ASKED} \nContext: {LIT}\n\n{KEPT} \nAnswer:",
    "LangChain's stuff chain": f"Use the following pieces of context. If you don't know, say so.\n\n{LIT}\n\n{KEPT}\n\n"
    f"Question: {ASKED}\nHelpful Answer:",
    "LlamaIndex": "Context information is below.\n---------------------\n"
    f"{LIT}\n\n{KEPT}\n---------------------\nGiven this, answer the query.\nQuery: {ASKED}\nAnswer: ",
    "tags": f"<documents>\n<document index='1'>\n<source>a.txt</source>\n<document_content>\n{LIT}\n"
    f"</document_content>\n</document>\n<document index='2'><document_content>{KEPT}</document_content></document>"
    f"\n</documents>\n<question>{ASKED}</question>",
    "bare tags": f"Answer from <doc id='1'>{LIT}</doc> and <doc id='2'>{KEPT}</doc>.\nQuestion: {ASKED}",
    "question behind the tag": f"<context>\n{LIT}\n\n{KEPT}\n</context>\n\n{ASKED}",
    "headings of Markdown": f"### Context:\n[1] {LIT}\n[2] {KEPT}\n\n### Question:\n{ASKED}\n\n### Answer:",
    "bold headings and rules": f"**Context**: {LIT}\n---\n{KEPT}\n\n**Question**: {ASKED}",
    "labels": f"Answer from the sources.\n\nSources:\nSource 1: {LIT}\nSource 2: {KEPT}\n\nUser question: {ASKED}",
    "template of LangChain": f"Answer based only on the following context:\n{LIT}\n\n{KEPT}\n\nQuestion: {ASKED}\n",
    "list that Python printed": f"Context: [Document(page_content={LIT!r}), Document(page_content={KEPT!r})]\n\n"
    f"Question: {ASKED}",
    "list of JSON": f"Context:\n{json.dumps([{'text': LIT}, {'text': KEPT}])}\n\nQuestion: {ASKED}",
    "tags that are named before": f"Use what is in <context></context> tags.\n<context>\n{LIT}\n\n{KEPT}\n</context>\n"
    f"Question: {ASKED}",
    "headings without a colon": f"# Task\nBe short.\n\n# Context\n{LIT}\n\n{KEPT}\n\n# Question\n{ASKED}\n\n# Answer",
    "bold lines without a colon": f"**Context**\n\n{LIT}\n\n{KEPT}\n\n**Question**\n\n{ASKED}",
    "request above a heading": f"Use the following sources.\n\n## Sources\n{LIT}\n\n{KEPT}\n\nQuestion: {ASKED}",
    "Q and A": f"Answer from the sources.\n\nSources:\n[1] {LIT}\n[2] {KEPT}\n\nQ: {ASKED}\nA:",
    "example above": f"Context: Ships.\nQuestion: Who?\nAnswer: Me.\n\nContext: {LIT}\n\n{KEPT}\nQuestion: {ASKED}",
    "question above the example": f"Question: Who?\nContext: Ships.\nAnswer: Me.\n\nQuestion: {ASKED}\nContext: {LIT}"
    f"\n\n{KEPT}\nAnswer:",
    "labels without a heading": f"Be short.\n\nSource 1:\n{LIT}\n\nSource 2:\n{KEPT}\n\nQuestion: {ASKED}",
    "labels in one line": f"Context: [1] {LIT} [2] {KEPT}\n\nQuestion: {ASKED}",
    "label behind the answer": f"Context:\n[1] {LIT}\n[2] {KEPT}\n\nQuestion: {ASKED}\n\nAnswer:\n[1]",
    "heading above each": f"Question: {ASKED}\nContext: {LIT}\nContext: {KEPT}\nAnswer:",
    "labels on lines of their own": f"Documents:\nDocument 1\n{LIT}\nDocument 2\n{KEPT}\n\nQuestion: {ASKED}",
    "question behind": f"Context:\n{LIT}\n\n{KEPT}\n\n{ASKED}",
    "question behind labels": f"Be short.\n\nContext:\n[1] {LIT}\n[2] {KEPT}\n\n{ASKED}\n\nAnswer:",
    "question below a passage": f"Context:\n{LIT}\n\n{KEPT}\n{ASKED}\n\nReturn only JSON.",
    "question behind a rule": f"Context:\n{LIT}\n---\n{KEPT}\n\n---\n{ASKED}",
    "question behind bare tags": f"<doc>{LIT}</doc>\n<doc>{KEPT}</doc>\n\n{ASKED}",
    "question behind rules": f"{'-' * 9}\n{LIT}\n\n{KEPT}\n{'-' * 9}\n{ASKED}\n\nBe brief.",
    "question above": f"{ASKED}\n\nContext:\n{LIT}\n\n{KEPT}",
    "question above a tag": f"You help.\n\n{ASKED} <context>\n{LIT}\n\n{KEPT}\n</context>\n\nAnswer in English.",
    "question above a heading": f"{ASKED}\n\n## Sources\n{LIT}\n\n{KEPT}",
    "wish behind": f"Question: {ASKED}\n\nContext:\n{LIT}\n\n{KEPT}\n\nPlease answer in English.",
    "wish above the question": f"Context:\n{LIT}\n\n{KEPT}\n\nAnswer from the context.\n\nQuestion: {ASKED}",
    "question above a wish": f"Context:\n{LIT}\n\n{KEPT}\n\n{ASKED}\n\nIf you do not know, say so.",
    "rules behind": f"{ASKED}\n\nContext:\n{LIT}\n\n{KEPT}\n\nRules:\n- Be brief.\n- Name the rock.",
    "rules with empty lines": f"{ASKED}\n\nContext:\n{LIT}\n\n{KEPT}\n\nRules:\n\n- Cite.\n\n- Never make things up.",
    "role behind": f"{ASKED}\n\nContext:\n{LIT}\n\n{KEPT}\n\nYou are a kind assistant.",
}


def told(prompt):
    found = prompt_parts(prompt)
    return [one.text for one in found.passages], found.question


@pytest.mark.parametrize("name", PROMPTS)
def test_passages_and_question_are_found(name):
    found = prompt_parts(PROMPTS[name])
    assert [one.text for one in found.passages] == [LIT, KEPT]
    assert found.asked(Asked(PROMPTS[name])) == Asked(ASKED)
    assert found.asked(Asked("Who?")) == Asked("Who?")


def test_question_needs_no_mark():
    for prompt in ("Context:\n{text}\n\n{asked}", "{asked}\n\nContext:\n{text}"):
        for asked, question in (
            ("who lit the lamp", "who lit the lamp"),
            ("Tell me of the lamp.", "Tell me of the lamp."),
            ("Who lit it? Cite sources.", "Who lit it? Cite sources."),
            ("Lit when the sun sets: the lamp", None),
        ):
            found = prompt_parts(prompt.format(text=LIT, asked=asked))
            assert found is not None
            assert found.question == question


@pytest.mark.parametrize(
    "item",
    [
        '<doc id="a7" title="Lamp">{text}</doc>',
        "<document title='Lamp'><id>a7</id><content>{text}</content></document>",
        '<document index="1">\n<source>a7</source>\n<title>Lamp</title>\n<document_content>{text}</document_content>'
        "</document>",
    ],
)  # fmt: skip
def test_tags_say_id_and_title_of_a_passage(item):
    for prompt in (f"<documents>\n{item}\n</documents>\n{{asked}}", f"Use it: {item} Who?"):
        found = prompt_parts(prompt.format(text=LIT, asked=ASKED))
        assert [one[:3] for one in found.passages] == [(LIT, "Lamp", "a7")]


@pytest.mark.parametrize(
    "label", ["Source {} ({}):\n", "Source {} ({}): ", "[Document {}: {}]\n", "[doc {} | {}] ", "Document {} - {}\n"]
)
@pytest.mark.parametrize("heading", ["", "Sources:\n"])
def test_labels_say_titles_of_passages(label, heading):
    parts = f"{label.format(1, 'a.md')}{LIT}\n\n{label.format(2, '3 lamps')}{KEPT}"
    found = prompt_parts(f"{heading}{parts}\n\nQuestion: {ASKED}")
    assert [one[:2] for one in found.passages] == [(LIT, "a.md"), (KEPT, "3 lamps")]
    assert found.question == ASKED


@pytest.mark.parametrize("text", ["He says [1] so. [2] Is it?", "[1] He says so. [3] It was lit, and it was kept."])
def test_marks_within_a_line_that_are_no_labels_stay(text):
    assert told(f"Context: {text}\n\nQuestion: {ASKED}")[0] == [text.removeprefix("[1] ") if "[3]" in text else text]


def test_letters_that_are_longer_in_lower_case_shift_no_passage():
    assert told(f"İİİ <Context>İ {LIT}</Context> {ASKED}") == ([f"İ {LIT}"], ASKED)


def test_metadata_that_llamaindex_sets_above_a_text_stays_with_it():
    rule, about = "-" * 21, "page_label: 1\nfile_name: a.md"
    found = told(f"Context information is below.\n{rule}\n{about}\n\n{LIT}\n\n{KEPT}\n{rule}")
    assert found == ([f"{about}\n{LIT}", KEPT], None)


@pytest.mark.parametrize(
    "text",
    [
        "[1] {}\n[2] {}", "\n[0]\n{}\n\n[1]\n{}\n", "Document 1: {}\n\nDocument 2: {}", "Source #1\n{}\nSource #2\n{}",
        "## Document 1\n{}\n\n## Document 2\n{}", "**Source 1:** {}\n**Source 2:** {}",
        "**Chunk 1**\n{}\n**Chunk 2**:\n{}", "[CONTEXT 0]:\n{}\n[END CONTEXT 0]\n\n[CONTEXT 1]:\n{}\n[END CONTEXT 1]\n",
        "{}\n---\n{}", "---\n{}\n\n---\n\n{}\n---", "{}\n=====\n{}", "<docs>\n<doc>{}</doc>\n<doc>{}</doc>\n</docs>",
    ],
)  # fmt: skip
def test_text_that_tells_its_passages_apart_is_these(text):
    assert [one.text for one in documents_of(text.format(LIT, f"<source>a.md</source> {KEPT}"))] == [
        LIT, f"<source>a.md</source> {KEPT}",
    ]  # fmt: skip


def test_text_of_nothing_but_tags_is_their_documents():
    items = f'<doc id="a">{LIT}</doc>', f'<doc id="b">{KEPT}</doc>'
    assert [one[:3] for one in documents_of("\n".join(items))] == [(LIT, None, "a"), (KEPT, None, "b")]
    for text in (f"<docs>{items[0]}\n{items[1]}</docs>", f"<context>\n{LIT}\n\n{KEPT}\n</context>\n"):
        assert [one.text for one in documents_of(text)] == [LIT, KEPT]
    for text in (items[0], f"Two: {items[0]} {items[1]}"):
        assert [one.text for one in documents_of(text)] == [text]


def test_documents_that_python_printed_one_behind_the_other_are_read():
    printed = "\n\n".join(f"page_content={text!r} metadata={{'source': 'a.md'}}" for text in (LIT, KEPT))
    found = prompt_parts(f"Context:\n{printed}\n\nQuestion: {ASKED}")
    assert found is not None
    assert [one.text for one in documents_of(printed)] == [one.text for one in found.passages] == [LIT, KEPT]


def test_document_that_python_printed_is_read():
    printed = f"Document(metadata={{'source': 'a.md'}}, page_content={LIT!r})", f"Document(page_content={LIT!r})"
    assert [one[:3] for one in documents_of([*printed])] == [(LIT, None, "a.md"), (LIT, None, None)]


@pytest.mark.parametrize(
    "text", ["[1] {}\n[3] {}", "1. {}\n2. {}", "[7] {}\n[8] {}", "[1] {} {}", "{}\n[1] {}\n[2] Moss.",
        "The lamp\n========\n{} {}", "---\ntitle: The lamp of Brigg Point\n---\n{} {}", "{} {}\n---"],
)  # fmt: skip
def test_text_with_other_marks_is_one_passage(text):
    text = text.format(LIT, KEPT)
    assert [one.text for one in documents_of(text)] == [text]


def test_numbered_list_within_a_passage_stays_with_it():
    assert told(f"Context:\n[1] Steps:\n1. Wind it.\n2. Light it.\n[2] {KEPT}\n\nQuestion: {ASKED}")[0] == [
        "Steps:\n1. Wind it.\n2. Light it.",
        KEPT,
    ]


@pytest.mark.parametrize(
    "prompt", ["Question: {asked}\nContext:\n{block}\n\nAnswer:", "### Sources:\n{block}\n\nQuestion: {asked}\nAnswer:",
        "<context>\n{block}\n</context>\nQuestion: {asked}"],
)  # fmt: skip
def test_questions_and_answers_within_passages_stay_there(prompt):
    first = "Question: Who kept it?\nAnswer: Ada."
    assert told(prompt.format(asked=ASKED, block=f"[1]\n{first}\n[2] {KEPT}")) == ([first, KEPT], ASKED)


@pytest.mark.parametrize(
    "last",
    [
        "If you have questions, ask the keeper.", "Please ring twice.", "Rules:\n- No dogs.\n- No fires.",
        "If the answer is no, wait.", "Please cite this page as Thorne (1874).", "You may reply in writing.",
        "When the lamp is lit, its answer is a flash.", "[2] Answer from the context.", "[2] Who lit it?",
        "It is lit each day\nwhen the sun has set",
    ],
)  # fmt: skip
def test_advice_in_the_last_passage_stays_there(last):
    found = prompt_parts(f"Context:\n{LIT}\n\n{last}")
    assert found is not None
    assert ([one.text for one in found.passages], found.question) == ([LIT, last], None)


@pytest.mark.parametrize("end", ["Question: {asked}", "Q: {asked}\nA:", "Question: {asked}\nAnswer:"])
@pytest.mark.parametrize("asks", ["Question: Who kept it?\nAnswer: Ada.", "Q: Who kept it?\nA: Ada."])
def test_passages_that_are_questions_and_answers_end_with_the_last_question(asks, end):
    assert told(f"Context:\n{asks}\n\n{KEPT}\n\n{end.format(asked=ASKED)}") == ([asks, KEPT], ASKED)


@pytest.mark.parametrize("heading", ["Context", "Context:"])
@pytest.mark.parametrize("below", ["Instructions", "Rules", "How to answer"])
def test_headings_of_another_level_within_a_passage_stay_with_it(heading, below):
    passage = f"## Sources of light\n## Background\n{LIT}\n### The keeper\n{KEPT}"
    assert told(f"# {heading}\n{passage}\n\n# {below}\nBe short.\n\n# Question\n{ASKED}") == ([passage], ASKED)


def test_headings_of_the_same_level_may_begin_passages():
    passages = [f"# Lamps\n{LIT}", f"# Rules of the rock\n{KEPT}"]
    assert told("\n\n".join(["# Context", *passages, f"# Question\n{ASKED}"])) == (passages, ASKED)


TEMPLATES = {
    "ChatML": "<|im_start|>system\n{context}<|im_end|>\n<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n",
    "Llama 2": "<s>[INST] <<SYS>>\n{context}\n<</SYS>>\n\n{asked} [/INST]",
    "Llama 3": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{context}<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n{asked}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "Gemma": "<bos><start_of_turn>system\n{context}<end_of_turn>\n<start_of_turn>user\n{asked}<end_of_turn>\n"
    "<start_of_turn>model\n",
    "Zephyr": "<|system|>\n{context}</s>\n<|user|>\n{asked}</s>\n<|assistant|>\n",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_messages_in_a_chat_template_are_told_apart(name):
    prompt = TEMPLATES[name].format(context=f"Context:\n[1] {LIT}\n[2] {KEPT}", asked=ASKED)
    [row], _ = read("jsonl", lines({"prompt": prompt, "completion": A}))
    assert (row.question, [one.text for one in row.passages], row.answer) == (ASKED, [LIT, KEPT], A)


@pytest.mark.parametrize("text", ["What is <|im_start|>user?", "Is [INST] a token?", "<|im_start|>narrator\nHello"])
def test_text_that_only_names_a_token_of_a_template_stays(text):
    assert question_of(text) == Asked(text)


@pytest.mark.parametrize(
    "prompt",
    [
        "", ASKED, f"Context matters here. {ASKED}", "<context></context>", f"Question: {ASKED}",
        "Context:\n\nQuestion: Who?",
    ],
)  # fmt: skip
def test_prompt_without_marked_passages_has_no_parts(prompt):
    assert prompt_parts(prompt) is None


@pytest.mark.parametrize("paragraph", [
    "Never give an answer by phone. Please reply in writing and cite the order number.",
    "When answering the phone, give the name of the hotel.",
    "Please contact the desk if you need the answer. You should know the context.",
    "What guests say about us", "Compare prices at the desk before you book a room",
])  # fmt: skip
def test_a_passage_may_tell_people_what_to_do(paragraph):
    parts = prompt_parts(f"Context:\n{ONE}\n\n{paragraph}\n\nQuestion: May I answer by phone?")
    assert [document.text for document in parts.passages] == [ONE, paragraph]
