"""The cookbook and the quickstart notebook run from top to bottom with the bundled models."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from attribeam.pipeline.command_line import main

ROOT = Path(__file__).parents[2]
COOKBOOK = ROOT / "docs" / "cookbook.md"
API = ROOT / "docs" / "api.md"
_API_RECIPES = ("Audit a table", "Add columns to a dataset", "In tests")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LIBRARIES = ("duckdb", "pandas", "datasets")
LABELLED = {"Label Studio": "labelled.parquet", "Argilla": "labelled_in_argilla.parquet"}
VERDICTS = {"supported", "weak", "unsupported"}


def sections() -> dict[str, str]:
    """The cookbook by headings, and the recipes of the page on the Python API."""
    _, *api = re.split(r"^## (.*)$", API.read_text(encoding="utf-8"), flags=re.MULTILINE)
    first, *rest = re.split(r"^## (.*)$", COOKBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    recipes = dict(zip(api[::2], api[1::2], strict=True))
    return {"": first} | dict(zip(rest[::2], rest[1::2], strict=True)) | {name: recipes[name] for name in _API_RECIPES}


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where the first block of the page has run."""
    folder = tmp_path_factory.mktemp("kitchen")
    (folder / "examples").symlink_to(ROOT / "examples")
    with contextlib.chdir(folder):
        cook("")
    return folder


def cook(section: str) -> dict[str, object]:
    """Run the blocks of a section in the working directory; the names that they leave."""
    names: dict[str, object] = {"__name__": "__main__"}
    for language, block in _BLOCK.findall(sections()[section]):
        if language == "bash":
            for line in block.splitlines():
                command, *arguments = shlex.split(line)
                assert command == "attribeam"
                assert main([*arguments, *(["--quiet"] if arguments[0] == "audit" else [])]) == 0, line
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(block, section, "exec"), names)
            assert "print(" not in block or printed.getvalue().strip()
    return names


def cooked(kitchen: Path, section: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    for library in _LIBRARIES:
        if re.search(rf"^(?:import|from) {library}\b", sections()[section], re.MULTILINE):
            pytest.importorskip(library)
    monkeypatch.chdir(kitchen)
    return cook(section)


def claims(kitchen: Path) -> list[dict]:
    rows = ds.dataset(kitchen / "audits" / "example" / "evidence").to_table().to_pylist()
    return [row for row in rows if row["claim_index"] in (None, row["span_index"]) and row["support"] in VERDICTS]


@pytest.mark.parametrize("section", sorted({*sections()} - {"", *LABELLED}))
def test_blocks_of_a_section_run(kitchen: Path, section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cooked(kitchen, section, monkeypatch)


@pytest.mark.parametrize(("section", "output"), LABELLED.items())
def test_labels_come_back_as_target_spans(
    kitchen: Path, monkeypatch: pytest.MonkeyPatch, section: str, output: str
) -> None:
    cooked(kitchen, section, monkeypatch)
    rows = pq.read_table(kitchen / output).to_pylist()
    assert len(rows) == 4
    suggested = {(row["source_row"], row["char_start"], row["char_end"]): row["support"] for row in claims(kitchen)}
    places = {row["record_id"]: row["source_row"] for row in claims(kitchen)}
    for row in rows:
        for span, label in zip(row["target_spans"], row["span_labels"], strict=True):
            support = suggested[(places[row["record_id"]], span["char_start"], span["char_end"])]
            assert label["supported"] == {"supported": True, "unsupported": False}.get(support)


def test_the_notebook_runs_from_top_to_bottom() -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    cells = json.loads((ROOT / "examples" / "quickstart.ipynb").read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(cell["id"]), "exec"), names)
    evidence, dead_letters = names["evidence"], names["dead_letters"]
    assert isinstance(evidence, pa.Table)
    assert isinstance(dead_letters, pa.Table)
    assert set(evidence.column("record_id").to_pylist()) == {"first", "second"}
    assert dead_letters.column("reason").to_pylist() == ["empty_answer"]
