"""The two methods of an audit, which read attention weights."""

from __future__ import annotations

from dataclasses import dataclass

from attribeam.attribution.evidence.union_results import SpanResult, union_results
from attribeam.attribution.methods.answer_context import AnswerContext
from attribeam.attribution.methods.method import OWN_OPTIONS, THRESHOLDS, UNION_OPTIONS, MethodSettings, Need


@dataclass(frozen=True, slots=True)
class AttentionUnion:
    """``attn-union`` and ``attn-union-dep``, under the options given on the command line."""

    union: str
    settings: MethodSettings
    needs: frozenset[Need] = frozenset({Need.PARSER, Need.ATTENTION})
    gives_mass: bool = True
    calibrated: bool = True
    reads: frozenset[str] | None = UNION_OPTIONS | OWN_OPTIONS | THRESHOLDS

    @property
    def name(self) -> str:
        """The method's name in the paper, as the audit's options have it."""
        return str(self.union)

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Passage scores and evidence of ``evidence.union_results``."""
        return union_results(
            answer=context.record.answer,
            passages=context.record.passages,
            parsed=context.parsed,
            spans=context.spans,
            encoded=context.encoded,
            tokens=context.attended[1],
            settings=context.settings_in_force(self.settings.union_options(self.union)),
        )
