"""What the verdicts and the order of a report mean, in sentences for its reader.

How often a verdict is right is known only where it was measured: the provenance in the run manifest then has the
figures below, each a share from 0 to 1, and says what they were measured on. Without them nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PRECISION = "verdict_precision"
"""The share of the flagged answers that people found an unsupported claim in."""

RECALL = "verdict_recall"
"""The share of the answers with an unsupported claim that are flagged."""

FALSE_ALARMS = "verdict_false_alarms"
"""The share of the answers that people found nothing unsupported in, and that are flagged all the same."""

SHORT = ("verdict_short_precision", "verdict_short_recall", "verdict_short_false_alarms")
"""The same three of short answers."""

MEASURED_ON = "verdict_measured_on"
"""What the figures were measured on, to follow "measured on"."""


def verdict_meaning() -> Iterator[str]:
    """What the verdicts say and do not say."""
    yield (
        "“Supported” means that the retrieved passages say what the claim says, as far as its words and the model's "
        "attention show. It does not mean that the claim is true: a passage may be wrong. “Unsupported” means that the "
        "passages do not say it, or say something else; “weak” lies between the two."
    )
    yield (
        "What claims nothing (headings, questions, words about the answer) has no verdict, and what cannot be read "
        "here (another language, code, tables) is not judged."
    )


def no_proof(models: Mapping[str, str]) -> str:
    """What a verdict is worth, with its measured figures where ``models`` has them."""
    proof = "A verdict is a measurement and no proof: it says where to look first."
    return " ".join([*_figures(models), proof])


def _figures(models: Mapping[str, str]) -> Iterator[str]:
    if PRECISION in models and RECALL in models:
        measured = f" (measured on {models[MEASURED_ON]})" if MEASURED_ON in models else ""
        yield (
            f"Of the answers that the verdict flags, {_percent(models[PRECISION])} do have an unsupported claim; "
            f"of those that have one, it flags {_percent(models[RECALL])}{measured}."
        )
    if FALSE_ALARMS in models:
        yield f"Of the answers that people found nothing wrong with, it flags {_percent(models[FALSE_ALARMS])}."
    if models.keys() >= {*SHORT}:
        precision, recall, alarms = (_percent(models[name]) for name in SHORT)
        yield f"With short answers, of up to three claims, these are {precision}, {recall} and {alarms}."


def _percent(share: str) -> str:
    return f"{float(share):.0%}"


def ranking_meaning(*, calibrated: bool) -> Iterator[str]:
    """How answers are ordered: by a calibrated risk, or by one that is made of their claims."""
    if calibrated:
        yield (
            "The risk of an answer is a calibrated probability, 0 to 100, that it has an unsupported claim. An answer "
            "without one is ranked by its claims."
        )
    else:
        yield (
            "A claim's risk starts at 0 where it is supported, at ½ where it is weak and at 1 where it is unsupported. "
            "It is multiplied by the share of its attention that does not lie on evidence. ½ is added where a number, "
            "date or name of the claim is in no passage with evidence. It is at most 1. An answer's risk is two thirds "
            "the largest risk of its claims and one third their mean. It orders what to read first and is no "
            "probability."
        )
    yield (
        "Refusals come after the other answers, and answers that cannot be judged after these. Ties stay in the order "
        "of the log."
    )
