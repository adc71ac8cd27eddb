"""Pictures of the report's three views: ``python -m benchmarks.report_screenshots --audit DIR --output docs/images``.

Needs ``playwright`` and a Chromium on the path.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import FloatRect, Page

from benchmarks.report_browser import browser_window, open_page
from report.html_report import write_html_report

_OVERVIEW_HEIGHT = 1700
_PLACE = "id => 1 + JSON.parse(document.getElementById('data-answers').textContent).findIndex(one => one.id === id)"


def main(argv: Sequence[str] | None = None) -> None:
    """Write one PNG a view: ``report_overview``, ``report_worklist`` and ``report_answer``."""
    arguments = _parser().parse_args(argv)
    arguments.output.mkdir(parents=True, exist_ok=True)
    ending = "" if arguments.colours == "light" else f"_{arguments.colours}"
    window = browser_window(
        width=arguments.width,
        height=arguments.height,
        color_scheme=arguments.colours,
        sandbox=not arguments.no_sandbox,
        scale=arguments.scale,
    )
    with tempfile.TemporaryDirectory() as folder, window as context:
        report = Path(folder) / "report.html"
        write_html_report(arguments.audit, report)
        page = open_page(context, report.as_uri())
        _go(page, "#overview")
        _keep(page, arguments.output / f"report_overview{ending}.png", height=_OVERVIEW_HEIGHT)
        _show_worklist(page)
        _keep(page, arguments.output / f"report_worklist{ending}.png", height=arguments.height)
        _show_answer(page, arguments.answer, span=arguments.span)
        _keep(page, arguments.output / f"report_answer{ending}.png", height=arguments.height)


def _keep(page: Page, picture: Path, *, height: int) -> None:
    """The top of the page, this many CSS pixels high, as a PNG file."""
    clip: FloatRect = {"x": 0, "y": 0, "width": page.evaluate("innerWidth"), "height": height}
    page.screenshot(path=picture, full_page=True, clip=clip, animations="disabled")
    print(picture)


def _show_worklist(page: Page) -> None:
    """The worklist of answers with unsupported spans."""
    _go(page, "#answers")
    page.select_option("#filter-support", "unsupported")
    page.evaluate("document.activeElement.blur()")


def _show_answer(page: Page, answer: str, *, span: int) -> None:
    """One answer, its ``span``-th span chosen, counted from 1."""
    place = page.evaluate(_PLACE, answer)
    if not place:
        raise SystemExit(f"--answer should be a record id of the page's worklist, was: {answer!r}")
    page.select_option("#filter-support", "")
    _go(page, f"#answers/{place}")
    page.locator(".span-row").nth(span - 1).click()
    page.mouse.move(0, 0)


def _go(page: Page, place: str) -> None:
    page.evaluate("place => { location.hash = place; }", place)
    page.wait_for_timeout(600)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report_screenshots", description=__doc__)
    add = parser.add_argument
    add("--audit", type=Path, required=True, metavar="DIR", help="the output directory of attribeam audit")
    add("--output", type=Path, required=True, metavar="DIR", help="where the pictures go")
    add("--answer", default="qa-024", metavar="ID", help="which answer to show (default: %(default)s)")
    add("--span", type=int, default=2, help="which of its spans to choose, from 1 (default: %(default)s)")
    add("--colours", choices=["light", "dark"], default="light", help="(default: %(default)s)")
    add("--width", type=int, default=1360, help="of the window, in CSS pixels (default: %(default)s)")
    add("--height", type=int, default=900, help="of the window, in CSS pixels (default: %(default)s)")
    add("--scale", type=float, default=1.0, help="pixels a CSS pixel (default: %(default)s)")
    add("--no-sandbox", action="store_true", help="start Chromium without its sandbox, as root has to")
    return parser


if __name__ == "__main__":
    main()
