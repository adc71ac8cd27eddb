"""Hidden states of words in a decoder, kept on disk: a fit that was stopped need not run the decoder again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from attribeam.attribution.language_models import Decoder, read_answers
from attribeam.attribution.verdict.fitted_parts import AnswerStates
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import RunError
from attribeam.schemas.files import new_file
from lab.training.verdict.fitting import PROBE_SETS
from lab.training.verdict.verdict_rows import VerdictRow

_ANSWERS_PER_BLOCK = 64

_DECIDE = ("weights", "prompt_template", "layer", "dtype", "quantization")
"""What of a decoder's provenance its states depend on; versions and batches move them by rounding only."""

States = npt.NDArray[np.float16] | None
"""Those of one row's words, float16 (words, size); None for a row that the decoder could not read."""


@dataclass(frozen=True, slots=True)
class KeptStates:
    """A folder with a file for each block of rows, which is named by all that decides its states.

    So a folder serves several decoders, layers and data sets, and an interrupted run loses one block at most.
    """

    folder: Path
    decoder: Mapping[str, str]

    def read(self, rows: Sequence[VerdictRow]) -> list[States] | None:
        """The states of these rows; None if they are not there, or the file is damaged."""
        try:
            with self._file(rows).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                states, words = arrays["states"], arrays["words"].tolist()
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None
        ends = np.cumsum([max(count, 0) for count in words]).tolist()
        return [None if count < 0 else states[end - count : end] for count, end in zip(words, ends, strict=True)]

    def write(self, rows: Sequence[VerdictRow], states: Sequence[States]) -> None:
        """Keep the states of these rows; the file appears only when it is complete.

        Raises:
            OSError: if it cannot be written.
        """
        file = self._file(rows)
        self.folder.mkdir(parents=True, exist_ok=True)
        read = [part for part in states if part is not None]
        with new_file(file) as out:  # another run may write the same block
            np.savez(
                out,
                states=np.concatenate(read) if read else np.empty((0, 0), dtype=np.float16),
                words=np.array([-1 if part is None else len(part) for part in states], dtype=np.int64),
            )

    def _file(self, rows: Sequence[VerdictRow]) -> Path:
        decoder = [self.decoder[f"language_model_{name}"] for name in _DECIDE]
        texts = [
            (record.question, [(passage.title, passage.text) for passage in record.passages], record.answer)
            for record in (row.record for row in rows)
        ]
        words = [[(chars.char_start, chars.char_end) for chars in row.chars] for row in rows]
        digest = hashlib.sha256(json.dumps([decoder, texts, words]).encode()).hexdigest()
        return self.folder / f"{digest[:32]}.npz"


def with_states(rows: Sequence[VerdictRow], decoder: Decoder, *, kept_in: Path | None = None) -> Iterator[VerdictRow]:
    """The rows, those of ``PROBE_SETS`` with the states of their words; shows a progress bar in a terminal.

    A row that is longer than the decoder's context has none: the probe is fitted on the others. States that are in the
    folder ``kept_in`` are read, all others written to it.

    Raises:
        RunError: if the decoder refuses an answer for another reason, or a file cannot be written.
    """
    kept = None if kept_in is None else KeptStates(kept_in, decoder.provenance())
    with tqdm(total=len(rows), unit="answer", disable=None, leave=False) as bar:
        for start in range(0, len(rows), _ANSWERS_PER_BLOCK):
            block = rows[start : start + _ANSWERS_PER_BLOCK]
            read = [row for row in block if row.set_name in PROBE_SETS]
            states = iter(_kept_or_read(read, decoder, kept) if read else [])
            yield from (replace(row, states=next(states)) if row.set_name in PROBE_SETS else row for row in block)
            bar.update(len(block))


def _kept_or_read(rows: Sequence[VerdictRow], decoder: Decoder, kept: KeptStates | None) -> list[States]:
    if kept is not None and (known := kept.read(rows)) is not None:
        return known
    states = _states_of_words(rows, decoder)
    if kept is not None:
        try:
            kept.write(rows, states)
        except OSError as error:
            raise RunError(f"--decoder-states {kept.folder} cannot be written: {error}") from error
    return states


def _states_of_words(rows: Sequence[VerdictRow], decoder: Decoder) -> list[States]:
    def take(index: int, windows: Sequence[AnswerStates]) -> States:
        return windows[0].of_words(rows[index].chars).astype(np.float16) if len(windows) == 1 else None

    results: list[States] = []
    for row, states in zip(rows, read_answers(decoder, [row.record for row in rows], take), strict=True):
        if isinstance(states, RowFault) and states.reason is not Reason.TOO_MANY_TOKENS:
            raise RunError(f"--decoder cannot read answer {row.record.record_id!r}: {states}") from states
        results.append(None if isinstance(states, RowFault) else states)
    return results
