"""Contrastive gradients: which prompt tokens made the model write this token rather than another (CCI).

Follows PECoRe (Sarti et al., 2024) and Yin and Neubig (2022): takes the gradient of a contrast of log-probabilities
with respect to the prompt's input embeddings, and its L2 norm per token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from attribeam.attribution.attention.batching import run_halving
from attribeam.attribution.language_models.language_model import LanguageModel
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import Reason, RowFault


def contrastive_saliency(
    model: LanguageModel, row: EncodedRow, *, responses: Sequence[int], contrast: Sequence[int]
) -> torch.Tensor:
    """Saliency of every prompt token for given response tokens: float32 [len(responses), prompt_length], on the CPU.

    The contrast of response token y with the token y* is log p(y | prompt, prefix) - log p(y* | prompt, prefix). If y
    and y* are the same token, it is log p(y | prompt, prefix) alone: the probability it is compared with, that of the
    same token without passages, does not depend on the prompt's embeddings. ``contrast`` holds y* for each item of
    ``responses``. Tokens after the last of ``responses`` are not read.

    Raises:
        RowFault: OUT_OF_MEMORY or NON_FINITE_ATTENTION.
    """
    if not responses:
        return torch.zeros((0, row.prompt_length))
    pairs = list(zip(responses, contrast, strict=True))
    read = _up_to(row, max(responses))
    (found,) = run_halving([read], lambda rows: [_norms(model, rows[0], pairs)])
    if isinstance(found, RowFault):
        raise found
    if not bool(found.isfinite().all()):
        raise RowFault(
            Reason.NON_FINITE_ATTENTION, "gradients should be finite, but contain NaN or infinity; see --dtype"
        )
    return found


def _up_to(row: EncodedRow, response: int) -> EncodedRow:
    """The row up to and including its response token ``response``, which no later token affects."""
    end = response + 1
    return replace(
        row,
        token_ids=row.token_ids[: row.prompt_length + end],
        response_char_start=row.response_char_start[:end],
        response_char_end=row.response_char_end[:end],
    )


def _norms(model: LanguageModel, row: EncodedRow, pairs: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Runs one forward pass for all of a row's tokens, then one backward pass per token.

    Batched backward passes (``is_grads_batched``) do the same number of multiplications and were no faster.
    """
    with torch.enable_grad():
        embeddings = model.embeddings(row).detach().requires_grad_()
        logits = model.response_logits([row], embeddings=embeddings)[0]
        return torch.stack([_norm(_contrast(logits, row, *pair), embeddings, row) for pair in pairs])


def _contrast(logits: torch.Tensor, row: EncodedRow, response: int, contrast: int) -> torch.Tensor:
    target = int(row.token_ids[row.prompt_length + response])
    log_probabilities = logits[response].log_softmax(-1)
    if target == contrast:
        return log_probabilities[target]
    return log_probabilities[target] - log_probabilities[contrast]


def _norm(contrast: torch.Tensor, embeddings: torch.Tensor, row: EncodedRow) -> torch.Tensor:
    (gradient,) = torch.autograd.grad(contrast, embeddings, retain_graph=True)
    norms: torch.Tensor = torch.linalg.vector_norm(gradient[0, : row.prompt_length].float(), dim=-1)
    return norms.cpu()


def contrast_tokens(log_probabilities: torch.Tensor) -> list[int]:
    """y* of every response token: the likeliest token in each row of [responses, vocabulary], ties to the lower id.

    The distributions come from the prompt without passages (PECoRe's contextless prediction).
    """
    values = log_probabilities.cpu().numpy()
    return [int(np.argmax(one)) for one in values]
