"""From the spans of a trace to its row: root, question, answer, several retrievals, conversations, tools."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from attribeam.logs.traces import assembly
from attribeam.logs.traces.assembly import Role, Span, TraceRow, row_of_trace, tree_of
from attribeam.logs.traces.documents import NO_TEXTS, Document
from attribeam.logs.traces.paths import PathSet, TraceOptions
from attribeam.logs.traces.trace_log import MOST_SPANS
from attribeam.schemas import Reason

KEEPER = Document("The keeper lived in the tower.", None, "keeper")
LAMP = Document("Ada lit the lamp.", None, "lamp")
BELL = Document("Bells ring at the rock.", None, "bell")
ROOT = Span("t", "root", None, Role.CHAIN, started_at=0, ended_at=9, input="Who?", output="Ada.")


def retrieval(
    one: str, *documents: Document, at: int = 1, parent: str = "root", role: Role = Role.RETRIEVER, **more: object
) -> Span:
    """A retriever or a reranker that gave documents."""
    span = Span("t", one, parent, role, started_at=at, ended_at=at, documents=documents)
    return span._replace(**more)  # type: ignore[arg-type]


def row(*spans: Span, options: TraceOptions | None = None) -> TraceRow:
    """The row of a trace."""
    return row_of_trace("t", list(spans), options or TraceOptions(), NO_TEXTS, PathSet())


def texts(found: TraceRow) -> Sequence[str | None]:
    """The texts of its passages."""
    return [one.text for one in found.passages or ()]


def test_retrievals_are_united_in_the_order_of_time_each_passage_once() -> None:
    found = row(retrieval("c", BELL, LAMP, at=3), ROOT, retrieval("b", LAMP, KEEPER, at=2))
    assert texts(found) == [LAMP.text, KEEPER.text, BELL.text]
    assert found.fault is None


@pytest.mark.parametrize(("which", "expected"), [("first", [LAMP]), ("last", [BELL]), ("all", [LAMP, BELL])])
def test_one_of_several_retrievals_can_be_chosen(which: str, expected: list[Document]) -> None:
    found = row(ROOT, retrieval("b", LAMP, at=1), retrieval("c", BELL, at=2), options=TraceOptions(retrievals=which))
    assert list(found.passages or ()) == expected


def test_reranker_replaces_the_retrieval_that_it_ranked_and_no_other() -> None:
    ranked = retrieval("d", KEEPER, at=3, role=Role.RERANKER, inputs_reranked=(LAMP, KEEPER))
    found = row(ROOT, retrieval("b", LAMP, KEEPER, at=1), retrieval("c", BELL, at=2), ranked)
    assert texts(found) == [BELL.text, KEEPER.text]


def test_reranker_without_its_inputs_is_known_by_what_it_gave() -> None:
    found = row(ROOT, retrieval("b", LAMP, KEEPER), retrieval("d", KEEPER, at=3, role=Role.RERANKER))
    assert texts(found) == [KEEPER.text]


def test_retriever_below_another_is_part_of_it() -> None:
    found = row(ROOT, retrieval("outer", KEEPER, at=1), retrieval("inner", LAMP, BELL, KEEPER, at=2, parent="outer"))
    assert texts(found) == [KEEPER.text]


def test_retriever_that_found_nothing_hides_no_other() -> None:
    assert texts(row(ROOT, retrieval("outer", at=1), retrieval("inner", LAMP, at=2, parent="outer"))) == [LAMP.text]


def test_chunks_of_one_source_are_different_passages() -> None:
    chunks = [Document(f"Chunk {number}.", None, "book.pdf") for number in range(3)]
    assert texts(row(ROOT, retrieval("b", *chunks))) == ["Chunk 0.", "Chunk 1.", "Chunk 2."]


def test_text_of_a_passage_may_stand_in_another_span() -> None:
    ranked = retrieval("d", Document(None, None, "lamp"), at=3, role=Role.RERANKER)
    assert texts(row(ROOT, retrieval("b", LAMP, KEEPER), ranked)) == [LAMP.text]


def test_passages_with_ids_only_are_a_fault_of_their_own() -> None:
    found = row(ROOT, retrieval("b", Document(None, None, "lamp"), KEEPER))
    assert found.fault is not None
    assert (found.fault.reason, found.fault.column) == (Reason.PASSAGE_TEXT_MISSING, "passages")
    assert "1 have only an id" in str(found.fault)


def test_sources_beside_an_answer_are_the_passages_where_no_retriever_is_logged() -> None:
    root = ROOT._replace(output={"result": "Ada.", "source_documents": [{"page_content": "Ada lit the lamp."}]})
    assert (texts(row(root)), row(root).answer) == (["Ada lit the lamp."], "Ada.")


def test_span_whose_parent_was_not_exported_is_the_root() -> None:
    root = ROOT._replace(parent_id="request of another service")
    assert row(root, retrieval("b", LAMP)).question == "Who?"


def test_without_a_root_the_models_and_retrievers_tell() -> None:
    model = Span("t", "m", "gone", Role.MODEL, input=[{"role": "user", "content": "Who?"}], output="Ada.")
    assert row(model, retrieval("b", LAMP, parent="gone"))[:4] == ("t", "Who?", (LAMP,), "Ada.")


def test_trace_without_root_and_texts_is_incomplete() -> None:
    parts = [Span("t", one, "gone", Role.OTHER) for one in "ab"]
    found = row(*parts).fault
    assert found is not None
    assert found.reason is Reason.INCOMPLETE_TRACE
    assert "none of its 2 spans is one" in str(found)


def test_parents_in_a_circle_end() -> None:
    tree = tree_of([ROOT._replace(parent_id="b"), retrieval("b", LAMP, parent="root")])
    assert tree.root is None
    assert sorted(tree.depths()) == [0, 1]
    assert tree.below({1}) == {0}
    assert tree.below({0}) == set()


def test_depth_is_the_number_of_spans_above() -> None:
    names = "root", "a", "b", "c", "d"
    parents = None, "root", "a", "root", "gone"
    spans = [
        Span("t", name, parent, Role.CHAIN, started_at=at)
        for at, (name, parent) in enumerate(zip(names, parents, strict=True))
    ]
    assert tree_of(spans).depths() == [0, 1, 2, 1, 0]


def test_very_deep_trace_is_put_together() -> None:
    chain = [
        Span("t", str(one), str(one - 1) if one else None, Role.CHAIN, started_at=one) for one in range(MOST_SPANS)
    ]
    chain[0] = chain[0]._replace(input="Who?", output="Ada.")
    inner = [retrieval(f"r{one}", LAMP, KEEPER, at=one, parent=str(one)) for one in range(0, MOST_SPANS, 500)]
    found = row(*chain, *inner)
    assert (found.question, found.answer, texts(found)) == ("Who?", "Ada.", [LAMP.text, KEEPER.text])


def test_work_on_a_trace_grows_with_its_spans_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(tuple[int | None, ...]):
        looked_up = 0

        def __getitem__(self, place: object) -> int | None:  # type: ignore[override]
            Counted.looked_up += 1
            return super().__getitem__(place)  # type: ignore[index, no-any-return, call-overload]

    chain = [
        Span("t", str(one), str(one - 1) if one else None, Role.CHAIN, "a", started_at=one, input="Who?", output="Ada.")
        for one in range(500)
    ]
    inner = [retrieval(f"r{one}", Document(f"Passage {one}."), at=one, parent="499") for one in range(500)]
    inner += [one._replace(span_id=f"k{one.span_id}", role=Role.RERANKER) for one in inner]
    tree = tree_of([*chain, *inner])
    monkeypatch.setattr(assembly, "tree_of", lambda _: tree._replace(parents=Counted(tree.parents)))
    assert len(row(*chain, *inner).passages or ()) == 500
    assert Counted.looked_up < 10 * 1500


def test_retriever_alone_is_no_answer() -> None:
    root = Span("t", "root", None, Role.RETRIEVER, input="lamp", output=[{"text": "Ada lit the lamp."}])
    found = row(root).fault
    assert found is not None
    assert found.reason is Reason.EMPTY_ANSWER


def test_first_of_two_roots_that_speaks_is_the_root() -> None:
    other = Span("t", "eval", None, Role.OTHER, started_at=-5)
    assert tree_of([other, ROOT, ROOT._replace(span_id="later", started_at=5)]).root == ROOT


def test_span_that_was_exported_twice_counts_once_and_with_its_output() -> None:
    started = ROOT._replace(output=None, ended_at=None)
    assert len(tree_of([ROOT, started]).spans) == 1
    for order in ([ROOT, started], [started, ROOT]):
        assert row(*order, retrieval("b", LAMP)).answer == "Ada."


def test_clock_ties_keep_the_order_of_the_export() -> None:
    found = row(ROOT, retrieval("b", BELL, at=0), retrieval("c", LAMP, at=0))
    assert texts(found) == [BELL.text, LAMP.text]


def test_failed_trace_without_answer_has_its_own_reason() -> None:
    found = row(ROOT._replace(output=None, failed=True), retrieval("b", LAMP)).fault
    assert found is not None
    assert found.reason is Reason.TRACE_FAILED


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"output": None}, Reason.EMPTY_ANSWER, "has null there; name it with --answer-path"),
        ({"output": {"a": 1, "b": 2}}, Reason.EMPTY_ANSWER, "an object with the keys a, b"),
        ({"input": {"top_k": 3, "language": "en"}}, Reason.MISSING_VALUE, "an object with the keys top_k, language"),
    ],
)
def test_what_is_missing_is_named_without_its_text(changes: dict[str, object], reason: Reason, words: str) -> None:
    found = row(ROOT._replace(**changes), retrieval("b", LAMP)).fault  # type: ignore[arg-type]
    assert found is not None
    assert found.reason is reason
    assert words in str(found)


def test_trace_without_retrieval_says_where_else_passages_may_be() -> None:
    tool = Span("t", "w", "root", Role.TOOL, "weather", started_at=1, output="Rain.")
    found = row(ROOT, tool).fault
    assert found is not None
    assert found.reason is Reason.NO_PASSAGES
    assert "take what tools returned with --tool-outputs" in str(found)
    assert "--tool-outputs" not in str(row(ROOT).fault)


def test_outputs_of_tools_are_passages_by_option() -> None:
    tools = [
        Span("t", "w", "root", Role.TOOL, "weather", started_at=1, output={"output": "Rain."}),
        Span("t", "x", "root", Role.TOOL, "empty", started_at=2, output=None),
    ]
    found = row(ROOT, *tools, options=TraceOptions(tool_outputs=True))
    assert found.passages == (Document("Rain.", "weather", "w"),)


def test_messages_of_tools_serve_where_no_tool_has_a_span() -> None:
    talk = [
        {"role": "user", "content": "Old?"},
        {"role": "tool", "content": "Old result."},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "Rain.", "name": "weather"},
    ]
    found = row(ROOT._replace(input=talk), options=TraceOptions(tool_outputs=True))
    assert (found.question, found.passages) == ("Weather?", (Document("Rain.", "weather"),))


def test_earlier_turns_stand_before_the_question_by_option() -> None:
    talk = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Who lit it?"},
        {"role": "assistant", "content": "Ada."},
        {"role": "user", "content": "When?"},
    ]
    spans = [ROOT._replace(input={"messages": talk}), retrieval("b", LAMP)]
    assert row(*spans).question == "When?"
    assert row(*spans, options=TraceOptions(history=1)).question == "Assistant: Ada.\nUser: When?"
    whole = "User: Who lit it?\nAssistant: Ada.\nUser: When?"
    assert row(*spans, options=TraceOptions(history=99)).question == whole


def test_generator_is_the_last_model_that_spoke() -> None:
    models = [
        Span("t", name, "root", Role.MODEL, started_at=at, model=name) for at, name in ((5, "writer"), (1, "planner"))
    ]
    assert row(ROOT, *models, retrieval("b", LAMP)).generator == "writer"
