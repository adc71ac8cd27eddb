"""One forward pass over the rows of a batch, up to the captured layer: laid end to end, or padded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from attribution.attention.capture_pass import Capture, capturing
from attribution.attention.end_to_end_rows import EndToEndRows, rows_end_to_end
from attribution.attention.packing import shared_lengths
from attribution.attention.transfers import to_device
from attribution.token_attribution import EncodedRow


@torch.inference_mode()
def end_to_end_pass(model: PreTrainedModel, rows: Sequence[EncodedRow], capture: Capture, *, share: bool) -> None:
    """Run ``rows`` as one sequence without padding; ``capture`` is filled.

    With ``share`` (causal models only) the tokens that rows of a batch begin with together are computed once.
    """
    device = model.device
    shared = shared_lengths([row.token_ids for row in rows]) if share else [0] * len(rows)
    places = EndToEndRows.sharing([len(row.token_ids) for row in rows], shared, device)
    own = np.concatenate([row.token_ids[start:] for row, start in zip(rows, shared, strict=True)]).astype(np.int64)
    token_ids = to_device(torch.from_numpy(own)[None], device)
    options = {} if capture.bidirectional else {"use_cache": False}
    with capturing(capture), rows_end_to_end(places):
        model(input_ids=token_ids, position_ids=places.positions()[None], **options)


@torch.inference_mode()
def padded_pass(model: PreTrainedModel, rows: Sequence[EncodedRow], capture: Capture) -> None:
    """Run ``rows`` one below the other, padded on the right; ``capture`` is filled.

    Causality hides what stands to the right; bidirectional models get a mask.
    """
    device = model.device
    lengths = torch.tensor([len(row.token_ids) for row in rows])
    width = int(lengths.max())
    mask = None
    if capture.bidirectional and int(lengths.min()) < width:
        mask = to_device(torch.arange(width) < lengths[:, None], device)
    token_ids = to_device(_pad([row.token_ids for row in rows], width), device)
    with capturing(capture):
        model(input_ids=token_ids, attention_mask=mask, use_cache=False)


def _pad(rows: Sequence[np.typing.NDArray[np.int32]], width: int) -> torch.Tensor:
    """int64 [rows, width]; each row is continued with its own last token, which is valid in every vocabulary."""
    padded = np.stack([np.pad(row, (0, width - len(row)), mode="edge") for row in rows])
    return torch.from_numpy(padded.astype(np.int64))
