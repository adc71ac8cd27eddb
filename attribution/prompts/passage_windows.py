"""Rows that are longer than the model's context: windows of whole passages, and the whole row that they make up.

A window is the template with a run of neighbouring passages, the question and the answer. The windows are filled in
the order of the passages; no passage is in two of them, and none is cut. The whole row has one column for every place
on its page that a window has a token at, so what all windows hold (BOS, the template's beginning, the question) is one
column, not one a window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from attribution.prompts.page_tokenizer import PageTokens
from attribution.prompts.rendered_prompt import RenderedPrompt
from attribution.prompts.window_places import places_on_whole_page
from attribution.token_attribution import EncodedRow, PassageWindow
from schemas import Reason, RowFault

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A rendered prompt with the tokens of its page, answer included."""

    prompt: RenderedPrompt
    row: EncodedRow
    page: PageTokens


def cut_into_windows(
    whole: EncodedPrompt, *, encode: Callable[[range], EncodedPrompt], passage_count: int, max_tokens: int
) -> EncodedRow:
    """The row of ``whole`` with windows of at most ``max_tokens`` tokens each.

    ``encode`` gives the page that shows a run of the passages only, with their numbers in the whole row.

    Raises:
        RowFault: TOO_MANY_TOKENS if a passage does not fit with question and answer, or the windows' answers differ.
    """
    if not passage_count:
        raise _too_long(whole.row, "there is no passage", max_tokens)
    windows = []
    firsts, lasts = _passage_borders(whole.row, passage_count)
    room = max_tokens - len(whole.row.token_ids) + int(lasts.max() - firsts.min()) + 1
    first = 0
    while first < passage_count:
        end = first + _fitting(firsts[first:], lasts[first:], room)
        window = encode(range(first, end))
        while len(window.row.token_ids) > max_tokens and end > first + 1:
            end -= 1
            window = encode(range(first, end))
        if len(window.row.token_ids) > max_tokens:
            own = int((window.row.column_passage == first).sum())
            raise _too_long(window.row, f"passage {first + 1} of {passage_count} has {own}", max_tokens)
        windows.append(window)
        first = end
    return _whole_row(whole.prompt, windows)


def _passage_borders(row: EncodedRow, passage_count: int) -> tuple[_Ints, _Ints]:
    """int64 [passages] each: the first column of every passage, and its last; one without columns has none between."""
    firsts = np.full(passage_count, row.prompt_length)
    lasts = np.full(passage_count, -1)
    inside = np.flatnonzero(row.column_passage >= 0)
    np.minimum.at(firsts, row.column_passage[inside], inside)
    np.maximum.at(lasts, row.column_passage[inside], inside)
    return firsts, lasts


def _fitting(firsts: _Ints, lasts: _Ints, room: int) -> int:
    """How many of these passages lie within ``room`` columns, from the first one on; at least one."""
    lengths = np.maximum.accumulate(lasts) - np.minimum.accumulate(firsts) + 1
    return max(1, int(np.searchsorted(lengths, room, side="right")))


def _too_long(row: EncodedRow, found: str, max_tokens: int) -> RowFault:
    return RowFault(
        Reason.TOO_MANY_TOKENS,
        f"a passage with template, question and answer should have at most {max_tokens} tokens; {found}, the answer "
        f"{len(row.token_ids) - row.prompt_length}, all together {len(row.token_ids)}. Log shorter texts, or choose a "
        "model with a longer context, or a higher --max-tokens if it was given",
    )


def _whole_row(prompt: RenderedPrompt, windows: Sequence[EncodedPrompt]) -> EncodedRow:
    """One row over the columns of all windows; the answer's tokens are those of any window."""
    first = windows[0].row
    _check_responses(windows)
    keys = np.concatenate([_column_keys(window, prompt) for window in windows])
    _, chosen, columns = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    starts = np.cumsum([0, *(window.row.prompt_length for window in windows)])
    parts = [
        PassageWindow(window.row, columns.reshape(-1)[start : start + window.row.prompt_length].astype(np.int32))
        for window, start in zip(windows, starts, strict=False)
    ]

    def gather(name: str) -> npt.NDArray[Any]:
        arrays = [getattr(window.row, name)[: window.row.prompt_length] for window in windows]
        return np.concatenate(arrays)[chosen]

    return replace(
        first,
        token_ids=np.concatenate([gather("token_ids"), first.token_ids[first.prompt_length :]]),
        prompt_length=len(chosen),
        column_passage=gather("column_passage"),
        column_in_title=gather("column_in_title"),
        column_char_start=gather("column_char_start"),
        column_char_end=gather("column_char_end"),
        windows=tuple(parts),
    )


def _check_responses(windows: Sequence[EncodedPrompt]) -> None:
    if len({_response(window.row) for window in windows}) > 1:
        raise RowFault(
            Reason.TOO_MANY_TOKENS,
            "the answer of a row longer than the model's context should have the same tokens in every window, has "
            "others behind another passage; let the prompt template part passages and answer, as by a line break",
        )


def _response(row: EncodedRow) -> tuple[bytes, bytes, bytes]:
    return (
        row.token_ids[row.prompt_length :].tobytes(),
        row.response_char_start.tobytes(),
        row.response_char_end.tobytes(),
    )


def _column_keys(window: EncodedPrompt, whole: RenderedPrompt) -> _Ints:
    """int64 [prompt_length, 3]: first and last place of each token on the whole page, and its number among its likes.

    Ascending. Equal keys of two windows are one column. A special token that the tokenizer added has place -1.
    """
    places = np.append(places_on_whole_page(window.prompt, whole), -1)
    starts, ends = window.page.offsets[: window.row.prompt_length].T
    firsts = np.where(ends > 0, places[np.minimum(starts, ends - 1)], -1)
    firsts = np.maximum.accumulate(firsts)
    lasts = np.maximum.accumulate(np.maximum(places[ends - 1], firsts))
    numbers = np.arange(len(firsts))
    begins = np.append(True, (firsts[1:] != firsts[:-1]) | (lasts[1:] != lasts[:-1]))
    return np.stack([firsts, lasts, numbers - np.maximum.accumulate(np.where(begins, numbers, 0))], axis=1)
