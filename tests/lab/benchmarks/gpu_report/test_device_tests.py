"""The part that runs the tests marked ``gpu``: one step per test, with how it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribeam.lab.benchmarks.gpu_report.journal import JournalState
from attribeam.lab.benchmarks.gpu_report.part import LeftOutError
from attribeam.lab.benchmarks.gpu_report.parts import device_tests
from attribeam.lab.benchmarks.gpu_report.report_plan import plan_for

TESTS = """
import pytest

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("size", [1, 2])
def test_sizes(size):
    assert size == 1, "of two sizes"


@pytest.mark.skip(reason="no kernel here")
def test_skipped():
    pass


@pytest.fixture
def device():
    raise RuntimeError("no room on the device")


def test_device(device):
    pass
"""
PLAN = plan_for("cpu", model=None, cores=1)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings = """[tool.pytest.ini_options]
addopts = "-m 'not gpu'"
markers = ["gpu: needs a GPU"]
"""
    (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_others.py").write_text("raise RuntimeError('not marked')", encoding="utf-8")
    monkeypatch.setattr(device_tests, "_ROOT", tmp_path)
    options = ("-q", "-p", "no:cacheprovider", "-m", "gpu", "--rootdir", str(tmp_path), "-c")
    monkeypatch.setattr(device_tests, "_OPTIONS", (*options, str(tmp_path / "pyproject.toml")))
    return tmp_path


def test_every_test_is_a_step(root: Path) -> None:
    (root / "tests" / "test_of_the_gpu.py").write_text(TESTS, encoding="utf-8")
    steps = device_tests.steps(PLAN, JournalState(), root)
    names = ["test_sizes[1]", "test_sizes[2]", "test_skipped", "test_device"]
    assert [step.name for step in steps] == [f"test_of_the_gpu.py::{name}" for name in names]
    found = [finding for step in steps for finding in step.run()]
    assert [(one.cells[0], one.cells[1], one.is_bad) for one in found] == [
        ("test_sizes[1]", "passed", False),
        ("test_sizes[2]", "failed", True),
        ("test_skipped", "skipped", False),
        ("test_device", "failed", True),
    ]
    assert "of two sizes" in found[1].cells[3]
    assert found[2].cells[3] == "no kernel here"
    assert "no room on the device" in found[3].cells[3]
    assert [one.counted for one in found] == ["passed", "", "skipped", ""]


def test_without_tests_that_is_said(root: Path) -> None:
    (step,) = device_tests.steps(PLAN, JournalState(), root)
    with pytest.raises(LeftOutError, match="no tests lie in"):
        list(step.run())


def test_file_that_cannot_be_imported_is_left_out_and_the_others_run(root: Path) -> None:
    (root / "tests" / "test_a.py").write_text("import no_such_library\n# pytest.mark.gpu\n", encoding="utf-8")
    (root / "tests" / "test_b.py").write_text(TESTS, encoding="utf-8")
    first, *others = device_tests.steps(PLAN, JournalState(), root)
    with pytest.raises(LeftOutError, match="cannot be collected here"):
        list(first.run())
    assert len(others) == 4
