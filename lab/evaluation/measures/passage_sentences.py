"""The passage sentences that evidence points to, found in the same way for every method."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

from attribeam.attribution.answers.parser_output import sentence_ends
from attribeam.attribution.answers.target_spans import has_letter_or_digit
from attribeam.schemas import CharRange, EvidencePiece, Passage
from attribeam.schemas.labelled_answer import PassageRange

_SHARE_OF_BEST = 0.5
_LINE = re.compile(r"[^\r\n]+")
_WORD = re.compile(r"""[^\s。！？；：]*[。！？；：]+["'”’»)\]」』）】]*|\S+""")
_CLAUSE_MARKS = (":", ";", "：", "；")
_CLOSING = "\"'”’»)]}*_」』）】"


def best_sentences(evidence: Sequence[EvidencePiece], passages: Sequence[Passage]) -> tuple[PassageRange, ...]:
    """The sentences in the best sentence's passage that reach at least half of its score.

    ``evidence`` are pieces of passage texts, not of titles. A sentence's score is the sum of the scores of the
    pieces in it, each weighted by the share of its characters that lies there. Ties for the best sentence go to the
    first passage, then to the first sentence.
    """
    scores = _sentence_scores(evidence, passages)
    if not scores:
        return ()
    best = min(scores, key=lambda sentence: (-scores[sentence], sentence))
    return tuple(
        sorted(
            sentence
            for sentence, score in scores.items()
            if sentence.passage_index == best.passage_index and score >= _SHARE_OF_BEST * scores[best]
        )
    )


@lru_cache(maxsize=64)
def text_sentences(text: str) -> tuple[CharRange, ...]:
    """The sentences of a text, ascending, without white space at their edges; no parser is used.

    They end where ``answers.parser_output`` ends sentences, at colons and semicolons, and at the end of each line.
    """
    return tuple(one for line in _LINE.finditer(text) for one in _line_sentences(text, line, at_clauses=True))


@lru_cache(maxsize=64)
def whole_sentences(text: str) -> tuple[CharRange, ...]:
    """Like ``text_sentences``, but no sentence ends at a colon or semicolon, and all contain a letter or digit."""
    found = [one for line in _LINE.finditer(text) for one in _line_sentences(text, line, at_clauses=False)]
    return tuple(one for one in found if has_letter_or_digit(one.of(text)))


def _line_sentences(text: str, line: re.Match[str], *, at_clauses: bool) -> Iterator[CharRange]:
    words = list(_WORD.finditer(text, line.start(), line.end()))
    forms = [word.group() for word in words]
    first = 0
    for place, ended in enumerate(sentence_ends(forms)):
        clause = forms[place].rstrip(_CLOSING).endswith(_CLAUSE_MARKS)
        if (ended and (at_clauses or not clause)) or place == len(words) - 1:
            yield CharRange(words[first].start(), words[place].end())
            first = place + 1


def _sentence_scores(evidence: Sequence[EvidencePiece], passages: Sequence[Passage]) -> dict[PassageRange, float]:
    scores: defaultdict[PassageRange, float] = defaultdict(float)
    for piece in evidence:
        index, chars = piece.passage_index, piece.chars
        length = chars.char_end - chars.char_start
        for sentence in text_sentences(passages[index].text):
            if sentence.overlaps(chars):
                common = min(sentence.char_end, chars.char_end) - max(sentence.char_start, chars.char_start)
                scores[PassageRange(index, sentence)] += piece.score * common / length
    return dict(scores)
