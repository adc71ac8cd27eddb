"""Token classifiers in the format of LettuceDetect: the prompt is the first text, the answer the second.

Class 1 of a token of the answer means that it is not supported. The prompt is the one of RAGTruth, in English.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from attribeam.attribution.verdict.verified import AnswerToVerify, ClaimToVerify, VerifiedAnswer
from attribeam.attribution.verifiers.classifier import Classifier
from attribeam.schemas import CharRange, QARecord, RowFault

MOST_TOKENS = 4096
"""Of a row: what LettuceDetect was trained on."""
_LEAD = "passage 100: "
_QUESTION = """Briefly answer the following question:
{question}
Bear in mind that your response should be strictly based on the following {count} passages:
{passages}
In case the passages do not contain the necessary information to answer the question, please reply with: "Unable to \
answer based on given passages."
output:"""
_SUMMARY = """Summarize the following text:
{passages}
output:"""


@dataclass(frozen=True, slots=True)
class AnswerDoubts:
    """How doubtful each token of an answer is.

    Attributes:
        chars: the range of each token that covers a character, in the answer.
        doubts: float64 [tokens], the probability that it is not supported.
    """

    chars: tuple[CharRange, ...]
    doubts: npt.NDArray[np.float64]

    def ranges(self) -> tuple[CharRange, ...]:
        """Runs of neighbouring tokens that are rather unsupported than supported."""
        found: list[CharRange] = []
        open_run = False
        for chars, doubt in zip(self.chars, self.doubts, strict=True):
            is_doubtful = doubt > 0.5
            if is_doubtful:
                found.append(CharRange(found.pop().char_start if open_run else chars.char_start, chars.char_end))
            open_run = is_doubtful
        return tuple(found)

    def support(self, claims: Sequence[ClaimToVerify]) -> tuple[float, ...]:
        """For each claim one minus the largest doubt of a token; a token counts for the shortest claim around it."""
        shortest = sorted(range(len(claims)), key=lambda place: claims[place].chars.char_end - _start(claims[place]))
        inside = np.array([[one.chars.overlaps(chars) for chars in self.chars] for one in claims], dtype=bool)
        own = np.zeros_like(inside)
        for place in shortest:
            own[place] = inside[place] & ~own.any(axis=0)
        counting = [mine if mine.any() else all_ for mine, all_ in zip(own, inside, strict=True)]
        return tuple(1 - float(self.doubts[one].max(initial=0.0)) for one in counting)


def _start(claim: ClaimToVerify) -> int:
    return claim.chars.char_start


class TokenClassifier:
    """A verifier that says of each token of an answer whether it is supported."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier

    @property
    def device(self) -> torch.device:
        """See ``Verifier``."""
        return self._classifier.network.device

    def provenance(self) -> Mapping[str, str]:
        """See ``Verifier``."""
        return self._classifier.provenance()

    def verify(self, answers: Sequence[AnswerToVerify]) -> list[VerifiedAnswer | RowFault]:
        """See ``Verifier``."""
        return [
            found if isinstance(found, RowFault) else VerifiedAnswer(found.support(one.claims), found.ranges())
            for one, found in zip(answers, self.doubts([one.record for one in answers]), strict=True)
        ]

    def doubts(self, records: Sequence[QARecord]) -> list[AnswerDoubts | RowFault]:
        """How doubtful each token of each answer is: of a long row, its least doubt in any window."""
        found: dict[int, AnswerDoubts | RowFault] = {}
        rows, places = [], []
        for place, record in enumerate(records):
            try:
                windows = [self._classifier.row(prompt, record.answer) for prompt in self._prompts(record)]
            except RowFault as fault:
                found[place] = fault
            else:
                rows += windows
                places += [place] * len(windows)
        for place, row, probabilities in zip(places, rows, self._classifier.probabilities(rows), strict=True):
            before = found.get(place)
            if isinstance(before, RowFault):
                continue
            if isinstance(probabilities, RowFault):
                found[place] = probabilities
                continue
            of_text, ranges = row.sequence_ids(0), row["offset_mapping"]
            tokens = [token for token, (start, end) in enumerate(ranges) if of_text[token] == 1 and start < end]
            doubts = probabilities[tokens, 1].double().numpy()
            chars = tuple(CharRange(*ranges[token]) for token in tokens)
            found[place] = AnswerDoubts(chars, doubts if before is None else np.minimum(doubts, before.doubts))
        return [found[place] for place in range(len(records))]

    def _prompts(self, record: QARecord) -> Iterator[str]:
        """One prompt for each window of passages."""
        overhead = len(self._classifier.row(_prompt(record.question, ()), record.answer)["input_ids"])
        for texts in self._classifier.windows(record.passages, overhead=overhead, lead=_LEAD):
            yield _prompt(record.question, texts)


def _prompt(question: str, texts: Sequence[str]) -> str:
    passages = "\n".join(f"passage {number}: {text}" for number, text in enumerate(texts, 1))
    if not question.strip():
        return _SUMMARY.format(passages=passages)
    return _QUESTION.format(question=question, count=len(texts), passages=passages)


def read_tokens(network: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The logits of all tokens, [rows, tokens, classes]."""
    logits: torch.Tensor = network(**inputs).logits
    return logits
