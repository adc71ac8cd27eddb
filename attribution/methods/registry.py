"""All methods by their names; each family has a file of its own."""

from __future__ import annotations

from collections.abc import Mapping

from attribeam.attribution.methods.attention_methods import attention_methods
from attribeam.attribution.methods.gradient_methods import ContrastiveGradients
from attribeam.attribution.methods.hidden_state_methods import hidden_state_methods
from attribeam.attribution.methods.method import Method, MethodSettings
from attribeam.attribution.methods.words import word_methods


def all_methods(settings: MethodSettings | None = None) -> Mapping[str, Method]:
    """Every method by its name, in the order of the tables."""
    settings = settings or MethodSettings()
    families: tuple[tuple[Method, ...], ...] = (
        attention_methods(settings),
        hidden_state_methods(settings),
        (ContrastiveGradients(),),
        word_methods(),
    )
    return {method.name: method for family in families for method in family}
