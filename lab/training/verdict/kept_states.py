"""Hidden states of words, kept on disk: a fit that was stopped, or another seed, need not run the decoder again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from attribeam.lab.training.verdict.verdict_rows import VerdictRow
from attribeam.schemas import QARecord
from attribeam.schemas.new_file import new_file

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

    def read(self, rows: Sequence[VerdictRow], records: Sequence[QARecord]) -> list[States] | None:
        """The states of these rows, made from these records; None if they are not there, or the file is damaged."""
        try:
            with self._file(rows, records).open("rb") as file, np.load(file, allow_pickle=False) as found:
                states, words = found["states"], found["words"].tolist()
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None
        ends = np.cumsum([max(count, 0) for count in words]).tolist()
        return [None if count < 0 else states[end - count : end] for count, end in zip(words, ends, strict=True)]

    def write(self, rows: Sequence[VerdictRow], records: Sequence[QARecord], states: Sequence[States]) -> None:
        """Keep the states of these rows; the file appears only when it is complete.

        Raises:
            OSError: if it cannot be written.
        """
        file = self._file(rows, records)
        self.folder.mkdir(parents=True, exist_ok=True)
        read = [one for one in states if one is not None]
        with new_file(file) as out:  # another run may write the same block
            np.savez(
                out,
                states=np.concatenate(read) if read else np.empty((0, 0), dtype=np.float16),
                words=np.array([-1 if one is None else len(one) for one in states], dtype=np.int64),
            )

    def _file(self, rows: Sequence[VerdictRow], records: Sequence[QARecord]) -> Path:
        decoder = [self.decoder[f"language_model_{name}"] for name in _DECIDE]
        texts = [
            (one.question, [(passage.title, passage.text) for passage in one.passages], one.answer) for one in records
        ]
        words = [[(one.char_start, one.char_end) for one in row.chars] for row in rows]
        digest = hashlib.sha256(json.dumps([decoder, texts, words]).encode()).hexdigest()
        return self.folder / f"{digest[:32]}.npz"
