"""docs/importing_logs.md: every command runs, and every format and preset is there."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.logs.traces.exports import (
    ANSWER,
    PASSAGES,
    QUESTION,
    ROW,
    langfuse,
    langsmith,
    mlflow,
    openinference,
    otlp,
    ragas,
    rows_of,
    write_lines,
)
from tests.logs.traces.responses import RECORDS

from attribeam.pipeline.command_line import main

PAGE = (Path(__file__).parents[2] / "docs" / "importing_logs.md").read_text(encoding="utf-8")
COMMANDS = [
    " ".join(shlex.split(line))
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
]
ARGUMENTS = [
    shlex.split(line)
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
]


@pytest.fixture(name="exports")
def make_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the commands of the page name."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "ragas.jsonl", ragas())
    (sample,) = ragas()
    (tmp_path / "ragas.csv").write_text(_csv(sample))
    (tmp_path / "ragas_dataset").mkdir()
    table = pa.Table.from_pylist(ragas())
    with pa.ipc.new_stream(tmp_path / "ragas_dataset" / "data-00000-of-00001.arrow", table.schema) as writer:
        writer.write_table(table)
    for name in ("dataset_info.json", "state.json"):
        (tmp_path / "ragas_dataset" / name).write_text("{}")
    spans = [{**span, "attributes": json.dumps(span["attributes"]), "events": None} for span in openinference()]
    pq.write_table(pa.Table.from_pylist(spans), tmp_path / "phoenix.parquet")
    (tmp_path / "langfuse" / "observations_v2").mkdir(parents=True)
    for number, row in enumerate(langfuse()):
        write_lines(tmp_path / "langfuse" / "observations_v2" / f"{number}.jsonl", [row])
    write_lines(tmp_path / "otlp.jsonl", otlp(texts=False))
    pq.write_table(
        pa.Table.from_pylist([{"passage_id": one, "text": text} for one, text in PASSAGES]),
        tmp_path / "passages.parquet",
    )
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "tr-1.json").write_text(json.dumps(mlflow()[0], indent=1))
    write_lines(tmp_path / "langsmith.jsonl", langsmith())
    for name, (record, *_) in RECORDS.items():
        write_lines(tmp_path / f"{name}.jsonl", [record])
    write_lines(
        tmp_path / "rows.jsonl",
        [{"query": QUESTION, "contexts": [one for _, one in PASSAGES], "reply": {"text": ANSWER}}],
    )
    talk = [
        {"content": "Hi.", "type": "human"},
        {"content": "Hello.", "type": "ai"},
        {"content": QUESTION, "type": "human"},
        {"content": "", "type": "ai", "tool_calls": [{"name": "find", "args": {}}]},
        {"content": PASSAGES[0][1], "type": "tool"},
        {"content": ANSWER, "type": "ai"},
    ]
    write_lines(tmp_path / "agents.jsonl", [{"user_input": talk}])
    return tmp_path


def _csv(sample: Mapping[str, object]) -> str:
    cells = [str(one).replace('"', '""') for one in sample.values()]
    return ",".join(sample) + "\n" + ",".join(f'"{cell}"' for cell in cells) + "\n"


@pytest.mark.parametrize("words", ARGUMENTS, ids=COMMANDS)
@pytest.mark.usefixtures("exports")
def test_command_of_the_page_runs(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if words[2] == "responses" or any(word.endswith("-path") for word in words):
        pytest.importorskip("jmespath", reason="the extra 'traces' is not installed")
    assert words[0] == "attribeam"
    assert main(words[1:]) == 0, capsys.readouterr().err
    if "--guess" not in words:
        (row,) = rows_of(Path("logs.parquet"))
        assert row["answer"] == ROW["answer"]
        assert str(row["question"]).endswith(QUESTION)
        assert not list(Path().glob("_*"))


@pytest.mark.usefixtures("exports")
def test_preset_of_a_provider_goes_with_responses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "jsonl", "--data", "rows.jsonl", "--preset", "gemini", "--output", "logs.parquet"]) == 2
    assert "--preset gemini says nothing to jsonl; use it with attribeam import responses" in capsys.readouterr().err
