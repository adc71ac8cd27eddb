"""Which answers and spans log-probability drops are measured on."""

from __future__ import annotations

from enum import StrEnum


class Spans(StrEnum):
    """Which spans of an answer are targets: the labelled ones, or its context-sensitive tokens."""

    LABELLED = "labelled"
    CTI = "cti"


class Answers(StrEnum):
    """Whose answers: those of the data, or the language model's own, by greedy decoding."""

    DATA = "data"
    GENERATED = "generated"


def check_targets(*, spans: Spans, source: Answers) -> None:
    """Refuse labelled spans of generated answers.

    Raises:
        ValueError: if they were asked for.
    """
    if source is Answers.GENERATED and spans is Spans.LABELLED:
        raise ValueError("labels belong to the data's own answers; add --spans cti to --answers generated")
