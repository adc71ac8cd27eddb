"""Pair classifiers: does a premise support a claim? HHEM, MiniCheck, FactCG, and any with a label for entailment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from transformers import PreTrainedModel

from attribeam.attribution.verdict.verified import AnswerToVerify, ClaimToVerify, VerifiedAnswer
from attribeam.attribution.verifiers.classifier import Classifier
from attribeam.schemas import QARecord, RowFault
from attribeam.schemas.errors import ModelLoadError

MOST_TOKENS = 2048
"""Of a row, for models whose positions have no end."""
_MOST_WINDOWS = 4
"""The most premises that a claim is held against; what has most of its evidence comes first."""

_ENTAILMENT = ("entailment", "entailed", "entails", "supported")
_UNSUPPORTED_TOKEN, _SUPPORTED_TOKEN = 3, 209
"""What MiniCheck's T5 writes: "" and "1" of T5's vocabulary."""


@dataclass(frozen=True, slots=True)
class PairPrompt:
    """How premise and claim become one text; without one, they are the two texts of a pair."""

    before: str
    between: str
    after: str

    @classmethod
    def of_template(cls, template: str, premise: str, claim: str) -> PairPrompt:
        """The prompt of a template with these two places.

        Raises:
            ValueError: if it lacks one.
        """
        before, found, rest = template.partition(premise)
        between, also_found, after = rest.partition(claim)
        if not found or not also_found:
            raise ValueError(f"should have {premise} and {claim} in this order")
        return cls(before, between, after)

    def text(self, premise: str, claim: str) -> str:
        """The whole text."""
        return self.before + premise + self.between + claim + self.after


FACTCG_PROMPT = PairPrompt(
    "",
    '\n\nChoose your answer: based on the paragraph above can we conclude that "',
    '"?\n\nOPTIONS:\n- Yes\n- No\nI think the answer is ',
)


class PairClassifier:
    """A verifier that holds each claim against its passages, those with most evidence for it first."""

    def __init__(self, classifier: Classifier, *, prompt: PairPrompt | None, label: int) -> None:
        """``label`` is the class that means support."""
        self._classifier, self._prompt, self._label = classifier, prompt, label

    @property
    def device(self) -> torch.device:
        """See ``Verifier``."""
        return self._classifier.network.device

    def provenance(self) -> Mapping[str, str]:
        """See ``Verifier``."""
        return self._classifier.provenance()

    def verify(self, answers: Sequence[AnswerToVerify]) -> list[VerifiedAnswer | RowFault]:
        """See ``Verifier``; of several windows of premises, the one that supports a claim most counts."""
        faults: dict[int, RowFault] = {}
        rows: list[Any] = []
        places: list[tuple[int, int]] = []
        for place, answer in enumerate(answers):
            try:
                windows = [self._rows(answer.record, claim) for claim in answer.claims]
            except RowFault as fault:
                faults[place] = fault
                continue
            rows += [row for of_claim in windows for row in of_claim]
            places += [(place, index) for index, of_claim in enumerate(windows) for _ in of_claim]
        support = [[0.0] * len(answer.claims) for answer in answers]
        for (place, index), found in zip(places, self._classifier.probabilities(rows), strict=True):
            if isinstance(found, RowFault):
                faults.setdefault(place, found)
            else:
                support[place][index] = max(support[place][index], float(found[self._label]))
        return [faults.get(place) or VerifiedAnswer(tuple(one)) for place, one in enumerate(support)]

    def _rows(self, record: QARecord, claim: ClaimToVerify) -> list[Any]:
        text = self._classifier.plain(claim.text)
        passages = [record.passages[place] for place in claim.passages]
        overhead = len(self._row("", text)["input_ids"])
        windows = self._classifier.windows(passages, overhead=overhead)
        return [self._row("\n\n".join(premise), text) for premise in islice(windows, _MOST_WINDOWS)]

    def _row(self, premise: str, claim: str) -> Any:
        if self._prompt is None:
            return self._classifier.row(premise, claim)
        return self._classifier.row(self._prompt.text(premise, claim))


def entailment_label(labels: Mapping[Any, str], name: str) -> int:
    """The index of the label named "entailment" or similar, in any case; ``name`` is the option with its model.

    Raises:
        ModelLoadError: if there is not exactly one.
    """
    found = [index for index, label in labels.items() if label.strip().lower() in _ENTAILMENT]
    if len(found) != 1 or len(labels) < 2:
        raise ModelLoadError(
            f"{name} should have two or more labels, one of them called {' or '.join(_ENTAILMENT)}, has: "
            f"{[*labels.values()]}; name another model, or correct id2label in its config.json"
        )
    return int(found[0])


def read_pair(network: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The logits of a sequence classifier, [rows, classes]."""
    logits: torch.Tensor = network(**inputs).logits
    return logits


def read_first_token(network: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The logits of each row's first token, which is where HHEM answers, [rows, classes]."""
    logits: torch.Tensor = network(**inputs).logits
    return logits[:, 0]


def read_first_word(network: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The logits of the two words that MiniCheck's T5 answers with, [rows, 2]."""
    begin = torch.zeros((len(inputs["input_ids"]), 1), dtype=torch.long, device=network.device)
    logits: torch.Tensor = network(**inputs, decoder_input_ids=begin).logits
    return logits[:, 0, [_UNSUPPORTED_TOKEN, _SUPPORTED_TOKEN]]
