"""Boosted decision trees as plain arrays that are kept in JSON, and the probabilities that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from attribeam.schemas.json_file import Form, Number

_MOST_TREES, _MOST_NODES, _DEEPEST = 2_000, 10_000, 32
_Index = Annotated[int, Field(ge=0, lt=_MOST_NODES)]
_OfNodes = Field(min_length=1, max_length=_MOST_NODES)


class _Tree(Form):
    """One tree; its nodes count from 0, a node stands before its children, and 0 as left node marks a leaf."""

    columns: Annotated[list[_Index], _OfNodes]
    thresholds: Annotated[list[Number], _OfNodes]
    left: Annotated[list[_Index], _OfNodes]
    right: Annotated[list[_Index], _OfNodes]
    values: Annotated[list[Number], _OfNodes]

    @model_validator(mode="after")
    def _check(self) -> Self:
        lengths = {name: len(getattr(self, name)) for name in type(self).model_fields}
        if len({*lengths.values()}) > 1:
            raise ValueError(f"all parts should have one item per node, have: {lengths}")
        for node, pair in enumerate(zip(self.left, self.right, strict=True)):
            if pair != (0, 0) and not all(node < child < len(self.left) for child in pair):
                last = len(self.left) - 1
                raise ValueError(f"the children of node {node} should be from {node + 1} to {last}, were: {pair}")
        return self

    @property
    def depth(self) -> int:
        """The largest number of steps from the root to a leaf."""
        steps = [0] * len(self.left)
        for node, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            for child in (left, right) if left else ():
                steps[child] = max(steps[child], steps[node] + 1)
        return max(steps)


class TreesForm(Form):
    """Trees in a file."""

    bias: Number
    depth: Annotated[int, Field(ge=0, le=_DEEPEST)]
    trees: Annotated[list[_Tree], Field(min_length=1, max_length=_MOST_TREES)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        deepest = max(tree.depth for tree in self.trees)
        if self.depth != deepest:
            raise ValueError(f"depth should be that of the deepest tree, {deepest}, was: {self.depth}")
        return self

    @property
    def column_count(self) -> int:
        """How many columns a row needs."""
        return 1 + max(max(tree.columns) for tree in self.trees)


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
    def from_json(cls, found: TreesForm | Mapping[str, Any]) -> BoostedTrees:
        """The trees that ``trees_json`` gives.

        Raises:
            ValueError: if they do not fit ``TreesForm``.
        """
        form = TreesForm.model_validate(found)
        sizes = [len(tree.left) for tree in form.trees]
        roots = np.cumsum([0, *sizes[:-1]], dtype=np.int32)
        first = np.repeat(roots, sizes)
        left, right = (np.concatenate([getattr(tree, name) for tree in form.trees]) for name in ("left", "right"))
        own = np.arange(len(left))
        return cls(
            bias=form.bias,
            roots=roots,
            columns=np.concatenate([tree.columns for tree in form.trees]).astype(np.int32),
            thresholds=np.concatenate([tree.thresholds for tree in form.trees]).astype(np.float32),
            left=np.where(left == 0, own, first + left).astype(np.int32),
            right=np.where(left == 0, own, first + right).astype(np.int32),
            values=np.concatenate([tree.values for tree in form.trees]).astype(np.float32),
            depth=form.depth,
        )


def trees_json(*, bias: float, depth: int, trees: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, object]:
    """What ``BoostedTrees.from_json`` reads; within a tree, nodes count from 0, and 0 as left node marks a leaf."""
    return {"bias": bias, "depth": depth, "trees": [dict(tree) for tree in trees]}
