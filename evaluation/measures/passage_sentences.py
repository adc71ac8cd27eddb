"""The passage sentences that evidence points to, found in the same way for every method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from attribeam.attribution.answers.text_sentences import text_sentences
from attribeam.schemas import EvidencePiece, Passage
from attribeam.schemas.labelled_answer import PassageRange

_SHARE_OF_BEST = 0.5


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
