"""The two-stage Hugging Face implementation of the paper's appendix, statement by statement.

Stage 1 runs the prompt but its last token and keeps the cache of keys and values. Stage 2 runs the last prompt token
and the response with ``output_attentions=True``. All layers are run, and the attention of all of them is put out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import pad
from transformers import Cache, PreTrainedModel

from attribution.attention.top_columns import passage_mass, sink_mass, top_columns
from attribution.token_attribution import EncodedRow, TokenAttribution


class TwoStage:
    """The weights of layer ``layer`` (1-based) by two calls of the model."""

    def __init__(self, model: PreTrainedModel, *, layer: int) -> None:
        self._model = model
        self._layer = layer

    @torch.inference_mode()
    def attribute(
        self, rows: Sequence[EncodedRow], passage_counts: Sequence[int], *, top_k: int
    ) -> list[TokenAttribution]:
        """The token-wise attributions of rows that run through the model together."""
        prompts, prompt_mask = _padded([row.token_ids[: row.prompt_length] for row in rows], left=True)
        responses, response_mask = _padded([row.token_ids[row.prompt_length :] for row in rows], left=False)
        batch = [tensor.to(self._model.device) for tensor in (prompts, prompt_mask, responses, response_mask)]
        attention = self._forward(*batch)
        width = prompts.shape[1]
        return [
            self._reduced(attention[index], row, width, count, top_k)
            for index, (row, count) in enumerate(zip(rows, passage_counts, strict=True))
        ]

    def _forward(
        self, prompts: torch.Tensor, prompt_mask: torch.Tensor, responses: torch.Tensor, response_mask: torch.Tensor
    ) -> torch.Tensor:
        """[rows, attention heads, responses, prompt and response]."""
        cache = self._stage_1(prompts, prompt_mask)
        return self._stage_2(prompts, prompt_mask, responses, response_mask, cache)[self._layer - 1]

    def _stage_1(self, prompts: torch.Tensor, prompt_mask: torch.Tensor) -> Cache:
        self._model.set_attn_implementation("sdpa")
        found: Cache = self._model(
            input_ids=prompts[:, :-1], attention_mask=prompt_mask[:, :-1], output_attentions=False, use_cache=True
        ).past_key_values
        return found

    def _stage_2(
        self,
        prompts: torch.Tensor,
        prompt_mask: torch.Tensor,
        responses: torch.Tensor,
        response_mask: torch.Tensor,
        cache: Cache,
    ) -> tuple[torch.Tensor, ...]:
        self._model.set_attn_implementation("eager")
        found: tuple[torch.Tensor, ...] = self._model(
            input_ids=torch.cat([prompts[:, -1:], responses[:, :-1]], dim=1),
            attention_mask=torch.cat([prompt_mask[:, :-1], response_mask], dim=1),
            past_key_values=cache,
            output_attentions=True,
            use_cache=True,
        ).attentions
        return found

    def _reduced(
        self, attention: torch.Tensor, row: EncodedRow, width: int, passage_count: int, top_k: int
    ) -> TokenAttribution:
        """``attention`` [attention heads, responses, prompt and response] of a row, the prompt padded to ``width``."""
        responses = len(row.token_ids) - row.prompt_length
        similarity = attention[:, :responses, width - row.prompt_length : width].mean(0).float()
        column_passage = torch.from_numpy(row.column_passage.astype(np.int64)).to(similarity.device)
        columns, scores = top_columns(similarity, top_k)
        sums = (passage_mass(similarity, column_passage, passage_count), sink_mass(similarity, column_passage))
        return TokenAttribution(
            columns.to("cpu", torch.int32).numpy(), scores.cpu().numpy(), *(one.cpu().numpy() for one in sums)
        )


def _padded(rows: Sequence[npt.NDArray[np.int32]], *, left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, int64 [rows, longest]."""
    width = max(map(len, rows))
    sides = [(width - len(row), 0) if left else (0, width - len(row)) for row in rows]
    ids = [torch.from_numpy(row.astype(np.int64)) for row in rows]
    padded = torch.stack([pad(one, side) for one, side in zip(ids, sides, strict=True)])
    mask = torch.stack([pad(torch.ones_like(one), side) for one, side in zip(ids, sides, strict=True)])
    return padded, mask
