"""Which fields of rows are read: in the layouts that evaluation tools, data sets and people write."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attribeam.logs.traces.assembly import TraceRow
from attribeam.logs.traces.formats import LOG_KINDS
from attribeam.logs.traces.paths import TraceOptions
from attribeam.logs.traces.trace_log import ExportRows, Seen
from attribeam.schemas import Reason

Q = "How long is the pump under warranty?"
A = "The pump is under warranty for two years."
GOLD = "Two years, says the leaflet."
ONE, TWO = "The pump has a warranty of two years.", "The filter has a warranty of one year."
OTHER = "A page on pumps that an annotator chose."
PLAIN = {"question": Q, "answer": A}


def read(kind: str, content: bytes) -> tuple[list[TraceRow], Seen]:
    """The rows of a file, and what was seen."""

    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        yield io.BytesIO(content)

    rows = ExportRows(LOG_KINDS[kind], TraceOptions())
    return [placed.row for placed in rows.read([opened])], rows.seen


def lines(*records: Mapping[str, object]) -> bytes:
    return "\n".join(map(json.dumps, records)).encode()


def sheet(*records: Mapping[str, object]) -> bytes:
    """A CSV file; lists and objects as Python prints them."""
    file = io.StringIO()
    names = list(dict.fromkeys(name for one in records for name in one))
    writer = csv.writer(file)
    writer.writerows([names, *([one.get(name) for name in names] for one in records)])
    return file.getvalue().encode()


def parquet(**columns: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def whole(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


def with_contexts(value: object) -> bytes:
    return lines({**PLAIN, "contexts": value})


CASE = {"input": Q, "actual_output": A, "expected_output": GOLD, "context": [OTHER], "retrieval_context": [ONE, TWO]}
CAMEL = {"name": "t", "input": Q, "actualOutput": A, "context": [OTHER], "retrievalContext": [ONE, TWO]}
NODES = [{"node": {"id_": "n1", "text": ONE}, "score": 0.7}, {"node": {"text_resource": {"text": TWO}}, "score": 0.6}]
PAGES = [{"page_content": ONE, "metadata": {"source": "a.md"}}, {"page_content": TWO, "metadata": {}}]
PROMPT = f"Answer from the context.\n\nContext:\n{ONE}\n\n{TWO}\n\nQuestion: {Q}\nAnswer:"

TWO_PASSAGES: dict[str, bytes] = {
    "DeepEval test case": lines(CASE),
    "DeepEval test run": whole({"testCases": [CAMEL], "conversationalTestCases": []}),
    "DeepEval latest test run": whole({"testRunData": {"testFile": None, "testCases": [CAMEL]}}),
    "DeepEval results": whole({"test_results": [{**CASE, "success": True, "metrics_data": []}], "confident_link": ""}),
    "ragas 0.1": lines({**PLAIN, "contexts": [ONE, TWO], "ground_truth": GOLD, "ground_truths": [GOLD]}),
    "ragas 0.2": lines(
        {"user_input": Q, "retrieved_contexts": [ONE, TWO], "reference_contexts": [OTHER], "response": A}
    ),
    "ragas 0.3 in CSV": sheet(
        {"user_input": Q, "retrieved_contexts": [ONE, TWO], "response": A, "reference": GOLD, "faithfulness": 0.5}
    ),
    "graded answers": sheet(
        {"Question": Q, "Answer": GOLD, "Generated Answer": A, "Retrieved Contexts": [ONE, TWO], "Grade": "correct"}
    ),
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
    "MLflow's evaluation": sheet(
        {"inputs/question": Q, "outputs/answer": A, "outputs/contexts": json.dumps([ONE, TWO])}
    ),
    "agent evaluation of MLflow": sheet(
        {
            "request": json.dumps({"messages": [{"role": "user", "content": Q}]}),
            "response": json.dumps({"choices": [{"message": {"role": "assistant", "content": A}}]}),
            "retrieved_context": json.dumps([{"doc_uri": "a", "content": ONE}, {"doc_uri": "b", "content": TWO}]),
            "expected_response": GOLD,
        }
    ),
    "LangSmith experiment": sheet(
        {"inputs.question": Q, "outputs.answer": A, "outputs.documents": PAGES, "reference.answer": GOLD}
    ),
    "LangSmith example": lines({"inputs": {"question": Q}, "outputs": {"output": A, "contexts": [ONE, TWO]}}),
    "promptfoo": whole(
        {"results": {"results": [
            {"prompt": {"raw": "..."}, "vars": {"question": Q, "context": [ONE, TWO]}, "response": {"output": A}}
        ]}}
    ),
    "struct of lists": parquet(**{name: [one] for name, one in PLAIN.items()}, context=[{"text": [ONE, TWO]}]),
    "HotpotQA": lines({**PLAIN, "context": {"title": ["a", "b"], "sentences": [[ONE], [TWO]]}}),
    "HotpotQA's own file": lines({**PLAIN, "context": [["a", [ONE]], ["b", [TWO]]]}),
    "files beside their texts": lines({**PLAIN, "documents": ["a.pdf", "https://b.example/c"], "context": [ONE, TWO]}),
    "numbered columns": sheet({**PLAIN, "Context 2": TWO, "Context 1": ONE, "Context 3": None}),
    "sources": lines({**PLAIN, "sources": [{"file": "a.pdf", "content": ONE}, {"file": "b.pdf", "content": TWO}]}),
    "answers that were expected and given": sheet(
        {"Question": Q, "Expected Answer": GOLD, "Actual Answer": A, "Context": [ONE, TWO], "Verdict": "pass"}
    ),
    "MS MARCO": lines({**PLAIN, "passages": {"is_selected": [1, 0], "passage_text": [ONE, TWO], "url": ["a", "b"]}}),
    "map of ids": parquet(
        **{name: [one] for name, one in PLAIN.items()},
        contexts=pa.array([[("d1", ONE), ("d2", TWO)]], pa.map_(pa.string(), pa.string())),
    ),
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
    "JSON in a text": sheet({**PLAIN, "contexts": json.dumps(PAGES)}),
    "object of JSON in a text": sheet({**PLAIN, "contexts": json.dumps({"documents": [ONE, TWO]})}),
    "Python in a text": sheet({**PLAIN, "contexts": PAGES}),
    "texts of JSON": with_contexts([json.dumps(one) for one in PAGES]),
    "printed documents of LangChain": with_contexts([f"page_content={ONE!r}", f"page_content={TWO!r} metadata={{}}"]),
    "list of printed documents": sheet(
        {**PLAIN, "contexts": f"[Document(id='a', metadata={{}}, page_content={ONE!r}), Document(text={TWO!r})]"}
    ),
    "array of numpy": sheet({**PLAIN, "contexts": f"array([{ONE!r}, {TWO!r}], dtype=object)"}),
    "prompt only": lines({"prompt": PROMPT, "completion": A}),
    "prompt beside the question": lines({**PLAIN, "prompt": f"<docs><doc>{ONE}</doc><doc>{TWO}</doc></docs>"}),
    "conversation with its context": lines(
        {"messages": [
            {"role": "system", "content": f"Use these.\n<context>\n[1] {ONE}\n[2] {TWO}\n</context>"},
            {"role": "user", "content": Q},
            {"role": "assistant", "content": A},
        ]}
    ),
    "names that speak of vectors": parquet(
        **{name: [one] for name, one in PLAIN.items()}, vector_store=["x"], retrieved_contexts=[[ONE, TWO]], e=[[0.5]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO_PASSAGES)
def test_what_was_generated_and_retrieved_is_read(name: str) -> None:
    (row,), _ = read("jsonl", TWO_PASSAGES[name])
    assert (row.question, row.answer, row.fault) == (Q, A, None)
    assert [one.text for one in row.passages or ()] == [ONE, TWO]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (f"[1] {ONE}", f"[1] {ONE}"),
        (f"[Note] {ONE}", f"[Note] {ONE}"),
        (f"['Quoted'] {ONE}", f"['Quoted'] {ONE}"),
        (f"[[Warranty]] {ONE}", f"[[Warranty]] {ONE}"),
        (f"[Leaflet](https://pump.example): {ONE}", f"[Leaflet](https://pump.example): {ONE}"),
        ('{"make": "Pump", "years": 2}', '{"make": "Pump", "years": 2}'),
        (f"{{name}}: {ONE}", f"{{name}}: {ONE}"),
        ([json.dumps({"text": ONE, "price": 5})], json.dumps({"text": ONE, "price": 5})),
        (ONE, ONE),
    ],
)
@pytest.mark.parametrize("kind", ["ragas", "jsonl"])
def test_text_that_only_looks_like_a_list_is_one_passage(kind: str, value: object, text: str) -> None:
    (row,), _ = read(kind, with_contexts(value))
    assert [one.text for one in row.passages or ()] == [text]


@pytest.mark.parametrize(
    ("record", "note"),
    [
        (CASE, "passages read from retrieval_context, not from context; --passages-path names another"),
        (CAMEL, "passages read from retrievalContext, not from context; --passages-path names another"),
        (
            {**PLAIN, "response": GOLD, "context": ONE},
            "answer read from response, not from answer; --answer-path names another",
        ),
        (
            {"question": Q, "ground_truth": GOLD, "context": ONE},
            "answer read from ground_truth, since no more usual field is there; --answer-path names another",
        ),
        (
            {"question": Q, "answers": {"text": [A]}, "context": ONE},
            "answer read from answers, since no more usual field is there; --answer-path names another",
        ),
        (
            {**PLAIN, "query": "pump warranty", "context": ONE},
            "question read from question, not from query; --question-path names another",
        ),
        (
            {"prompt": PROMPT, "completion": A},
            "passages read from the prompt, since no other place has any; --passages-path names another",
        ),
        (
            {**PLAIN, "contexts": [ONE], "timestamp": "yesterday"},
            "answered_at stays empty where timestamp holds no time that can be read",
        ),
        ({**PLAIN, "contexts": [ONE, None]}, "a passage without text stays in its place, and is empty"),
    ],
)
def test_choice_is_told(record: Mapping[str, object], note: str) -> None:
    rows, seen = read("jsonl", lines(record, {**PLAIN, "contexts": [TWO]}))
    assert [one.fault for one in rows] == [None, None]
    assert +seen.notes == {note: 1}


@pytest.mark.parametrize(
    "record",
    [
        {**PLAIN, "contexts": [ONE], "ground_truth": GOLD, "reference": GOLD, "expected_output": GOLD},
        {**PLAIN, "contexts": [ONE], "retrieved_contexts": [ONE], "response": A},
        {
            **PLAIN,
            "contexts": [ONE],
            "prompt": "Tell the user.",
            "timestamp": "2026-11-20",
            "generation": {"tokens": 5},
        },
    ],
)
def test_nothing_is_told_where_nothing_else_could_be_meant(record: Mapping[str, object]) -> None:
    _, seen = read("jsonl", lines(record))
    assert not +seen.notes


def test_null_among_passages_keeps_its_place() -> None:
    (row,), _ = read("jsonl", lines({**PLAIN, "contexts": [ONE, None, TWO, TWO]}))
    assert [one.text for one in row.passages or ()] == [ONE, "", TWO, TWO]


def test_columns_of_numbers_are_left_out_and_counted() -> None:
    content = parquet(question=[Q, Q], answer_vector=[A, A], answer=[A, A], contexts=[[ONE]] * 2, e=[[0.5, 1.5]] * 2)
    rows, seen = read("jsonl", content)
    assert [one.fault for one in rows] == [None, None]
    assert +seen.notes == {"column 'e' is not read, since it holds lists of numbers": 2}
    assert read("jsonl", parquet(**PLAIN_COLUMNS, vector_context=[ONE]))[0][0].passages is None


PLAIN_COLUMNS: dict[str, Any] = {name: [one] for name, one in PLAIN.items()}


@pytest.mark.parametrize(
    ("record", "reason", "message"),
    [
        ({**CASE, "actual_output": None}, Reason.EMPTY_ANSWER, "should have an answer in actual_output, has null"),
        (
            {**PLAIN, "response": "", "contexts": [ONE]},
            Reason.EMPTY_ANSWER,
            "in response, has an empty text; to read answer in its place, name it with --answer-path",
        ),
        (
            {**CASE, "retrieval_context": []},
            Reason.NO_PASSAGES,
            "in retrieval_context, has an empty list; to read context in its place, name it with --passages-path",
        ),
        (
            {"question": Q, "answer": [A, GOLD], "contexts": [ONE]},
            Reason.EMPTY_ANSWER,
            "2 texts, which are several answers; write a row for each, or name one: --answer-path 'answer[0]'",
        ),
        ({"question": Q, "responses": ["Two", "two"], "contexts": [ONE]}, Reason.EMPTY_ANSWER, "several answers"),
        (
            {**PLAIN, "hits": [ONE]},
            Reason.NO_PASSAGES,
            "sources, knowledge, reference_contexts, expected_retrieved_context, expected_context, "
            "ground_truth_context; the row has question, answer, hits; name its place with --passages-path",
        ),
        ({"ask": Q, "contexts": [ONE]}, Reason.MISSING_VALUE, "should have a question, has none of question, query, "),
        ({"question": Q, "says": A}, Reason.EMPTY_ANSWER, "the row has question, says; name its place with"),
        ({**PLAIN, "sources": ["a.pdf", "b.pdf"]}, Reason.NO_PASSAGES, "in sources, has a list of 2 texts"),
        ({**PLAIN, "contexts": [None]}, Reason.NO_PASSAGES, "in contexts, has a list of 1 item"),
    ],
)
def test_dead_letter_says_what_was_looked_for_and_what_is_there(
    record: Mapping[str, object], reason: Reason, message: str
) -> None:
    (row,), _ = read("jsonl", lines(record))
    assert row.fault is not None
    assert row.fault.reason == reason
    assert message in str(row.fault)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ([A], A),
        (["The pump", " is", " new."], "The pump is new."),
        (json.dumps({"answer": A, "confidence": 0.9}), A),
        ('{"make": "Pump", "result": 2}', '{"make": "Pump", "result": 2}'),
        ("[1] says so.", "[1] says so."),
        ({"content": A}, A),
    ],
)
def test_answer_is_opened_where_it_holds_one(value: object, answer: str) -> None:
    (row,), _ = read("jsonl", lines({"question": Q, "answer": value, "contexts": [ONE]}))
    assert row.answer == answer


@pytest.mark.parametrize("name", ["results", "records", "rows", "samples", "test_cases", "testCases", "data", "items"])
@pytest.mark.parametrize("around", [{}, {"version": 1}, {"id": "run", "type": "evaluation"}])
def test_wrapper_gives_its_rows(name: str, around: Mapping[str, object]) -> None:
    rows, _ = read("jsonl", whole({**around, name: [CASE, CAMEL]}))
    assert [one.answer for one in rows] == [A, A]


def test_column_that_is_named_twice_has_one_value() -> None:
    """As ``to_csv`` of a data frame whose index is a column, too."""
    good = f"id,question,context,answer,id\n7,{Q},{ONE},{A},7\n"
    (row,), _ = read("jsonl", good.encode())
    assert (row.record_id, row.fault) == ("7", None)
    (row,), _ = read("jsonl", good.replace(",7\n", ",8\n").encode())
    assert "line 2 should have one value in 'id', which line 1 names twice, has two" in str(row.fault)
