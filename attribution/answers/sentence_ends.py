"""The sentences of a block after the parser: joined where no mark ends one, each with the quote that closes it."""

from __future__ import annotations

from collections.abc import Sequence

_ENDS = frozenset(".!?:;…。！？：；।؟۔")
_WIDE_ENDS = frozenset("。！？…")
_WIDE_CLOSING = "」』）】》〉"
_AFTER_END = "\"'”’»)]}*_" + _WIDE_CLOSING
_BEFORE_MORE = frozenset(
    (
        "dr.", "mr.", "mrs.", "ms.", "prof.", "rev.", "gen.", "col.", "capt.", "lt.", "sgt.", "sen.", "rep.", "gov.",
        "hon.", "st.", "mt.", "messrs.", "mme.", "mlle.", "vs.", "cf.", "e.g.", "i.e.", "viz.", "ca.", "approx.",
        "fig.", "figs.", "eq.", "eqs.", "vol.", "vols.", "pp.",
    )
)  # fmt: skip
_BEFORE_NUMBERS = frozenset(
    (
        "no.", "nos.", "ch.", "sec.", "art.", "jan.", "feb.", "mar.", "apr.", "jun.", "jul.", "aug.", "sep.", "sept.",
        "oct.", "nov.", "dec.",
    )
)  # fmt: skip


def sentence_ends(words: Sequence[str]) -> list[bool]:
    """For each word whether a sentence may end with it.

    It may where the word ends with a mark that ends sentences, and is no title or other abbreviation that more must
    follow ("Dr.", "e.g.", "No. 12"), also where the parser takes its full stop for a word of its own. A word of
    closing quotes and brackets only does as the word before it does.
    """
    ends: list[bool] = []
    for place, word in enumerate(words):
        bare = word.rstrip(_AFTER_END)
        if not bare:
            ends.append(bool(ends) and ends[-1])
            continue
        whole = (words[place - 1] + bare if bare == "." and place else bare).lower()
        numbered = whole in _BEFORE_NUMBERS and "".join(words[place + 1 : place + 2])[:1].isdigit()
        ends.append(bare[-1] in _ENDS and whole not in _BEFORE_MORE and not numbered)
    return ends


def closing_marks(words: Sequence[str], *, spaced: Sequence[bool]) -> list[bool]:
    """For each word whether it is closing quotes and brackets only: bound to the word before, and not to the next.

    Text that is written without blanks shows this by the marks: a bracket that only closes, or a quote behind "。".

    Args:
        words: the words of one block.
        spaced: for each word whether white space follows it; the last one counts as spaced.
    """
    last = len(words) - 1
    return [
        place > 0
        and not spaced[place - 1]
        and not word.rstrip(_AFTER_END)
        and (spaced[place] or place == last or _closes_wide(words[place - 1], word))
        for place, word in enumerate(words)
    ]


def _closes_wide(before: str, word: str) -> bool:
    return before[-1] in _WIDE_ENDS or not word.rstrip(_WIDE_CLOSING)


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


def with_closed_sentences(
    heads: Sequence[int], labels: Sequence[str], starts: Sequence[int], *, closing: Sequence[bool]
) -> tuple[list[int], list[str], list[int]]:
    """The same, where closing marks at the start of a sentence belong to the one before it.

    Args:
        heads, labels, starts: as of ``with_ended_sentences``.
        closing: for each word whether it is a closing mark.

    Such a mark becomes a ``punct`` of the earlier sentence's root; what hung on it becomes a root.
    """
    moved_heads, moved_labels = list(heads), list(labels)
    kept: list[int] = []
    for start, end in zip(starts, (*starts[1:], len(heads)), strict=True):
        first = start
        while kept and first < end and closing[first]:
            first += 1
        root = next((word for word in range(kept[-1], start) if moved_heads[word] == word), start) if kept else start
        for word in range(start, end):
            if word < first:
                moved_heads[word], moved_labels[word] = root, "punct"
            elif start <= heads[word] < first:
                moved_heads[word], moved_labels[word] = word, "root"
        if first < end:
            kept.append(first)
    return moved_heads, moved_labels, kept
