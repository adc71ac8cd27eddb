"""The example log, the cookbook and the quickstart notebook, with the bundled models."""

import contextlib
import io
import json
import re
import runpy
import shlex
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from attribeam import Attributor
from attribeam.pipeline.command_line import main

ROOT = Path(__file__).parents[2]
COOKBOOK = ROOT / "docs" / "cookbook.md"
API = ROOT / "docs" / "api.md"
_API_RECIPES = ("Audit a table", "Add columns to a dataset", "In tests")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LIBRARIES = ("duckdb", "pandas", "datasets")
LABELLED = {"Label Studio": "labelled.parquet", "Argilla": "labelled_in_argilla.parquet"}
VERDICTS = {"supported", "weak", "unsupported"}


def sections():
    """The cookbook by headings, and the recipes of the page on the Python API."""
    _, *api = re.split(r"^## (.*)$", API.read_text(encoding="utf-8"), flags=re.MULTILINE)
    first, *rest = re.split(r"^## (.*)$", COOKBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    recipes = dict(zip(api[::2], api[1::2], strict=True))
    return {"": first} | dict(zip(rest[::2], rest[1::2], strict=True)) | {name: recipes[name] for name in _API_RECIPES}


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory):
    """A folder where the first block of the page has run."""
    folder = tmp_path_factory.mktemp("kitchen")
    (folder / "examples").symlink_to(ROOT / "examples")
    with contextlib.chdir(folder):
        cook("")
    return folder


def cook(section):
    """Run the blocks of a section in the working directory; the names that they leave."""
    names = {"__name__": "__main__"}
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


def cooked(kitchen, section, monkeypatch):
    for library in _LIBRARIES:
        if re.search(rf"^(?:import|from) {library}\b", sections()[section], re.MULTILINE):
            pytest.importorskip(library)
    monkeypatch.chdir(kitchen)
    return cook(section)


def claims(kitchen):
    rows = ds.dataset(kitchen / "audits" / "example" / "evidence").to_table().to_pylist()
    return [row for row in rows if row["claim_index"] in (None, row["span_index"]) and row["support"] in VERDICTS]


@pytest.mark.parametrize("section", sorted({*sections()} - {"", *LABELLED}))
def test_blocks_of_a_section_run(kitchen, section, monkeypatch):
    assert cooked(kitchen, section, monkeypatch)


@pytest.mark.parametrize(("section", "output"), LABELLED.items())
def test_labels_come_back_as_target_spans(kitchen, monkeypatch, section, output):
    cooked(kitchen, section, monkeypatch)
    rows = pq.read_table(kitchen / output).to_pylist()
    assert len(rows) == 4
    suggested = {(row["source_row"], row["char_start"], row["char_end"]): row["support"] for row in claims(kitchen)}
    places = {row["record_id"]: row["source_row"] for row in claims(kitchen)}
    for row in rows:
        for span, label in zip(row["target_spans"], row["span_labels"], strict=True):
            support = suggested[(places[row["record_id"]], span["char_start"], span["char_end"])]
            assert label["supported"] == {"supported": True, "unsupported": False}.get(support)


def test_the_notebook_runs_from_top_to_bottom():
    names = {"__name__": "__main__"}
    cells = json.loads((ROOT / "examples" / "quickstart.ipynb").read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(cell["id"]), "exec"), names)
    evidence, dead_letters = names["evidence"], names["dead_letters"]
    assert isinstance(evidence, pa.Table)
    assert isinstance(dead_letters, pa.Table)
    assert set(evidence.column("record_id").to_pylist()) == {"first", "second"}
    assert dead_letters.column("reason").to_pylist() == ["empty_answer"]


LOG = ROOT / "examples" / "qa_logs.parquet"


@pytest.fixture(scope="module")
def audit(kitchen):
    """The audit of the example log that the page begins with."""
    return kitchen / "audits" / "example"


@pytest.fixture(scope="module")
def evidence(audit):
    return _table(audit / "evidence").to_pylist()


@pytest.fixture(scope="module")
def dead_letters(audit):
    return _table(audit / "dead_letters").to_pylist()


def _table(folder):
    return pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("*.parquet")))


@pytest.fixture(scope="module")
def source():
    """The rows of the readable source of the example log, in its order."""
    lines = LOG.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_log_is_what_the_script_makes_of_the_source(source):
    made = runpy.run_path(str(ROOT / "examples" / "make_qa_logs.py"))["make_table"](source)
    assert pq.read_table(LOG).equals(made)


def test_every_row_is_audited_or_dead_lettered_as_the_source_expects(source, evidence, dead_letters):
    reasons = {letter["source_row"]: letter["reason"] for letter in dead_letters}
    audited = {row["source_row"] for row in evidence}
    outcomes = [reasons.get(n, "audited" if n in audited else "lost") for n in range(len(source))]
    assert outcomes == [row["expected"] for row in source]
    assert audited.isdisjoint(reasons)
    assert len(reasons) == len(dead_letters)


def test_the_manifest_reconciles_with_the_files(audit, source, evidence, dead_letters):
    manifest = json.loads((audit / "run_manifest.json").read_text(encoding="utf-8"))
    counts = manifest["counts"]
    assert manifest["status"] == "done"
    assert counts["rows"] == len(source) == counts["audited"] + len(dead_letters)
    assert counts["spans"] == dict(Counter(row["support"] for row in evidence))


def test_dead_letters_name_their_rows_and_hold_no_answer_text(source, dead_letters):
    for letter in dead_letters:
        row = source[letter["source_row"]]
        assert letter["record_id"] == row["record_id"]
        assert letter["answer"] is None
        words = row["answer"].split()
        assert not words or " ".join(words[:3]) not in letter["message"]


def test_spans_and_pieces_are_the_texts_at_their_code_points(source, evidence):
    for row in evidence:
        logged = source[row["source_row"]]
        answer = logged["answer"]
        assert answer[row["char_start"] : row["char_end"]] == row["text"] != ""
        assert all(0 <= part["char_start"] < part["char_end"] <= len(answer) for part in row["atomic_fact"])
        for piece in row["evidence"]:
            passage = logged["passages"][piece["passage_index"]]
            text = passage["title"] if piece["in_title"] else passage["text"]
            assert text[piece["char_start"] : piece["char_end"]] == piece["text"] != ""
            assert piece["passage_id"] == passage["passage_id"]


def test_a_table_of_the_same_rows_has_the_same_evidence_and_dead_letters(audit, evidence):
    found = Attributor.from_pretrained("bundled").attribute_table(
        pq.read_table(LOG), extra_columns=["tenant", "thumbs"], name=evidence[0]["source_file"]
    )
    for table, folder in ((found.evidence, "evidence"), (found.dead_letters, "dead_letters")):
        written = _table(audit / folder)
        assert table.schema.equals(written.schema)
        for row, other in zip(table.to_pylist(), written.to_pylist(), strict=True):
            assert _without_scores(row) == _without_scores(other)
            assert _scores(row) == pytest.approx(_scores(other), rel=1e-3, abs=1e-3)


def _without_scores(value):
    """What is decided: no numbers that depend on which rows share a batch, and no words of the command line."""
    if isinstance(value, dict):
        return {name: _without_scores(one) for name, one in value.items() if name != "message"}
    if isinstance(value, list):
        return [_without_scores(one) for one in value]
    return None if isinstance(value, float) else value


def _scores(value):
    if isinstance(value, dict | list):
        return [score for one in (value.values() if isinstance(value, dict) else value) for score in _scores(one)]
    return [value] if isinstance(value, float) else []


def test_the_readme_shows_a_record_of_this_audit(evidence):
    shown = json.loads((ROOT / "README.md").read_text(encoding="utf-8").partition("```json\n")[2].partition("```")[0])
    (row,) = [row for row in evidence if (row["record_id"], row["text"]) == (shown["record_id"], shown["text"])]
    assert list(shown) == [name for name in row if name in shown]
    rounded = {"margin", "evidence_mass", "support_score", "answer_risk"}
    assert {name: row[name] for name in rounded} == pytest.approx({name: shown[name] for name in rounded}, abs=0.01)
    assert [shown[name] for name in shown if name not in {"evidence", *rounded}] == [
        row[name] for name in shown if name not in {"evidence", *rounded}
    ]
    for piece, found in zip(shown["evidence"], row["evidence"], strict=False):
        assert piece == pytest.approx({name: found[name] for name in piece}, abs=0.01)
