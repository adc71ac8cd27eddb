"""The error of an evaluation that cannot be run as asked."""

from __future__ import annotations


class EvaluationError(RuntimeError):
    """The evaluation cannot be run as asked; the message says why and the way out."""


class OptionError(EvaluationError):
    """Options do not go together, or one that is needed is missing; the message says which."""
