"""README and guides: every link resolves, and every page is in the navigation of the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FOLDERS = ("docs", "examples", "lab", "attribution", "report", ".github")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for one in FOLDERS for path in (ROOT / one).rglob("*.md"))])
PAGES = sorted(DOCS.rglob("*.md"))
_LINK = re.compile(r"\]\(<?([^)>\s]+)>?(?: \"[^\"]*\")?\)")
_CODE = re.compile(r"^(```|~~~).*?^\1[^\n]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _links(path: Path) -> list[str]:
    """Relative links and anchors of a document, without those in code."""
    found = _LINK.findall(_CODE.sub("", path.read_text(encoding="utf-8")))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def _anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub and the site name them."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ +(.+?) *$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _broken(path: Path) -> Iterator[str]:
    for link in _links(path):
        target, _, anchor = link.partition("#")
        place = (path.parent / unquote(target)).resolve() if target else path
        if not place.exists() or (anchor and place.suffix == ".md" and anchor not in _anchors(place)):
            yield link


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_links_of_a_document_resolve(document: Path) -> None:
    assert list(_broken(document)) == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_page_of_the_site_links_to_the_site_only(page: Path) -> None:
    """The site does not hold files outside docs/: name them in code marks instead of linking to them."""
    targets = [(page.parent / link.partition("#")[0]).resolve() for link in _links(page)]
    assert [str(target) for target in targets if not target.is_relative_to(DOCS)] == []


def _pages_of(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        yield from (page for value in entry.values() for page in _pages_of(value))
    elif isinstance(entry, list):
        yield from (page for value in entry for page in _pages_of(value))


def test_the_navigation_lists_every_page_once() -> None:
    """A new page under docs/ gets a line under ``nav`` in mkdocs.yml."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert sorted(_pages_of(navigation)) == [path.relative_to(DOCS).as_posix() for path in PAGES]
