"""README, guides and the documentation site: every link resolves, every page is reachable, nothing is fetched."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

import attribeam

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


def test_documents_are_found() -> None:
    assert {"README.md", "docs/index.md", "examples/README.md"} <= {_name(path) for path in DOCUMENTS}
    assert sum(len(_links(path)) for path in DOCUMENTS) > 50


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a broken link or an unknown name in the API reference is an error."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    (folder / "src").symlink_to(ROOT / "src")
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


def test_the_site_holds_every_page(site: Path) -> None:
    wanted = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in PAGES}
    assert wanted <= {path.relative_to(site).as_posix() for path in site.rglob("*.html")}


def test_the_api_reference_explains_every_public_name(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    anchors = set(re.findall(r'id="attribeam\.([\w.]+)"', page))
    assert {name for name in attribeam.__all__ if not name.startswith("_")} <= anchors
    assert "half-open ranges of code points" in " ".join(re.sub(r"<[^>]*>", "", page).split())


class _Requests(HTMLParser):
    """Collects what a browser fetches to show a page; links that a reader follows are not among it."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}
        self.urls.extend(value for name, value in attrs if value and names.get(tag) == name)


def test_the_site_fetches_nothing_from_other_hosts(site: Path) -> None:
    requests = _Requests()
    for page in site.rglob("*.html"):
        requests.feed(page.read_text(encoding="utf-8"))
    assert len(requests.urls) > 20
    assert [url for url in requests.urls if "//" in url] == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\(\s*[\"']?(?:https?:)?//[^)]*\)|@import[^;]*//[^;]*;", styles) == []
