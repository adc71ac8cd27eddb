"""Methods without attention: ``cci``, by a causal language model's gradients, and those that compare words.

A model's distributions with and without passages show the context-sensitive tokens (CTI), its probabilities without
single passages the log-probability drops (Section 4.3), its gradients the saliency of the prompt (CCI): as in PECoRe
(Sarti et al., 2024) and Yin and Neubig (2022), the L2 norm per token of the gradient of a contrast of
log-probabilities.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.evidence.passage_evidence import WORD, evidence_pieces, scaled_pieces
from attribeam.attribution.evidence.union import UnionScores
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import AnswerContext, MethodSettings, Need, required
from attribeam.attribution.rows import EncodedRow
from attribeam.evaluation.methods.unions import sentence_ranges
from attribeam.schemas import CharRange, EvidencePiece, Passage, QARecord, Reason, RowFault

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.language_models import LanguageModel

_Floats = npt.NDArray[np.float64]


def sensitive_tokens(divergences: _Floats) -> list[int]:
    """The tokens whose divergence is not 0 and reaches mean plus one (population) standard deviation, ascending."""
    if not len(divergences):
        return []
    threshold = float(divergences.mean() + divergences.std())
    return [index for index, value in enumerate(divergences.tolist()) if value >= threshold and value > 0]


def sensitive_spans(divergences: _Floats, characters: Sequence[CharRange | None]) -> tuple[CharRange, ...]:
    """One target span per context-sensitive token that covers characters of the answer, ascending, each once."""
    ranges = {characters[index] for index in sensitive_tokens(divergences)}
    return tuple(sorted((chars for chars in ranges if chars is not None), key=lambda chars: chars.char_start))


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
        from attribeam.attribution.language_models import ablated_row

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
    does not depend on the prompt's embeddings. Tokens after the last of ``responses`` are not read. Raises ``RowFault``
    OUT_OF_MEMORY or NON_FINITE_ATTENTION.
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


class ContrastiveGradients:
    """``cci``: the three prompt tokens with the largest contrastive saliency of each target token, united.

    The saliency is the similarity S of Equation 1; the passage with the largest sum wins (Section 4.1). Isolated tokens
    stay.
    """

    name = "cci"
    needs = frozenset({Need.LANGUAGE_MODEL})

    def __init__(self, settings: MethodSettings) -> None:
        """Takes the settings as every method does; none of them applies."""

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        from attribeam.attribution.attention.reduction import top_columns

        language, spans = context.once(language_of), context.spans
        tokens = {span: language.tokens_of(span) for span in spans}
        wanted = sorted({token for of_span in tokens.values() for token in of_span})
        columns, scores = (part.numpy() for part in top_columns(language.saliency(wanted), 3))
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


@dataclass(frozen=True, slots=True)
class PassageWord:
    """A lower-cased word of a passage; ``chars`` are its characters in the passage's text, or in its title."""

    word: str
    chars: CharRange
    in_title: bool


@dataclass(frozen=True, slots=True)
class WordMatches:
    """The words of an answer and their best match in every passage.

    Attributes:
        scores: float64 [words, passages], length of the longest common run that a match of this word in this passage
            belongs to, divided by the word's frequency over all passages; 0 where the passage lacks the word.
        positions: int64 [words, passages], which word of the passage that match is, title first; -1 without.
    """

    words: tuple[CharRange, ...]
    scores: npt.NDArray[np.float64]
    positions: npt.NDArray[np.int64]
    passages: tuple[tuple[PassageWord, ...], ...]

    def passage_scores(self, ranges: Sequence[CharRange]) -> tuple[float, ...]:
        """For each passage the sum over the words that overlap one of ``ranges``, each word once."""
        return tuple(self.scores[self._chosen(ranges)].sum(axis=0).tolist())

    def matched(self, ranges: Sequence[CharRange], passage_index: int) -> dict[PassageWord, float]:
        """The best matches in one passage of the words that overlap one of ``ranges``, with their summed scores."""
        matched: defaultdict[PassageWord, float] = defaultdict(float)
        for index in np.flatnonzero(self._chosen(ranges)).tolist():
            position = int(self.positions[index, passage_index])
            if position >= 0:
                matched[self.passages[passage_index][position]] += float(self.scores[index, passage_index])
        return dict(matched)

    def _chosen(self, ranges: Sequence[CharRange]) -> npt.NDArray[np.bool_]:
        chosen = np.zeros(len(self.words), dtype=np.bool_)
        for chars in ranges:
            first = bisect_right(self.words, chars.char_start, key=lambda word: word.char_end)
            chosen[first : bisect_left(self.words, chars.char_end, key=lambda word: word.char_start)] = True
        return chosen


def match_words(answer: str, passages: Sequence[Passage]) -> WordMatches:
    """Match the words of ``answer`` with those of each passage, title first.

    Words are lower-case runs of letters and digits, or one Chinese character. Runs may reach beyond the span in
    question.
    """
    matches = list(WORD.finditer(answer))
    words = [match.group().lower() for match in matches]
    of_passages = tuple(
        tuple(
            PassageWord(match.group().lower(), CharRange(*match.span()), in_title)
            for text, in_title in ((passage.title or "", True), (passage.text, False))
            for match in WORD.finditer(text)
        )
        for passage in passages
    )
    texts = [[word.word for word in of_passage] for of_passage in of_passages]
    frequency = Counter(word for text in texts for word in text)
    lengths, positions = best_runs(words, texts)
    frequencies = np.array([max(frequency[word], 1) for word in words], dtype=np.float64)
    return WordMatches(
        tuple(CharRange(*match.span()) for match in matches), lengths / frequencies[:, None], positions, of_passages
    )


def best_runs(
    words: Sequence[str], texts: Sequence[Sequence[str]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each word and text, the longest common run that contains one of the word's matches.

    The words of a run are adjacent on both sides, within one text. The search ranks length and position as one number,
    ``length * size - position``: longer runs first, then earlier ones.

    Returns:
        int64 [words, texts] each: the words of that run, 0 where the text lacks the word; and where in the text that
        match stands, the first of equally long runs, -1 without.
    """
    positions: defaultdict[str, list[int]] = defaultdict(list)
    owner: list[int] = []  # the text of every position, texts laid end to end with a gap after each
    starts: list[int] = []
    for number, text in enumerate(texts):
        starts.append(len(owner))
        for word in text:
            positions[word].append(len(owner))
            owner.append(number)
        owner.append(number)
    size = len(owner) + 1
    before = -np.arange(size, dtype=np.int64)
    best = np.zeros((len(words), len(texts)), dtype=np.int64)
    ending: dict[int, int] = {}
    for index, word in enumerate(words):
        ending = {position: ending.get(position - 1, 0) + 1 for position in positions.get(word, ())}
        for position, length in ending.items():
            run = best[index - length + 1 : index + 1, owner[position]]
            np.maximum(run, before[position - length + 1 : position + 1] + length * size, out=run)
    lengths = -(-best // size)
    return lengths, np.where(lengths > 0, lengths * size - best - np.array(starts, dtype=np.int64), -1)


def _matches(context: AnswerContext) -> WordMatches:
    return match_words(context.record.answer, context.record.passages)


class SpanWords:
    """``words``: the span's own words."""

    name = "words"
    needs: frozenset[Need] = frozenset()

    def __init__(self, settings: MethodSettings) -> None:
        """Takes the settings as every method does; none of them applies."""

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        matches, results = context.once(_matches), []
        for ranges in self.ranges(context):
            scores = matches.passage_scores(ranges)
            best = scores.index(max(scores))
            passage, pieces = context.record.passages[best], []
            for word, score in matches.matched(ranges, best).items():
                text = word.chars.of((passage.title or "") if word.in_title else passage.text)
                pieces.append(EvidencePiece(best, passage.passage_id, word.in_title, word.chars, text, score))
            pieces.sort(key=lambda piece: (-piece.score, not piece.in_title, piece.chars.char_start))
            results.append(SpanResult(scores, tuple(pieces)))
        return results

    def ranges(self, context: AnswerContext) -> Iterable[Sequence[CharRange]]:
        """For each span the ranges of the answer whose words count, each word once."""
        return [[span] for span in context.spans]


class FactWords(SpanWords):
    """``words-dep``: the words of the atomic facts of the span's words, and the span's own (Section 3.3)."""

    name = "words-dep"
    needs = frozenset({Need.PARSER})

    def ranges(self, context: AnswerContext) -> Iterable[Sequence[CharRange]]:
        facts, words = AtomicFacts(context.parsed), context.parsed.words
        for span in context.spans:
            own = [index for index, chars in enumerate(words) if chars.overlaps(span)]
            members = frozenset[int]().union(*(facts.words_of(word) for word in own))
            yield [span, *(words[word] for word in sorted(members))]


class SentenceWords(SpanWords):
    """``words-sent``: the words of the sentences that the span stands in."""

    name = "words-sent"
    needs = frozenset({Need.PARSER})

    def ranges(self, context: AnswerContext) -> Iterable[Sequence[CharRange]]:
        sentences = sentence_ranges(context.parsed)
        return [[span, *(sentence for sentence in sentences if sentence.overlaps(span))] for span in context.spans]
