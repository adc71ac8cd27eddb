"""Cosine similarity of hidden states: of response and prompt tokens, and of spans and windows of passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import avg_pool1d, normalize

from attribution.attention.plain_attention import MAX_WEIGHTS
from attribution.attention.top_columns import passage_mass, sink_mass, top_columns
from attribution.prompts.window_merge import merge_windows
from attribution.token_attribution import EncodedRow, TokenAttribution
from schemas import Reason, RowFault


@dataclass(frozen=True, slots=True)
class WindowScores:
    """For each span and passage the best window of the passage.

    Attributes:
        cosines: float32 [spans, passages], -1 where a passage has no token.
        columns: for each span and passage the prompt columns of that window, ascending; empty without a token.
    """

    cosines: npt.NDArray[np.float32]
    columns: list[list[npt.NDArray[np.int32]]]


class HiddenSimilarity:
    """The similarities of one row, from the hidden states of one layer; the states stay on the device.

    A row that is longer than the model's context went through it in windows of whole passages; tokens are compared
    within one of them, and a column outside the passages counts as its largest similarity.

    Raises:
        RowFault: NON_FINITE_ATTENTION if a state has NaN or infinity.
    """

    def __init__(self, states: Sequence[torch.Tensor], *, encoded: EncodedRow, passage_count: int) -> None:
        """``states`` float32 [tokens, size], one of each of the row's windows, or one of the row where it has none."""
        if not all(bool(one.isfinite().all()) for one in states):
            raise RowFault(Reason.NON_FINITE_ATTENTION, "hidden states should be finite, have NaN or infinity")
        windows = [(window.row, window.columns) for window in encoded.windows]
        parts = windows or [(encoded, np.arange(encoded.prompt_length, dtype=np.int32))]
        self._encoded, self._passage_count = encoded, passage_count
        self._parts = [_Part(one, row, columns) for one, (row, columns) in zip(states, parts, strict=True)]

    def top_columns(self, top_k: int) -> TokenAttribution:
        """Token-wise attributions with S_ij = cos(r_i, d_j) of the tokens' own states (Section 3.4, Equation 1).

        A negative cosine counts as 0. ``passage_mass`` and ``sink_mass`` hold sums of cosines.
        """
        found = [part.top_columns(top_k, self._passage_count) for part in self._parts]
        return merge_windows(self._encoded, found, top_k=top_k) if self._encoded.windows else found[0]

    def best_windows(self, tokens: npt.NDArray[np.bool_], *, window: int) -> WindowScores:
        """Cosine of each span's mean state with the mean states of each passage's windows (Phukan et al. 2024).

        Args:
            tokens: bool [spans, responses], the tokens of each span; a span without tokens has the cosine 0 everywhere.
            window: tokens of a window; windows move by one token, over the tokens of one passage in their order, title
                included. A passage with fewer tokens is one window.
        """
        scores = WindowScores(
            np.full((len(tokens), self._passage_count), -1, dtype=np.float32),
            [[np.empty(0, dtype=np.int32)] * self._passage_count for _ in tokens],
        )
        for part in self._parts:
            part.fill_windows(scores, tokens, window)
        return scores


class _Part:
    """What went through the model at once; ``columns`` says which column of the row each prompt token is."""

    def __init__(self, states: torch.Tensor, row: EncodedRow, columns: npt.NDArray[np.int32]) -> None:
        self._prompt, self._response = states[: row.prompt_length], states[row.prompt_length :]
        self._row, self._columns = row, columns

    def top_columns(self, top_k: int, passage_count: int) -> TokenAttribution:
        prompt = normalize(self._prompt, dim=1)
        column_passage = torch.from_numpy(self._row.column_passage.astype(np.int64)).to(prompt.device)
        parts = []
        for response in torch.split(normalize(self._response, dim=1), max(1, MAX_WEIGHTS // len(prompt))):
            cosines = response @ prompt.T
            cosines = torch.where(cosines > 0, cosines, 0.0)
            mass = passage_mass(cosines, column_passage, passage_count)
            parts.append((*top_columns(cosines, top_k), mass, sink_mass(cosines, column_passage)))
        columns, *sums = (torch.cat(part).cpu() for part in zip(*parts, strict=True))
        return TokenAttribution(columns.to(torch.int32).numpy(), *(one.numpy() for one in sums))

    def fill_windows(self, scores: WindowScores, tokens: npt.NDArray[np.bool_], window: int) -> None:
        """Set the columns of ``scores`` that belong to this part's passages."""
        weights = torch.from_numpy(tokens).to(self._response)
        spans = normalize((weights @ self._response) / weights.sum(1, keepdim=True).clamp(min=1), dim=1)
        for passage in np.unique(self._row.column_passage[self._row.column_passage >= 0]).tolist():
            places = np.flatnonzero(self._row.column_passage == passage)
            width = min(window, len(places))
            means = avg_pool1d(self._prompt[torch.from_numpy(places)].T[None], width, stride=1)[0].T
            best = (spans @ normalize(means, dim=1).T).max(dim=1)
            scores.cosines[:, passage] = best.values.cpu().numpy()
            for span, start in enumerate(best.indices.tolist()):
                scores.columns[span][passage] = self._columns[places[start : start + width]]
