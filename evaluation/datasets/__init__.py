"""Labelled data, read from published files and from logs, and written as logs: the data sets by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from attribeam.evaluation.datasets import published
from attribeam.evaluation.datasets.dataset_file import JudgedDataset, LabelledDataset
from attribeam.evaluation.datasets.labelled_log import load_cited_log, load_judged_log, load_log
from attribeam.logs.columns import LogOptions
from attribeam.schemas.errors import UsageError

LOADERS: Mapping[str, Callable[[Path], LabelledDataset]] = {
    "quotesum": published.load_quotesum,
    "veri-gran": published.load_veri_gran,
    "lfqa": published.load_lfqa,
    "clapnq": published.load_clapnq,
    "log": load_log,
}
"""Data sets whose labels say which passage each span comes from."""

CITED_LOADERS: Mapping[str, Callable[[Path], LabelledDataset]] = {"alce": published.load_alce, "log": load_cited_log}
"""Data sets whose answers cite their passages."""

JUDGED_LOADERS: Mapping[str, Callable[[Path], JudgedDataset]] = {
    "ragtruth": published.load_ragtruth,
    "mtrag": published.load_mtrag,
    "summedits": published.load_summedits,
    "bump": published.load_bump,
    "log": load_judged_log,
}
"""Data sets whose labels say what the passages do not support; ``MARKS`` belongs to them, but needs an audit."""

LOG, MARKS = "log", "marks"
SUPPORTED_DATASETS = frozenset(LOADERS) - {LOG}
"""Data sets whose labelled spans are all supported, because people took them from their sources."""
DATASETS = tuple(dict.fromkeys([*LOADERS, *CITED_LOADERS, *JUDGED_LOADERS, MARKS]))

_Dataset = TypeVar("_Dataset")


def read_dataset(
    loaders: Mapping[str, Callable[..., _Dataset]], name: str, path: Path, options: LogOptions
) -> _Dataset:
    """The named data set; ``options`` say how a log is read, and apply only to logs.

    Raises ``UsageError`` if options are given for another data set; ``DataError`` if the file cannot be read or is not
    in its format.
    """
    if name == LOG:
        return loaders[name](path, options)
    if options != LogOptions():
        raise UsageError(f"--columns and --log-format apply to --dataset {LOG}, not to {name}; leave them out")
    return loaders[name](path)


class Measure(StrEnum):
    """What an evaluation measures."""

    PASSAGES = "passages"
    CITATIONS = "citations"
    SUPPORT = "support"
    FAITHFULNESS = "faithfulness"


class SpanChoice(StrEnum):
    """Which spans of an answer log-probability drops are measured on: labelled ones or context-sensitive tokens."""

    LABELLED = "labelled"
    CTI = "cti"


class AnswerChoice(StrEnum):
    """Whose answers are used: the data's, or the language model's own by greedy decoding."""

    DATA = "data"
    GENERATED = "generated"


_OF_MEASURES: Mapping[Measure, frozenset[str]] = {
    Measure.PASSAGES: frozenset(LOADERS),
    Measure.CITATIONS: frozenset(CITED_LOADERS),
    Measure.SUPPORT: frozenset(JUDGED_LOADERS) | SUPPORTED_DATASETS | {MARKS},
    Measure.FAITHFULNESS: frozenset(LOADERS),
}


def measure_of(dataset: str, asked: str | None) -> Measure:
    """The requested measure, by default the first one that the data set has labels for.

    Raises ``UsageError`` if the data set has no labels for the requested measure.
    """
    own = [measure for measure in Measure if dataset in _OF_MEASURES[measure]]
    if asked is not None and asked not in own:
        raise UsageError(f"--measure of {dataset} should be one of {', '.join(own)}, was: {asked}")
    return own[0] if asked is None else Measure(asked)
