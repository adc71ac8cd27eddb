"""The atomic fact of a word: its predicate's clause without irrelevant conjuncts (Section 3.3, Appendix C); its tokens.

First the coordinating structures of a sentence and the tree reformed around them (steps 1 and 2), then the facts
(steps 3 to 6), then their ranges in the answer. Within one sentence words are counted from its first. A structure is
the ascending tuple of its components; the first is its leader. Sets of words of one sentence are held as bits of an
int, which makes "v's successors without these subtrees" two operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.markup import merged_ranges
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, SentenceTree, sentence_of_word, sentence_tree
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
    coordinations: list[Coordination] = []
    taken: set[int] = set()
    for leader, words in sorted(later_children.items()):
        conjuncts = [index for index, word in enumerate(words) if labels[word] == "conj"]
        if leader not in taken and conjuncts:
            coordinations.append((leader, *words[: conjuncts[-1] + 1]))
            taken.update(coordinations[-1])
    return tuple(coordinations)


def reform_tree(heads: Sequence[int], coordinations: Sequence[Coordination], *, predicate: int) -> list[int]:
    """The heads with all components of a structure made sisters (Appendix C, step 2).

    A component gets the head of its leader; so does a child of the leader that stands after the leader's first
    fellow component, because it belongs to all of them. ``predicate`` is the root of the tree that is looked at, so
    that it counts as its own head: a structure that it leads stays below it.
    """
    reformed = list(heads)
    reformed[predicate] = predicate
    children = _children(heads)
    order = _top_down(children, [word for word, head in enumerate(heads) if word == head])
    for leader, first_other, *_ in sorted(coordinations, key=lambda structure: order.index(structure[0])):
        for word in children[leader]:
            if word >= first_other and word != predicate:
                reformed[word] = reformed[leader]
    return reformed


def _children(heads: Sequence[int]) -> list[list[int]]:
    """The children of each word, ascending; a root is no child of its own."""
    children: list[list[int]] = [[] for _ in heads]
    for word, head in enumerate(heads):
        if word != head:
            children[head].append(word)
    return children


def _top_down(children: Sequence[Sequence[int]], roots: Sequence[int]) -> list[int]:
    """Some roots and all below them, each word behind its head."""
    order = list(roots)
    for word in order:
        order.extend(children[word])
    return order


class AtomicFacts:
    """The atomic facts of one answer's words; each sentence is read when first asked for."""

    def __init__(self, parsed: ParsedAnswer) -> None:
        self._parsed = parsed
        self._words: dict[int, frozenset[int]] = {}

    def words_of(self, word: int) -> frozenset[int]:
        """The words of the atomic fact of ``word``, itself included: A-tilde of Section 3.3.

        These are the closest predicate above the word (a verb, or a word with a copula; the word itself counts) and all
        below that predicate but punctuation, without irrelevant conjuncts. A word without a predicate has only itself.
        Equal facts are one object.
        """
        if word not in self._words:
            self._read_sentence(*sentence_of_word(self._parsed, word))
        return self._words[word]

    def _read_sentence(self, start: int, end: int) -> None:
        tree = sentence_tree(self._parsed, start, end)
        coordinations = find_coordinations(tree.heads, tree.labels)
        clauses: dict[int, _Clause] = {}
        facts: dict[int, frozenset[int]] = {}
        for word in range(end - start):
            bits = 1 << word
            predicate = tree.closest_predicate(word)
            if predicate is not None:
                if predicate not in clauses:
                    clauses[predicate] = _Clause(tree, coordinations, predicate)
                bits |= clauses[predicate].kept_successors(word)
            if bits not in facts:
                facts[bits] = frozenset(start + bit for bit in range(bits.bit_length()) if bits >> bit & 1)
            self._words[start + word] = facts[bits]


class _Clause:
    """A predicate's successors in the reformed tree (Appendix C, steps 2 to 6)."""

    def __init__(self, tree: SentenceTree, coordinations: Sequence[Coordination], predicate: int) -> None:
        self._predicate = predicate
        self._heads = reform_tree(tree.heads, coordinations, predicate=predicate)
        self._successors = [0] * len(self._heads)  # bits of each word below the predicate and its successors
        for word in reversed(_top_down(_children(self._heads), [predicate])):
            self._successors[word] |= 1 << word
            if word != predicate:
                self._successors[self._heads[word]] |= self._successors[word]
        inside = self._successors[predicate]
        self._all = inside & ~sum(1 << word for word, is_mark in enumerate(tree.punctuation) if is_mark)
        self._coordinations = tuple(group for group in coordinations if any(inside >> word & 1 for word in group))
        self._positions = {
            word: (index, slot) for index, group in enumerate(self._coordinations) for slot, word in enumerate(group)
        }
        self._kept: dict[tuple[int | None, ...], int] = {}

    def kept_successors(self, word: int) -> int:
        """Bits of the predicate and its successors but punctuation, without conjuncts that do not belong to ``word``.

        On the path from the word to the predicate, each structure retains its component nearest to the word (step 4).
        One without a component there retains what stands at the place of the nearest one with as many (step 5).
        """
        if not self._coordinations:
            return self._all
        path = [word]
        while path[-1] != self._predicate:
            path.append(self._heads[path[-1]])
        on_path: list[int | None] = [None] * len(self._coordinations)
        parallel: dict[int, int] = {}
        for ancestor in path:
            index, slot = self._positions.get(ancestor, (0, None))
            if slot is not None and on_path[index] is None:
                on_path[index] = slot
                parallel.setdefault(len(self._coordinations[index]), slot)
        key = tuple(on_path)
        if key not in self._kept:
            kept = self._all
            for coordination, own in zip(self._coordinations, on_path, strict=True):
                slot = parallel.get(len(coordination)) if own is None else own
                for component in () if slot is None else {*coordination} - {coordination[slot], *path}:
                    kept &= ~self._successors[component]
            self._kept[key] = kept
        return self._kept[key]


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
            self._of_facts[facts] = merged_ranges([self._words[word] for word in words], self._answer)
        ranges = self._of_facts[facts]
        if any(chars.covers(span) for chars in ranges):
            return ranges
        return merged_ranges(sorted([span, *ranges]), self._answer)


_Indices = npt.NDArray[np.intp]
_Integers = npt.NDArray[np.integer]


class WordTokenAlignment:
    """phi and psi of Appendix B for one answer.

    Words ascend and do not overlap. Tokens ascend, cover at least one code point each, and may overlap (the bytes of
    one emoji). A token of only white space, or of a mark that is not a word, has no words.
    """

    def __init__(
        self,
        *,
        words: Sequence[CharRange],
        token_char_start: npt.NDArray[np.int32],
        token_char_end: npt.NDArray[np.int32],
    ) -> None:
        self._tokens = token_char_start, token_char_end
        self.token_count = len(token_char_start)
        bounds = _char_bounds(words)
        self.words_of_tokens = [range(*run) for run in np.transpose(_touched_runs(bounds, *self._tokens)).tolist()]
        """phi: for each token the smallest run of words that covers it, empty where it lies in none."""
        self._tokens_of_words = [range(*run) for run in np.transpose(_touched_runs(self._tokens, *bounds)).tolist()]

    def tokens_of_ranges(self, ranges: Sequence[CharRange]) -> tuple[_Indices, _Indices]:
        """For each range, the half-open run of tokens that share a code point with it: firsts and ends."""
        return _touched_runs(self._tokens, *_char_bounds(ranges))

    def tokens_of_words(self, words: Iterable[int]) -> list[int]:
        """psi: the smallest set of tokens that covers these words, ascending."""
        return sorted(set().union(*[self._tokens_of_words[word] for word in words]))


def _char_bounds(ranges: Sequence[CharRange]) -> tuple[_Indices, _Indices]:
    """The starts of ranges, and their ends."""
    starts = np.array([chars.char_start for chars in ranges], dtype=np.intp)
    return starts, np.array([chars.char_end for chars in ranges], dtype=np.intp)


def _touched_runs(bounds: tuple[_Integers, _Integers], starts: _Integers, ends: _Integers) -> tuple[_Indices, _Indices]:
    """For each [start, end) the half-open run of those of ascending ranges that share a code point with it."""
    firsts = np.searchsorted(bounds[1], starts, side="right")
    return firsts, np.maximum(firsts, np.searchsorted(bounds[0], ends, side="left"))
