"""The registry of the methods under comparison; each family has a file of its own."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.attention_methods import attention_methods
from evaluation.hidden_state_methods import hidden_state_methods
from evaluation.method import Method
from evaluation.method_settings import MethodSettings
from evaluation.word_methods import word_methods


def all_methods(settings: MethodSettings | None = None) -> Mapping[str, Method]:
    """Every method by its name, in the order of the tables."""
    settings = settings or MethodSettings()
    families = (attention_methods(settings), hidden_state_methods(settings), word_methods())
    return {method.name: method for family in families for method in family}
