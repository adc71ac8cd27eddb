"""Every link of a document resolves, scripts stop at errors, and dependencies are pinned."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FOLDERS = ("docs", "examples", "lab", "attribution", "report", ".github")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for one in FOLDERS for path in (ROOT / one).rglob("*.md"))])
PAGES = sorted(DOCS.rglob("*.md"))
_LINK = re.compile(r"\]\(<?([^)>\s]+)>?(?: \"[^\"]*\")?\)")
_CODE = re.compile(r"^(```|~~~).*?^\1[^\n]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def _name(path):
    return path.relative_to(ROOT).as_posix()


def _links(path):
    """Relative links and anchors of a document, without those in code."""
    found = _LINK.findall(_CODE.sub("", path.read_text(encoding="utf-8")))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def _anchors(path):
    """The anchors of a document's headings, as GitHub and the site name them."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ +(.+?) *$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _broken(path):
    for link in _links(path):
        target, _, anchor = link.partition("#")
        place = (path.parent / unquote(target)).resolve() if target else path
        if not place.exists() or (anchor and place.suffix == ".md" and anchor not in _anchors(place)):
            yield link


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_links_of_a_document_resolve(document):
    assert list(_broken(document)) == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_page_of_the_site_links_to_the_site_only(page):
    """The site does not hold files outside docs/: name them in code marks instead of linking to them."""
    targets = [(page.parent / link.partition("#")[0]).resolve() for link in _links(page)]
    assert [str(target) for target in targets if not target.is_relative_to(DOCS)] == []


@pytest.mark.parametrize("name", ["design.md", "method.md"])
def test_files_of_the_code_that_a_page_names_are_there(name):
    code = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if ".venv" not in path.parts}
    named = set(re.findall(r"[\w/]+\.py\b", (DOCS / name).read_text(encoding="utf-8")))
    assert named
    assert [one for one in sorted(named) if not any(f"/{path}".endswith(f"/{one}") for path in code)] == []


def test_constraints_pin_every_direct_dependency_exactly():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=\[]", one)[0].lower() for one in wanted}
    assert names <= {line.split("==")[0] for line in lines}


def _run_local_without_python(folder, **environment):
    """Only the few tools that the script needs are on PATH, and no Python."""
    for tool in ("bash", "cat", "cksum", "tr", "grep", "dirname", "rm"):
        found = shutil.which(tool)
        (folder / tool).symlink_to(found)
    checkout = folder / "check out"
    checkout.mkdir()
    for name in ("run_local.sh", "make_environment.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, checkout / name)
    return subprocess.run(
        [str(folder / "bash"), str(checkout / "run_local.sh")],
        env={"PATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_fitting_python_the_error_names_the_versions(tmp_path):
    run = _run_local_without_python(tmp_path)
    assert run.returncode == 1
    assert "3.11, 3.12 or 3.13" in run.stderr


@pytest.mark.skipif(any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))), reason="there is a GPU")
@pytest.mark.parametrize("code", [0, 1])
def test_without_a_gpu_the_cpu_build_of_torch_is_asked_for_and_may_be_missing(code, tmp_path):
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n')
    python.chmod(0o755)
    (tmp_path / "constraints.txt").write_text("tqdm==4.0\ntorch==2.13.0\n")
    line = f"set -euo pipefail; source {ROOT}/make_environment.sh; install_cpu_torch {tmp_path}; echo on"
    run = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    asked, went_on = run.stdout.splitlines()
    assert asked.startswith("-m pip install ")
    assert asked.endswith(" torch==2.13.0+cpu")
    assert went_on == "on"
