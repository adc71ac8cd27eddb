"""Questions, answers and documents in the JSON shapes of common APIs and frameworks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.logs.traces import values
from attribeam.logs.traces.documents import documents_of
from attribeam.logs.traces.messages import answer_of, messages_of, question_of
from attribeam.logs.traces.values import microseconds, nested, parsed, printed_value, shape

LANGCHAIN = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "schema", "HumanMessage"],
    "kwargs": {"content": "Who?"},
}
QUESTIONS: dict[str, object] = {
    "text": "Who?",
    "object": {"question": "Who?", "top_k": 4},
    "only value": {"sentence": "Who?"},
    "json in a text": json.dumps({"query": "Who?"}),
    "messages": {"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Who?"}]},
    "parts": [{"role": "user", "parts": [{"type": "text", "content": "Who?"}, {"type": "blob", "content": "eA=="}]}],
    "content parts": [{"role": "user", "content": [{"type": "text", "text": "Who?"}, {"type": "image_url"}]}],
    "langchain": {"messages": [[LANGCHAIN]]},
    "langchain pair": {"messages": [["human", "Who?"]]},
    "langchain data": [{"type": "human", "data": {"content": "Who?"}}],
    "openinference": [{"message": {"role": "user", "content": "Who?"}}],
    "openinference flat": [{"message.role": "user", "message.content": "Who?"}],
    "openinference contents": [
        {"message": {"role": "user", "contents": [{"message_content": {"type": "text", "text": "Who?"}}]}}
    ],
    "responses api": {
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Who?"}]}]
    },
    "nested inputs": {"inputs": {"input": {"query": "Who?"}}},
}
ANSWERS: dict[str, object] = {
    "text": "Ada.",
    "object": {"answer": "Ada.", "sources": ["x"]},
    "chat completion": {"id": "1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Ada."}}]},
    "anthropic": {"role": "assistant", "content": [{"type": "thinking"}, {"type": "text", "text": "Ada."}]},
    "langchain": {"generations": [[{"text": "Ada.", "message": {"kwargs": {"content": "Ada."}}}]]},
    "langgraph": {"messages": [{"type": "human", "content": "Who?"}, {"type": "ai", "content": "Ada."}]},
    "otel": [{"role": "assistant", "parts": [{"type": "text", "content": "Ada."}], "finish_reason": "stop"}],
    "chunks of text": ["Ad", "a", "."],
    "deltas": [
        {"choices": [{"delta": {"role": "assistant", "content": "Ad"}}]},
        {"choices": [{"delta": {"content": "a."}}]},
        {"choices": [], "usage": {"total_tokens": 3}},
    ],
    "message chunks": [{"type": "AIMessageChunk", "content": "Ad"}, {"type": "AIMessageChunk", "content": "a."}],
    "stream of events": [
        {"type": "message_start", "message": {}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Ada."}},
        {"type": "message_stop"},
    ],
    "quotes kept in an object": {"answer": "Ada."},
    "responses api": {"output": [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ada."}]},
    ]},
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Ada."}]}}]},
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_question_is_found(name: str) -> None:
    found = question_of(QUESTIONS[name])
    assert found is not None
    assert found.question == "Who?"


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_is_found(name: str) -> None:
    assert answer_of(ANSWERS[name]) == "Ada."


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        " \n",
        {},
        [],
        {"top_k": 4},
        {"language": "en", "region": "north"},
        [1, 2],
        5,
        True,
        [{"role": "system"}],
    ],
)
def test_what_holds_no_question_gives_none(value: object) -> None:
    assert question_of(value) is None


@pytest.mark.parametrize(
    "value", [None, "", {}, [], {"a": 1, "b": "text of what?"}, [[]], 7, [{"role": "user", "content": "Who?"}]]
)
def test_what_holds_no_answer_gives_none(value: object) -> None:
    assert answer_of(value) is None


@pytest.mark.parametrize("texts", [["It is new.", "It is old."], ["Two years", "two long years", "2 years"]])
def test_several_answers_are_not_joined(texts: list[str]) -> None:
    assert answer_of(texts) is None
    assert answer_of({"output": texts}) is None


def test_user_who_spoke_last_has_no_answer_yet() -> None:
    talk = [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Who?"}]
    assert answer_of({"messages": talk}) is None


def test_history_beside_a_question_comes_without_the_question_itself() -> None:
    talk = [["human", "Hi"], ["ai", "Hello"], ["human", "Who?"]]
    found = question_of({"question": "Who?", "chat_history": talk})
    assert found is not None
    assert [one.text for one in found.earlier] == ["Hi", "Hello"]


def test_plain_text_is_never_taken_for_json() -> None:
    found = question_of('["a"] is what?', plain=True)
    assert found is not None
    assert found.question == '["a"] is what?'
    assert answer_of('"Ada."', plain=True) == '"Ada."'


def test_deep_json_ends() -> None:
    value: object = "Who?"
    for _ in range(200):
        value = {"input": value}
    assert question_of(value) is None
    assert answer_of(value) is None
    assert messages_of(value) is None


DOCUMENTS: dict[str, object] = {
    "texts": ["One.", "Two."],
    "langchain": {"documents": [
        {"page_content": "One.", "metadata": {"source": "a"}, "type": "Document"},
        {"page_content": "Two.", "metadata": {"source": "b"}},
    ]},
    "langchain serialised": [
        {"lc": 1, "id": ["langchain", "Document"], "kwargs": {"page_content": "One.", "metadata": {"id": "a"}}},
        {"lc": 1, "id": ["langchain", "Document"], "kwargs": {"page_content": "Two.", "metadata": {"id": "b"}}},
    ],
    "llamaindex": {"nodes": [
        {"node": {"id_": "a", "text": "One."}, "score": 1}, {"node": {"id_": "b", "text": "Two."}, "score": 0},
    ]},
    "pinecone": {"matches": [{"id": "a", "metadata": {"text": "One."}}, {"id": "b", "metadata": {"text": "Two."}}]},
    "elastic": {"hits": {"hits": [
        {"_id": "a", "_source": {"text": "One."}}, {"_id": "b", "_source": {"text": "Two."}},
    ]}},
    "chroma": {"ids": [["a", "b"]], "documents": [["One.", "Two."]], "distances": [[0.1, 0.2]]},
    "pairs with scores": [[{"page_content": "One."}, 0.5], [{"page_content": "Two."}, 0.4]],
    "openinference": [{"document.content": "One."}, {"document.content": "Two."}],
    "json": json.dumps([{"content": "One."}, {"content": "Two."}]),
    "columns": {"text": ["One.", "Two."], "id": ["a", "b"], "score": [0.9, 0.8]},
    "columns in one more list": {"documents": [["One.", "Two."]], "ids": [["a", "b"]], "metadatas": [[{}, {}]]},
    "texts with scores": [["One.", 0.9], ["Two.", 0.8]],
    "llamaindex 0.12": [
        {"node": {"id_": "a", "text_resource": {"text": "One."}}, "score": 1},
        {"node": {"id_": "b", "text_resource": {"text": "Two."}}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_found(name: str) -> None:
    found = documents_of(DOCUMENTS[name])
    assert found is not None
    assert [one.text for one in found] == ["One.", "Two."]
    has_ids = not any(word in name for word in ("texts", "pairs", "openinference", "json"))
    assert [one.passage_id for one in found] == (["a", "b"] if has_ids else [None, None])


@pytest.mark.parametrize("value", [None, "", {}, 5, [1], [None], {"count": 3}, [{"score": 1}], {"scores": [0.1]}])
def test_what_holds_no_document_gives_none(value: object) -> None:
    assert not documents_of(value)


def test_dotted_keys_are_opened_in_the_order_of_their_numbers() -> None:
    flat = {"d.10.x": "ten", "d.9.x": "nine", "d.999999999999.x": "far", "a.b": 1, "a.c.d": 2, "plain": 3}
    assert nested(flat) == {"d": [{"x": "nine"}, {"x": "ten"}, {"x": "far"}], "a": {"b": 1, "c": {"d": 2}}, "plain": 3}


def test_value_and_members_under_one_key_are_both_kept() -> None:
    assert nested({"input": "text", "input.value": "Who?"}) == {"input": {"": "text", "value": "Who?"}}
    assert nested({"input.value": "Who?", "input": "text"}) == {"input": {"value": "Who?", "": "text"}}
    assert nested({"a": {"b": 1}, "a.c": 2}) == {"a": {"b": 1, "c": 2}}
    assert nested({"a.c": 2, "a": {"b": 1}}) == {"a": {"c": 2, "b": 1}}


def test_key_of_very_many_parts_is_left_alone() -> None:
    key = ".".join("a" * 5000)
    assert nested({key: 1}) == {key: 1}


@pytest.mark.parametrize(
    "moment",
    [
        "2026-11-20T10:00:00Z", "2026-11-20 10:00:00.000000", "2026-11-20T12:00:00+02:00", 1_795_168_800,
        1_795_168_800_000, 1_795_168_800_000_000, 1_795_168_800_000_000_000, "1795168800000000000", 1_795_168_800.0,
    ],
)  # fmt: skip
def test_moments_of_every_kind_are_the_same(moment: object) -> None:
    assert microseconds(moment) == 1_795_168_800_000_000


@pytest.mark.parametrize(
    "moment", [None, "", "soon", float("nan"), float("inf"), 0, -1, 10**30, True, [], "2026-13-40"]
)
def test_what_is_no_moment_gives_none(moment: object) -> None:
    assert microseconds(moment) is None


@pytest.mark.parametrize("text", ["[1] what?", "{not json", '"Quoted" he said', "plain", "[" * 100_000])
def test_text_that_only_looks_like_json_stays(text: str) -> None:
    assert parsed(text) == text


def test_keys_that_may_be_texts_are_not_shown() -> None:
    assert shape({"top_k": 3, "Who is Marta?": "a keeper"}) == "an object with the keys top_k, ..."
    assert shape({"ann@pier.example": 1}) == "an object with the keys ..."


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(value=st.lists(VALUES, max_size=5))
def test_list_that_python_printed_is_read_back(value: list[object]) -> None:
    assert printed_value(repr(value)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('["a", null]', ["a", None]),
        ("['it\\'s', \"o'clock\"]", ["it's", "o'clock"]),
        ("[nan, 'b', -1.5]", [None, "b", -1.5]),
        ("array(['a', 'b'], dtype=object)", ["a", "b"]),
        (
            "[HumanMessage(content='Who?', metadata=None)]",
            [{"type": "HumanMessage", "content": "Who?", "metadata": None}],
        ),
        ("  [ ]", []),
        ("a text", None),
        ("", None),
        ("{'a': 1}", {"a": 1}),
        ("{'a': array(['x'], dtype=object)}", {"a": ["x"]}),
        ("[Note] The pump", None),
        ("[1] The pump", None),
        ("[1]: the pump, see [2]", None),
        ("[A](https://pump.example) says so", None),
        ("['Quoted'] remark", None),
        ('["Quoted"] remark', None),
        ("['Tis] the season", None),
        ("[[Warranty]] The pump", None),
        ("[...] and the pump [...]", None),
        ("{name} is replaced", None),
        ("[x for x in y]", None),
        ("[" * 5000, None),
    ],
)
def test_what_other_writers_print(text: str, expected: list[object] | None) -> None:
    assert printed_value(text) == expected


@pytest.mark.parametrize(
    "text",
    ["['cut, 'off'", "['a' 'b']", "['a'\n 'b']", "[open('x')]", "[__import__('os')]", "['" * 5000 + "]"],
)
def test_what_is_no_list_is_an_error_and_runs_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r"list|plain value"):
        printed_value(text)


def test_list_of_python_is_limited_and_one_of_json_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_MOST_LITERAL_CHARS", 100)
    assert printed_value(f'["{"x" * 200}"]') == ["x" * 200]
    with pytest.raises(ValueError, match="no JSON and has more than 100 characters"):
        printed_value(f"['{'x' * 200}']")
