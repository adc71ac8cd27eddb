"""``attribeam evaluate`` without a process of its own."""

from __future__ import annotations

from attribeam.pipeline.command_line import main


def evaluate(*arguments: object) -> int:
    """Run the command line; the exit code."""
    return main(["evaluate", *map(str, arguments)])
