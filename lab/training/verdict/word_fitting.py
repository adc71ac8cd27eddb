"""Fits what gives words their log odds: trees on their signals, and a probe on their states if a decoder read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from attribeam.attribution.methods.answer_states import read_answers
from attribeam.attribution.verdict.logistic_regression import LogisticRegression
from attribeam.attribution.verdict.state_probe import AnswerStates, StateProbe, mixed, probed_odds, state_names
from attribeam.lab.training.verdict.fitting import fit_regression, fit_trees, word_log_odds
from attribeam.lab.training.verdict.verdict_rows import VerdictRow
from attribeam.schemas import QARecord, RowFault
from attribeam.schemas.errors import RunError

if TYPE_CHECKING:
    from attribeam.attribution.models.decoder import Decoder

_PROBE_SHARE = 0.5
_PROBE_STRENGTH = 0.002
_ANSWERS_PER_BLOCK = 64


@dataclass(frozen=True, slots=True)
class FittedWords:
    """Trees in JSON form, and the probe's regression; None where the rows had no states."""

    trees: dict[str, Any]
    probe: LogisticRegression | None

    def log_odds(self, rows: Sequence[VerdictRow]) -> list[npt.NDArray[np.float64]]:
        """The log odds of the words of each row."""
        odds = word_log_odds(self.trees, rows)
        if self.probe is None:
            return odds
        return [
            mixed(one, probed_odds(self.probe, _states(row)), share=_PROBE_SHARE)
            for one, row in zip(odds, rows, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class FittedDecoder:
    """Whose states the rows have: after which layer, and what of the decoder's provenance they depend on."""

    layer: int
    identity: Mapping[str, str]

    def probe(self, regression: LogisticRegression) -> StateProbe:
        """The probe that a verdict keeps."""
        return StateProbe(self.layer, _PROBE_SHARE, self.identity, regression)


def fit_words(rows: Sequence[VerdictRow], *, seed: int) -> FittedWords:
    """Trees, and a probe if the rows have states.

    Raises:
        UsageError: if scikit-learn is not installed.
    """
    return FittedWords(fit_trees(rows, seed=seed), None if rows[0].states is None else _fit_probe(rows))


def _fit_probe(rows: Sequence[VerdictRow]) -> LogisticRegression:
    states = np.concatenate([_states(row) for row in rows]).astype(np.float32)
    marked = np.concatenate([row.marked_words for row in rows])
    return fit_regression(state_names(states.shape[1]), states, marked, strength=_PROBE_STRENGTH)


def _states(row: VerdictRow) -> npt.NDArray[np.float16]:
    if row.states is None:
        raise ValueError(f"the words of row {row.record_id!r} should have states, have none")
    return row.states


def with_states(rows: Sequence[VerdictRow], records: Sequence[QARecord], decoder: Decoder) -> Iterator[VerdictRow]:
    """The rows with the states of their words in a decoder; shows a progress bar in a terminal.

    Raises:
        RunError: if the decoder refuses an answer.
    """
    by_id = {one.record_id: one for one in records}
    with tqdm(total=len(rows), unit="answer", disable=None, leave=False) as bar:
        for start in range(0, len(rows), _ANSWERS_PER_BLOCK):
            some = rows[start : start + _ANSWERS_PER_BLOCK]
            for row, states in zip(some, _states_of_words(some, by_id, decoder), strict=True):
                if isinstance(states, RowFault):
                    raise RunError(f"--decoder cannot read answer {row.record_id!r}: {states}") from states
                yield replace(row, states=states)
            bar.update(len(some))


def _states_of_words(
    rows: Sequence[VerdictRow], records: Mapping[str, QARecord], decoder: Decoder
) -> list[npt.NDArray[np.float16] | RowFault]:
    def take(place: int, states: AnswerStates) -> npt.NDArray[np.float16]:
        return states.of_words(rows[place].chars).astype(np.float16)

    return read_answers(decoder, [records[row.record_id] for row in rows], take)
