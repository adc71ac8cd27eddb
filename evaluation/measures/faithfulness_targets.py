"""The answers and spans that log-probability drops are measured on; importing this loads no model library."""

from __future__ import annotations

from enum import StrEnum


class SpanChoice(StrEnum):
    """Which spans of an answer are targets: the labelled spans or the context-sensitive tokens."""

    LABELLED = "labelled"
    CTI = "cti"


class AnswerChoice(StrEnum):
    """Whose answers are used: the data's, or the language model's own by greedy decoding."""

    DATA = "data"
    GENERATED = "generated"


def check_targets(*, spans: SpanChoice, source: AnswerChoice) -> None:
    """Check that generated answers are not combined with labelled spans.

    Raises:
        ValueError: if they are.
    """
    if source is AnswerChoice.GENERATED and spans is SpanChoice.LABELLED:
        raise ValueError("labels belong to the data's own answers; add --spans cti to --answers generated")
