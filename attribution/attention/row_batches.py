"""Which rows go through a model together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attribution.attention.packing import pack_by_token_budget, pack_end_to_end
from attribution.attention.rope_lengths import groups_by_border
from attribution.attention.row_layout import RowLayout
from attribution.token_attribution import EncodedRow


def row_batches(
    rows: Sequence[EncodedRow], *, layout: RowLayout, token_budget: int, rope_border: int | None, share: bool
) -> Iterator[list[int]]:
    """Indices of the rows of each batch.

    Rows on both sides of ``rope_border`` are never in one batch. With ``share``, rows end to end that begin alike
    stand side by side and count their beginning once.
    """
    lengths = [len(row.token_ids) for row in rows]
    for group in groups_by_border(lengths, rope_border):
        if layout is RowLayout.PADDED:
            packed = pack_by_token_budget([lengths[index] for index in group], token_budget)
        else:
            packed = pack_end_to_end([rows[index].token_ids for index in group], token_budget, share=share)
        yield from ([group[place] for place in batch] for batch in packed)
