"""Files as ragas 0.4.3 writes them: ``to_jsonl``, ``to_csv``, ``to_pandas`` and ``to_hf_dataset`` give one log."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.logs.traces.exports import ANSWER, PASSAGES, QUESTION, imported, write_lines

from attribeam.logs.traces.paths import TraceOptions
from attribeam.schemas import Reason

Sample = dict[str, object]

TURNS: list[Sample] = [
    {
        "user_input": QUESTION,
        "retrieved_contexts": ['He said "no", in 1874.', "Ada's lamp,\nat the Point 🚢"],
        "retrieved_context_ids": ["brigg-1", "brigg-2"],
        "response": f'{ANSWER}\nSo it is "said".',
        "rubrics": {"score1_description": "wrong"},
    },
    {"user_input": "And the tower?", "retrieved_contexts": [PASSAGES[1][1]], "response": "The keeper's."},
    {"user_input": "Nothing found?", "response": "No."},
    {"user_input": "No answer?", "retrieved_contexts": [PASSAGES[0][1]]},
]
TALKS: list[Sample] = [
    {
        "user_input": [
            {"content": "Good day", "type": "human"},
            {"content": "Ask me.", "type": "ai"},
            {"content": QUESTION, "type": "human"},
            {"content": "Wait.", "type": "ai", "tool_calls": [{"name": "search", "args": {"query": "lamp"}}]},
            {"content": PASSAGES[0][1], "type": "tool"},
            {"content": ANSWER, "type": "ai"},
        ],
        "reference": "Ada",
    },
    {"user_input": [{"content": "Hello?", "type": "human"}]},
]


def columns(samples: Sequence[Sample]) -> list[str]:
    return list(dict.fromkeys(name for one in samples for name in one))


def write_jsonl(path: Path, samples: Sequence[Sample]) -> str:
    """Members that are None are left out."""
    return write_lines(path.with_suffix(".jsonl"), samples)


def write_csv(path: Path, samples: Sequence[Sample]) -> str:
    """Lists and dictionaries as Python prints them."""
    with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns(samples))
        writer.writeheader()
        writer.writerows(samples)
    return str(path.with_suffix(".csv"))


def write_frame(path: Path, samples: Sequence[Sample]) -> str:
    """A frame's records in JSON, with null for what is missing."""
    rows = [{name: one.get(name) for name in columns(samples)} for one in samples]
    path.with_suffix(".json").write_text(json.dumps(rows))
    return str(path.with_suffix(".json"))


def write_parquet(path: Path, samples: Sequence[Sample]) -> str:
    rows = [{name: one.get(name) for name in columns(samples)} for one in samples]
    pq.write_table(pa.Table.from_pylist(rows), path.with_suffix(".parquet"))
    return str(path.with_suffix(".parquet"))


@pytest.mark.parametrize("write", [write_jsonl, write_csv, write_frame, write_parquet])
@pytest.mark.parametrize(
    ("samples", "options", "questions", "reasons"),
    [
        (
            TURNS,
            TraceOptions(),
            [QUESTION, "And the tower?"],
            {Reason.NO_PASSAGES: 1, Reason.EMPTY_ANSWER: 1},
        ),
        (
            TALKS,
            TraceOptions(history=2, tool_outputs=True),
            [f"User: Good day\nAssistant: Ask me.\nUser: {QUESTION}"],
            {Reason.EMPTY_ANSWER: 1},
        ),
    ],
    ids=["turns", "talks"],
)
def test_every_way_to_write_a_data_set_gives_the_same_log(
    write: Callable[[Path, Sequence[Sample]], str],
    samples: list[Sample],
    options: TraceOptions,
    questions: list[str],
    reasons: dict[Reason, int],
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "data", samples)
    summary, rows, _ = imported("ragas", path, output=tmp_path / "log.parquet", options=options)
    assert [row["question"] for row in rows] == questions
    assert summary.reasons == reasons
    _, plain, _ = imported(
        "ragas", write_jsonl(tmp_path / "plain", samples), output=tmp_path / "plain.parquet", options=options
    )
    assert rows == plain


def test_texts_are_those_of_the_data_set(tmp_path: Path) -> None:
    _, rows, _ = imported("ragas", write_csv(tmp_path / "data", TURNS[:1]), output=tmp_path / "log.parquet")
    (row,) = rows
    contexts = TURNS[0]["retrieved_contexts"]
    assert [one["text"] for one in row["passages"]] == contexts  # type: ignore[attr-defined]
    assert [one["passage_id"] for one in row["passages"]] == ["brigg-1", "brigg-2"]  # type: ignore[attr-defined]
    assert row["answer"] == TURNS[0]["response"]


def test_conversation_that_numpy_printed_is_refused(tmp_path: Path) -> None:
    """``to_hf_dataset().to_csv()`` prints lists of messages as arrays of objects, without commas."""
    talk = "[{'content': 'Hello', 'type': 'human'}\n {'content': 'Hi', 'type': 'ai'}]"
    samples: list[Sample] = [
        {"user_input": talk, "retrieved_contexts": ["A lamp."], "response": "Hi."},
        {"user_input": "[sic] Who?", "retrieved_contexts": ["A lamp."], "response": "Hi."},
    ]
    path = write_csv(tmp_path / "data", samples)
    _, (row,), (letter,) = imported("ragas", path, output=tmp_path / "log.parquet")
    assert row["question"] == "[sic] Who?"
    assert letter["reason"] == Reason.INVALID_VALUE
    assert "'user_input' should be a text or a conversation" in str(letter["message"])
