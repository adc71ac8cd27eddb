"""``attribeam evaluate`` within the process of the test."""

from __future__ import annotations

from attribeam.pipeline.command_line import main


def evaluate(*arguments: object) -> int:
    """Run ``attribeam evaluate`` with these arguments; returns the exit code."""
    return main(["evaluate", *map(str, arguments)])
