"""Algorithm 1 over any tokens and the decision of Section 4.1, with nothing of our own: attention and hidden states.

``--passage-score`` applies to all unions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.atomic_facts import AtomicFacts, WordTokenAlignment
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, sentence_bounds
from attribeam.attribution.evidence.passage_evidence import evidence_pieces, evidence_tokens, scaled_pieces
from attribeam.attribution.evidence.union import PassageScores, ResponseWeights, UnionScores
from attribeam.attribution.evidence.union_results import SpanResult, union_results
from attribeam.attribution.methods.method import AnswerContext, MethodSettings, Need, PassageScore
from attribeam.attribution.options import ATTN_UNION, MethodOptions
from attribeam.attribution.prompts.token_offsets import windows_or_whole
from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.schemas import CharRange, EvidencePiece, RowFault

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.attention.hidden_states import HiddenSimilarity
    from attribeam.attribution.attention.reduction import RowAttention

Counts = npt.NDArray[np.int64]
"""int64 [spans, tokens]: how often each of the ``AnswerTokens`` counts for a span."""


def sentence_ranges(parsed: ParsedAnswer) -> list[CharRange]:
    """The characters of each sentence, from its first word to its last."""
    words = parsed.words
    return [CharRange(words[start].char_start, words[end - 1].char_end) for start, end in sentence_bounds(parsed)]


class AnswerTokens:
    """The tokens of one answer, see ``AnswerContext.once``; tokens that cover no character never count.

    ``covering``, intp [tokens], are the positions among the row's response tokens of those that cover a character.

    Raises:
        RowFault: if the model refuses the row.
    """

    def __init__(self, context: AnswerContext) -> None:
        encoded = context.encoded
        self.covering = np.flatnonzero(encoded.response_char_start < encoded.response_char_end)
        self._parsed = context.parsed
        self._alignment = WordTokenAlignment(
            words=self._parsed.words,
            token_char_start=encoded.response_char_start[self.covering],
            token_char_end=encoded.response_char_end[self.covering],
        )

    def of_spans(self, spans: Sequence[CharRange]) -> Counts:
        counts = np.zeros((len(spans), len(self.covering)), dtype=np.int64)
        for row, first, end in zip(counts, *self.runs_of(spans), strict=True):
            row[first:end] = 1
        return counts

    def runs_of(self, spans: Sequence[CharRange]) -> tuple[list[int], list[int]]:
        """The half-open run of each span's own tokens: first tokens, ends."""
        firsts, ends = self._alignment.tokens_of_ranges(spans)
        return firsts.tolist(), ends.tolist()

    def of_facts(self, spans: Sequence[CharRange], *, own_token_weight: int = 1) -> Counts:
        """How many of the span's tokens have each token in their atomic facts (Section 3.3)."""
        weights = ResponseWeights(
            alignment=self._alignment, facts=AtomicFacts(self._parsed), own_token_weight=own_token_weight
        ).of_spans(spans)
        return weights.unions[weights.union_of_span] * np.array(weights.factors, dtype=np.int64)[:, None]

    def of_sentences(self, spans: Sequence[CharRange]) -> Counts:
        """1 for the tokens of the sentences that a span stands in, and the span's own."""
        sentences = sentence_ranges(self._parsed)
        touched = np.array([[sentence.overlaps(span) for sentence in sentences] for span in spans], dtype=np.int64)
        in_sentences = touched.reshape(len(spans), len(sentences)) @ self.of_spans(sentences) > 0
        return np.maximum(self.of_spans(spans), in_sentences.astype(np.int64))


def attributed_responses(context: AnswerContext) -> npt.NDArray[np.bool_]:
    """bool [responses, responses]: whether the row's token is attributed to the column's, an earlier one.

    One forward pass per window; see ``AnswerContext.once``. Raises a ``RowFault`` if the model refuses the row.
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
            (outcome,) = model.attribute([part], [count])
        if isinstance(outcome, RowFault):
            raise outcome
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
    attributed = torch.zeros(similarity.shape, dtype=torch.bool, device=similarity.device)
    mask: npt.NDArray[np.bool_] = attributed.scatter_(1, columns, scores > 0).cpu().numpy()
    return mask


def hidden_similarity(context: AnswerContext) -> HiddenSimilarity:
    """The similarities of hidden states of the layer ``models.hidden_layer``; see ``AnswerContext.once``.

    One forward pass per window. Below the captured layer, as by default, it is the audit's own, built for long rows.
    Raises a ``RowFault`` if the model refuses the row.
    """
    from attribeam.attribution.attention.batching import run_halving
    from attribeam.attribution.attention.hidden_states import HiddenSimilarity, hidden_states, keeping_hidden_states

    model, row, count = context.model, context.encoded, len(context.record.passages)
    layer = model.layer_count // 2 if context.models.hidden_layer is None else context.models.hidden_layer
    states: list[torch.Tensor] = []
    for part in windows_or_whole(row):
        outcome: object
        if layer < model.layer:
            with keeping_hidden_states(model.network, states, layer=layer):
                (outcome,) = model.attribute([part], [count])
        else:
            (outcome,) = run_halving(
                [part], lambda rows: [hidden_states(model.network, row.token_ids, layer=layer) for row in rows]
            )
            states += [outcome] if not isinstance(outcome, RowFault) else []
        if isinstance(outcome, RowFault):
            raise outcome
    return HiddenSimilarity(states, encoded=row, passage_count=count)


def paper_union_results(
    context: AnswerContext,
    tokens: TokenAttribution,
    counts: Counts,
    *,
    settings: MethodOptions,
    passage_score: PassageScore,
    has_mass: bool = False,
) -> list[SpanResult]:
    """One result per span, as in the paper: nothing of our own is added to the decision.

    ``tokens`` are the attributions of the answer's tokens, by attention or another similarity, and ``counts`` int64
    [spans, tokens]. ``has_mass`` says that they are attention, so that each span has a mass, its share on the evidence.
    """
    encoded, passages, answer_tokens = context.encoded, context.record.passages, context.once(AnswerTokens)
    token_scores = PassageScores(encoded=encoded, tokens=tokens, responses=answer_tokens.covering)
    scores = token_scores.unite(counts, isolation_tau=settings.isolation_tau, strict=settings.strict_isolation)
    masses: Sequence[float | None] = [None] * len(counts)
    if has_mass:
        firsts, ends = answer_tokens.runs_of(context.spans)
        masses = token_scores.mean_masses(scores, union_of_span=range(len(firsts)), firsts=firsts, ends=ends)
    columns = zip(
        passage_scores(scores, encoded=encoded, passage_count=len(passages), rule=passage_score).tolist(),
        evidence_pieces(scores, encoded=encoded, passages=passages),
        masses,
        scores.evidence_isolated,
        evidence_tokens(scores, encoded=encoded) if settings.token_evidence else [None] * len(counts),
        strict=True,
    )
    return [
        SpanResult(tuple(sums), scaled_pieces(pieces, 1.0), mass=mass, isolated=isolated, tokens=of_span)
        for sums, pieces, mass, isolated, of_span in columns
    ]


BEST_TOKENS = 5


def passage_scores(
    scores: UnionScores, *, encoded: EncodedRow, passage_count: int, rule: PassageScore
) -> npt.NDArray[np.float64]:
    """The score of every passage for every union: float64 [unions, passages]."""
    size = (len(scores.evidence_isolated), passage_count)
    groups = scores.unions * passage_count + encoded.column_passage[scores.columns]

    def summed(counted: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        sums = np.bincount(groups, weights=counted, minlength=size[0] * size[1])
        return sums.astype(np.float64).reshape(size)

    if rule is PassageScore.SUM:
        return summed(scores.scores)
    order = np.lexsort((-scores.scores, groups))
    firsts = np.searchsorted(groups[order], groups[order], side="left")
    best = np.zeros(len(groups), dtype=np.bool_)
    best[order] = np.arange(len(groups)) - firsts < BEST_TOKENS
    sums = summed(np.where(best, scores.scores, 0.0))
    visible = (encoded.column_passage >= 0) & (encoded.column_char_start < encoded.column_char_end)
    tokens = np.bincount(encoded.column_passage[visible], minlength=passage_count)
    means: npt.NDArray[np.float64] = sums / np.clip(tokens, 1, BEST_TOKENS)
    return means


_NEEDS = frozenset({Need.PARSER, Need.ATTENTION})


@dataclass(frozen=True, slots=True)
class ScoredUnion:
    """``attn-union`` and ``attn-union-dep``: the audit's method, with any ``--passage-score``.

    With the mean of the five best tokens, that mean alone decides the passage: the audit's sentence weight and evidence
    window do not apply. ``union`` says which of both it is where ``name`` is another one.
    """

    name: str
    settings: MethodSettings
    needs: frozenset[Need] = _NEEDS
    union: str | None = None

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        settings = context.settings_in_force(self.settings.union_options(self.union or self.name))
        return results_of_union(context, context.attention, settings, passage_score=self.settings.passage_score)


def results_of_union(
    context: AnswerContext, tokens: TokenAttribution, settings: MethodOptions, *, passage_score: PassageScore
) -> list[SpanResult]:
    """One result per span by ``settings.method``, from the attributions of the answer's tokens."""
    if passage_score is PassageScore.SUM:
        return union_results(
            answer=context.record.answer,
            passages=context.record.passages,
            parsed=context.parsed,
            spans=context.spans,
            encoded=context.encoded,
            tokens=tokens,
            settings=settings,
        )
    counts = _counts(context, settings, augmented=settings.method != ATTN_UNION)
    return paper_union_results(context, tokens, counts, settings=settings, passage_score=passage_score, has_mass=True)


def _counts(context: AnswerContext, settings: MethodOptions | None = None, *, augmented: bool) -> Counts:
    """Those of the spans' own tokens, or of their atomic facts, where ``settings`` weigh the own tokens."""
    if not augmented:
        return context.once(AnswerTokens).of_spans(context.spans)
    weight = 1 if settings is None else settings.own_token_weight
    return context.once(AnswerTokens).of_facts(context.spans, own_token_weight=weight)


class SentenceUnion:
    """``attn-union-sent``: the union over the span's sentences, without atomic facts (SentComp, Section 4.2.1)."""

    name = "attn-union-sent"
    needs = _NEEDS
    gives_mass = True

    def __init__(self, settings: MethodSettings) -> None:
        self._settings = settings

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        return paper_union_results(
            context,
            context.attention,
            self.counts(context),
            settings=context.settings_in_force(self._settings.union_options(ATTN_UNION)),
            passage_score=self._settings.passage_score,
            has_mass=True,
        )

    def counts(self, context: AnswerContext) -> Counts:
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
        return super().counts(context) * context.once(AnswerTokens).of_sentences(context.spans)


class HiddenUnion:
    """``hss-union``: Algorithm 1 with S_ij the cosine of the states of r_i and d_j (Section 3.4).

    Top-k, tau and the weight of a span's own tokens come from the options, else from the paper: a model directory's own
    values were chosen for its attention.
    """

    name = "hss-union"
    augmented = False
    needs = frozenset({Need.PARSER, Need.HIDDEN_STATES})

    def __init__(self, settings: MethodSettings) -> None:
        self._settings = settings

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        return self.results_of(context, context.once(hidden_similarity))

    def results_of(self, context: AnswerContext, similarity: HiddenSimilarity) -> list[SpanResult]:
        """The results from given similarities, of any layer."""
        settings = self._settings
        tokens, counts = similarity.top_columns(settings.top_k), _counts(context, settings, augmented=self.augmented)
        return paper_union_results(context, tokens, counts, settings=settings, passage_score=settings.passage_score)


class HiddenUnionDep(HiddenUnion):
    """``hss-union-dep``: the same over the tokens of the atomic facts."""

    name = "hss-union-dep"
    augmented = True


WINDOW = 8
"""W, the tokens of a window (Section 4.1)."""


class HiddenAverage:
    """``hss-avg``: the passage with the window most similar to the span's mean state; its evidence is that window."""

    name = "hss-avg"
    augmented = False
    needs = frozenset({Need.PARSER, Need.HIDDEN_STATES})

    def __init__(self, settings: MethodSettings) -> None:
        """Takes the settings as every method does; none of them applies."""

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """A passage's score is the cosine of its best window, 0 where it is negative."""
        counted = _counts(context, augmented=self.augmented) > 0
        inside = np.zeros((len(counted), len(context.encoded.response_char_start)), dtype=np.bool_)
        inside[:, context.once(AnswerTokens).covering] = counted
        windows = context.once(hidden_similarity).best_windows(inside, window=WINDOW)
        scores = np.where(windows.cosines > 0, windows.cosines, 0.0).tolist()
        return [
            SpanResult(tuple(of_span), _window_piece(context, of_span, columns))
            for of_span, columns in zip(scores, windows.columns, strict=True)
        ]


class HiddenAverageDep(HiddenAverage):
    """``hss-avg-dep``: the span is first widened to the tokens of its atomic facts, each once (Section 4.2.3)."""

    name = "hss-avg-dep"
    augmented = True


def _window_piece(
    context: AnswerContext, scores: Sequence[float], columns: Sequence[npt.NDArray[np.int32]]
) -> tuple[EvidencePiece, ...]:
    """The text of the best passage's window, titles apart; nothing where no passage scores."""
    encoded, best = context.encoded, int(np.argmax(scores))
    starts, ends = encoded.column_char_start, encoded.column_char_end
    inside = columns[best][~encoded.column_in_title[columns[best]]]
    inside = inside[starts[inside] < ends[inside]]
    if scores[best] <= 0 or not len(inside):
        return ()
    chars = CharRange(int(starts[inside].min()), int(ends[inside].max()))
    passage = context.record.passages[best]
    return (EvidencePiece(best, passage.passage_id, False, chars, chars.of(passage.text), scores[best]),)
