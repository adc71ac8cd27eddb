"""The atomic fact of a word: its predicate's clause without irrelevant conjuncts (Section 3.3, Appendix C).

First the coordinating structures of a sentence and the tree reformed around them (steps 1 and 2), then the facts
(steps 3 to 6), then their ranges in the answer. Within one sentence words are counted from its first. A structure is
the ascending tuple of its components; the first is its leader. Sets of words of one sentence are held as bits of an
int, which makes "v's successors without these subtrees" two operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attribeam.attribution.answers.parsed_answer import (
    ParsedAnswer,
    SentenceTree,
    sentence_of_word,
    sentence_tree,
)
from attribeam.schemas import CharRange

Coordination = tuple[int, ...]


def find_coordinations(heads: Sequence[int], labels: Sequence[str]) -> tuple[Coordination, ...]:
    """The coordinating structures, by ascending leader (Appendix C, step 1).

    Components are collected as the paper's listing does: the leader and its later children that have its own label or
    ``conj``. The listing alone would also take a noun's nested complement for a coordination where both have one label
    ("the state of Ohio" under "the capital of": ``nmod`` under ``nmod``), so the equation above it is applied as well:
    the last component is a ``conj``. What follows the last ``conj`` is no component, but does not undo the structure
    before it: "roles and applications of informatics" has two components, though "informatics" is ``nmod`` of "roles",
    which is one itself.
    """
    later_children: dict[int, list[int]] = {}
    for word, leader in enumerate(heads):
        if word > leader and labels[word] in ("conj", labels[leader]):
            later_children.setdefault(leader, []).append(word)
    found: list[Coordination] = []
    taken: set[int] = set()
    for leader in sorted(later_children):
        components = _up_to_last_conjunct(later_children[leader], labels)
        if leader not in taken and components:
            found.append((leader, *components))
            taken.update(found[-1])
    return tuple(found)


def _up_to_last_conjunct(words: list[int], labels: Sequence[str]) -> list[int]:
    conjuncts = [place for place, word in enumerate(words) if labels[word] == "conj"]
    return words[: conjuncts[-1] + 1] if conjuncts else []


def reform_tree(heads: Sequence[int], coordinations: Sequence[Coordination], *, predicate: int) -> list[int]:
    """The heads with all components of a structure made sisters (Appendix C, step 2).

    A component gets the head of its leader; so does a child of the leader that stands after the leader's first
    fellow component, because it belongs to all of them. ``predicate`` is the root of the tree that is looked at, so
    that it counts as its own head: a structure that it leads stays below it.
    """
    reformed = list(heads)
    reformed[predicate] = predicate
    children = _children(heads)
    depths = _depths(heads, children)
    for leader, first_other, *_ in sorted(coordinations, key=lambda one: depths[one[0]]):
        for word in children[leader]:
            if word >= first_other and word != predicate:
                reformed[word] = reformed[leader]
    return reformed


def _children(heads: Sequence[int]) -> list[list[int]]:
    """The children of each word, ascending; a root is no child of its own."""
    children: list[list[int]] = [[] for _ in heads]
    for word, dependency_head in enumerate(heads):
        if word != dependency_head:
            children[dependency_head].append(word)
    return children


def _depths(heads: Sequence[int], children: Sequence[Sequence[int]]) -> list[int]:
    """How many steps each word lies below its root."""
    depths = [0] * len(heads)
    order = [word for word, dependency_head in enumerate(heads) if word == dependency_head]
    for word in order:
        for child in children[word]:
            depths[child] = depths[word] + 1
        order.extend(children[word])
    return depths


class AtomicFacts:
    """The atomic facts of one answer's words; each sentence is read when first asked for."""

    def __init__(self, parsed: ParsedAnswer) -> None:
        self._parsed = parsed
        self._sentences: dict[int, _SentenceFacts] = {}
        self._words: dict[int, frozenset[int]] = {}

    def words_of(self, word: int) -> frozenset[int]:
        """The words of the atomic fact of ``word``, itself included: A-tilde of Section 3.3.

        These are the closest predicate above the word (a verb, or a word with a copula; the word itself counts) and all
        below that predicate but punctuation, without irrelevant conjuncts. A word without a predicate has only itself.
        Equal facts are one object.
        """
        if word not in self._words:
            start, end = sentence_of_word(self._parsed, word)
            if start not in self._sentences:
                self._sentences[start] = _SentenceFacts(sentence_tree(self._parsed, start, end))
            self._words[word] = self._sentences[start].words_of(word - start)
        return self._words[word]


class _SentenceFacts:
    def __init__(self, tree: SentenceTree) -> None:
        self._tree = tree
        self._coordinations = find_coordinations(tree.heads, tree.labels)
        self._punctuation = sum(1 << word for word, is_mark in enumerate(tree.punctuation) if is_mark)
        self._clauses: dict[int, _Clause] = {}
        self._sets: dict[int, frozenset[int]] = {}

    def words_of(self, word: int) -> frozenset[int]:
        predicate = self._tree.closest_predicate(word)
        if predicate is None:
            return self._as_set(1 << word)
        if predicate not in self._clauses:
            self._clauses[predicate] = _Clause(self._tree, self._coordinations, predicate)
        kept = self._clauses[predicate].kept_successors(word)
        return self._as_set(kept & ~self._punctuation | 1 << word)

    def _as_set(self, bits: int) -> frozenset[int]:
        if bits not in self._sets:
            self._sets[bits] = frozenset(self._tree.first_word + word for word in _words_of_bits(bits))
        return self._sets[bits]


class _Clause:
    """A predicate's successors in the reformed tree (Appendix C, steps 2 to 6)."""

    def __init__(self, tree: SentenceTree, coordinations: Sequence[Coordination], predicate: int) -> None:
        self._predicate = predicate
        self._heads = reform_tree(tree.heads, coordinations, predicate=predicate)
        self._successors = _successor_bits(self._heads, predicate)
        inside = self._successors[predicate]
        self._coordinations = tuple(one for one in coordinations if any(inside >> word & 1 for word in one))
        self._places = {
            word: (index, place) for index, one in enumerate(self._coordinations) for place, word in enumerate(one)
        }
        self._kept: dict[tuple[int | None, ...], int] = {}

    def kept_successors(self, word: int) -> int:
        """Bits of the predicate and its successors, without the conjuncts that do not belong to ``word``."""
        path = self._path_to(word)
        retained, parallel = self._retained_on(path)
        if retained not in self._kept:
            self._kept[retained] = self._without_others(set(path), retained, parallel)
        return self._kept[retained]

    def _path_to(self, word: int) -> list[int]:
        path = [word]
        while path[-1] != self._predicate:
            path.append(self._heads[path[-1]])
        return path

    def _retained_on(self, path: Sequence[int]) -> tuple[tuple[int | None, ...], dict[int, int]]:
        """For each structure the place of its component nearest to the word, None where the path has none (step 4).

        And for each number of components the place in the structure nearest to the word, which structures of as many
        components retain that have none on the path (step 5).
        """
        retained: list[int | None] = [None] * len(self._coordinations)
        parallel: dict[int, int] = {}
        for word in path:
            index, place = self._places.get(word, (0, None))
            if place is not None and retained[index] is None:
                retained[index] = place
                parallel.setdefault(len(self._coordinations[index]), place)
        return tuple(retained), parallel

    def _without_others(self, on_path: set[int], retained: Sequence[int | None], parallel: Mapping[int, int]) -> int:
        kept = self._successors[self._predicate]
        for coordination, on_own_path in zip(self._coordinations, retained, strict=True):
            place = parallel.get(len(coordination)) if on_own_path is None else on_own_path
            if place is None:
                continue
            for component in coordination:
                if component != coordination[place] and component not in on_path:
                    kept &= ~self._successors[component]
        return kept


def _successor_bits(heads: Sequence[int], root: int) -> list[int]:
    """For each word below ``root`` the bits of itself and its successors; 0 for all others."""
    children = _children(heads)
    order = [root]
    for word in order:
        order.extend(children[word])
    bits = [0] * len(heads)
    for word in reversed(order):
        bits[word] |= 1 << word
        if word != root:
            bits[heads[word]] |= bits[word]
    return bits


def _words_of_bits(bits: int) -> list[int]:
    return [word for word in range(bits.bit_length()) if bits >> word & 1]


class AtomicFactRanges:
    """The ranges of an answer's atomic facts; those of equal facts are found once."""

    def __init__(self, *, answer: str, words: Sequence[CharRange]) -> None:
        self._answer = answer
        self._words = words
        self._of_facts: dict[frozenset[frozenset[int]], tuple[CharRange, ...]] = {}

    def around(self, span: CharRange, facts: frozenset[frozenset[int]]) -> tuple[CharRange, ...]:
        """Ranges over a span and the words of some facts, ascending.

        They are merged where they overlap, touch, or only white space lies between.
        """
        if facts not in self._of_facts:
            words = sorted(frozenset().union(*facts))
            self._of_facts[facts] = self._merged([self._words[word] for word in words])
        ranges = self._of_facts[facts]
        if any(one.char_start <= span.char_start and span.char_end <= one.char_end for one in ranges):
            return ranges
        return self._merged(sorted([span, *ranges], key=lambda one: one.char_start))

    def _merged(self, ranges: Iterable[CharRange]) -> tuple[CharRange, ...]:
        merged: list[list[int]] = []
        for one in ranges:
            if merged and not self._answer[merged[-1][1] : one.char_start].strip():
                merged[-1][1] = max(merged[-1][1], one.char_end)
            else:
                merged.append([one.char_start, one.char_end])
        return tuple(CharRange(start, end) for start, end in merged)
