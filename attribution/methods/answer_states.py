"""The hidden states of whole answers in a decoder, many answers in shared batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from attribeam.attribution.token_attribution import EncodedRow
from attribeam.attribution.verdict.state_probe import AnswerStates
from attribeam.schemas import QARecord, RowFault

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.models.decoder import Decoder

_Taken = TypeVar("_Taken")


def read_answers(
    decoder: Decoder, records: Sequence[QARecord], take: Callable[[int, AnswerStates], _Taken]
) -> list[_Taken | RowFault]:
    """What ``take`` makes of the states of each record's answer, given with its place in ``records``, in their order.

    The states are dropped after each batch. A record that the decoder refuses gets its ``RowFault``.
    """
    found: dict[int, _Taken | RowFault] = {}
    rows: dict[int, EncodedRow] = {}
    for place, record in enumerate(records):
        try:
            rows[place] = decoder.encode(record)
        except RowFault as fault:
            found[place] = fault
    places = [*rows]
    for index, states in decoder.response_states([*rows.values()]):
        place = places[index]
        found[place] = states if isinstance(states, RowFault) else take(place, _of_answer(rows[place], states))
    return [found[place] for place in range(len(records))]


def _of_answer(row: EncodedRow, states: torch.Tensor) -> AnswerStates:
    covering = np.flatnonzero(row.response_char_start < row.response_char_end)
    return AnswerStates(row.response_char_start[covering], row.response_char_end[covering], states.numpy()[covering])
