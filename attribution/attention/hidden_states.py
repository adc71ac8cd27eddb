"""The hidden states of one layer of any Hugging Face model, taken with hooks, and their cosine similarities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.functional import avg_pool1d, normalize

from attribeam.attribution.attention.reduction import MAX_WEIGHTS, passage_mass, sink_mass, top_columns
from attribeam.attribution.prompts.token_offsets import merge_windows
from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.schemas import Reason, RowFault


class _LayerReached(Exception):  # noqa: N818 - control flow, not a fault
    """Raised after the wanted layer, and caught in ``layer_states``."""


@torch.inference_mode()
def layer_states(network: nn.Module, *, layer: int, **inputs: torch.Tensor | bool) -> torch.Tensor:
    """The output of ``layer`` in one forward pass over ``inputs``, which ends there: [rows, tokens, size].

    ``network`` is a base model without a head; layer 0 means the embeddings. A final norm is not applied. The states
    stay on the device, in the network's dtype. ValueError as of ``layer_modules``, or if the layer was not loaded.
    """
    taken: list[torch.Tensor] = []

    def take_and_end(states: torch.Tensor) -> None:
        taken.append(states)
        raise _LayerReached

    try:
        with _hook_on_layer(network, layer, take_and_end):
            network(**inputs)
    except _LayerReached:
        return taken[0]
    raise RuntimeError(f"the forward pass should go through layer {layer}, but did not")


def hidden_states(network: nn.Module, token_ids: npt.NDArray[np.int32], *, layer: int) -> torch.Tensor:
    """The output of ``layer`` for one row: float32 [tokens, size]; raises as ``layer_states``."""
    device = next(network.parameters()).device
    ids = torch.from_numpy(token_ids.astype(np.int64))[None].to(device)
    return _only_row(layer_states(network, layer=layer, input_ids=ids))


def states_of_layers(
    network: nn.Module, token_ids: npt.NDArray[np.int32], *, layers: Collection[int]
) -> dict[int, torch.Tensor]:
    """The output of each of ``layers``, at least one, for one row, as from ``hidden_states``, from one pass."""
    if not layers:
        raise ValueError("layers of the hidden states should be one or more, were none")
    last = max(layers)
    kept: dict[int, list[torch.Tensor]] = {layer: [] for layer in layers if layer != last}
    with ExitStack() as stack:
        for layer, states in kept.items():
            stack.enter_context(keeping_hidden_states(network, states, layer=layer))
        at_last = hidden_states(network, token_ids, layer=last)
    return {layer: states[0] for layer, states in kept.items()} | {last: at_last}


@contextmanager
def keeping_hidden_states(network: nn.Module, kept: list[torch.Tensor], *, layer: int) -> Iterator[None]:
    """Append the states of ``layer``, as from ``hidden_states``, to ``kept`` for each one-row forward pass inside.

    The pass may end after that layer, as it does when the next layer's attention is captured.
    """
    with _hook_on_layer(network, layer, lambda states: kept.append(_only_row(states))):
        yield


def check_states(network: nn.Module) -> None:
    """Take the states of one token, which raises ValueError if those of the network cannot be taken."""
    try:
        hidden_states(network, np.zeros(1, dtype=np.int32), layer=0)
    except RuntimeError as error:
        raise ValueError(f"the states of {type(network).__name__} cannot be taken: {error}") from error


def layer_modules(network: nn.Module) -> nn.ModuleList:
    """The layers of a model: its first list of ``num_hidden_layers`` modules; ValueError if it has none."""
    count = getattr(network, "config").get_text_config().num_hidden_layers  # noqa: B009 - every transformers model has it
    for module in network.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise ValueError(
        f"the model should hold its {count} layers in one list, but {type(network).__name__} does not, so its hidden "
        "states cannot be taken; choose another model"
    )


@contextmanager
def _hook_on_layer(network: nn.Module, layer: int, take: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Call ``take`` with the states of ``layer`` in this thread's passes; other threads may run the network, too."""
    layers = layer_modules(network)
    if not 0 <= layer <= len(layers):
        raise ValueError(f"layer of the hidden states should be from 0 to {len(layers)}, was: {layer}")

    thread = get_ident()

    def before(_: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if get_ident() == thread:
            take(arguments[0] if arguments else options["hidden_states"])

    def after(_: nn.Module, __: tuple[Any, ...], output: torch.Tensor | tuple[torch.Tensor, ...]) -> None:
        if get_ident() == thread:
            take(output if isinstance(output, torch.Tensor) else output[0])

    if layer == 0:
        handle = layers[0].register_forward_pre_hook(before, with_kwargs=True)
    else:
        handle = layers[layer - 1].register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


def _only_row(states: torch.Tensor) -> torch.Tensor:
    if states.shape[0] != 1:
        raise ValueError(
            "hidden states should come from one row at a time, with one for each token, but there are "
            f"{states.shape[0]}; choose another model"
        )
    return states[0].float()


@dataclass(frozen=True, slots=True)
class WindowScores:
    """The best window of each passage, for each span: float32 [spans, passages], -1 where a passage has no tokens.

    ``columns`` are the window's prompt columns, ascending.
    """

    cosines: npt.NDArray[np.float32]
    columns: list[list[npt.NDArray[np.int32]]]


class HiddenSimilarity:
    """The similarities of one row, from the hidden states of one layer; the states stay on the device.

    A row longer than the model's context was run in windows of whole passages. Tokens are compared within each window,
    and a column outside the passages keeps its largest similarity. Raises ``RowFault`` NON_FINITE_ATTENTION if a state
    contains NaN or infinity.
    """

    def __init__(self, states: Sequence[torch.Tensor], *, encoded: EncodedRow, passage_count: int) -> None:
        """``states`` are float32 [tokens, size]: one per window of the row, or a single one if it has no windows."""
        if not all(bool(state.isfinite().all()) for state in states):
            raise RowFault(Reason.NON_FINITE_ATTENTION, "hidden states should be finite, but contain NaN or infinity")
        self._encoded, self._passage_count = encoded, passage_count
        windows = [(window.row, window.columns) for window in encoded.windows]
        rows = windows or [(encoded, np.arange(encoded.prompt_length, dtype=np.int32))]
        self._parts = [
            (of_row[: row.prompt_length], of_row[row.prompt_length :], row, columns)
            for of_row, (row, columns) in zip(states, rows, strict=True)
        ]

    def top_columns(self, top_k: int) -> TokenAttribution:
        """Token-wise attributions with S_ij = cos(r_i, d_j) of the tokens' own states (Section 3.4, Equation 1).

        A negative cosine counts as 0. ``passage_mass`` and ``sink_mass`` hold sums of cosines.
        """
        attributions = []
        for prompt, responses, row, _ in self._parts:
            prompt = normalize(prompt, dim=1)
            column_passage = torch.from_numpy(row.column_passage.astype(np.int64)).to(prompt.device)
            slices = []
            for response in torch.split(normalize(responses, dim=1), max(1, MAX_WEIGHTS // len(prompt))):
                cosines = response @ prompt.T
                cosines = torch.where(cosines > 0, cosines, 0.0)
                mass = passage_mass(cosines, column_passage, self._passage_count)
                slices.append((*top_columns(cosines, top_k), mass, sink_mass(cosines, column_passage)))
            columns, *sums = (torch.cat(part).cpu() for part in zip(*slices, strict=True))
            attributions.append(TokenAttribution(columns.to(torch.int32).numpy(), *(part.numpy() for part in sums)))
        return merge_windows(self._encoded, attributions, top_k=top_k) if self._encoded.windows else attributions[0]

    def best_windows(self, tokens: npt.NDArray[np.bool_], *, window: int) -> WindowScores:
        """Cosine of each span's mean state with the mean states of each passage's windows (Phukan et al. 2024).

        Args:
            tokens: bool [spans, responses], the tokens of each span; a span without tokens has cosine 0 everywhere.
            window: tokens per window. Windows slide by one token over the tokens of one passage, title included. A
                shorter passage is a single window.
        """
        cosines = np.full((len(tokens), self._passage_count), -1, dtype=np.float32)
        columns = [[np.empty(0, dtype=np.int32)] * self._passage_count for _ in tokens]
        for prompt, response, row, own_columns in self._parts:
            weights = torch.from_numpy(tokens).to(response)
            spans = normalize((weights @ response) / weights.sum(1, keepdim=True).clamp(min=1), dim=1)
            for passage in np.unique(row.column_passage[row.column_passage >= 0]).tolist():
                positions = np.flatnonzero(row.column_passage == passage)
                width = min(window, len(positions))
                means = avg_pool1d(prompt[torch.from_numpy(positions)].T[None], width, stride=1)[0].T
                best = (spans @ normalize(means, dim=1).T).max(dim=1)
                cosines[:, passage] = best.values.cpu().numpy()
                for span, start in enumerate(best.indices.tolist()):
                    columns[span][passage] = own_columns[positions[start : start + width]]
        return WindowScores(cosines, columns)
