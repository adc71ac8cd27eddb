"""The labelled data sets by the name that the command line gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from evaluation.labelled_answer import LabelledDataset
from evaluation.lfqa import load_lfqa
from evaluation.quotesum import load_quotesum
from evaluation.veri_gran import load_veri_gran

LOADERS: Mapping[str, Callable[[Path], LabelledDataset]] = {
    "quotesum": load_quotesum,
    "veri-gran": load_veri_gran,
    "lfqa": load_lfqa,
}
