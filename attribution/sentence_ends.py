"""Sentences that a parser ended where no mark ends one, joined again."""

from __future__ import annotations

from collections.abc import Sequence

_ENDS = frozenset(".!?:;…。！？：；।؟۔")
_AFTER_END = "\"'”’»)]}*_"


def ends_sentence(word: str) -> bool:
    """True for a word that ends with a mark which may end a sentence, or that is a closing quote or bracket."""
    bare = word.rstrip(_AFTER_END)
    return bare[-1] in _ENDS if bare else bool(word)


def with_ended_sentences(
    heads: Sequence[int], labels: Sequence[str], starts: Sequence[int], *, ended: Sequence[bool]
) -> tuple[list[int], list[str], list[int]]:
    """The heads, labels and sentence starts of a block, sentences joined where the word between them ends none.

    Args:
        heads: index of each word's head; a root is its own head.
        labels: one a word.
        starts: index of each sentence's first word, ascending.
        ended: for each word whether a sentence may end with it.

    The root of a sentence that is joined to the one before it becomes a ``parataxis`` of that one's root.
    """
    joined_heads, joined_labels = list(heads), list(labels)
    kept: list[int] = []
    root = 0
    for start, end in zip(starts, (*starts[1:], len(heads)), strict=True):
        roots = [word for word in range(start, end) if heads[word] == word]
        if not kept or ended[start - 1]:
            kept.append(start)
            root = roots[0]
            continue
        for word in roots:
            joined_heads[word], joined_labels[word] = root, "parataxis"
    return joined_heads, joined_labels, kept
