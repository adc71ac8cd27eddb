"""The error of an evaluation that cannot be run as asked."""

from __future__ import annotations


class EvaluationError(RuntimeError):
    """The evaluation cannot be run as asked; the message says why and the way out."""
