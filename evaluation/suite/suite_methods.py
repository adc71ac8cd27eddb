"""The methods of the suite by their names in its tables, and which table asks for which."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from evaluation.methods.method import Method
from evaluation.methods.method_settings import MethodSettings
from evaluation.methods.passage_score import PassageScore
from evaluation.methods.registry import all_methods

FAITHFULNESS = (
    "random", "words", "hss-avg", "hss-avg-dep", "cci", "attn-union", "attn-union-dep", "oracle",
)  # fmt: skip
CITATIONS = ("words", "hss-avg", "cci", "attn-union")
LATENCY = ("words", "hss-avg", "cci", "attn-union")
CHINESE = ("words", "words-dep", "hss-avg", "attn-union", "attn-union-dep")
SUPPORT = ("attn-union-dep", "attn-union")
UNION_OR_AVERAGE = ("hss-union", "hss-avg", "hss-union-dep", "hss-avg-dep")
ALTERNATIVES = (
    "attn-union", "attn-union-sent", "augment-by-attn", "augment-by-attn-sent", "attn-union-dep",
    "hss-union", "hss-union-dep", "words", "words-sent", "words-dep",
)  # fmt: skip
_VARIED = ("attn-union", "attn-union-dep")
_BEST_TOKENS = str(PassageScore.TOP5_MEAN)
_PAPER_WEIGHTS = "paper's weights"


def suite_methods(settings: MethodSettings) -> Mapping[str, Method]:
    """All methods in the order of the tables.

    The attention unions come three times: with the model's own weights, with the paper's, which all alternatives have,
    and by the mean of a passage's five best tokens.
    """
    plain = all_methods(settings)
    variants = {
        _PAPER_WEIGHTS: all_methods(
            replace(settings, own_token_weight=1, sentence_weight=0.0, evidence_window=math.inf)
        ),
        _BEST_TOKENS: all_methods(replace(settings, passage_score=PassageScore.TOP5_MEAN)),
    }
    varied = {f"{name}, {words}": methods[name] for words, methods in variants.items() for name in _VARIED}
    first = {name: plain[name] for name in _VARIED}
    return {**first, **varied, **{name: method for name, method in plain.items() if name not in first}}


def has_paper_weights(name: str) -> bool:
    """Whether a name is that of a union with the paper's weights, whatever the model's own are."""
    return name.endswith(f", {_PAPER_WEIGHTS}")


def with_paper_weights(name: str, ran: Collection[str]) -> str:
    """The name of the same method with the paper's weights, where it is one of those that ran; else ``name``."""
    other = f"{name}, {_PAPER_WEIGHTS}"
    return other if other in ran else name


def base_name(name: str) -> str:
    """The method's name on the command line."""
    return name.partition(",")[0]
