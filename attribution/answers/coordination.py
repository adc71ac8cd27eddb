"""Coordinating structures, and the tree reformed around them (Appendix C, steps 1 and 2).

Words are counted within one sentence. A structure is the ascending tuple of its components; the first is its leader.
"""

from __future__ import annotations

from collections.abc import Sequence

Coordination = tuple[int, ...]


def find_coordinations(heads: Sequence[int], labels: Sequence[str]) -> tuple[Coordination, ...]:
    """The coordinating structures, by ascending leader (Appendix C, step 1).

    Components are collected as the paper's listing does: the leader and its later children that have its own label or
    ``conj``. The listing alone would also take a noun's nested complement for a coordination where both have one label
    ("the state of Ohio" under "the capital of": ``nmod`` under ``nmod``), so that the equation above it is asked as
    well: the last component is a ``conj``.
    """
    later_children: dict[int, list[int]] = {}
    for word, leader in enumerate(heads):
        if word > leader and labels[word] in ("conj", labels[leader]):
            later_children.setdefault(leader, []).append(word)
    found: list[Coordination] = []
    taken: set[int] = set()
    for leader in sorted(later_children):
        if leader not in taken and labels[later_children[leader][-1]] == "conj":
            found.append((leader, *later_children[leader]))
            taken.update(found[-1])
    return tuple(found)


def reform_tree(heads: Sequence[int], coordinations: Sequence[Coordination], *, predicate: int) -> list[int]:
    """The heads with all components of a structure made sisters (Appendix C, step 2).

    A component gets the head of its leader; so does a child of the leader that stands after the leader's first
    fellow component, because it belongs to all of them. ``predicate`` is the root of the tree that is looked at, so
    that it counts as its own head: a structure that it leads stays below it.
    """
    reformed = list(heads)
    reformed[predicate] = predicate
    for coordination in sorted(coordinations, key=lambda one: _depth(one[0], heads)):
        leader, first_other = coordination[0], coordination[1]
        for word, dependency_head in enumerate(heads):
            if dependency_head == leader and word >= first_other and word != predicate:
                reformed[word] = reformed[leader]
    return reformed


def _depth(word: int, heads: Sequence[int]) -> int:
    depth = 0
    while heads[word] != word:
        word = heads[word]
        depth += 1
    return depth
