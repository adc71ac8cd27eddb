"""Rows that are longer than the model's context: windows of whole passages, and the whole row that they make up.

A window is the template with a run of neighbouring passages, the question and the answer. The windows are filled in
the order of the passages; no passage is in two of them, and none is cut. The whole row has one column for every place
on its page that a window has a token at, so what all windows hold (BOS, the template's beginning, the question) is one
column, not one per window.

On the page of the whole row, texts, titles and the question are found by their numbers. What the template wrote between
two of them is found by its beginning behind the same text, and the rest of it by its end before the same text.

The attributions of the windows are put together to those of the whole row. A passage's columns come from their own
window as they are. A column outside the passages lies in several windows and counts as its largest value there. So a
column's value is at least that of each window that has it, and what is among the k largest of the row is among the k
largest of the window that its value comes from: the windows' own top k suffice.

Masses are sums over whole rows. That of a passage is its window's. That outside the passages is the mean over the
windows: the sum of the largest values is not known from the windows' sums. So passages' masses, divided by the number
of windows, and the mass outside are shares of one whole, as they are for a row without windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from attribeam.attribution.prompts.prompt_template import RenderedPrompt
from attribeam.attribution.prompts.token_offsets import EncodedPrompt
from attribeam.attribution.token_attribution import EncodedRow, PassageWindow, TokenAttribution
from attribeam.schemas import Reason, RowFault

_Ints = npt.NDArray[np.int64]


def cut_into_windows(
    whole: EncodedPrompt, *, encode: Callable[[range], EncodedPrompt], passage_count: int, max_tokens: int
) -> EncodedRow:
    """The row of ``whole`` with windows of at most ``max_tokens`` tokens each.

    ``encode`` gives the page that shows only a run of the passages, numbered as in the whole row.

    Raises:
        RowFault: TOO_MANY_TOKENS if a passage does not fit with question and answer, or the windows' answers differ.
    """
    if not passage_count:
        raise _too_long_fault(whole.row, "there is no passage", max_tokens)
    windows = []
    firsts, lasts = _passage_borders(whole.row, passage_count)
    room = max_tokens - len(whole.row.token_ids) + int(lasts.max() - firsts.min()) + 1
    first = 0
    while first < passage_count:
        end = first + _fitting_count(firsts[first:], lasts[first:], room)
        window = encode(range(first, end))
        while len(window.row.token_ids) > max_tokens and end > first + 1:
            end -= 1
            window = encode(range(first, end))
        if len(window.row.token_ids) > max_tokens:
            own = int((window.row.column_passage == first).sum())
            raise _too_long_fault(window.row, f"passage {first + 1} of {passage_count} has {own}", max_tokens)
        windows.append(window)
        first = end
    return _joined_row(whole.prompt, windows)


def _passage_borders(row: EncodedRow, passage_count: int) -> tuple[_Ints, _Ints]:
    """int64 [passages] each: the first column of every passage, and its last; one without columns has none between."""
    firsts = np.full(passage_count, row.prompt_length)
    lasts = np.full(passage_count, -1)
    inside = np.flatnonzero(row.column_passage >= 0)
    np.minimum.at(firsts, row.column_passage[inside], inside)
    np.maximum.at(lasts, row.column_passage[inside], inside)
    return firsts, lasts


def _fitting_count(firsts: _Ints, lasts: _Ints, room: int) -> int:
    """How many of these passages lie within ``room`` columns, from the first one on; at least one."""
    lengths = np.maximum.accumulate(lasts) - np.minimum.accumulate(firsts) + 1
    return max(1, int(np.searchsorted(lengths, room, side="right")))


def _too_long_fault(row: EncodedRow, found: str, max_tokens: int) -> RowFault:
    return RowFault(
        Reason.TOO_MANY_TOKENS,
        f"a passage with template, question and answer should have at most {max_tokens} tokens; {found}, the answer "
        f"{len(row.token_ids) - row.prompt_length}, all together {len(row.token_ids)}. Log shorter texts, or choose a "
        "model with a longer context, or a higher --max-tokens if it was given",
    )


def _joined_row(prompt: RenderedPrompt, windows: Sequence[EncodedPrompt]) -> EncodedRow:
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
    if len({_response_bytes(window.row) for window in windows}) > 1:
        raise RowFault(
            Reason.TOO_MANY_TOKENS,
            "the answer of a row longer than the model's context should have the same tokens in every window, has "
            "others behind another passage; let the prompt template part passages and answer, as by a line break",
        )


def _response_bytes(row: EncodedRow) -> tuple[bytes, bytes, bytes]:
    return (
        row.token_ids[row.prompt_length :].tobytes(),
        row.response_char_start.tobytes(),
        row.response_char_end.tobytes(),
    )


def _column_keys(window: EncodedPrompt, whole: RenderedPrompt) -> _Ints:
    """int64 [prompt_length, 3]: first and last place of each token on the whole page, and its number among its equals.

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


_Key = tuple[int, bool]
_Range = tuple[int, int]
_QUESTION: _Key = (-1, False)
_END: _Key = (-2, False)


def places_on_whole_page(window: RenderedPrompt, whole: RenderedPrompt) -> _Ints:
    """int64 [code points of the window's prompt]: the place of each on the whole prompt, never falling.

    A code point of the template that the whole page does not have gets the place of the one before it, or -1.
    """
    targets = _texts(whole)
    behind, ahead = _literals_around(targets)
    places = np.empty(len(window.text), dtype=np.int64)
    last_key, last_end = _END, 0
    for key, (start, end) in _texts(window).items():
        literal = window.text[last_end:start]
        places[last_end:start] = _literal_places(literal, whole.text, behind[last_key], ahead[key])
        places[start:end] = np.arange(*targets[key])
        last_key, last_end = key, end
    return np.maximum.accumulate(places)


def _texts(prompt: RenderedPrompt) -> dict[_Key, _Range]:
    """The range of every text, title and question, in their order on the page, and the empty one at its end."""
    found = {(region.passage_index, region.in_title): (region.char_start, region.char_end) for region in prompt.regions}
    if prompt.question_char_start < prompt.question_char_end:
        found[_QUESTION] = (prompt.question_char_start, prompt.question_char_end)
    ordered = dict(sorted(found.items(), key=lambda item: item[1]))
    return {**ordered, _END: (len(prompt.text), len(prompt.text))}


def _literals_around(texts: dict[_Key, _Range]) -> tuple[dict[_Key, _Range], dict[_Key, _Range]]:
    """What the template wrote behind each text (behind ``_END``: at the beginning), and what before each."""
    behind, ahead = {}, {}
    last_key, last_end = _END, 0
    for key, (start, end) in texts.items():
        behind[last_key] = ahead[key] = (last_end, start)
        last_key, last_end = key, end
    return behind, ahead


def _literal_places(literal: str, whole: str, behind: _Range, ahead: _Range) -> _Ints:
    """The places of ``literal``, which stands behind one text and before another one."""
    begun = _common_length(literal, whole[slice(*behind)])
    free = max(ahead[0], behind[0] + begun) if behind == ahead else ahead[0]
    ended = _common_length(literal[begun:][::-1], whole[free : ahead[1]][::-1])
    unmatched = np.full(len(literal) - begun - ended, behind[0] + begun - 1)
    return np.concatenate([np.arange(behind[0], behind[0] + begun), unmatched, np.arange(ahead[1] - ended, ahead[1])])


def _common_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (mine, its) in pairs if mine != its), min(len(one), len(other)))


RowOutcome: TypeAlias = TokenAttribution | RowFault
_AttributeRows: TypeAlias = Callable[[Sequence[EncodedRow], Sequence[int]], Sequence[RowOutcome]]


def attribute_with_windows(
    rows: Sequence[EncodedRow], passage_counts: Sequence[int], *, top_k: int, attribute: _AttributeRows
) -> list[RowOutcome]:
    """One outcome per row, with or without windows; ``attribute`` gives one per row without windows.

    The first fault of a window becomes its row's fault.

    Raises:
        ValueError: if there is not one passage count per row, or not one outcome per window.
    """
    parts = [(part, count) for row, count in zip(rows, passage_counts, strict=True) for part in windows_or_whole(row)]
    outcomes = attribute([part for part, _ in parts], [count for _, count in parts])
    if len(outcomes) != len(parts):
        raise ValueError(f"there should be one outcome for each of {len(parts)} parts of rows, are {len(outcomes)}")
    found = iter(outcomes)
    return [_row_outcome(row, [next(found) for _ in windows_or_whole(row)], top_k) for row in rows]


def windows_or_whole(row: EncodedRow) -> list[EncodedRow]:
    """What of a row runs through the model: its windows, or the row itself if it has none."""
    return [window.row for window in row.windows] or [row]


def merge_windows(row: EncodedRow, found: Sequence[TokenAttribution], *, top_k: int) -> TokenAttribution:
    """The attribution of a row from those of its windows, each one the ``top_k`` largest of its own columns."""
    columns = [window.columns[one.top_columns] for window, one in zip(row.windows, found, strict=True)]
    top_columns, top_scores = _largest_of_columns(
        np.concatenate(columns, axis=1),
        np.concatenate([one.top_scores for one in found], axis=1),
        k=min(top_k, row.prompt_length),
    )
    return TokenAttribution(
        top_columns,
        top_scores,
        passage_mass=np.sum([one.passage_mass for one in found], axis=0),
        sink_mass=np.mean([one.sink_mass for one in found], axis=0),
    )


def _row_outcome(row: EncodedRow, found: Sequence[RowOutcome], top_k: int) -> RowOutcome:
    if not row.windows:
        return found[0]
    attributions = [one for one in found if isinstance(one, TokenAttribution)]
    faults = [one for one in found if isinstance(one, RowFault)]
    return faults[0] if faults else merge_windows(row, attributions, top_k=top_k)


def _largest_of_columns(
    columns: npt.NDArray[np.int32], scores: npt.NDArray[np.float32], *, k: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """[responses, k] columns and scores, the largest score of each column, ties towards the lower column."""
    columns, scores = _in_order(np.lexsort((columns, -scores)), columns, scores)
    by_column = np.argsort(columns, axis=1, kind="stable")
    ascending = np.take_along_axis(columns, by_column, axis=1)
    repeated = np.zeros(columns.shape, dtype=bool)
    np.put_along_axis(repeated, by_column[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    columns, scores = _in_order(np.argsort(repeated, axis=1, kind="stable"), columns, scores)
    return columns[:, :k], scores[:, :k]


def _in_order(
    order: npt.NDArray[np.int64], columns: npt.NDArray[np.int32], scores: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(scores, order, axis=1)
