"""All methods by their names; each family has a file of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attribeam.attribution.methods.answer_context import Need
from attribeam.attribution.methods.attention_methods import attention_methods
from attribeam.attribution.methods.gradient_methods import ContrastiveGradients
from attribeam.attribution.methods.hidden_state_methods import hidden_state_methods
from attribeam.attribution.methods.method import Method, MethodSettings
from attribeam.attribution.methods.reference_methods import OraclePassage, RandomPassage
from attribeam.attribution.methods.word_methods import word_methods


def all_methods(settings: MethodSettings | None = None) -> Mapping[str, Method]:
    """Every method by its name, in the order of the tables."""
    settings = settings or MethodSettings()
    families: tuple[tuple[Method, ...], ...] = (
        attention_methods(settings),
        hidden_state_methods(settings),
        (ContrastiveGradients(),),
        word_methods(),
        (RandomPassage(settings.seed), OraclePassage()),
    )
    return {method.name: method for family in families for method in family}


def chosen_methods(
    available: Mapping[str, Method], names: Sequence[str] | None, *, with_language_model: bool
) -> list[Method]:
    """The named methods, each once; without names all, those that need a language model only where one was named."""
    if names is not None:
        return [available[name] for name in dict.fromkeys(names)]
    return [one for one in available.values() if with_language_model or Need.LANGUAGE_MODEL not in one.needs]
