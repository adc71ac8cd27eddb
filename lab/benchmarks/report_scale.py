"""Time, memory, size and first paint of the report page.

``python -m attribeam.lab.benchmarks.report_scale --spans 1000000`` prints them.

The audit is made up (``attribeam.lab.benchmarks.report_audit``), with ten spans per answer. Chromium and its
chromedriver must be on the path.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from attribeam.lab.benchmarks.machine import ProcessRun, machine_description, run_measured
from attribeam.lab.benchmarks.report_audit import SPANS_PER_ANSWER, write_report_audit
from attribeam.lab.benchmarks.report_browser import browser_window, open_page
from attribeam.lab.markdown_table import markdown_table
from attribeam.schemas.run_manifest import RunManifest

_HEADS = ("spans", "answers", "embedded", "seconds", "CPU s", "peak MiB", "page MB", "first paint ms", "ready ms")
_TIMES = """return {
  paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  ready: window.readyAt,
  embedded: JSON.parse(document.getElementById("data-answers").textContent).length,
}"""
_WATCH = """new MutationObserver((_, watch) => {
  if (document.documentElement?.dataset.ready === undefined) return;
  window.readyAt = performance.now();
  watch.disconnect();
}).observe(document, {attributes: true, subtree: true, attributeFilter: ["data-ready"]});"""


@dataclass(frozen=True, slots=True)
class _Opening:
    """Milliseconds from the start of the navigation; ``ready`` is when plots and worklist are shown."""

    first_paint: float
    ready: float
    embedded: int


def main(argv: Sequence[str] | None = None) -> None:
    """Print one row of a Markdown table."""
    arguments = _parser().parse_args(argv)
    print(f"{machine_description()}\n")
    with tempfile.TemporaryDirectory() as folder:
        answers = arguments.answers if arguments.spans is None else arguments.spans // SPANS_PER_ANSWER
        audit = write_report_audit(Path(folder), answers=answers)
        page = Path(folder) / "report.html"
        run = _make_report(audit, page, arguments.answers)
        openings = [_open(page, sandbox=not arguments.no_sandbox) for _ in range(arguments.openings)]
        _print_row(audit, page, run, openings)


def _make_report(audit: Path, page: Path, answers: int) -> ProcessRun:
    command = [sys.executable, "-m", "attribeam", "report", "--audit", str(audit), "--output", str(page)]
    run = run_measured([*command, "--answers", str(answers)])
    if run.exit_code:
        raise SystemExit(f"attribeam report ended with exit code {run.exit_code}: {run.standard_error}")
    return run


def _open(page: Path, *, sandbox: bool) -> _Opening:
    """Open the page in a new browser."""
    with browser_window(sandbox=sandbox) as window:
        window.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})
        open_page(window, page)
        times = window.execute_script(_TIMES)
    return _Opening(times["paint"], times["ready"], times["embedded"])


def _print_row(audit: Path, page: Path, run: ProcessRun, openings: Sequence[_Opening]) -> None:
    counts = RunManifest.from_json((audit / "run_manifest.json").read_text(encoding="utf-8")).counts
    evidence = sum(path.stat().st_size for path in (audit / "evidence").iterdir())
    rows = sum(pq.ParquetFile(path).metadata.num_rows for path in (audit / "evidence").iterdir())
    cells = (
        f"{rows:,}",
        f"{counts.audited:,}",
        f"{openings[0].embedded:,}",
        f"{run.wall_seconds:.1f}",
        f"{run.cpu_seconds:.1f}",
        f"{run.peak_bytes / 2**20:.0f}",
        f"{page.stat().st_size / 1e6:.1f}",
        _spread([one.first_paint for one in openings]),
        _spread([one.ready for one in openings]),
    )
    print(
        f"{evidence / 1e6:.0f} MB of evidence; the page was opened {len(openings)} times, median (minimum to maximum)\n"
    )
    print(markdown_table(_HEADS, [cells], padded=True))


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m attribeam.lab.benchmarks.report_scale", description=__doc__)
    add = parser.add_argument
    add("--spans", type=int, help="number of spans in the audit (default: ten per answer of --answers)")
    add("--answers", type=int, default=1000, help="the most answers that the page embeds (default: %(default)s)")
    add("--openings", type=int, default=5, help="how often to open the page (default: %(default)s)")
    add("--no-sandbox", action="store_true", help="start Chromium without its sandbox, which root needs")
    return parser


if __name__ == "__main__":
    main()
