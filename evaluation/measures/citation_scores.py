"""Citation recall, precision and F1 by ALCE's definition (Gao et al. 2023), for one answer and for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.measures.bootstrap import Interval, percentile_interval
from evaluation.measures.entailment import EntailmentModel
from schemas import Passage

MOST_CITATIONS = 3


@dataclass(frozen=True, slots=True)
class CitingSentence:
    """A sentence without its markers and the passages it cites, 0-based, in their order; some may not exist."""

    text: str
    citations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CitationCounts:
    """What came of one answer.

    Attributes:
        sentences: all of them, cited or not.
        supported: sentences that their citations together entail.
        citations: those that were judged.
        needed: those of supported sentences that entail it alone, or without which the others do not.
    """

    sentences: int
    supported: int
    citations: int
    needed: int

    @property
    def recall(self) -> float:
        """Share of the sentences that are supported."""
        return self.supported / self.sentences

    @property
    def precision(self) -> float:
        """Share of the citations that are needed; 0 without citations."""
        return self.needed / self.citations if self.citations else 0.0


@dataclass(frozen=True, slots=True)
class CitationScore:
    """Means over the answers in percent; ``f1`` is the harmonic mean of the two means; intervals are over answers."""

    recall: float
    recall_interval: Interval
    precision: float
    precision_interval: Interval
    f1: float
    f1_interval: Interval
    citations_a_sentence: float


def citation_counts(
    passages: Sequence[Passage],
    sentences: Sequence[CitingSentence],
    model: EntailmentModel,
    *,
    most_citations: int = MOST_CITATIONS,
) -> CitationCounts:
    """The counts of one answer; ``sentences`` has one at least.

    Of a sentence's citations the first ``most_citations`` are judged. A sentence without any, or with one that does
    not exist, is not supported, and its citations are not counted.
    """
    judged = [
        CitingSentence(one.text, one.citations[:most_citations])
        for one in sentences
        if one.citations and all(0 <= passage < len(passages) for passage in one.citations)
    ]
    verdicts = model.entails([_claim(passages, one.citations, one.text) for one in judged])
    supported = [one for one, entailed in zip(judged, verdicts, strict=True) if entailed]
    return CitationCounts(
        sentences=len(sentences),
        supported=len(supported),
        citations=sum(len(one.citations) for one in judged),
        needed=_needed(passages, supported, model),
    )


def citation_score(counts: Sequence[CitationCounts], row_counts: npt.NDArray[np.int64]) -> CitationScore:
    """The figures of all answers, one or more; ``row_counts`` int64 [draws, answers] are resamples of them."""
    recalls = np.array([one.recall for one in counts])
    precisions = np.array([one.precision for one in counts])
    drawn_recalls, drawn_precisions = (row_counts @ shares / len(counts) for shares in (recalls, precisions))
    recall, precision = float(recalls.mean()), float(precisions.mean())
    return CitationScore(
        recall=100 * recall,
        recall_interval=percentile_interval(100 * drawn_recalls),
        precision=100 * precision,
        precision_interval=percentile_interval(100 * drawn_precisions),
        f1=100 * float(_harmonic_mean(recalls.mean(keepdims=True), precisions.mean(keepdims=True))[0]),
        f1_interval=percentile_interval(100 * _harmonic_mean(drawn_recalls, drawn_precisions)),
        citations_a_sentence=sum(one.citations for one in counts) / sum(one.sentences for one in counts),
    )


def _needed(passages: Sequence[Passage], supported: Sequence[CitingSentence], model: EntailmentModel) -> int:
    """The citations of supported sentences that are needed: the only one, one that suffices, one that is missed."""
    several = [(one, citation) for one in supported if len(one.citations) > 1 for citation in one.citations]
    alone = model.entails([_claim(passages, [citation], one.text) for one, citation in several])
    unsure = [pair for pair, entailed in zip(several, alone, strict=True) if not entailed]
    without = model.entails([_claim(passages, _others(one, citation), one.text) for one, citation in unsure])
    return sum(len(one.citations) for one in supported) - sum(without)


def _others(sentence: CitingSentence, citation: int) -> list[int]:
    return [one for one in sentence.citations if one != citation]


def _claim(passages: Sequence[Passage], citations: Sequence[int], statement: str) -> tuple[str, str]:
    return "\n".join(_premise(passages[citation]) for citation in citations), statement


def _premise(passage: Passage) -> str:
    return f"Title: {passage.title}\n{passage.text}" if passage.title else passage.text


def _harmonic_mean(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    both = left + right
    mean: npt.NDArray[np.float64] = np.divide(2 * left * right, both, out=np.zeros_like(both), where=both > 0)
    return mean
