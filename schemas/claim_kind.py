"""What a span of an answer is to a judge: a claim, one of the kinds of text that claim nothing, or unreadable."""

from __future__ import annotations

from enum import StrEnum


class ClaimKind(StrEnum):
    """What a span is; only a ``CLAIM`` is judged."""

    CLAIM = "claim"
    DISCOURSE = "discourse"
    """Words about the answer or its sources: "Based on the given passages", "follow these steps"."""
    REFUSAL = "refusal"
    """What the answer says it cannot say: "the passages do not mention a date"."""
    HEADING = "heading"
    """A heading, a label, or a line that introduces a list."""
    QUESTION = "question"
    OFFER = "offer"
    """Courtesy to the reader: "let me know if you have other questions"."""
    LANGUAGE = "language"
    """A language or script that parser and model do not read, in the answer or in most of its passages."""
    CODE = "code"
    """Code, or a formula."""
    TABLE = "table"
    """A cell of a table or a field that says too little to be judged: a check mark, "true"."""

    @property
    def is_judgeable(self) -> bool:
        """False for what nobody here can read as a statement: another language, code, a check mark in a table."""
        return self not in (ClaimKind.LANGUAGE, ClaimKind.CODE, ClaimKind.TABLE)


class AnswerKind(StrEnum):
    """What an answer is as a whole."""

    ANSWER = "answer"
    """It makes claims."""
    REFUSAL = "refusal"
    """It refuses, and claims nothing."""
    PARTIAL = "partial"
    """It makes claims, and refuses something."""
    NOT_JUDGED = "not_judged"
    """Nothing in it can be judged: another language, code, tables."""
    NO_CLAIM = "no_claim"
    """It neither claims nor refuses."""
