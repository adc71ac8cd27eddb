"""Fits what gives words their log odds: trees on their signals, and a probe on their states if a decoder read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from attribeam.attribution.methods.answer_states import read_answers
from attribeam.attribution.verdict.logistic_regression import LogisticRegression
from attribeam.attribution.verdict.state_probe import (
    AnswerStates,
    ProbeShares,
    StateProbe,
    mixed,
    probed_odds,
    same_share,
    state_names,
)
from attribeam.lab.training.verdict.fitting import fit_regression, fit_trees, word_log_odds
from attribeam.lab.training.verdict.kept_states import KeptStates, States
from attribeam.lab.training.verdict.verdict_rows import VerdictRow
from attribeam.schemas import QARecord, Reason, RowFault
from attribeam.schemas.errors import RunError

if TYPE_CHECKING:
    from attribeam.attribution.models.decoder import Decoder

PROBE_SHARE = 0.5
"""How much a probe's log odds count beside those of the trees, from 0 to 1, unless told."""
PROBE_SHARES: ProbeShares = same_share(PROBE_SHARE)
_PROBE_STRENGTH = 0.002
_ANSWERS_PER_BLOCK = 64


@dataclass(frozen=True, slots=True)
class FittedWords:
    """Trees in JSON form, and the probe's regression with its shares; no probe where the rows had no states."""

    trees: dict[str, Any]
    probe: LogisticRegression | None
    probe_shares: ProbeShares

    def log_odds(self, rows: Sequence[VerdictRow]) -> list[npt.NDArray[np.float64]]:
        """The log odds of the words of each row."""
        return [self._with_probe(*one) for one in zip(word_log_odds(self.trees, rows), rows, strict=True)]

    def _with_probe(self, odds: npt.NDArray[np.float64], row: VerdictRow) -> npt.NDArray[np.float64]:
        """The mean with the probe's log odds, where there is a probe and the decoder read the row."""
        if self.probe is None or row.states is None:
            return odds
        return mixed(odds, probed_odds(self.probe, row.states), share=self.probe_shares[row.signals.kind])


@dataclass(frozen=True, slots=True)
class FittedDecoder:
    """Whose states the rows have: after which layer, what of its provenance they depend on, and how it is got."""

    layer: int
    identity: Mapping[str, str]
    note: str = ""

    def probe_of(self, words: FittedWords) -> StateProbe | None:
        """The probe that a verdict keeps; None if the words have none."""
        if words.probe is None:
            return None
        return StateProbe(self.layer, words.probe_shares, self.identity, words.probe, self.note)


def fit_words(rows: Sequence[VerdictRow], *, seed: int, probe_shares: ProbeShares = PROBE_SHARES) -> FittedWords:
    """Trees, and a probe if some rows have states; rows without are judged by the trees alone.

    The probe's log odds count with the share of the row's kind, from 0 to 1, those of the trees with the rest.

    Raises:
        UsageError: if scikit-learn is not installed.
    """
    probe = _fit_probe(rows) if any(row.states is not None for row in rows) else None
    return FittedWords(fit_trees(rows, seed=seed), probe, probe_shares)


def _fit_probe(rows: Sequence[VerdictRow]) -> LogisticRegression:
    read = [(row.states, row.marked_words) for row in rows if row.states is not None]
    states = np.concatenate([one for one, _ in read]).astype(np.float32)
    marked = np.concatenate([one for _, one in read])
    return fit_regression(state_names(states.shape[1]), states, marked, strength=_PROBE_STRENGTH)


def with_states(
    rows: Sequence[VerdictRow], records: Sequence[QARecord], decoder: Decoder, *, kept_in: Path | None = None
) -> Iterator[VerdictRow]:
    """The rows with the states of their words in a decoder; shows a progress bar in a terminal.

    A row that is longer than the decoder's context has none: the probe is fitted on the others. States that are in the
    folder ``kept_in`` are read, all others written to it.

    Raises:
        RunError: if the decoder refuses an answer for another reason, or a file cannot be written.
    """
    by_id = {one.record_id: one for one in records}
    kept = None if kept_in is None else KeptStates(kept_in, decoder.provenance())
    with tqdm(total=len(rows), unit="answer", disable=None, leave=False) as bar:
        for start in range(0, len(rows), _ANSWERS_PER_BLOCK):
            some = rows[start : start + _ANSWERS_PER_BLOCK]
            for row, states in zip(some, _kept_or_read(some, by_id, decoder, kept), strict=True):
                yield replace(row, states=states)
            bar.update(len(some))


def _kept_or_read(
    rows: Sequence[VerdictRow], by_id: Mapping[str, QARecord], decoder: Decoder, kept: KeptStates | None
) -> list[States]:
    records = [by_id[row.record_id] for row in rows]
    if kept is not None and (known := kept.read(rows, records)) is not None:
        return known
    found = _states_of_words(rows, records, decoder)
    if kept is not None:
        try:
            kept.write(rows, records, found)
        except OSError as error:
            raise RunError(f"--decoder-states {kept.folder} cannot be written: {error}") from error
    return found


def _states_of_words(rows: Sequence[VerdictRow], records: Sequence[QARecord], decoder: Decoder) -> list[States]:
    def take(place: int, windows: Sequence[AnswerStates]) -> States:
        if len(windows) > 1:
            return None
        return windows[0].of_words(rows[place].chars).astype(np.float16)

    found: list[States] = []
    for row, states in zip(rows, read_answers(decoder, records, take), strict=True):
        if isinstance(states, RowFault) and states.reason is not Reason.TOO_MANY_TOKENS:
            raise RunError(f"--decoder cannot read answer {row.record_id!r}: {states}") from states
        found.append(None if isinstance(states, RowFault) else states)
    return found
