"""Paths, presets and guesses on records of free JSON."""

import shlex
import sys
from pathlib import Path

import pytest
from tests.logs.traces.exports import (
    ANSWER,
    PASSAGES,
    QUESTION,
    ROW,
    imported,
    imported_row,
    langfuse_observation,
    lines_of,
    opened,
    text_of,
    write_lines,
)

from attribeam.logs.traces.formats import LOG_KINDS
from attribeam.logs.traces.paths import PRESETS, TraceOptions, guess_lines, guessed, path_set
from attribeam.logs.traces.trace_log import ExportRows
from attribeam.schemas.errors import RunError, UsageError

GIVEN = {"payload": {"ask it": QUESTION, "note": "x"}}
GAVE = {"payload": {"said": ANSWER, "trail": ["y"]}}
FOUND = {"found": [{"id": one, "text": text} for one, text in PASSAGES]}
PATHS = TraceOptions(
    question_path='input.payload."ask it"',
    passages_path="observations[?name=='search'].output.found[]",
    answer_path="output.payload.said",
)


@pytest.fixture(autouse=True)
def _needs_jmespath():
    pytest.importorskip("jmespath", reason="the extra 'traces' is not installed")


def odd_trace(trace="trace-1"):
    """Observations whose shapes no framework has."""
    search = langfuse_observation("b", "a", "SPAN", 1, "lamp", FOUND, trace)
    return [langfuse_observation("a", "", "SPAN", 0, GIVEN, GAVE, trace), {**search, "name": "search"}]


def test_paths_find_what_no_shape_tells(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", odd_trace())
    with pytest.raises(RunError, match="have none: 1 empty_answer"):
        imported("langfuse", path, output=tmp_path / "log.parquet")
    _, (row,), _ = imported("langfuse", path, output=tmp_path / "log.parquet", options=PATHS)
    assert text_of(row) == ROW


def test_paths_without_their_library_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jmespath", None)
    with pytest.raises(UsageError, match=r"pip install 'attribeam\[traces\]'"):
        path_set(TraceOptions(answer_path="a"))


def test_path_that_finds_nothing_is_a_dead_letter_that_names_it(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", odd_trace())
    for options, flag in (
        (TraceOptions(PATHS.question_path, PATHS.passages_path, "output.none"), "--answer-path"),
        (TraceOptions("length(input.none)", PATHS.passages_path, PATHS.answer_path), "--question-path"),
        (TraceOptions(PATHS.question_path, "output.none", PATHS.answer_path), "--passages-path"),
    ):
        with pytest.raises(RunError, match=f"{flag} finds none"):
            imported("langfuse", path, output=tmp_path / "log.parquet", options=options)


def test_what_is_no_path_is_refused_before_anything_is_read():
    with pytest.raises(UsageError, match=r"--answer-path should be a JMESPath such as .* was 'a\.\[': "):
        path_set(TraceOptions(answer_path="a.["))


PRESET_TRACES = {
    "root": ({"query": QUESTION}, {"documents": FOUND["found"], "answer": ANSWER}, "SPAN", None),
    "langchain": ({"input": QUESTION}, {"answer": ANSWER}, "RETRIEVER", FOUND["found"]),
    "langgraph": ({"messages": [{"type": "human", "content": QUESTION}]}, {"messages": [{"type": "ai",
        "content": ANSWER}]}, "TOOL", FOUND["found"]),
    "llamaindex": ({"query_str": QUESTION}, {"response": ANSWER}, "RETRIEVER", {"nodes": [{"node": {"id_": one,
        "text": text}, "score": 1} for one, text in PASSAGES]}),
}  # fmt: skip


@pytest.mark.parametrize("name", [*PRESET_TRACES, "metadata"])
def test_preset_reads_what_it_is_for(name, tmp_path):
    if name == "metadata":
        observation = langfuse_observation("a", "", "GENERATION", 0, QUESTION, ANSWER)
        rows = [{**observation, "metadata": {"contexts": FOUND["found"]}}]
    else:
        given, gave, kind, found = PRESET_TRACES[name]
        rows = [
            langfuse_observation("a", "", "SPAN", 0, given, gave),
            langfuse_observation("b", "a", kind, 1, "", found),
        ]
    assert text_of(imported_row("langfuse", rows, tmp_path, options=TraceOptions(*PRESETS[name]))) == ROW


def test_guess_names_paths_that_an_import_can_use_and_no_text(tmp_path):
    rows = [row for number in range(2) for row in odd_trace(f"trace-{number}")]
    path = Path(write_lines(tmp_path / "a.jsonl", rows))
    guess = guessed(ExportRows(LOG_KINDS["langfuse"], TraceOptions()), [lambda: path.open("rb")])
    assert (guess.rows, guess.whole) == (2, 0)
    *said, command = guess_lines(guess, "attribeam import langfuse")
    assert not [
        text for text in (QUESTION, ANSWER, *(text for _, text in PASSAGES)) if text in "\n".join([*said, command])
    ]
    words = shlex.split(command.removeprefix("try: "))
    for name in ("question", "passages", "answer"):
        assert words[words.index(f"--{name}-path") + 1] == getattr(PATHS, f"{name}_path"), name


SAID = [
    ("How long is the pump under warranty?", "For two years.", "The pump has a warranty of two years."),
    ("Who lit the lamp?", "Ada Thorne did.", "Ada Thorne lit the lamp."),
    ("When was the tower built?", "In 1874.", "It was built in 1874."),
    ("Where is the key?", "Below the stairs.", "The key lies below the stairs."),
]


def guess_of(*records):
    """What a guess on rows says."""
    found = guessed(ExportRows(LOG_KINDS["jsonl"], TraceOptions()), [opened(lines_of(records))])
    return [*guess_lines(found, "attribeam import jsonl")]


def test_guess_on_no_rows_says_so():
    (line,) = guess_of()
    assert line == "looked at 0 rows: the files have none of this format; check --data, and the format's name"


def test_guess_on_rows_that_are_found_says_so():
    *_, last = guess_of(*({"question": q, "contexts": [p], "answer": a} for q, a, p in SAID))
    assert last == "every row is found already"


def test_guess_names_no_path_that_leads_to_fewer_rows_than_are_found():
    rows = [{"question" if n % 2 else "query": q, "contexts": [p], "answer": a} for n, (q, a, p) in enumerate(SAID)]
    *_, last = guess_of(*rows, {"query": "How high is the tower?", "contexts": [], "answer": "40 metres."})
    assert last == "import says what the other rows lack"


def test_guess_passes_over_ids_labels_and_what_is_taken():
    rows = [
        {"rid": f"r-{number}", "ask": q, "hits": [p], "says": a, "lang": "in English", "when": "2026-11-20T10:00:00Z"}
        for number, (q, a, p) in enumerate(SAID)
    ]
    *_, last = guess_of(*rows)
    assert last == "try: attribeam import jsonl --question-path 'ask' --answer-path 'says' --passages-path 'hits'"


@pytest.mark.parametrize(
    ("names", "refused", "missing"),
    [
        ({"question": 0, "reply_text": 1, "chosen": [1]}, "chosen  in 4 of 4, refused: the same as the answer",
         "passages"),
        ({"question": 0, "answer": 1, "turns": [0, 1]}, "turns  in 4 of 4, refused: the same as question and answer",
         "passages"),
        ({"question": 0, "contexts": [2], "title": 0}, "title     in 4 of 4, refused: the same as the question",
         "answer"),
        ({"question": 0, "contexts": [2], "ticket": "T-"}, "ticket    in 4 of 4, refused: ids, names or times only",
         "answer"),
        ({"question": 0, "contexts": [2], "state": "All done."},
         "state     in 4 of 4, refused: the same text in every row", "answer"),
        ({"question": 0, "contexts": [], "answer": 1}, "contexts  in 0 of 4, refused: empty in 4 rows", "passages"),
        ({"question": 0, "context": 1, "answer": 1}, "what is found already is refused: the same as the answer",
         "answer or the passages"),
    ],
)  # fmt: skip
def test_guess_refuses_what_is_circular_constant_or_empty(names, refused, missing):
    def value(number, what):
        if isinstance(what, list):
            return [value(number, one) for one in what]
        if isinstance(what, int):
            return SAID[number][what]
        return f"{what}{number}" if str(what).endswith("-") else what

    said = guess_of(*({name: value(number, what) for name, what in names.items()} for number in range(4)))
    assert f"  {refused}" in said
    assert said[-1] == f"no command is proposed, since nothing that was seen can be the {missing}"
