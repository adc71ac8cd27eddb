"""What a method reads of an answer, and so what has to be loaded before the first answer."""

from __future__ import annotations

from enum import StrEnum


class Need(StrEnum):
    """Parts of ``evaluation.methods.answer_context.AnswerContext`` that cost a model."""

    PARSER = "parser"
    ATTENTION = "attention"
    RESPONSE_ATTENTION = "response attention"
    HIDDEN_STATES = "hidden states"
    LANGUAGE_MODEL = "language model"
