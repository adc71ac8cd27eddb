"""Trees give the sums of the leaves that a row falls into."""

from __future__ import annotations

import numpy as np
import pytest

from attribeam.attribution.verdict.regressions import BoostedTrees, trees_json

STUMP = {"columns": [0, 0, 0], "thresholds": [1.5, 0, 0], "left": [1, 0, 0], "right": [2, 0, 0], "values": [0, -1, 2]}
DEEP = {
    "columns": [1, 0, 0, 0, 0], "thresholds": [0.0, 0, 5.0, 0, 0], "left": [1, 0, 3, 0, 0], "right": [2, 0, 4, 0, 0],
    "values": [0, 10, 0, 20, 30],
}  # fmt: skip


def test_leaves_of_all_trees_add_up() -> None:
    trees = BoostedTrees.from_json(trees_json(bias=0.5, depth=2, trees=[STUMP, DEEP]))
    rows = np.array([[1.5, -1], [2, 1], [6, 1]], dtype=np.float32)
    assert trees.log_odds(rows) == pytest.approx([0.5 - 1 + 10, 0.5 + 2 + 20, 0.5 + 2 + 30])
    assert trees.log_odds(np.empty((0, 2), dtype=np.float32)).shape == (0,)


def test_parts_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="one item per node"):
        BoostedTrees.from_json(trees_json(bias=0.0, depth=1, trees=[STUMP | {"values": [1.0]}]))
