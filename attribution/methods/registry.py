"""The methods of an audit by name: the two unions of attention, and the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from attribeam.attribution.evidence.union_results import SpanResult, union_results
from attribeam.attribution.methods.answer_context import AnswerContext
from attribeam.attribution.methods.method import Method, MethodSettings, Need
from attribeam.attribution.methods.user_method import UserMethod, load_user_method
from attribeam.attribution.options import UNIONS, MethodOptions
from attribeam.attribution.verifiers.verdict_reader import check_verdict
from attribeam.schemas.errors import UsageError, did_you_mean

_Method = TypeVar("_Method")


@dataclass(frozen=True, slots=True)
class AttentionUnion:
    """``attn-union`` and ``attn-union-dep``, under the options given on the command line."""

    name: str
    settings: MethodSettings
    needs: frozenset[Need] = frozenset({Need.PARSER, Need.ATTENTION})
    gives_mass: bool = True

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Passage scores and evidence of ``evidence.union_results``."""
        return union_results(
            answer=context.record.answer,
            passages=context.record.passages,
            parsed=context.parsed,
            spans=context.spans,
            encoded=context.encoded,
            tokens=context.attention,
            settings=context.settings_in_force(self.settings.union_options(self.name)),
        )


def resolve_method(options: MethodOptions) -> Method:
    """The method that ``options.method`` names: one of the unions, or the user's own ``module:Name``.

    Raises:
        UsageError: if there is no such method, or the verdict contradicts its options.
        ModelLoadError: if the verdict's directory cannot be read.
    """
    settings = MethodSettings.of(options)
    unions: dict[str, Method] = {name: AttentionUnion(name, settings) for name in UNIONS}
    method = method_named(options.method, unions, settings)
    check_verdict(options)
    return method


def method_named(name: str, known: Mapping[str, _Method], settings: MethodSettings) -> _Method | UserMethod:
    """The method of this name, from ``known`` or the user's own.

    Raises:
        UsageError: if there is no method of this name.
    """
    if name in known:
        return known[name]
    if ":" in name:
        return load_user_method(name, settings)
    hint, names = did_you_mean(name, known), ", ".join(known)
    others = "or module:Name of your own, or of one of those in docs/evaluation.md"
    raise UsageError(f"--method {name!r}: unknown; {hint + ' ' * bool(hint)}there are: {names}; {others}")
