"""The files that hosted services read: workflow, hooks, templates and metadata agree with the project."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
VERSIONS = ["3.11", "3.12", "3.13"]
TEMPLATES = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


def _project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _read(name: str) -> dict[str, object]:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_version_is_written_in_one_place_only() -> None:
    assert _project()["dynamic"] == ["version"]
    assert "version" not in _project()


def test_metadata_scripts_and_workflow_name_the_same_pythons() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [one.removeprefix(prefix[:-2]) for one in _project()["classifiers"] if one.startswith(prefix)]
    workflow = _read(".github/workflows/ci.yml")
    assert named == VERSIONS
    assert workflow["jobs"]["checks"]["strategy"]["matrix"]["python"] == VERSIONS
    assert _project()["requires-python"] == ">=3.11,<3.14"


def test_the_workflow_runs_every_check_with_pinned_actions_and_may_only_read() -> None:
    workflow = _read(".github/workflows/ci.yml")
    steps = {name: job["steps"] for name, job in workflow["jobs"].items()}
    actions = [step["uses"] for job in steps.values() for step in job if "uses" in step]
    assert [step["run"] for step in steps["checks"] if "run" in step] == ["./run_tests.sh"]
    assert [action for action in actions if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []
    assert actions
    assert workflow["permissions"] == {"contents": "read"}


def test_hooks_run_the_tools_of_the_environment() -> None:
    (repository,) = _read(".pre-commit-config.yaml")["repos"]
    entries = {hook["id"]: hook["entry"].split() for hook in repository["hooks"]}
    assert repository["repo"] == "local"
    assert set(entries) == {"ruff-check", "ruff-format", "mypy"}
    for python, option, module, *_ in entries.values():
        assert (python, option) == (".venv/bin/python", "-m")
        assert find_spec(module) is not None


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_an_issue_template_asks_something_and_has_unique_ids(template: Path) -> None:
    form = yaml.safe_load(template.read_text(encoding="utf-8"))
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {"name", "description", "body"} <= set(form)
    assert any(field.get("validations", {}).get("required") for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)


def test_there_are_issue_templates() -> None:
    assert {path.stem for path in TEMPLATES} == {"bug_report", "feature_request", "wrong_evidence"}
