"""From the spans of a trace to its row, and an audit's own way through an export: mixed traces, rows by number."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.logs.traces.exports import EXPORTS, imported, mixed_spans, ragas, write_lines

from attribeam.logs.columns import LogOptions
from attribeam.logs.files import ArrowStorage, match_files
from attribeam.logs.qa_log import QALog
from attribeam.logs.reader import BATCH_ROWS
from attribeam.logs.rows import FaultyRow
from attribeam.logs.traces import assembly, trace_log
from attribeam.logs.traces.assembly import MOST_SPANS, Role, Span, row_of_trace, trace_spool, tree_of
from attribeam.logs.traces.documents import Document, no_texts
from attribeam.logs.traces.formats import LOG_KINDS
from attribeam.logs.traces.paths import PathSet, TraceOptions
from attribeam.schemas import Reason, RowFault

KEEPER = Document("The keeper lived in the tower.", None, "keeper")
LAMP = Document("Ada lit the lamp.", None, "lamp")
BELL = Document("Bells ring at the rock.", None, "bell")
ROOT = Span("t", "root", None, Role.CHAIN, started_at=0, ended_at=9, input="Who?", output="Ada.")


def retrieval(one, *documents, at=1, parent="root", role=Role.RETRIEVER, **more):
    """A retriever or a reranker that gave documents."""
    span = Span("t", one, parent, role, started_at=at, ended_at=at, documents=documents)
    return span._replace(**more)


def row(*spans, options=None):
    return row_of_trace("t", list(spans), options or TraceOptions(), no_texts, PathSet())


def texts(found):
    return [one.text for one in found.passages or ()]


def chain_of(count, **more):
    return [
        Span("t", str(one), str(one - 1) if one else None, Role.CHAIN, started_at=one, **more) for one in range(count)
    ]


def retrieved(output):
    return Span("t", "r", "root", Role.RETRIEVER, started_at=1, output=output)


CHUNKS = [Document(f"Chunk {number}.", None, "book.pdf") for number in range(3)]
RANKED = retrieval("d", KEEPER, at=3, role=Role.RERANKER, inputs_reranked=(LAMP, KEEPER))
LAST_CHAIN = {"result": "Ada.", "source_documents": [{"page_content": LAMP.text}]}
RETRIEVED = {
    "united in the order of time, each passage once": ([retrieval("c", BELL, LAMP, at=3), ROOT, retrieval("b", LAMP,
        KEEPER, at=2)], [LAMP, KEEPER, BELL]),
    "clocks that tie keep the order of the export": ([ROOT, retrieval("b", BELL, at=0), retrieval("c", LAMP, at=0)],
        [BELL, LAMP]),
    "a reranker replaces the retrieval that it ranked and no other": ([ROOT, retrieval("b", LAMP, KEEPER, at=1),
        retrieval("c", BELL, at=2), RANKED], [BELL, KEEPER]),
    "a reranker without its inputs is known by what it gave": ([ROOT, retrieval("b", LAMP, KEEPER), retrieval("d",
        KEEPER, at=3, role=Role.RERANKER)], [KEEPER]),
    "a retriever below another is part of it": ([ROOT, retrieval("outer", KEEPER), retrieval("inner", LAMP, BELL,
        KEEPER, at=2, parent="outer")], [KEEPER]),
    "a retriever that found nothing hides no other": ([ROOT, retrieval("outer"), retrieval("inner", LAMP, at=2,
        parent="outer")], [LAMP]),
    "a retriever that failed gave an error": ([ROOT, retrieval("b", Document("Timed out."), failed=True),
        retrieval("c", LAMP, at=2)], [LAMP]),
    "chunks of one source are different passages": ([ROOT, retrieval("b", *CHUNKS)], CHUNKS),
    "a passage that one retrieval gave twice keeps both places": ([ROOT, retrieval("b", LAMP, LAMP, KEEPER)], [LAMP,
        LAMP, KEEPER]),
    "a text may stand in another span": ([ROOT, retrieval("b", LAMP, KEEPER), retrieval("d", Document(None, None,
        "lamp"), at=3, role=Role.RERANKER)], [LAMP]),
    "GraphQL of Weaviate": ([ROOT, retrieved({"data": {"Get": {"Chunk": [{"id": LAMP.passage_id,
        "body": LAMP.text}]}}})], [LAMP]),
    "rows of pgvector": ([ROOT, retrieved({"rows": [{"id": LAMP.passage_id, "content": LAMP.text}], "rowCount": 1})],
        [LAMP]),
    "items of Kendra": ([ROOT, retrieved({"QueryId": "q", "ResultItems": [{"id": LAMP.passage_id, "Type": "ANSWER",
        "Content": LAMP.text}]})], [LAMP]),
    "sources beside an answer where no retriever is logged": ([ROOT._replace(output=LAST_CHAIN)], [LAMP]),
}  # fmt: skip


@pytest.mark.parametrize("name", RETRIEVED)
def test_passages_are_those_of_the_retrievals_that_count(name):
    spans, expected = RETRIEVED[name]
    found = row(*spans)
    assert texts(found) == [one.text for one in expected]
    assert (found.answer, found.fault) == ("Ada.", None)


@pytest.mark.parametrize(("which", "expected"), [("first", [LAMP]), ("last", [BELL]), ("all", [LAMP, BELL])])
def test_one_of_several_retrievals_can_be_chosen(which, expected):
    found = row(ROOT, retrieval("b", LAMP, at=1), retrieval("c", BELL, at=2), options=TraceOptions(retrievals=which))
    assert list(found.passages or ()) == expected


def test_without_a_root_the_models_and_retrievers_tell():
    model = Span("t", "m", "gone", Role.MODEL, input=[{"role": "user", "content": "Who?"}], output="Ada.")
    assert row(model, retrieval("b", LAMP, parent="gone"))[:4] == ("t", "Who?", (LAMP,), "Ada.")


def test_parents_in_a_circle_end():
    tree = tree_of([ROOT._replace(parent_id="b"), retrieval("b", LAMP, parent="root")])
    assert tree.root is None
    assert [*tree.downwards().items()] == [(1, None), (0, 1)]


def test_every_span_stands_behind_the_one_that_it_is_below():
    names = "root", "a", "b", "c", "d"
    parents = None, "root", "a", "root", "gone"
    pairs = zip(names, parents, strict=True)
    spans = [Span("t", name, parent, Role.CHAIN, started_at=at) for at, (name, parent) in enumerate(pairs)]
    assert [*tree_of(spans).downwards().items()] == [(0, None), (1, 0), (2, 1), (3, 0), (4, None)]


def test_very_deep_trace_is_put_together():
    chain = chain_of(MOST_SPANS)
    chain[0] = chain[0]._replace(input="Who?", output="Ada.")
    inner = [retrieval(f"r{one}", LAMP, KEEPER, at=one, parent=str(one)) for one in range(0, MOST_SPANS, 500)]
    found = row(*chain, *inner)
    assert (found.question, found.answer, texts(found)) == ("Who?", "Ada.", [LAMP.text, KEEPER.text])


def test_work_on_a_trace_grows_with_its_spans_only(monkeypatch):
    class Counted(tuple[int | None, ...]):
        looked_up = 0

        def __getitem__(self, place):
            Counted.looked_up += 1
            return super().__getitem__(place)

    chain = chain_of(500, input="Who?", output="Ada.")
    inner = [retrieval(f"r{one}", Document(f"Passage {one}."), at=one, parent="499") for one in range(500)]
    inner += [one._replace(span_id=f"k{one.span_id}", role=Role.RERANKER) for one in inner]
    tree = tree_of([*chain, *inner])
    monkeypatch.setattr(assembly, "tree_of", lambda _: tree._replace(parents=Counted(tree.parents)))
    assert len(row(*chain, *inner).passages or ()) == 500
    assert Counted.looked_up < 10 * 1500


def test_first_of_two_roots_that_speaks_is_the_root():
    other = Span("t", "eval", None, Role.OTHER, started_at=-5)
    assert tree_of([other, ROOT, ROOT._replace(span_id="later", started_at=5)]).root == ROOT


def test_span_that_was_exported_twice_counts_once_and_with_its_output():
    started = ROOT._replace(output=None, ended_at=None)
    assert len(tree_of([ROOT, started]).spans) == 1
    for order in ([ROOT, started], [started, ROOT]):
        assert row(*order, retrieval("b", LAMP)).answer == "Ada."


FOUND = retrieval("b", LAMP)
TOOL = Span("t", "w", "root", Role.TOOL, "weather", started_at=1, output="Rain.")


@pytest.mark.parametrize(
    ("spans", "reason", "column", "words"),
    [
        ([ROOT._replace(output=None), FOUND],
         Reason.EMPTY_ANSWER, "answer", "has null there; name it with --answer-path"),
        ([ROOT._replace(output={"a": 1, "b": 2}), FOUND],
         Reason.EMPTY_ANSWER, "answer", "an object with the keys a, b"),
        ([ROOT._replace(output=None, failed=True), FOUND], Reason.TRACE_FAILED, "answer", "none because it failed"),
        ([Span("t", "root", None, Role.RETRIEVER, input="lamp", output=[{"text": "Ada lit the lamp."}])],
         Reason.EMPTY_ANSWER, "answer", "a list of 1 item"),
        ([ROOT._replace(input={"top_k": 3, "language": "en"}), FOUND],
         Reason.MISSING_VALUE, "question", "an object with the keys top_k, language"),
        ([Span("t", one, "gone", Role.OTHER) for one in "ab"],
         Reason.INCOMPLETE_TRACE, None, "none of its 2 spans is one"),
        ([ROOT, retrieval("b", Document(None, None, "lamp"), KEEPER)],
         Reason.PASSAGE_TEXT_MISSING, "passages", "1 have an id and none"),
        ([ROOT, TOOL], Reason.NO_PASSAGES, "passages", "take what tools returned with --tool-outputs"),
        ([ROOT, FOUND._replace(documents=None, output={"a": [{"text": "Lit."}], "b": [{"text": "No."}]})],
         Reason.NO_PASSAGES, "passages", "an object with the keys a, b"),
        ([ROOT, FOUND._replace(documents=None, output={"turns": [{"role": "user", "content": "Who?"}]})],
         Reason.NO_PASSAGES, "passages", "an object with the keys turns"),
        ([ROOT, FOUND._replace(kind="FIND", documents=None, output={"took": 1, "pages": [{"body_text": "Ada."}]})],
         Reason.NO_PASSAGES, "passages", "gave an object with the keys took, pages, which has no known documents"),
        ([ROOT, FOUND._replace(kind="FIND", documents=None, output=[{"body_text": "Ada."}])],
         Reason.NO_PASSAGES, "passages", "1 item with the keys body_text"),
        ([ROOT, FOUND._replace(kind="FIND", documents=None, output=[{"body_text": "Ada."}])],
         Reason.NO_PASSAGES, "passages", "--passages-path, such as \"observations[?type=='FIND'].output.KEY"),
        ([ROOT], Reason.NO_PASSAGES, "passages", "name them with --passages-path"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named_with_the_way_out(spans, reason, column, words):
    found = row(*spans).fault
    assert (found.reason, found.column) == (reason, column)
    assert words in str(found)
    assert ("--tool-outputs" in str(found)) == (TOOL in spans)
    assert not {"Ada.", "Who?", "en"} & {*str(found).split()}


def test_outputs_of_tools_are_passages_by_option():
    empty, failed = TOOL._replace(span_id="x", output=None), TOOL._replace(span_id="y", failed=True)
    found = row(ROOT, TOOL._replace(output={"output": "Rain."}), empty, failed, options=TraceOptions(tool_outputs=True))
    assert found.passages == (Document("Rain.", "weather", "w"),)


@pytest.mark.parametrize(
    ("output", "texts"),
    [
        ({"results": [{"content": "Rain."}, {"content": "Hail."}], "message": "2 found"}, ["Rain.", "Hail."]),
        ([{"type": "text", "text": "Rain."}, {"type": "text", "text": "Hail."}], ["Rain.", "Hail."]),
        ({"celsius": 20}, ['{"celsius": 20}']), ([{"id": 7, "sky": "grey"}], ['[{"id": 7, "sky": "grey"}]']),
    ],
)  # fmt: skip
def test_nothing_that_a_tool_returned_is_lost(output, texts):
    found = row(ROOT, TOOL._replace(output=output), options=TraceOptions(tool_outputs=True))
    assert [one.text for one in found.passages or ()] == texts


def test_messages_of_tools_serve_where_no_tool_has_a_span():
    talk = [
        {"role": "user", "content": "Old?"},
        {"role": "tool", "content": "Old result."},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "Rain.", "name": "weather"},
    ]
    found = row(ROOT._replace(input=talk), options=TraceOptions(tool_outputs=True))
    assert (found.question, found.passages) == ("Weather?", (Document("Rain.", "weather"),))
    talk[-1]["content"] = '{"results": [{"id": "a", "content": "Rain."}, {"title": "Sky", "content": "Hail."}]}'
    found = row(ROOT._replace(input=talk), options=TraceOptions(tool_outputs=True))
    assert found.passages == (Document("Rain.", "weather", "a"), Document("Hail.", "Sky"))
    talk[-1]["content"] = '{"celsius": 20}'
    found = row(ROOT._replace(input=talk), options=TraceOptions(tool_outputs=True))
    assert found.passages == (Document('{"celsius": 20}', "weather"),)


def test_question_of_a_prompt_counts_where_the_root_was_given_nothing():
    first = Span("t", "1", "root", Role.MODEL, started_at=1, input="Classify: who?", output="keeper")
    prompt = "Context:\nAda lit the lamp.\n\nQuestion: Who lit it?"
    last = Span("t", "2", "root", Role.MODEL, started_at=2, input=prompt, output="Ada.")
    for of_root, question in ((None, "Who lit it?"), ("Who?", "Who?")):
        found = row(ROOT._replace(input=of_root), first, last)
        assert (found.question, texts(found), found.answer) == (question, ["Ada lit the lamp."], "Ada.")


def test_earlier_turns_stand_before_the_question_by_option():
    said = ("system", "Be short."), ("user", "Who lit it?"), ("assistant", "Ada."), ("user", "When?")
    talk = [{"role": role, "content": text} for role, text in said]
    spans = [ROOT._replace(input={"messages": talk}), retrieval("b", LAMP)]
    assert row(*spans).question == "When?"
    assert row(*spans, options=TraceOptions(history=1)).question == "Assistant: Ada.\nUser: When?"
    whole = "User: Who lit it?\nAssistant: Ada.\nUser: When?"
    assert row(*spans, options=TraceOptions(history=99)).question == whole


def test_generator_is_the_last_model_that_spoke():
    called = (5, "writer"), (1, "planner")
    models = [Span("t", name, "root", Role.MODEL, started_at=at, model=name) for at, name in called]
    assert row(ROOT, *models, retrieval("b", LAMP)).generator == "writer"


HTTP = Span("t", "root", None, Role.CHAIN, "POST /chat", started_at=0, ended_at=99)
RAG = Span("t", "rag", "root", Role.CHAIN, started_at=1, ended_at=9, input="Who lit it?", output="Ada [1].")


def model(name, at, prompt, said, parent="root"):
    asked = [{"role": "system", "content": prompt}, {"role": "user", "content": "Who?"}]
    return Span("t", name, parent, Role.MODEL, started_at=at, ended_at=at, input=asked, output=said, model=name)


CALLS = [
    model("rewriter", 2, "Rewrite it.", "who lit lamp"), retrieval("r", LAMP, BELL, at=3),
    model("writer", 4, f"Context:\n{LAMP.text.replace(' ', chr(10), 1)}", "Ada."),
    model("title", 10, "A title.", "Lamps"), model("judge", 11, f"Judge: Ada.\n{LAMP.text}", "1"),
]  # fmt: skip
OTHER_PASSAGE = model("refiner", 5, f"Refine: Ada.\n{BELL.text}", "Ada, by the bell.")
ANSWERED = {
    "the model that was given passages": ([HTTP, *CALLS], ("Who?", "Ada.", "writer")),
    "the chain above it": ([HTTP, RAG, *(one._replace(parent_id="rag") if one.span_id == "writer" else one
        for one in CALLS)], ("Who lit it?", "Ada [1].", "writer")),
    "a model that was given an answer and another passage": ([HTTP, *CALLS[:4], OTHER_PASSAGE],
        ("Who?", "Ada, by the bell.", "refiner")),
    "the model that said what the root did": ([ROOT, *CALLS, OTHER_PASSAGE], ("Who?", "Ada.", "writer")),
    "a prompt that holds the question": ([HTTP, CALLS[1], CALLS[3],
        model("writer", 4, "", "Ada.")._replace(input=f"Context:\n{LAMP.text}\n\nQuestion: Who lit it?")],
        ("Who lit it?", "Ada.", "writer")),
    "the latest where none was given passages": ([HTTP, CALLS[1], CALLS[3], CALLS[0]], ("Who?", "Lamps", "title")),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERED)
def test_model_that_answers_from_the_passages_counts(name):
    spans, expected = ANSWERED[name]
    found = row(*spans)
    assert (found.question, found.answer, found.generator, found.fault) == (*expected, None)


def turn(one, at, asked, said, parent="root"):
    """A chain that was asked something, and its answer."""
    return Span("t", one, parent, Role.CHAIN, started_at=at, ended_at=at + 1, input=asked, output=said, session_id="s")


FIRST = [turn("1", 1, "Who?", "Ada."), retrieval("a", LAMP, at=1, parent="1")]
LAST = [turn("2", 5, "And?", "Bells."), retrieval("b", BELL, at=5, parent="2", session_id=None)]
SESSION = HTTP._replace(session_id="session")
BARE = [one._replace(parent_id=None) if one.parent_id == "root" else one for one in (*FIRST, *LAST)]
LATER = turn("3", 8, "Sum it up.", "Ada, by the bell.")
ONE, ALL = ("And?", "Bells.", [BELL.text], "2"), [LAMP.text, BELL.text]
SESSIONS = {
    "turns below a root that says nothing": ([SESSION, *FIRST, *LAST], ONE),
    "turns beside the record of the trace": ([SESSION._replace(is_trace=True), *BARE], ONE),
    "turns with models": ([SESSION, *FIRST, *LAST, model("m", 6, BELL.text, "Bells.", "2")], ONE),
    "turns that lie deeper": ([SESSION, HTTP._replace(span_id="all", parent_id="root"),
        *(one._replace(parent_id="all") if one.parent_id == "root" else one for one in (*FIRST, *LAST))],
        ONE),
    "steps before their own answer": ([SESSION, *FIRST, *LAST, LATER], ("Who?", "Ada, by the bell.", ALL, "root")),
    "steps of a root that speaks": ([ROOT, *FIRST, *LAST], ("Who?", "Ada.", ALL, "root")),
}  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_last_of_several_turns_is_read(name):
    spans, expected = SESSIONS[name]
    found = row(*spans)
    assert (found.question, found.answer, texts(found), found.span_id or "root") == expected
    assert (assembly.LAST_TURN in found.notes) is (expected is ONE)
    assert found.session_id == ("session" if spans[0].session_id else "s")


def span(trace, number):
    """A span that can be told from all others."""
    return Span(f"trace-{trace}", str(number), None, Role.CHAIN, input={"text": "é\udce9" * number})


@settings(max_examples=25, deadline=None)
@given(order=st.lists(st.integers(0, 6), max_size=40))
def test_spans_are_grouped_as_a_dictionary_would(order):
    naive = {}
    with trace_spool() as spool:
        for number, trace in enumerate(order):
            one = span(trace, number)
            naive.setdefault(one.trace_id, []).append(one)
            spool.add(0, f"line {number}", one)
        found = list(spool.traces())
    assert [(one.trace_id, one.spans) for one in found] == list(naive.items())
    assert [one.location for one in found] == [f"line {spans[0].span_id}" for spans in naive.values()]


def test_faulty_records_stand_where_they_stood_and_never_merge():
    with trace_spool() as spool:
        spool.add(0, "line 1", span(0, 0))
        spool.add(0, "line 2", RowFault(Reason.INVALID_JSON, "broken", column="a"))
        spool.add(1, "line 1", RowFault(Reason.INVALID_JSON, "broken", column="a"))
        spool.add(1, "line 2", span(0, 1))
        found = list(spool.traces())
    assert [(one.file, one.location, one.trace_id) for one in found] == [
        (0, "line 1", "trace-0"), (0, "line 2", None), (1, "line 1", None)
    ]  # fmt: skip
    assert [getattr(one.spans, "column", None) for one in found] == [None, "a", "a"]


@pytest.mark.parametrize(("name", "limit"), [("MOST_SPANS", 3), ("MOST_BYTES", 1000)])
def test_very_large_trace_is_not_read_into_memory(name, limit, monkeypatch):
    monkeypatch.setattr(assembly, name, limit)
    with trace_spool() as spool:
        for number in range(50):
            spool.add(0, "line", span(0, number))
        spool.add(0, "line", span(1, 0))
        found = list(spool.traces())
    large, small = (one.spans for one in found)
    assert large.reason is Reason.TRACE_TOO_LARGE
    assert [one.trace_id for one in (*found[:1], *small)] == ["trace-0", "trace-1"]


OPTIONS = LogOptions(format="openinference")


def test_rows_and_faults_come_in_the_order_of_the_export_and_an_import_agrees(tmp_path):
    log = QALog(path := mixed_spans(tmp_path), OPTIONS)
    assert log.check().row_count == 4
    found = list(log.outcomes())
    assert [one.record_id for one in found] == ["trace-1", "trace-bare", None, "trace-2"]
    faults = [one for one in found if isinstance(one, FaultyRow)]
    assert [one.fault.reason for one in faults] == [Reason.NO_PASSAGES, Reason.INVALID_JSON]
    assert faults[0].answer == "Hello."
    assert str(faults[1].fault).startswith("line 3 should be JSON")
    assert [one.source.source_row for one in log.outcomes([1, 3])] == [1, 3]
    _, rows, letters = imported("openinference", path, output=tmp_path / "log.parquet")
    assert [row["record_id"] for row in rows] == ["trace-1", "trace-2"]
    told = [(one["source_row"], one["message"]) for one in letters]
    assert told == [(one.source.source_row, str(one.fault)) for one in faults]


@pytest.mark.parametrize("kind", [name for name in EXPORTS if name != "jsonl"])
def test_picked_rows_of_a_long_export_are_those_of_a_whole_reading(kind, tmp_path):
    count = 2 * BATCH_ROWS + 7 if kind == "ragas" else 5
    rows = [{**ragas()[0], "response": f"Answer {number}."} for number in range(count)]
    path = write_lines(tmp_path / "a.jsonl", rows if kind == "ragas" else EXPORTS[kind]())
    log = QALog(path, LogOptions(format=kind))
    whole = [str(one) for one in log.outcomes()]
    wanted = [0, 3, 255, 256, count - 1] if kind == "ragas" else [0]
    assert [str(one) for one in log.outcomes(wanted)] == [whole[row] for row in wanted]


def test_export_is_put_together_once_and_anew_when_it_changes(tmp_path, monkeypatch):
    made = []
    real = trace_log.TraceReader._stored
    monkeypatch.setattr(trace_log.TraceReader, "_stored", lambda *given: made.append(1) or real(*given))
    path = Path(write_lines(tmp_path / "a.jsonl", ragas()))
    log = QALog(str(path), LogOptions(format="ragas"))
    assert [len(list(log.outcomes())) for _ in range(3)] == [1, 1, 1]
    assert len(made) == 1
    write_lines(path, ragas() * 2)
    assert len(list(log.outcomes())) == 2
    assert len(made) == 2


def test_logs_that_are_read_at_the_same_time_do_not_disturb_each_other(tmp_path):
    paths = [write_lines(tmp_path / f"{one}.jsonl", ragas() * (300 + one)) for one in range(4)]
    logs = [QALog(path, LogOptions(format="ragas")) for path in paths]
    pairs = zip(*(log.outcomes() for log in logs), strict=False)
    assert sum(1 for _ in pairs) == 300


def test_text_that_is_no_utf8_is_a_fault_of_its_row(tmp_path):
    path = tmp_path / "a.jsonl"
    good = json.dumps(ragas()[0]).encode()
    path.write_bytes(good.replace(b"lamp", b"l\xe9mp") + b"\n" + good.replace(b"lamp", b"\\ud83d") + b"\n" + good)
    found = QALog(str(path), LogOptions(format="ragas")).outcomes()
    reasons = [getattr(getattr(one, "fault", None), "reason", None) for one in found]
    assert reasons == [Reason.INVALID_UTF8, Reason.INVALID_UTF8, None]


def test_conversation_can_be_carried_into_the_evidence(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", EXPORTS["langfuse"]())
    (found,) = QALog(path, LogOptions(format="langfuse", extra_columns=("session_id",))).outcomes()
    places = [{"span_id": "b", "position": place, "passage_index": place} for place in (0, 1)]
    store_ids = {"trace_id": "trace-1", "span_id": "a", "retrievals": places}
    assert dict(found.extra_columns) == {"session_id": "talk-7", **store_ids}


@pytest.mark.parametrize("kind", ["langfuse", "ragas", "jsonl"])
def test_folder_means_the_files_of_an_export_and_names_the_others(kind, tmp_path):
    names = ("a.jsonl", "b.json", "c.csv.gz", "d.parquet", "e.ndjson", "f.tsv", "g.log.gz", "h.arrow")
    for name in (*names, "_i.parquet", "dataset_info.json", "state.json", "part-0", "z.jsonl.zst"):
        (tmp_path / name).touch()
    paths, notes = match_files([str(tmp_path)], LOG_KINDS[kind].suffix, ArrowStorage(), option="--data")
    assert [Path(one).name for one in paths] == [*names]
    listed = f"'{tmp_path}/part-0', '{tmp_path}/z.jsonl.zst'; name them, or a pattern such as"
    assert notes == [
        f"files below --data passed over for how their names end, 2 in all: {listed} '{tmp_path}/*', to read them"
    ]
    assert match_files([f"{tmp_path}/[a-h]*.*"], LOG_KINDS[kind].suffix, ArrowStorage(), option="--data")[1] == []
