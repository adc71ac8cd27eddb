"""Blocks hold neighbouring rows in their order, and none is lost at the end of a bundle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from transforms.pack_rows import PackRows


def blocks_of(rows: list[int], pack: PackRows) -> list[tuple[object, ...]]:
    """What one bundle of rows gives."""
    pack.start_bundle()
    blocks = [block for row in rows for block in pack.process(row)]
    return blocks + [windowed.value for windowed in pack.finish_bundle()]


@given(rows=st.lists(st.integers(0, 100)), max_rows=st.integers(1, 10), max_weight=st.none() | st.integers(1, 200))
def test_blocks_are_the_rows_in_order_and_keep_their_bounds(
    rows: list[int], max_rows: int, max_weight: int | None
) -> None:
    blocks = blocks_of(rows, PackRows(max_rows, weigh=int, max_weight=max_weight))
    assert [row for block in blocks for row in block] == rows
    assert all(1 <= len(block) <= max_rows for block in blocks)
    if max_weight is not None:
        assert all(sum(block[:-1]) < max_weight for block in blocks)  # type: ignore[arg-type]


def test_every_bundle_starts_with_an_empty_block() -> None:
    pack = PackRows(10)
    pack.start_bundle()
    list(pack.process(1))
    assert blocks_of([2, 3], pack) == [(2, 3)]
