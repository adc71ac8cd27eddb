"""Paths and presets on records of free JSON."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.logs.traces.exports import (
    ANSWER,
    PASSAGES,
    QUESTION,
    ROW,
    imported,
    langfuse_observation,
    text_of,
    write_lines,
)

from attribeam.logs.traces.paths import PRESETS, TraceOptions, path_set
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
def _needs_jmespath() -> None:
    pytest.importorskip("jmespath", reason="the extra 'traces' is not installed")


def odd_trace(trace: str = "trace-1") -> list[Mapping[str, object]]:
    """Observations whose shapes no framework has."""
    search = langfuse_observation("b", "a", "SPAN", 1, "lamp", FOUND, trace)
    return [langfuse_observation("a", "", "SPAN", 0, GIVEN, GAVE, trace), {**search, "name": "search"}]


def test_paths_find_what_no_shape_tells(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", odd_trace())
    with pytest.raises(RunError, match="have none: 1 empty_answer"):
        imported("langfuse", path, output=tmp_path / "log.parquet")
    _, (row,), _ = imported("langfuse", path, output=tmp_path / "log.parquet", options=PATHS)
    assert text_of(row) == ROW


def test_path_that_finds_nothing_is_a_dead_letter_that_names_it(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", odd_trace())
    for options, flag in (
        (TraceOptions(PATHS.question_path, PATHS.passages_path, "output.none"), "--answer-path"),
        (TraceOptions("length(input.none)", PATHS.passages_path, PATHS.answer_path), "--question-path"),
        (TraceOptions(PATHS.question_path, "output.none", PATHS.answer_path), "--passages-path"),
    ):
        with pytest.raises(RunError, match=f"{flag} finds none"):
            imported("langfuse", path, output=tmp_path / "log.parquet", options=options)


def test_what_is_no_path_is_refused_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match=r"--answer-path should be a JMESPath such as .* was 'a\.\[': "):
        path_set(TraceOptions(answer_path="a.["))


def test_paths_without_their_library_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name.startswith("jmespath"):
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'attribeam\[traces\]'"):
        path_set(TraceOptions(answer_path="a"))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_made_of_paths(name: str) -> None:
    preset = PRESETS[name]
    paths = path_set(TraceOptions(preset.question, preset.passages, preset.answer))
    assert None not in (paths.question, paths.passages, paths.answer)


PRESET_TRACES: Mapping[str, tuple[object, object, str, object]] = {
    "root": ({"query": QUESTION}, {"documents": FOUND["found"], "answer": ANSWER}, "SPAN", None),
    "langchain": ({"input": QUESTION}, {"answer": ANSWER}, "RETRIEVER", FOUND["found"]),
    "langgraph": (
        {"messages": [{"type": "human", "content": QUESTION}]},
        {"messages": [{"type": "ai", "content": ANSWER}]}, "TOOL", FOUND["found"],
    ),
    "llamaindex": (
        {"query_str": QUESTION}, {"response": ANSWER}, "RETRIEVER",
        {"nodes": [{"node": {"id_": one, "text": text}, "score": 1} for one, text in PASSAGES]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*PRESET_TRACES, "metadata"])
def test_preset_reads_what_it_is_for(name: str, tmp_path: Path) -> None:
    if name == "metadata":
        observation = langfuse_observation("a", "", "GENERATION", 0, QUESTION, ANSWER)
        rows = [{**observation, "metadata": {"contexts": FOUND["found"]}}]
    else:
        given, gave, kind, found = PRESET_TRACES[name]
        rows = [
            langfuse_observation("a", "", "SPAN", 0, given, gave),
            langfuse_observation("b", "a", kind, 1, "", found),
        ]
    preset = PRESETS[name]
    options = TraceOptions(preset.question, preset.passages, preset.answer)
    path = write_lines(tmp_path / "a.jsonl", rows)
    _, (row,), _ = imported("langfuse", path, output=tmp_path / "log.parquet", options=options)
    assert text_of(row) == ROW
