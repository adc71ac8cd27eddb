"""Encoded rows and their token-wise attributions: the model's input and output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribeam.schemas import CharRange


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """One row, rendered and tokenised once as a whole; made by ``prompts.token_offsets.encode_page``.

    A row longer than the model's context has ``windows``, each of which runs through the model on its own. The row's
    own tokens are then those of all windows, in the order of the whole row.

    Character ranges exclude white space at both ends; a token of white space only has an empty range but still lies in
    its passage. A token that spans the border of prompt and answer belongs to the answer.

    Attributes:
        token_ids: int32 [tokens], special tokens included.
        prompt_length: number of prompt tokens; the response is ``token_ids[prompt_length:]``.
        column_passage: int32 [prompt_length], index of the passage that each prompt token lies in, -1 outside.
        column_in_title: bool [prompt_length], True if the token lies in that passage's title.
        column_char_start, column_char_end: int32 [prompt_length], code points within the passage's text or title.
        response_char_start, response_char_end: int32 [responses], code points within the answer.
        windows: empty if the row runs through the model in one piece.
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
        """Number of tokens that run through the model: those of all windows, if there are any."""
        return sum(window.row.token_count for window in self.windows) or len(self.token_ids)

    @property
    def response_chars(self) -> tuple[CharRange | None, ...]:
        """The range of code points that each response token covers in the answer; None for an empty range."""
        pairs = zip(self.response_char_start.tolist(), self.response_char_end.tolist(), strict=True)
        return tuple(CharRange(start, end) if start < end else None for start, end in pairs)


@dataclass(frozen=True, slots=True)
class PassageWindow:
    """Consecutive whole passages of a long row, with the template, the question and the answer, as a row of its own.

    Passages keep their indices from the whole row. ``columns`` int32 [row.prompt_length], ascending, has for each
    column of the window its column in the whole row.
    """

    row: EncodedRow
    columns: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TokenAttribution:
    """Token-wise attributions of one response: the top-k of each row of S (Equation 1), over all prompt columns.

    ``top_columns`` int32 [responses, k] are prompt columns by descending similarity, ties towards the lower column,
    with k = ``min(top_k, prompt_length)``; ``top_scores`` float32 [responses, k] are their similarities S_ij.
    ``passage_mass`` float32 [responses, passages] is each row's total similarity on each passage (top-k or not),
    ``sink_mass`` float32 [responses] that on prompt columns outside all passages: special tokens, template, question.
    For a row with windows, it is the mean over its windows, each of which has those columns.
    """

    top_columns: npt.NDArray[np.int32]
    top_scores: npt.NDArray[np.float32]
    passage_mass: npt.NDArray[np.float32]
    sink_mass: npt.NDArray[np.float32]
