"""Boosted decision trees as plain arrays that are kept in JSON, and the probabilities that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Trees whose leaves add up to log odds.

    The nodes of all trees stand one after the other. A row goes left at a node where its number in column ``columns``
    is at most ``thresholds``; a leaf is its own left and right node.

    Attributes:
        bias: log odds before the first tree.
        roots: index of each tree's first node, (trees,).
        columns, thresholds, left, right, values: one item per node; ``values`` are 0 but at leaves.
        depth: the largest number of steps from a root to a leaf.
    """

    bias: float
    roots: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    thresholds: npt.NDArray[np.float32]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    depth: int

    def log_odds(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """The log odds of each row of ``rows``, (rows, columns)."""
        nodes = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
        places = np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            goes_left = rows[places, self.columns[nodes]] <= self.thresholds[nodes]
            nodes = np.where(goes_left, self.left[nodes], self.right[nodes])
        odds: npt.NDArray[np.float64] = self.bias + self.values[nodes].sum(axis=1, dtype=np.float64)
        return odds

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> BoostedTrees:
        """The trees that ``to_json`` wrote.

        Raises:
            KeyError, ValueError: if a part is missing or has another length.
        """
        nodes: dict[str, list[float]] = {name: [] for name in ("columns", "thresholds", "left", "right", "values")}
        roots: list[int] = []
        for tree in found["trees"]:
            first = len(nodes["values"])
            roots.append(first)
            for place, (column, threshold, left, right, value) in enumerate(zip(*map(tree.get, nodes), strict=True)):
                is_leaf = left == 0
                nodes["columns"].append(column)
                nodes["thresholds"].append(threshold)
                nodes["left"].append(first + (place if is_leaf else left))
                nodes["right"].append(first + (place if is_leaf else right))
                nodes["values"].append(value)
        return cls(
            bias=float(found["bias"]),
            roots=np.array(roots, dtype=np.int32),
            columns=np.array(nodes["columns"], dtype=np.int32),
            thresholds=np.array(nodes["thresholds"], dtype=np.float32),
            left=np.array(nodes["left"], dtype=np.int32),
            right=np.array(nodes["right"], dtype=np.int32),
            values=np.array(nodes["values"], dtype=np.float32),
            depth=int(found["depth"]),
        )


def trees_json(*, bias: float, depth: int, trees: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, object]:
    """What ``BoostedTrees.from_json`` reads; within a tree, nodes count from 0, and 0 as left node marks a leaf."""
    return {"bias": bias, "depth": depth, "trees": [dict(tree) for tree in trees]}
