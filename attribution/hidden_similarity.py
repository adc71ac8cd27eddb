"""Cosine similarity of hidden states: of response and prompt tokens, and of spans and windows of passages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import avg_pool1d, normalize

from attribution.plain_attention import MAX_WEIGHTS
from attribution.token_attribution import EncodedRow, TokenAttribution
from attribution.top_columns import passage_mass, top_columns
from schemas import Reason, RowFault


@dataclass(frozen=True, slots=True)
class WindowScores:
    """For each span and passage the best window of the passage.

    Attributes:
        cosines: float32 [spans, passages], -1 where a passage has no token.
        columns: for each span and passage the prompt columns of that window, ascending; empty without a token.
    """

    cosines: npt.NDArray[np.float32]
    columns: list[list[npt.NDArray[np.intp]]]


class HiddenSimilarity:
    """The similarities of one row, from the hidden states of one layer; the states stay on the device.

    Raises:
        RowFault: NON_FINITE_ATTENTION if a state has NaN or infinity.
    """

    def __init__(self, states: torch.Tensor, *, encoded: EncodedRow, passage_count: int) -> None:
        """``states`` float32 [tokens, size]: prompt and response tokens in the order of the row."""
        if not bool(states.isfinite().all()):
            raise RowFault(Reason.NON_FINITE_ATTENTION, "hidden states should be finite, have NaN or infinity")
        self._prompt, self._response = states[: encoded.prompt_length], states[encoded.prompt_length :]
        self._column_passage = torch.from_numpy(encoded.column_passage.astype(np.int64)).to(states.device)
        self._passage_count = passage_count

    def top_columns(self, top_k: int) -> TokenAttribution:
        """Token-wise attributions with S_ij = cos(r_i, d_j) of the tokens' own states (Section 3.4, Equation 1).

        A negative cosine counts as 0. ``passage_mass`` holds sums of cosines.
        """
        prompt = normalize(self._prompt, dim=1)
        rows_at_once = max(1, MAX_WEIGHTS // len(prompt))
        parts = []
        for response in torch.split(normalize(self._response, dim=1), rows_at_once):
            cosines = response @ prompt.T
            cosines = torch.where(cosines > 0, cosines, 0.0)
            mass = passage_mass(cosines, self._column_passage, self._passage_count)
            parts.append((*top_columns(cosines, top_k), mass))
        columns, scores, mass = (torch.cat(part) for part in zip(*parts, strict=True))
        return TokenAttribution(columns.to("cpu", torch.int32).numpy(), scores.cpu().numpy(), mass.cpu().numpy())

    def best_windows(self, tokens: npt.NDArray[np.bool_], *, window: int) -> WindowScores:
        """Cosine of each span's mean state with the mean states of each passage's windows (Phukan et al. 2024).

        Args:
            tokens: bool [spans, responses], the tokens of each span; a span without tokens has the cosine 0 everywhere.
            window: tokens of a window; windows move by one token, over the tokens of one passage in their order, title
                included. A passage with fewer tokens is one window.
        """
        weights = torch.from_numpy(tokens).to(self._response)
        spans = normalize((weights @ self._response) / weights.sum(1, keepdim=True).clamp(min=1), dim=1)
        cosines = np.full((len(tokens), self._passage_count), -1, dtype=np.float32)
        columns = [[np.empty(0, dtype=np.intp)] * self._passage_count for _ in tokens]
        for passage in range(self._passage_count):
            places = (self._column_passage == passage).nonzero()[:, 0]
            if not len(places):
                continue
            width = min(window, len(places))
            means = avg_pool1d(self._prompt[places].T[None], width, stride=1)[0].T
            best = (spans @ normalize(means, dim=1).T).max(dim=1)
            cosines[:, passage] = best.values.cpu().numpy()
            in_prompt = places.cpu().numpy()
            for span, start in enumerate(best.indices.tolist()):
                columns[span][passage] = in_prompt[start : start + width]
        return WindowScores(cosines, columns)
