"""The hidden states of whole answers in a decoder, many answers in shared batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from attribeam.attribution.prompts.passage_windows import windows_or_whole
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.attribution.verdict.state_probe import AnswerStates
from attribeam.schemas import QARecord, RowFault

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.language_models.decoder import Decoder

_Taken = TypeVar("_Taken")


def read_answers(
    decoder: Decoder, records: Sequence[QARecord], take: Callable[[int, Sequence[AnswerStates]], _Taken]
) -> list[_Taken | RowFault]:
    """What ``take`` makes of the states of each record's answer, given with its place in ``records``, in their order.

    A record that is longer than the decoder's context is read in windows of whole passages, as the attention model
    reads it, and its answer has states in each of them, in their order; any other has them once. They are dropped as
    soon as they are taken. A record that the decoder refuses gets its ``RowFault``: TOO_MANY_TOKENS if one passage with
    question and answer is longer than the context.
    """
    found: dict[int, _Taken | RowFault] = {}
    parts: list[tuple[int, EncodedRow]] = []
    for place, record in enumerate(records):
        try:
            parts += [(place, part) for part in windows_or_whole(decoder.encode(record))]
        except RowFault as fault:
            found[place] = fault
    left = Counter(place for place, _ in parts)
    read: dict[int, dict[int, AnswerStates]] = {place: {} for place in left}
    for index, states in decoder.response_states([part for _, part in parts]):
        place, part = parts[index]
        left[place] -= 1
        if isinstance(states, RowFault):
            found.setdefault(place, states)
        else:
            read[place][index] = _of_answer(part, states)
        if not left[place]:
            windows = read.pop(place)
            if place not in found:
                found[place] = take(place, [windows[index] for index in sorted(windows)])
    return [found[place] for place in range(len(records))]


def _of_answer(row: EncodedRow, states: torch.Tensor) -> AnswerStates:
    covering = np.flatnonzero(row.response_char_start < row.response_char_end)
    return AnswerStates(row.response_char_start[covering], row.response_char_end[covering], states.numpy()[covering])
