"""The quickstart notebook runs from top to bottom with the bundled models, and shows what its text says."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from attribeam import Explanation
from attribeam.schemas import SpanEvidence

NOTEBOOK = Path(__file__).parents[2] / "examples" / "quickstart.ipynb"


@dataclass(frozen=True)
class Executed:
    """What a kernel would know and show after all cells: variables, printed text and shown values per cell id."""

    names: dict[str, object]
    printed: dict[str, str]
    shown: dict[str, object]

    def spans(self, name: str) -> list[SpanEvidence]:
        found = self.names[name]
        assert isinstance(found, list)
        return found


def _run_cell(source: str, names: dict[str, object]) -> object:
    """Runs one cell as a kernel does; its value is that of a last line that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, NOTEBOOK.name, "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)


def _cells() -> list[dict[str, object]]:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


@pytest.fixture(scope="module")
def executed() -> Executed:
    names: dict[str, object] = {"__name__": "__main__"}
    printed, shown = {}, {}
    for cell in _cells():
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()) as output:
                shown[cell["id"]] = _run_cell("".join(cell["source"]), names)
            printed[cell["id"]] = output.getvalue()
    return Executed(names, printed, shown)


def test_the_notebook_is_kept_without_outputs_and_with_unique_ids() -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in _cells() if "outputs" in cell)
    assert len({cell["id"] for cell in _cells()}) == len(_cells())


def test_the_wrong_amount_and_the_invented_purchase_are_unsupported_as_the_text_says(executed: Executed) -> None:
    amount, purchase = executed.spans("unsupported")
    assert amount.text == "The cannery earned three million dollars in 2013"
    assert purchase.text == "Its director bought a second factory in Oslo"
    assert (amount.unmatched_values, purchase.unmatched_values) == (("three million",), ("Oslo",))
    assert max(amount.support_score, purchase.support_score) < 0.5 < amount.answer_risk
    assert (amount.reason, amount.expected) == ("other_value", "two million")
    assert "not in the passages: three million; suspicious: " in executed.printed["second-answer"]


def test_the_answer_is_shown_with_what_no_passage_has(executed: Executed) -> None:
    explained = executed.shown["explain"]
    assert isinstance(explained, Explanation)
    shown = explained._repr_html_()
    assert 'title="in no passage with evidence">Oslo</s>' in shown
    assert "Annual review 2013" in shown


def test_the_table_of_answers_loses_no_row(executed: Executed) -> None:
    evidence, dead_letters = executed.names["evidence"], executed.names["dead_letters"]
    assert isinstance(evidence, pa.Table)
    assert isinstance(dead_letters, pa.Table)
    assert set(evidence.column("record_id").to_pylist()) == {"first", "second"}
    assert dead_letters.column("reason").to_pylist() == ["empty_answer"]
    assert "'third'" in executed.printed["audit-table"]
