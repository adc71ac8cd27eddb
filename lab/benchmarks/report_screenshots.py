"""Pictures of the report's three views.

``python -m attribeam.lab.benchmarks.report_screenshots --audit DIR --output docs/images`` takes them.

Chromium and its chromedriver must be on the path.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from attribeam.lab.benchmarks.report_browser import WindowLook, browser_window, open_page, save_picture
from attribeam.report.html_page import write_html_report

_OVERVIEW_HEIGHT = 1700
_SETTLE_SECONDS = 0.6
_PLACE = """
const answers = JSON.parse(document.getElementById("data-answers").textContent);
return 1 + answers.findIndex((one) => one.id === arguments[0]);
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Write one PNG per view: ``report_overview``, ``report_worklist`` and ``report_answer``."""
    arguments = _parser().parse_args(argv)
    arguments.output.mkdir(parents=True, exist_ok=True)
    ending = "" if arguments.colours == "light" else f"_{arguments.colours}"
    pictures = {view: arguments.output / f"report_{view}{ending}.png" for view in ("overview", "worklist", "answer")}
    look = WindowLook(arguments.width, arguments.height, arguments.colours, arguments.scale)
    with tempfile.TemporaryDirectory() as folder, browser_window(look, sandbox=not arguments.no_sandbox) as window:
        report = Path(folder) / "report.html"
        write_html_report(arguments.audit, report)
        open_page(window, report)
        _go(window, "#overview")
        save_picture(window, pictures["overview"], height=_OVERVIEW_HEIGHT)
        _show_worklist(window)
        save_picture(window, pictures["worklist"], height=arguments.height)
        _show_answer(window, arguments.answer, span=arguments.span)
        save_picture(window, pictures["answer"], height=arguments.height)
    print(*pictures.values(), sep="\n")


def _show_worklist(window: Chrome) -> None:
    """Show the worklist of answers with unsupported spans."""
    _go(window, "#answers")
    _choose_support(window, "unsupported")


def _show_answer(window: Chrome, answer: str, *, span: int) -> None:
    """Show one answer with its ``span``-th span selected, counted from 1."""
    place = window.execute_script(_PLACE, answer)
    if not place:
        raise SystemExit(f"--answer should be a record id of the page's worklist, was: {answer!r}")
    _choose_support(window, "all")
    _go(window, f"#answers/{place}")
    window.find_elements(By.CSS_SELECTOR, ".span-row")[span - 1].click()
    time.sleep(_SETTLE_SECONDS)


def _choose_support(window: Chrome, name: str) -> None:
    Select(window.find_element(By.ID, "filter-support")).select_by_visible_text(name)
    window.execute_script("document.activeElement.blur()")


def _go(window: Chrome, place: str) -> None:
    window.execute_script("location.hash = arguments[0]", place)
    time.sleep(_SETTLE_SECONDS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m attribeam.lab.benchmarks.report_screenshots", description=__doc__)
    add = parser.add_argument
    add("--audit", type=Path, required=True, metavar="DIR", help="the output directory of attribeam audit")
    add("--output", type=Path, required=True, metavar="DIR", help="the directory to write the pictures to")
    add("--answer", default="qa-063", metavar="ID", help="the answer to show (default: %(default)s)")
    add("--span", type=int, default=2, help="the span to select, counted from 1 (default: %(default)s)")
    add("--colours", choices=["light", "dark"], default="light", help="colour scheme (default: %(default)s)")
    add("--width", type=int, default=1360, help="size of the window in CSS pixels (default: %(default)s)")
    add("--height", type=int, default=900, help="size of the window in CSS pixels (default: %(default)s)")
    add("--scale", type=float, default=1.0, help="pixels per CSS pixel (default: %(default)s)")
    add("--no-sandbox", action="store_true", help="start Chromium without its sandbox, which root needs")
    return parser


if __name__ == "__main__":
    main()
