"""A classifier with its tokenizer: rows of tokens in, logits out, in batches by the token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from attribeam.attribution.attention.batching import pack_by_token_budget, run_halving, token_budget_on
from attribeam.attribution.models.model_directory import ModelDirectory, model_context
from attribeam.attribution.models.weight_files import revision_of
from attribeam.schemas import Passage, Reason, RowFault

Row = Mapping[str, list[int]]
"""The tokens of one row, by the names of the model's inputs."""
_SPARE_TOKENS = 8
"""Tokens that a window leaves free, since joined texts may have a few more than their parts."""
_FEWEST_TOKENS = 32
"""The least room for passages beside the question and the answer, or beside the claim."""


@dataclass(frozen=True, slots=True)
class Classifier:
    """A loaded classifier.

    Attributes:
        longest: the most tokens of a row.
        read: what is taken of the model's logits, the padding of a batch included: one tensor per row.
    """

    directory: ModelDirectory
    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    longest: int
    read: Callable[[PreTrainedModel, dict[str, torch.Tensor]], torch.Tensor]

    def provenance(self) -> dict[str, str]:
        """Name, revision and precision."""
        return {
            "verifier": self.directory.options.model,
            "verifier_revision": revision_of(self.directory),
            "verifier_dtype": str(self.network.dtype).removeprefix("torch."),
        }

    def row(self, text: str, pair: str | None = None) -> Any:
        """The encoding of one or two texts, with special tokens and offsets.

        Raises:
            RowFault: TOO_MANY_TOKENS if it is longer than the model reads.
        """
        found = self.tokenizer(text, pair, return_offsets_mapping=True, verbose=False)
        if len(found["input_ids"]) > self.longest:
            raise too_long(self.longest)
        return found

    def probabilities(self, rows: Sequence[Row]) -> list[torch.Tensor | RowFault]:
        """The probabilities of the classes of each row, float32 on the host; rows of similar length share a batch."""
        budget = token_budget_on(self.network.device, self.directory.options.token_budget)
        found: dict[int, torch.Tensor | RowFault] = {}
        for batch in pack_by_token_budget([len(row["input_ids"]) for row in rows], budget):
            found |= zip(batch, run_halving([rows[place] for place in batch], self._probabilities), strict=True)
        return [_finite(found[place]) for place in range(len(rows))]

    @torch.inference_mode()
    def _probabilities(self, rows: Sequence[Row]) -> list[torch.Tensor | RowFault]:
        length = max(len(row["input_ids"]) for row in rows)
        names = [name for name in self.tokenizer.model_input_names if name in rows[0]]
        padding = {"input_ids": self.tokenizer.pad_token_id or 0}
        inputs = {
            name: torch.tensor(
                [[*row[name], *[padding.get(name, 0)] * (length - len(row[name]))] for row in rows],
                device=self.network.device,
            )
            for name in names
        }
        return [*self.read(self.network, inputs).float().softmax(dim=-1).cpu()]

    def windows(self, passages: Sequence[Passage], *, overhead: int, lead: str = "") -> Iterator[list[str]]:
        """The texts of the passages in groups that fit beside ``overhead`` tokens, in order.

        A passage that is longer than a window is cut into pieces that overlap by half. ``lead`` stands before each.

        Raises:
            RowFault: TOO_MANY_TOKENS if next to nothing fits.
        """
        room = self.longest - overhead - _SPARE_TOKENS
        if room < _FEWEST_TOKENS:
            raise too_long(self.longest)
        group: list[str] = []
        filled = 0
        for text, length in self._pieces(passages, room, lead):
            if group and filled + length > room:
                yield group
                group, filled = [], 0
            group.append(text)
            filled += length
        if group:
            yield group

    def _pieces(self, passages: Sequence[Passage], room: int, lead: str) -> Iterator[tuple[str, int]]:
        """Texts of at most ``room`` tokens with ``lead`` and a line break, and how many tokens they have."""
        extra = len(self.tokenizer(f"{lead}\n\n", add_special_tokens=False)["input_ids"])
        for text in map(self._plain_text, passages):
            tokens = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            places, most = tokens["offset_mapping"], max(room - extra, 1)
            if len(places) <= most:
                yield text, len(places) + extra
                continue
            for start in range(0, len(places) - most // 2, max(most // 2, 1)):
                piece = places[start : start + most]
                yield text[piece[0][0] : piece[-1][1]], len(piece) + extra

    def _plain_text(self, passage: Passage) -> str:
        return self.plain(f"{passage.title}\n{passage.text}" if passage.title else passage.text)

    def plain(self, text: str) -> str:
        """The text without what the tokenizer would take for special tokens, which part premise and claim."""
        for token in self.tokenizer.all_special_tokens:
            text = text.replace(str(token), " ")
        return text


def loaded(
    directory: ModelDirectory,
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    read: Callable[[PreTrainedModel, dict[str, torch.Tensor]], torch.Tensor],
    *,
    most_tokens: int,
) -> Classifier:
    """A classifier that reads at most ``most_tokens``, or as many as its positions reach."""
    context = model_context(directory.config)
    return Classifier(directory, network, tokenizer, min(context or most_tokens, most_tokens), read)


def too_long(longest: int) -> RowFault:
    """The fault of a row that cannot be cut into windows of what a verifier reads."""
    return RowFault(Reason.TOO_MANY_TOKENS, f"the verifier reads at most {longest} tokens, the answer alone has more")


def _finite(found: torch.Tensor | RowFault) -> torch.Tensor | RowFault:
    if isinstance(found, RowFault) or bool(found.isfinite().all()):
        return found
    return RowFault(Reason.NON_FINITE_ATTENTION, "a verifier's logits should be finite, are not; see --dtype")
