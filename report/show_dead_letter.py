"""One dead letter as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from report.show_marks import wrapped
from report.terminal_text import harmless, one_line


def dead_letter_lines(letter: Mapping[str, object], *, width: int) -> Iterator[Text]:
    """Why the row was refused; its answer where the audit kept it."""
    yield Text(one_line(str(letter["record_id"])), style="bold")
    yield Text(f"  {one_line(str(letter['source_file']))}, row {letter['source_row']}")
    yield Text()
    yield Text("  dead letter: ").append(f"{letter['reason']}", style="bold red").append(f" at stage {letter['stage']}")
    yield from _paragraph(str(letter["message"]), width)
    if letter["answer"] is not None:
        yield Text()
        yield Text("Answer", style="bold")
        yield from _paragraph(str(letter["answer"]), width)


def _paragraph(text: str, width: int) -> Iterator[Text]:
    shown = harmless(text)
    for start, end in wrapped(shown, width - 2):
        yield Text(f"  {shown[start:end]}")
