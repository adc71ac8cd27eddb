"""What a causal language model says about one answer, each part computed when first asked for, and ``cci``.

Its distributions with and without passages show the context-sensitive tokens (CTI), its probabilities without single
passages the log-probability drops (Section 4.3), its gradients the saliency of the prompt (CCI): as in PECoRe (Sarti et
al., 2024) and Yin and Neubig (2022), the L2 norm per token of the gradient of a contrast of log-probabilities.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from attribeam.attribution.evidence.passage_evidence import evidence_pieces, scaled_pieces
from attribeam.attribution.evidence.union import UnionScores
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import AnswerContext, MethodSettings, Need, required
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import CharRange, QARecord, Reason, RowFault

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.language_models.language_model import LanguageModel

_Floats = npt.NDArray[np.float64]


def sensitive_tokens(divergences: _Floats) -> list[int]:
    """The tokens whose divergence is not 0 and reaches mean plus one (population) standard deviation, ascending."""
    if not len(divergences):
        return []
    threshold = float(divergences.mean() + divergences.std())
    return [index for index, value in enumerate(divergences.tolist()) if value >= threshold and value > 0]


def sensitive_spans(divergences: _Floats, characters: Sequence[CharRange | None]) -> tuple[CharRange, ...]:
    """One target span per context-sensitive token that covers characters of the answer, ascending, each once."""
    found = {characters[index] for index in sensitive_tokens(divergences)}
    return tuple(sorted((chars for chars in found if chars is not None), key=lambda chars: chars.char_start))


class LanguageContext:
    """One answer under one language model, with all of its passages, with none, and without single ones.

    Everything raises ``RowFault`` where the model refuses the row.
    """

    def __init__(self, record: QARecord, model: LanguageModel) -> None:
        self._record = record
        self._model = model
        self._without: dict[int, _Floats] = {}

    @cached_property
    def encoded(self) -> EncodedRow:
        return self._model.encode(self._record)

    def tokens_of(self, span: CharRange) -> list[int]:
        starts, ends = self.encoded.response_char_start, self.encoded.response_char_end
        inside = (starts < ends) & (starts < span.char_end) & (ends > span.char_start)
        return [int(index) for index in np.flatnonzero(inside)]

    @cached_property
    def divergences(self) -> _Floats:
        """KL(with || without passages) of every response token's next-token distribution: float64 [responses] (CTI)."""
        whole, divergences = self._model.next_token_log_probabilities(self.encoded), []
        for own, other in zip(whole, self._contextless, strict=True):
            own, other = own.double(), other.double()
            terms = (own.exp() * (own - other)).masked_fill(own.isneginf(), 0.0)
            divergences.append(max(float(terms.sum()), 0.0))
        return np.array(divergences, dtype=np.float64)

    @cached_property
    def contrast_tokens(self) -> list[int]:
        return contrast_tokens(self._contextless)

    def saliency(self, responses: Sequence[int]) -> torch.Tensor:
        """Contrastive saliency of every prompt token for some response tokens: float32 [len(responses), prompt]."""
        contrast = [self.contrast_tokens[response] for response in responses]
        return contrastive_saliency(self._model, self.encoded, responses=responses, contrast=contrast)

    def read_whole(self) -> None:
        """Run the model with all passages, so that a refused row fails here."""
        _ = self._log_probabilities

    def drop(self, span: CharRange, passage_index: int) -> float:
        """The log-probability drop of ``span`` when a passage is taken away (Section 4.3), in nats.

        log p(t | all passages, prefix) - log p(t | the others, prefix), summed over the span's tokens.
        """
        self.take_away([passage_index])
        tokens = self.tokens_of(span)
        return float((self._log_probabilities - self._without[passage_index])[tokens].sum())

    def take_away(self, passages: Collection[int]) -> None:
        """Run the model without each of ``passages`` in shared batches, so that ``drop`` need not run it again."""
        missing = [index for index in passages if index not in self._without]
        everything = set(range(len(self._record.passages)))
        rows = [self._ablated(everything - {index}) for index in missing]
        self._without.update(zip(missing, self._read(rows), strict=True))

    @cached_property
    def _log_probabilities(self) -> _Floats:
        return self._read([self.encoded])[0]

    @cached_property
    def _contextless(self) -> torch.Tensor:
        """The next-token distributions without any passage: float32 [responses, vocabulary]."""
        return self._model.next_token_log_probabilities(self._ablated(set()))

    def _read(self, rows: Sequence[EncodedRow]) -> list[_Floats]:
        outcomes = self._model.token_log_probabilities(rows)
        for outcome in outcomes:
            if isinstance(outcome, RowFault):
                raise outcome
        return [outcome for outcome in outcomes if not isinstance(outcome, RowFault)]

    def _ablated(self, kept: set[int]) -> EncodedRow:
        from attribeam.attribution.language_models.language_model import ablated_row

        return ablated_row(self._model, self._record, kept=kept, response_of=self.encoded)


def language_of(context: AnswerContext) -> LanguageContext:
    """What the causal language model says about the answer of a context, see ``AnswerContext.once``."""
    return LanguageContext(context.record, required(context.models.language, "language model"))


def contrastive_saliency(
    model: LanguageModel, row: EncodedRow, *, responses: Sequence[int], contrast: Sequence[int]
) -> torch.Tensor:
    """Saliency of every prompt token for given response tokens: float32 [len(responses), prompt_length], on the CPU.

    The contrast of response token y with its token y* in ``contrast`` is log p(y | prompt, prefix) - log p(y* | prompt,
    prefix). If they are the same token it is log p(y | prompt, prefix) alone, since the probability without passages
    does not depend on the prompt's embeddings. Tokens after the last of ``responses`` are not read.

    Raises:
        RowFault: OUT_OF_MEMORY or NON_FINITE_ATTENTION.
    """
    import torch

    from attribeam.attribution.attention.batching import run_halving

    if not responses:
        return torch.zeros((0, row.prompt_length))
    end = max(responses) + 1
    read = replace(
        row,
        token_ids=row.token_ids[: row.prompt_length + end],
        response_char_start=row.response_char_start[:end],
        response_char_end=row.response_char_end[:end],
    )
    pairs = list(zip(responses, contrast, strict=True))
    (saliency,) = run_halving([read], lambda rows: [_norms(model, rows[0], pairs)])
    if isinstance(saliency, RowFault):
        raise saliency
    if not bool(saliency.isfinite().all()):
        raise RowFault(
            Reason.NON_FINITE_ATTENTION, "gradients should be finite, but contain NaN or infinity; see --dtype"
        )
    return saliency


def _norms(model: LanguageModel, row: EncodedRow, pairs: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Runs one forward pass for all of a row's tokens, then one backward pass per token.

    Batched backward passes (``is_grads_batched``) do the same number of multiplications and were no faster.
    """
    import torch

    norms = []
    with torch.enable_grad():
        embeddings = model.embeddings(row).detach().requires_grad_()
        logits = model.response_logits([row], embeddings=embeddings)[0]
        for response, contrast in pairs:
            target = int(row.token_ids[row.prompt_length + response])
            scores = logits[response].log_softmax(-1)
            contrasted = scores[target] if target == contrast else scores[target] - scores[contrast]
            (gradient,) = torch.autograd.grad(contrasted, embeddings, retain_graph=True)
            norms.append(torch.linalg.vector_norm(gradient[0, : row.prompt_length].float(), dim=-1).cpu())
    return torch.stack(norms)


def contrast_tokens(log_probabilities: torch.Tensor) -> list[int]:
    """y* of every response token: the likeliest token in each row of [responses, vocabulary], ties to the lower id."""
    return [int(np.argmax(row)) for row in log_probabilities.cpu().numpy()]


TOP_K = 3


class ContrastiveGradients:
    """``cci``: the three prompt tokens with the largest contrastive saliency of each target token, united.

    The saliency is the similarity S of Equation 1; the passage with the largest sum wins (Section 4.1). Isolated tokens
    stay.
    """

    name = "cci"
    needs = frozenset({Need.LANGUAGE_MODEL})

    def __init__(self, settings: MethodSettings) -> None:
        """The settings have nothing for it."""

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        from attribeam.attribution.attention.reduction import top_columns

        language, spans = context.once(language_of), context.spans
        tokens = {span: language.tokens_of(span) for span in spans}
        wanted = sorted({token for of_span in tokens.values() for token in of_span})
        columns, scores = (part.numpy() for part in top_columns(language.saliency(wanted), TOP_K))
        positions = {token: index for index, token in enumerate(wanted)}
        results = []
        for span in spans:
            rows = [positions[token] for token in tokens[span]]
            results.append(_result(context, language.encoded, columns[rows].ravel(), scores[rows].ravel()))
        return results


def _result(
    context: AnswerContext, encoded: EncodedRow, columns: npt.NDArray[np.int64], scores: npt.NDArray[np.float32]
) -> SpanResult:
    """The sums of the columns' scores, 0 outside passages and on white space alone."""
    weights = np.zeros(encoded.prompt_length)
    np.add.at(weights, columns, scores.astype(np.float64))
    weights[(encoded.column_passage < 0) | (encoded.column_char_start >= encoded.column_char_end)] = 0
    counted, passages = np.flatnonzero(weights), context.record.passages
    united = UnionScores(np.zeros_like(counted), counted, weights[counted], [False])
    sums = np.bincount(encoded.column_passage[counted], weights=weights[counted], minlength=len(passages))
    (pieces,) = evidence_pieces(united, encoded=encoded, passages=passages)
    return SpanResult(tuple(sums.tolist()), scaled_pieces(pieces, 1.0))
