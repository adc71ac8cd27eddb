"""The page's own script is the bundle of its sources, and the sources make no markup out of text."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPORT = Path(__file__).parents[2] / "report"
BUNDLE = REPORT / "assets" / "page.js"
MAKE_BUNDLES = REPORT / "vendor" / "make_bundles.sh"
SOURCES = sorted((REPORT / "page_scripts").glob("*.js"))
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function")


def pinned_program(name: str) -> str:
    """The bundler or linter in the version that ``make_bundles.sh`` names; skips the test where it is not installed."""
    wanted = re.search(rf"^{name.upper()}=(.+)$", MAKE_BUNDLES.read_text(encoding="utf-8"), re.M)[1]
    program = os.environ.get(f"ATTRIBEAM_{name.upper()}") or shutil.which(name)
    if program is None:
        pytest.skip(f"needs {name} {wanted} on PATH, or its path in ATTRIBEAM_{name.upper()}")
    found = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    if found != wanted:
        pytest.skip(f"needs {name} {wanted}, {program} is {found}")
    return program


def test_the_bundle_was_made_from_the_sources_as_they_are() -> None:
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in SOURCES)
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    first = BUNDLE.read_text(encoding="utf-8").partition("\n")[0]
    assert first.endswith(f"sources sha256 {digest}"), "run report/vendor/make_bundles.sh page"


def test_the_bundle_can_stand_in_a_script_element() -> None:
    assert not re.search(r"</script|<!--", BUNDLE.read_text(encoding="utf-8"), re.I)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_a_script_makes_no_markup_or_code_out_of_text(source: Path) -> None:
    assert MARKUP.findall(source.read_text(encoding="utf-8")) == []


def test_the_pinned_bundler_gives_the_committed_bytes(tmp_path: Path) -> None:
    environment = {**os.environ, "ATTRIBEAM_ESBUILD": pinned_program("esbuild")}
    subprocess.run([str(MAKE_BUNDLES), "page", str(tmp_path / "page.js")], env=environment, check=True)
    assert (tmp_path / "page.js").read_bytes() == BUNDLE.read_bytes()


def test_the_pinned_linter_finds_nothing() -> None:
    environment = {**os.environ, "ATTRIBEAM_BIOME": pinned_program("biome")}
    run = subprocess.run([str(MAKE_BUNDLES), "lint"], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
