"""The registry of methods by name; each family has a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from attribeam.attribution.methods.attention_methods import attention_methods
from attribeam.attribution.methods.gradient_methods import ContrastiveGradients
from attribeam.attribution.methods.hidden_state_methods import hidden_state_methods
from attribeam.attribution.methods.method import Method, MethodSettings
from attribeam.attribution.methods.probed_method import ProbedMethod
from attribeam.attribution.methods.user_method import UserMethod, load_user_method
from attribeam.attribution.methods.words import word_methods
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.judge import probe_of
from attribeam.schemas.errors import UsageError

_OF_LABELS = ("random", "oracle")
_Method = TypeVar("_Method")


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


def resolve_method(options: MethodOptions) -> Method:
    """The method that ``options.method`` names: one of ``all_methods``, or the user's own ``module:Name``.

    With a verdict that has a probe it is a ``ProbedMethod``.

    Raises:
        UsageError: if there is no such method; the message lists the known ones.
        ModelLoadError: if the verdict's directory cannot be read.
    """
    settings = MethodSettings.of(options)
    method = method_named(options.method, all_methods(settings), settings)
    probe = probe_of(options)
    return method if probe is None else ProbedMethod(method, probe)


def method_named(name: str, known: Mapping[str, _Method], settings: MethodSettings) -> _Method | UserMethod:
    """The method of this name, from ``known`` or the user's own.

    Raises:
        UsageError: if there is no method of this name.
    """
    if name in known:
        return known[name]
    if ":" in name:
        return load_user_method(name, settings)
    if name in _OF_LABELS:
        raise UsageError(f"--method {name!r} needs labels, it is for attribeam evaluate only")
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    names = ", ".join(known)
    raise UsageError(f"--method {name!r}: unknown; {hint}there are: {names}; or module:Name of your own")
