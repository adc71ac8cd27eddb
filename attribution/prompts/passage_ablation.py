"""The same answer under a prompt that lacks some of its passages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from attribution.models.language_model import LanguageModel
from attribution.token_attribution import EncodedRow
from schemas import QARecord


def ablated_row(
    model: LanguageModel, record: QARecord, *, kept: Collection[int], response_of: EncodedRow
) -> EncodedRow:
    """The row whose prompt was rendered anew with the ``kept`` passages only, numbered through, none of them included.

    The answer's tokens and their characters are those of ``response_of``, the whole record's row: they never change
    with the prompt.

    Raises:
        RowFault: faults of ``LanguageModel.encode``.
        ValueError: if ``kept`` names a passage that the record does not have.
    """
    passages = range(len(record.passages))
    if not set(kept) <= set(passages):
        raise ValueError(f"kept passages should lie in [0, {len(passages)}), were: {sorted(kept)}")
    left = tuple(record.passages[index] for index in passages if index in kept)
    prompt = model.encode(replace(record, passages=left))
    token_ids = (prompt.token_ids[: prompt.prompt_length], response_of.token_ids[response_of.prompt_length :])
    return replace(
        prompt,
        token_ids=np.concatenate(token_ids),
        response_char_start=response_of.response_char_start,
        response_char_end=response_of.response_char_end,
    )
