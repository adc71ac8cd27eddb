"""Words of a parser that reads characters: one that it hangs on its neighbour as ``subtok`` is of the same word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from schemas import CharRange

INSIDE_WORD = "subtok"
"""The label of a token whose word goes on with the next token, as in spaCy's ``merge_subtokens``."""


@dataclass(frozen=True, slots=True)
class ParsedTokens:
    """The tokens of one block: parallel lists; ``starts`` are the first tokens of the sentences, ascending."""

    ranges: Sequence[CharRange]
    forms: Sequence[str]
    heads: Sequence[int]
    labels: Sequence[str]
    universal_tags: Sequence[str]
    fine_tags: Sequence[str]
    starts: Sequence[int]

    def whole_words(self) -> ParsedTokens:
        """The same with words for tokens: a run of ``subtok`` and the token behind it, in one sentence.

        That last token stands for the word; a word whose head lies in itself is a root.
        """
        if INSIDE_WORD not in self.labels:
            return self
        runs = word_runs(self.labels, self.starts)
        word_of = [word for word, run in enumerate(runs) for _ in run]
        lasts = [run[-1] for run in runs]
        heads = [word_of[self.heads[last]] for last in lasts]
        return ParsedTokens(
            ranges=[CharRange(self.ranges[run[0]].char_start, self.ranges[run[-1]].char_end) for run in runs],
            forms=["".join(self.forms[token] for token in run) for run in runs],
            heads=heads,
            labels=["root" if heads[word] == word else self.labels[last] for word, last in enumerate(lasts)],
            universal_tags=[self.universal_tags[last] for last in lasts],
            fine_tags=[self.fine_tags[last] for last in lasts],
            starts=[word_of[start] for start in self.starts],
        )


def word_runs(labels: Sequence[str], starts: Sequence[int]) -> list[range]:
    """The tokens of each word; a word never goes on in the next sentence."""
    ends = {end - 1 for _, end in pairwise((*starts, len(labels)))}
    runs, first = [], 0
    for token, label in enumerate(labels):
        if label != INSIDE_WORD or token in ends:
            runs.append(range(first, token + 1))
            first = token + 1
    return runs
