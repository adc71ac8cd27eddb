"""The command line options of the union; the same for every command."""

from __future__ import annotations

import argparse

from attribeam.attribution.option_types import evidence_window, isolation_tau, non_negative, positive_integer


def add_union_arguments(group: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add --top-k, --own-token-weight, --sentence-weight, --evidence-window and --isolation-tau."""
    add = group.add_argument
    add("--top-k", type=positive_integer, metavar="K", help="columns kept a token (default: the model's, else 2)")
    add(
        "--own-token-weight", type=positive_integer, metavar="N",
        help="how often a span's own tokens count beside those of its atomic fact (default: the model's, else 1)",
    )  # fmt: skip
    add(
        "--sentence-weight", type=non_negative, metavar="W",
        help="what the rest of a span's sentence counts in the choice of its passage (default: the model's, else 0)",
    )  # fmt: skip
    add(
        "--evidence-window", type=evidence_window, metavar="N",
        help="best successive tokens of each passage that count, or inf (default: the model's, else inf)",
    )  # fmt: skip
    add(
        "--isolation-tau", type=isolation_tau, metavar="TAU",
        help="isolated-token threshold, a whole number or inf (default: the model's, else 2)",
    )  # fmt: skip
