"""The page of an audit as a file."""

from __future__ import annotations

from pathlib import Path

from report.audit_directory import AuditDirectory
from report.failures import ReportError, ReportUsageError
from report.html_page import DEFAULT_ANSWERS, PageRequest, html_page


def write_html_report(
    audit: Path, output: Path, *, previous: Path | None = None, answers: int = DEFAULT_ANSWERS
) -> None:
    """Write the page of the audit in directory ``audit``; an earlier file is replaced only when the new one is whole.

    ``previous`` is the directory of an audit to compare with, ``answers`` the most answers in the worklist.

    Raises:
        ReportUsageError: if there is no such audit, or no directory for the output.
        ReportError: if the audit cannot be read or the page not written.
    """
    if output.is_dir() or not output.parent.is_dir():
        raise ReportUsageError(f"--output should be a file in an existing directory, was: {str(output)!r}")
    earlier = None if previous is None else AuditDirectory.open(previous)
    page = html_page(PageRequest(AuditDirectory.open(audit), earlier, answers))
    partial = output.with_name(f".{output.name}.partial")
    try:
        partial.write_text(page, encoding="utf-8", newline="")
        partial.replace(output)
    except OSError as error:
        raise ReportError(f"{str(output)!r} cannot be written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
