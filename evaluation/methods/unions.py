"""Algorithm 1 over any tokens and the decision of Section 4.1, with nothing of our own: unions of attention, and CCI.

``--passage-score`` applies to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.atomic_facts import AtomicFacts, WordTokenAlignment
from attribeam.attribution.answers.parsed_answer import sentence_bounds
from attribeam.attribution.evidence.passage_evidence import evidence_pieces, evidence_tokens, scaled_pieces
from attribeam.attribution.evidence.union import PassageScores, ResponseWeights, UnionScores
from attribeam.attribution.evidence.union_results import SpanResult, union_results
from attribeam.attribution.methods.method import AnswerContext, MethodSettings, Need, PassageScore
from attribeam.attribution.options import ATTN_UNION, MethodOptions
from attribeam.attribution.prompts.token_offsets import windows_or_whole
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import CharRange, Passage, RowFault

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.attention.reduction import RowAttention


Counts = npt.NDArray[np.int64]


class AnswerTokens:
    """The tokens of one answer; tokens that cover no character never count.

    Attributes:
        covering: intp [tokens], positions among the row's response tokens of those that cover a character. All counts
            below are over them.
    """

    def __init__(self, context: AnswerContext) -> None:
        """See ``AnswerContext.once``.

        Raises:
            RowFault: if the model refuses the row.
        """
        encoded = context.encoded
        self.covering = np.flatnonzero(encoded.response_char_start < encoded.response_char_end)
        self._parsed = context.parsed
        self._alignment = WordTokenAlignment(
            words=self._parsed.words,
            token_char_start=encoded.response_char_start[self.covering],
            token_char_end=encoded.response_char_end[self.covering],
        )

    def of_spans(self, spans: Sequence[CharRange]) -> Counts:
        """int64 [spans, tokens]: 1 for a span's own tokens."""
        counts = np.zeros((len(spans), len(self.covering)), dtype=np.int64)
        for row, first, end in zip(counts, *self.runs_of(spans), strict=True):
            row[first:end] = 1
        return counts

    def runs_of(self, spans: Sequence[CharRange]) -> tuple[list[int], list[int]]:
        """The half-open run of each span's own tokens: first tokens, ends."""
        firsts, ends = self._alignment.tokens_of_ranges(spans)
        return firsts.tolist(), ends.tolist()

    def of_facts(self, spans: Sequence[CharRange], *, own_token_weight: int = 1) -> Counts:
        """int64 [spans, tokens]: how many of the span's tokens have each token in their atomic facts (Section 3.3)."""
        weights = ResponseWeights(
            alignment=self._alignment, facts=AtomicFacts(self._parsed), own_token_weight=own_token_weight
        ).of_spans(spans)
        return weights.unions[weights.union_of_span] * np.array(weights.factors, dtype=np.int64)[:, None]

    def of_sentences(self, spans: Sequence[CharRange]) -> Counts:
        """int64 [spans, tokens]: 1 for the tokens of the sentences that a span stands in, and the span's own."""
        words = self._parsed.words
        sentences = [
            CharRange(words[start].char_start, words[end - 1].char_end) for start, end in sentence_bounds(self._parsed)
        ]
        in_sentence = self.of_spans(sentences)
        own = self.of_spans(spans)
        touched = np.array([[sentence.overlaps(span) for sentence in sentences] for span in spans], dtype=np.int64)
        return np.maximum(own, (touched.reshape(len(spans), len(sentences)) @ in_sentence > 0).astype(np.int64))


def attributed_responses(context: AnswerContext) -> npt.NDArray[np.bool_]:
    """bool [responses, responses]: whether the row's token is attributed to the column's, an earlier one.

    One forward pass per window; see ``AnswerContext.once``.

    Raises:
        RowFault: if the model refuses the row.
    """
    from attribeam.attribution.attention.capture import observing

    model, count = context.model, len(context.record.passages)
    similarities: list[torch.Tensor] = []
    for part in windows_or_whole(context.encoded):

        def keep(layer_index: int, attention: RowAttention, part: EncodedRow = part) -> None:
            if layer_index == model.layer - 1:
                positions = model.request(part, count).query_positions
                similarities.append(
                    response_similarity(attention, query_positions=positions, prompt_length=part.prompt_length)
                )

        with observing(keep):
            (found,) = model.attribute([part], [count])
        if isinstance(found, RowFault):
            raise found
    return attributed_tokens(similarities, top_k=model.settings.top_k)


def response_similarity(attention: RowAttention, *, query_positions: torch.Tensor, prompt_length: int) -> torch.Tensor:
    """One layer's attention to earlier response tokens: float32 [responses, responses], 0 from the diagonal on.

    The softmax runs over all tokens that a token sees, in prompt and response. ``query_positions`` int64 [responses]
    are the positions whose attention is row i of S; the response begins at token ``prompt_length``. Works in slices, to
    bound memory.
    """
    import torch

    from attribeam.attribution.attention.reduction import MAX_WEIGHTS

    heads, token_count, _ = attention.query.shape
    rows_at_once = max(1, MAX_WEIGHTS // (heads * token_count))
    slices = [
        attention.similarity(positions, token_count)[:, prompt_length:]
        for positions in torch.split(query_positions, rows_at_once)
    ]
    return torch.cat(slices).tril(-1)


def attributed_tokens(similarities: Sequence[torch.Tensor], *, top_k: int) -> npt.NDArray[np.bool_]:
    """bool [responses, responses]: whether the row's token is attributed to the column's, which comes earlier.

    Equation 1 over earlier response tokens alone: the ``top_k`` largest similarities that are above 0. If the row ran
    in several windows, each pair of tokens keeps its largest similarity.
    """
    import torch

    from attribeam.attribution.attention.reduction import top_columns

    similarity = torch.stack(list(similarities)).amax(0)
    columns, scores = top_columns(similarity, top_k)
    found = torch.zeros(similarity.shape, dtype=torch.bool, device=similarity.device)
    found.scatter_(1, columns, scores > 0)
    attributed: npt.NDArray[np.bool_] = found.cpu().numpy()
    return attributed


def paper_union_results(
    context: AnswerContext,
    tokens: TokenAttribution,
    counts: Counts,
    *,
    settings: MethodOptions,
    passage_score: PassageScore,
    mass_of_spans: bool = False,
) -> list[SpanResult]:
    """One result per span, as in the paper: nothing of our own is added to the decision.

    Args:
        context: the answer.
        tokens: attributions of its response tokens, by attention or another similarity.
        counts: int64 [spans, tokens], how often each of the ``AnswerTokens`` counts for a span.
        settings: the settings of the isolation filter.
        passage_score: how tokens' scores become a passage's.
        mass_of_spans: whether ``tokens`` are attention, so that each span has a mass, its share on the evidence.
    """
    encoded, passages = context.encoded, context.record.passages
    token_scores = PassageScores(encoded=encoded, tokens=tokens, responses=context.once(AnswerTokens).covering)
    scores = token_scores.unite(counts, isolation_tau=settings.isolation_tau, strict=settings.strict_isolation)
    count = len(counts)
    found = zip(
        passage_scores(scores, encoded=encoded, passage_count=len(passages), rule=passage_score).tolist(),
        evidence_pieces(scores, encoded=encoded, passages=passages),
        _masses(context, token_scores, scores) if mass_of_spans else [None] * count,
        scores.evidence_isolated,
        evidence_tokens(scores, encoded=encoded) if settings.token_evidence else [None] * count,
        strict=True,
    )
    return [
        SpanResult(tuple(sums), scaled_pieces(pieces, 1.0), mass=mass, isolated=isolated, tokens=of_span)
        for sums, pieces, mass, isolated, of_span in found
    ]


def _masses(context: AnswerContext, token_scores: PassageScores, scores: UnionScores) -> list[float]:
    firsts, ends = context.once(AnswerTokens).runs_of(context.spans)
    return token_scores.mean_masses(scores, union_of_span=range(len(firsts)), firsts=firsts, ends=ends)


BEST_TOKENS = 5


def passage_scores(
    scores: UnionScores, *, encoded: EncodedRow, passage_count: int, rule: PassageScore
) -> npt.NDArray[np.float64]:
    """The score of every passage for every union: float64 [unions, passages]."""
    size = (len(scores.evidence_isolated), passage_count)
    places = scores.unions * passage_count + encoded.column_passage[scores.columns]
    counted = scores.scores if rule is PassageScore.SUM else np.where(_among_best(places, scores), scores.scores, 0.0)
    sums = np.bincount(places, weights=counted, minlength=size[0] * size[1]).astype(np.float64).reshape(size)
    if rule is PassageScore.SUM:
        return sums
    visible = (encoded.column_passage >= 0) & (encoded.column_char_start < encoded.column_char_end)
    tokens = np.bincount(encoded.column_passage[visible], minlength=passage_count)
    means: npt.NDArray[np.float64] = sums / np.clip(tokens, 1, BEST_TOKENS)
    return means


def _among_best(places: npt.NDArray[np.intp], scores: UnionScores) -> npt.NDArray[np.bool_]:
    """bool [evidence]: whether a token is one of the five best of its passage and union."""
    order = np.lexsort((-scores.scores, places))
    ordered = places[order]
    firsts = np.searchsorted(ordered, ordered, side="left")
    best = np.zeros(len(places), dtype=np.bool_)
    best[order] = np.arange(len(places)) - firsts < BEST_TOKENS
    return best


_NEEDS = frozenset({Need.PARSER, Need.ATTENTION})


@dataclass(frozen=True, slots=True)
class ScoredUnion:
    """``attn-union`` and ``attn-union-dep``: the audit's method, with any ``--passage-score``.

    With the mean of the five best tokens, that mean alone decides the passage: the audit's sentence weight and evidence
    window do not apply.
    """

    name: str
    settings: MethodSettings
    needs: frozenset[Need] = _NEEDS

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Passage scores and evidence, as the audit computes them."""
        settings = context.settings_in_force(self.settings.union_options(self.name))
        return results_of_union(context, context.attention, settings, passage_score=self.settings.passage_score)


def results_of_union(
    context: AnswerContext, tokens: TokenAttribution, settings: MethodOptions, *, passage_score: PassageScore
) -> list[SpanResult]:
    """One result per span by ``settings.method``, from the attributions of the answer's tokens."""
    if passage_score is not PassageScore.SUM:
        spans, own_token_weight = context.spans, settings.own_token_weight
        tokens_of = context.once(AnswerTokens)
        own = settings.method == ATTN_UNION
        counts = tokens_of.of_spans(spans) if own else tokens_of.of_facts(spans, own_token_weight=own_token_weight)
        return paper_union_results(
            context, tokens, counts, settings=settings, passage_score=passage_score, mass_of_spans=True
        )
    return union_results(
        answer=context.record.answer,
        passages=context.record.passages,
        parsed=context.parsed,
        spans=context.spans,
        encoded=context.encoded,
        tokens=tokens,
        settings=settings,
    )


class SentenceUnion:
    """``attn-union-sent``: the union over the span's sentences, without atomic facts (SentComp, Section 4.2.1)."""

    name = "attn-union-sent"
    needs = _NEEDS
    gives_mass = True

    def __init__(self, settings: MethodSettings) -> None:
        self._settings = settings

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Sums of the counted tokens' evidence."""
        return paper_union_results(
            context,
            context.attention,
            self.counts(context),
            settings=context.settings_in_force(self._settings.union_options(ATTN_UNION)),
            passage_score=self._settings.passage_score,
            mass_of_spans=True,
        )

    def counts(self, context: AnswerContext) -> Counts:
        """int64 [spans, tokens]: how often each token counts for a span."""
        return context.once(AnswerTokens).of_sentences(context.spans)


class AugmentedUnion(SentenceUnion):
    """``augment-by-attn``: to each token of the span, the later tokens that are attributed to it (last appendix)."""

    name = "augment-by-attn"
    needs = _NEEDS | {Need.RESPONSE_ATTENTION}

    def counts(self, context: AnswerContext) -> Counts:
        """w(t) sums, over the span's tokens r_i, those of r_i and of the later tokens that are attributed to r_i."""
        tokens = context.once(AnswerTokens)
        attributed = context.once(attributed_responses)[np.ix_(tokens.covering, tokens.covering)]
        own = tokens.of_spans(context.spans)
        return own + own @ attributed.T.astype(np.int64)


class AugmentedUnionInSentence(AugmentedUnion):
    """``augment-by-attn-sent``: the same, but only later tokens in the span's sentences."""

    name = "augment-by-attn-sent"

    def counts(self, context: AnswerContext) -> Counts:
        """As of ``AugmentedUnion``, 0 outside the sentences."""
        return super().counts(context) * context.once(AnswerTokens).of_sentences(context.spans)


TOP_K = 3
_Floats = npt.NDArray[np.float64]


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
        """Take one backward pass per response token that lies in any span."""
        from attribeam.attribution.attention.reduction import top_columns
        from attribeam.evaluation.methods.language_context import language_of

        language, spans = context.once(language_of), context.spans
        tokens = {span: language.tokens_of(span) for span in spans}
        wanted = sorted({token for of_span in tokens.values() for token in of_span})
        columns, scores = top_columns(language.saliency(wanted), TOP_K)
        place = {token: index for index, token in enumerate(wanted)}
        results = []
        for span in spans:
            rows = [place[token] for token in tokens[span]]
            united = _united(columns.numpy()[rows], scores.numpy()[rows], language.encoded)
            results.append(_result(united, language.encoded, context.record.passages))
        return results


def _united(columns: npt.NDArray[np.int64], scores: npt.NDArray[np.float32], encoded: EncodedRow) -> _Floats:
    """w(t, d_j) of every prompt column: float64 [prompt_length], 0 outside passages and on white space alone."""
    united = np.zeros(encoded.prompt_length)
    np.add.at(united, columns.ravel(), scores.ravel().astype(np.float64))
    visible = (encoded.column_passage >= 0) & (encoded.column_char_start < encoded.column_char_end)
    return np.where(visible, united, 0.0)


def _result(united: _Floats, encoded: EncodedRow, passages: Sequence[Passage]) -> SpanResult:
    columns = np.flatnonzero(united)
    scores = UnionScores(np.zeros_like(columns), columns, united[columns], [False])
    sums = np.bincount(encoded.column_passage[columns], weights=united[columns], minlength=len(passages))
    (pieces,) = evidence_pieces(scores, encoded=encoded, passages=passages)
    return SpanResult(tuple(sums.tolist()), scaled_pieces(pieces, 1.0))
