"""Which answers and spans log-probability drops are measured on."""

from __future__ import annotations

from enum import StrEnum


class SpanChoice(StrEnum):
    """Which spans of an answer are targets: the labelled ones, or its context-sensitive tokens."""

    LABELLED = "labelled"
    CTI = "cti"


class AnswerChoice(StrEnum):
    """Whose answers: those of the data, or the language model's own, by greedy decoding."""

    DATA = "data"
    GENERATED = "generated"


def check_targets(*, spans: SpanChoice, source: AnswerChoice) -> None:
    """Refuse labelled spans of generated answers.

    Raises:
        ValueError: if they were asked for.
    """
    if source is AnswerChoice.GENERATED and spans is SpanChoice.LABELLED:
        raise ValueError("labels belong to the data's own answers; add --spans cti to --answers generated")
