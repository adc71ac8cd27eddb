"""The pinned packages: each runs on the oldest Python that attribeam promises, else pip searches for hours."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = (re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines)
    return {canonicalize_name(pin[1]): pin[2] for pin in found if pin}


def _oldest_python() -> str:
    """The lowest version that ``requires-python`` admits, such as 3.11.0."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    (lowest,) = (one.version for one in SpecifierSet(wanted) if one.operator == ">=")
    return f"{lowest}.0"


def test_every_pinned_package_runs_on_the_oldest_python() -> None:
    pins = _pins()
    installed = {
        canonicalize_name(one.metadata["Name"]): one.metadata.get("Requires-Python", "") for one in distributions()
    }
    checked = {name: installed[name] for name in pins if name in installed}
    assert len(checked) > 100
    assert {name: wanted for name, wanted in checked.items() if _oldest_python() not in SpecifierSet(wanted)} == {}


def test_what_is_installed_are_the_pinned_versions() -> None:
    installed = {canonicalize_name(one.metadata["Name"]): one.version for one in distributions()}
    others = {name: installed[name] for name, version in _pins().items() if installed.get(name, version) != version}
    assert others == {}
