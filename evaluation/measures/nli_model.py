"""An ``EntailmentModel`` from any sequence classifier of transformers that has a label for entailment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from attribeam.attribution.models.model_directory import model_context
from attribeam.attribution.verifiers.pair_classifier import entailment_label
from attribeam.evaluation.measures.citations import Claim
from attribeam.schemas.errors import ModelLoadError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_BATCH_CLAIMS = 16
_NO_LIMIT = 2**20
"""Tokenizers without a limit report a huge number, far beyond what they can read."""


class NliModel:
    """Judges a claim as entailed if the entailment label has the largest logit.

    Premise and statement are encoded as a pair of texts. If both together exceed what the model reads, the longer one,
    usually the premise, is cut at its end; ``cut_claims`` counts how often.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, identity: str, device: torch.device
    ) -> None:
        """Wrap a loaded model; most callers want ``from_pretrained``.

        Raises:
            ModelLoadError: if it has no label for entailment.
        """
        self._model, self._tokenizer, self._device = model, tokenizer, device
        self._label = entailment_label(dict(model.config.id2label or {}), f"--nli-model {identity!r}")
        self._longest = longest_input(model, tokenizer)
        self.identity = identity
        self.cut_claims = 0

    @classmethod
    def from_pretrained(cls, name: str, *, device: torch.device | str = "cpu") -> NliModel:
        """Load a directory or a model of the Hugging Face hub.

        Raises:
            ModelLoadError: if there is no such model, or it is no sequence classifier with a label for entailment.
        """
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(name)
            model, report = AutoModelForSequenceClassification.from_pretrained(name, output_loading_info=True)
        except (OSError, ValueError, KeyError) as error:
            raise ModelLoadError(
                f"--nli-model {name!r} should be a directory or hub id of a sequence classifier, could not be loaded: "
                f"{error}"
            ) from error
        if report["missing_keys"]:
            raise ModelLoadError(
                f"--nli-model {name!r} should have the weights of a classifier, lacks {len(report['missing_keys'])} of "
                "them; name a model that was trained for natural language inference"
            )
        revision = getattr(model.config, "_commit_hash", None)
        chosen = torch.device(device)
        model.eval().to(chosen)
        return cls(model, tokenizer, identity=f"{name}@{revision or 'local'}", device=chosen)

    def entails(self, claims: Sequence[Claim]) -> list[bool]:
        """One verdict per claim; claims of similar length share a batch."""
        order = sorted(range(len(claims)), key=lambda index: -sum(map(len, claims[index])))
        verdicts = [False] * len(claims)
        for start in range(0, len(order), _BATCH_CLAIMS):
            batch = order[start : start + _BATCH_CLAIMS]
            for index, verdict in zip(batch, self._batch([claims[index] for index in batch]), strict=True):
                verdicts[index] = verdict
        return verdicts

    def _batch(self, claims: Sequence[Claim]) -> list[bool]:
        premises, statements = [list(texts) for texts in zip(*claims, strict=True)]
        whole = self._tokenizer(premises, statements, verbose=False)["input_ids"]
        self.cut_claims += sum(len(one) > self._longest for one in whole)
        tokens = self._tokenizer(
            premises, statements, truncation=True, max_length=self._longest, padding=True, return_tensors="pt"
        ).to(self._device)
        with torch.inference_mode():
            logits: Any = self._model(**tokens).logits
        return [label == self._label for label in logits.argmax(dim=-1).tolist()]


def longest_input(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The most tokens that the model reads, limited by its tokenizer and its positions."""
    return int(min(tokenizer.model_max_length, model_context(model.config) or _NO_LIMIT, _NO_LIMIT))
