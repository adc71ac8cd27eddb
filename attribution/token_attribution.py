"""Encoded rows and their token-wise attributions: what enters and leaves the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribeam.schemas import CharRange


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """One row, rendered and tokenised once as a whole; made by ``prompts.token_offsets.encode_row``.

    A row that is longer than the model's context has ``windows``, each one of which goes through the model alone; its
    own tokens are then those of all windows, in the order of the whole row.

    Character ranges leave out white space at both ends; a token of white space alone has an empty range but still
    lies in its passage. A token on the border of prompt and answer is the answer's.

    Attributes:
        token_ids: int32 [tokens], special tokens included.
        prompt_length: number of prompt tokens; the response is ``token_ids[prompt_length:]``.
        column_passage: int32 [prompt_length], index of the passage that a prompt token lies in, -1 outside.
        column_in_title: bool [prompt_length], True where the token lies in that passage's title.
        column_char_start, column_char_end: int32 [prompt_length], code points within the passage's text or title.
        response_char_start, response_char_end: int32 [responses], code points within the answer.
        windows: none where the row goes through the model as it is.
    """

    token_ids: npt.NDArray[np.int32]
    prompt_length: int
    column_passage: npt.NDArray[np.int32]
    column_in_title: npt.NDArray[np.bool_]
    column_char_start: npt.NDArray[np.int32]
    column_char_end: npt.NDArray[np.int32]
    response_char_start: npt.NDArray[np.int32]
    response_char_end: npt.NDArray[np.int32]
    windows: tuple[PassageWindow, ...] = ()

    @property
    def token_count(self) -> int:
        """Tokens that go through the model: those of all windows, where there are some."""
        return sum(window.row.token_count for window in self.windows) or len(self.token_ids)

    @property
    def response_chars(self) -> tuple[CharRange | None, ...]:
        """The code points of each response token in the answer, None for a token that covers none."""
        pairs = zip(self.response_char_start.tolist(), self.response_char_end.tolist(), strict=True)
        return tuple(CharRange(start, end) if start < end else None for start, end in pairs)


@dataclass(frozen=True, slots=True)
class PassageWindow:
    """A run of whole passages of a long row, with the template, the question and the answer.

    Attributes:
        row: the window as a row of its own; its passages keep their numbers in the whole row.
        columns: int32 [row.prompt_length], ascending, the column of the whole row that each of its columns is.
    """

    row: EncodedRow
    columns: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TokenAttribution:
    """Token-wise attributions of one response: the top-k of each row of S (Equation 1), all prompt columns counted.

    Attributes:
        top_columns: int32 [responses, k], prompt columns by falling similarity, ties towards the lower column;
            k is ``min(top_k, prompt_length)``.
        top_scores: float32 [responses, k], their similarities S_ij.
        passage_mass: float32 [responses, passages], the whole row's similarity on each passage (top-k or not).
        sink_mass: float32 [responses], that on the prompt's columns that lie in no passage: special tokens, template,
            question. Of a row with windows the mean over its windows, each of which has those columns.
    """

    top_columns: npt.NDArray[np.int32]
    top_scores: npt.NDArray[np.float32]
    passage_mass: npt.NDArray[np.float32]
    sink_mass: npt.NDArray[np.float32]
