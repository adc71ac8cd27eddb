"""Options that say nothing to the measure that was asked for: refused, so that none is ignored in silence."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from evaluation.datasets.loaders import Measure
from evaluation.evaluation_error import OptionError
from evaluation.measures.citation_scores import MOST_CITATIONS
from evaluation.methods.need import Need
from evaluation.methods.passage_score import PassageScore

_METHODS = frozenset({Measure.PASSAGES, Measure.CITATIONS, Measure.FAITHFULNESS})
_MEASURES: Mapping[str, frozenset[Measure]] = {
    "cost": frozenset({Measure.PASSAGES}),
    "nli_model": frozenset({Measure.CITATIONS}),
    "most_citations": frozenset({Measure.CITATIONS}),
    "passage_score": _METHODS,
    "hidden_layer": _METHODS,
    "language_model": _METHODS,
}
"""For which measures an option means something; an option that is not here, for all."""

_DEFAULTS: Mapping[str, object] = {"cost": False, "most_citations": MOST_CITATIONS, "passage_score": PassageScore.SUM}
"""Where it is not None."""

_OF_NEEDS = (
    ("language_model", Need.LANGUAGE_MODEL, "cci and --measure faithfulness"),
    ("hidden_layer", Need.HIDDEN_STATES, "the hss methods"),
)


def check_options(args: argparse.Namespace, measure: Measure) -> None:
    """Refuse options of other measures, and of the suite.

    Raises:
        OptionError: if there is one; the message says for which measures it is.
    """
    for name, measures in _MEASURES.items():
        if measure not in measures and getattr(args, name) != _DEFAULTS.get(name):
            option, owners = "--" + name.replace("_", "-"), ", ".join(one for one in Measure if one in measures)
            raise OptionError(f"{option} is for --measure {owners}, what is measured is: {measure}; leave it out")
    if args.chinese_parser is not None:
        raise OptionError("--chinese-parser is for --suite; name the parser of a single run with --parser")


def check_needed(args: argparse.Namespace, needs: frozenset[Need]) -> None:
    """Refuse options of models that none of the chosen methods needs.

    Raises:
        OptionError: if there is one; the message says which methods it is for.
    """
    for name, need, methods in _OF_NEEDS:
        if getattr(args, name) is not None and need not in needs:
            option = "--" + name.replace("_", "-")
            raise OptionError(f"{option} is for {methods}, none of which was named with --method; leave it out")
