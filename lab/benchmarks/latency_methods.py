"""What the latency benchmark times: made-up records in the shapes of the paper's latency table, and its attributors.

An attributor takes a record to its results for every target span. ``TwoStage`` reproduces the two-stage Hugging Face
implementation of the paper's appendix statement by statement. Stage 1 runs the prompt without its last token and keeps
the cache of keys and values. Stage 2 runs the last prompt token and the response with ``output_attentions=True``. All
layers run, and all of them return their attention.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import avg_pool1d, normalize, pad
from transformers import Cache, PreTrainedModel

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.target_spans import choose_target_spans
from attribeam.attribution.attention.reduction import passage_mass, sink_mass, top_columns
from attribeam.attribution.evidence.union_results import evidence_records, union_results
from attribeam.attribution.language_models import ablated_row
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP, MethodOptions
from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.evaluation.methods.baselines import contrast_tokens, contrastive_saliency
from attribeam.schemas import CharRange, Passage, QARecord, RowFault, RowSource, SpanKind, TargetSpan
from lab.benchmarks.generated_rows import PageWords, made_up_pages
from lab.benchmarks.random_model import BenchmarkModel

_LATENCY_VOCABULARY = 200
"""Size of the vocabulary: mostly frequent English words, so that a token has about four characters as in English."""


@dataclass(frozen=True, slots=True)
class LatencyShape:
    """The shape of the rows of one data set.

    Attributes:
        passages, passage_characters: number of passages, and of their characters in total.
        answer_characters: number of characters in the answer.
        spans: numbers of target spans, which rows take in turn.
        span_characters: number of characters in a span, None if a span is a sentence.
    """

    name: str
    passages: int
    passage_characters: int
    answer_characters: int
    spans: tuple[int, ...]
    span_characters: int | None


LATENCY_SHAPES = (
    LatencyShape("QuoteSum", 4, 2000, 275, (4, 4, 5, 5, 5), 45),
    LatencyShape("ASQA", 5, 3000, 430, (3, 4), None),
    LatencyShape("VERI-GRAN", 8, 8200, 400, (1, 1, 1, 1, 2), 60),
)
"""In order of length, with 4.6, 3.5 and 1.2 spans per row."""


def latency_records(shape: LatencyShape, rows: int, *, seed: int = 0) -> list[QARecord]:
    """``rows`` records; record n depends only on the shape, ``seed`` and n."""
    pages = made_up_pages(seed=seed, pages=60, words_per_page=2000, vocabulary=_LATENCY_VOCABULARY)
    return [
        _latency_record(shape, pages, number, random.Random(f"{seed}/{shape.name}/{number}")) for number in range(rows)
    ]


def _latency_record(shape: LatencyShape, pages: Sequence[PageWords], number: int, rng: random.Random) -> QARecord:
    size = shape.passage_characters // shape.passages
    passages = tuple(Passage(text=_words_that_fit(rng.choice(pages), rng, size)) for _ in range(shape.passages))
    count = shape.spans[number % len(shape.spans)]
    answer, spans = "", []
    for _ in range(count):
        sentence = _words_that_fit(rng.choice(pages), rng, shape.answer_characters // count - 2).rstrip(".,") + "."
        length = len(sentence) if shape.span_characters is None else min(shape.span_characters, len(sentence) - 1)
        spans.append(CharRange(len(answer), len(answer) + length))
        answer += sentence + " "
    return QARecord(
        record_id=f"{shape.name}-{number}",
        question=f"What is said about {_words_that_fit(rng.choice(pages), rng, 30)}?",
        passages=passages,
        answer=answer.rstrip(),
        source=RowSource("", number),
        target_spans=tuple(spans),
    )


def _words_that_fit(page: PageWords, rng: random.Random, characters: int) -> str:
    """Consecutive words of the page from a random place, as many as fit into ``characters``."""
    text = " ".join(page.words)
    start = text.index(" ", rng.randrange(len(text) - characters - 40)) + 1
    return text[start : start + characters].rsplit(" ", 1)[0]


class TwoStage:
    """The attention of the 1-based ``layer`` from two calls of the model."""

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
        """The layer's attention, [rows, attention heads, responses, prompt and response]."""
        cache = self._stage_1(prompts, prompt_mask)
        return self._stage_2(prompts, prompt_mask, responses, response_mask, cache)[self._layer - 1]

    def _stage_1(self, prompts: torch.Tensor, prompt_mask: torch.Tensor) -> Cache:
        self._model.set_attn_implementation("sdpa")
        cache: Cache = self._model(
            input_ids=prompts[:, :-1], attention_mask=prompt_mask[:, :-1], output_attentions=False, use_cache=True
        ).past_key_values
        return cache

    def _stage_2(
        self,
        prompts: torch.Tensor,
        prompt_mask: torch.Tensor,
        responses: torch.Tensor,
        response_mask: torch.Tensor,
        cache: Cache,
    ) -> tuple[torch.Tensor, ...]:
        self._model.set_attn_implementation("eager")
        attentions: tuple[torch.Tensor, ...] = self._model(
            input_ids=torch.cat([prompts[:, -1:], responses[:, :-1]], dim=1),
            attention_mask=torch.cat([prompt_mask[:, :-1], response_mask], dim=1),
            past_key_values=cache,
            output_attentions=True,
            use_cache=True,
        ).attentions
        return attentions

    def _reduced(
        self, attention: torch.Tensor, row: EncodedRow, width: int, passage_count: int, top_k: int
    ) -> TokenAttribution:
        """Reduce ``attention`` [attention heads, responses, prompt and response], its prompt padded to ``width``."""
        responses = len(row.token_ids) - row.prompt_length
        similarity = attention[:, :responses, width - row.prompt_length : width].mean(0).float()
        column_passage = torch.from_numpy(row.column_passage.astype(np.int64)).to(similarity.device)
        columns, scores = top_columns(similarity, top_k)
        sums = (passage_mass(similarity, column_passage, passage_count), sink_mass(similarity, column_passage))
        return TokenAttribution(
            columns.to("cpu", torch.int32).numpy(), scores.cpu().numpy(), *(mass.cpu().numpy() for mass in sums)
        )


class EagerPass(TwoStage):
    """The same attention from one call of the model over prompt and response, with all attentions of all layers."""

    def _forward(
        self, prompts: torch.Tensor, prompt_mask: torch.Tensor, responses: torch.Tensor, response_mask: torch.Tensor
    ) -> torch.Tensor:
        self._model.set_attn_implementation("eager")
        attentions: tuple[torch.Tensor, ...] = self._model(
            input_ids=torch.cat([prompts, responses[:, :-1]], dim=1),
            attention_mask=torch.cat([prompt_mask, response_mask[:, :-1]], dim=1),
            output_attentions=True,
            use_cache=False,
        ).attentions
        return attentions[self._layer - 1][:, :, prompts.shape[1] - 1 :]


def _padded(rows: Sequence[npt.NDArray[np.int32]], *, left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, int64 [rows, longest]."""
    width = max(map(len, rows))
    sides = [(width - len(row), 0) if left else (0, width - len(row)) for row in rows]
    ids = [torch.from_numpy(row.astype(np.int64)) for row in rows]
    padded = torch.stack([pad(row, side) for row, side in zip(ids, sides, strict=True)])
    mask = torch.stack([pad(torch.ones_like(row), side) for row, side in zip(ids, sides, strict=True)])
    return padded, mask


class LatencyMethod(Protocol):
    """One attributor, loaded."""

    def run(self, records: Sequence[QARecord]) -> None:
        """Attribute every target span of the records, which run together."""

    def encode(self, record: QARecord) -> EncodedRow:
        """The record's tokens."""


class AttnUnion:
    """Ours without dependency augmentation; answers are split at spaces, which costs almost nothing."""

    def __init__(self, model: BenchmarkModel, token_budget: int | None = None) -> None:
        self._model = model.attributor(token_budget=token_budget)

    def encode(self, record: QARecord) -> EncodedRow:
        return self._model.encode(record)

    def run(self, records: Sequence[QARecord]) -> None:
        rows = [self._model.encode(record) for record in records]
        outcomes = self._model.attribute(rows, [len(record.passages) for record in records])
        for record, row, tokens in zip(records, rows, outcomes, strict=True):
            _unite(record, blank_parse(record.answer), row, tokens, self._model.settings)


class AttnUnionDep:
    """Ours with dependency augmentation; the bundled parser runs in the same process."""

    def __init__(self, model: BenchmarkModel, token_budget: int | None = None) -> None:
        from attribeam.attribution.answers.answer_parser import (
            AnswerParser,  # needs spaCy, which a GPU machine may lack
        )

        self._model = model.attributor(method=ATTN_UNION_DEP, token_budget=token_budget)
        self._parser = AnswerParser.from_pretrained("bundled")

    def encode(self, record: QARecord) -> EncodedRow:
        return self._model.encode(record)

    def run(self, records: Sequence[QARecord]) -> None:
        rows = [self._model.encode(record) for record in records]
        outcomes = self._model.attribute(rows, [len(record.passages) for record in records])
        trees = self._parser.parse_many([record.answer for record in records], [record.passages for record in records])
        for record, row, tokens, tree in zip(records, rows, outcomes, trees, strict=True):
            _unite(record, tree, row, tokens, self._model.settings)


class TwoStageUnion:
    """AttnUnion on the attention of the appendix's two-stage implementation; reduction and union are ours.

    The appendix uses a causal language model, whose head computes logits at every position. Without ``lm_head`` the
    base model is called instead, which is faster than the appendix.
    """

    def __init__(self, model: BenchmarkModel, *, lm_head: bool) -> None:
        self._encoder = model.encoder()
        self._settings = MethodOptions(method=ATTN_UNION)
        self._two_stage = TwoStage(model.causal() if lm_head else model.base(), layer=model.layer)

    def encode(self, record: QARecord) -> EncodedRow:
        return self._encoder.encode(record)

    def run(self, records: Sequence[QARecord]) -> None:
        rows = [self._encoder.encode(record) for record in records]
        counts = [len(record.passages) for record in records]
        outcomes = self._two_stage.attribute(rows, counts, top_k=self._settings.top_k)
        for record, row, tokens in zip(records, rows, outcomes, strict=True):
            _unite(record, blank_parse(record.answer), row, tokens, self._settings)


class EagerUnion(TwoStageUnion):
    """AttnUnion on the attention of transformers' eager pass, the language-model head included."""

    def __init__(self, model: BenchmarkModel) -> None:
        super().__init__(model, lm_head=True)
        self._two_stage = EagerPass(model.causal(), layer=model.layer)


class HSSAvg:
    """Cosine of a span's mean hidden state with the means of eight-token windows, at layer floor(L/2)."""

    window = 8

    def __init__(self, model: BenchmarkModel) -> None:
        self._encoder = model.encoder()
        self._layers = model.base(layers=model.layer - 1)

    def encode(self, record: QARecord) -> EncodedRow:
        return self._encoder.encode(record)

    def run(self, records: Sequence[QARecord]) -> None:
        for record in records:
            self._best_windows(record, self.encode(record))

    @torch.inference_mode()
    def _best_windows(self, record: QARecord, row: EncodedRow) -> list[tuple[int, int]]:
        """Passage and first column of each span's best window."""
        hidden = self._layers(input_ids=_token_ids(row, self._layers.device), use_cache=False).last_hidden_state[0]
        best = []
        for span in record.target_spans or ():
            own = row.prompt_length + torch.from_numpy(tokens_of(row, span)).to(hidden.device)
            mean = normalize(hidden[own].float().mean(0), dim=0)
            scores = [
                (normalize(avg_pool1d(hidden[start:end].float().T[None], self.window, 1)[0].T, dim=1) @ mean).max(0)
                for start, end in passage_runs(row)
                if end - start >= self.window
            ]
            passage = int(torch.stack([score.values for score in scores]).argmax())
            best.append((passage, int(scores[passage].indices)))
        return best


class DecoderStates:
    """The states that a verdict reads, at layer L*."""

    def __init__(self, model: BenchmarkModel, token_budget: int | None = None) -> None:
        self._decoder = model.decoder(token_budget=token_budget)

    def encode(self, record: QARecord) -> EncodedRow:
        return self._decoder.encode(record)

    def run(self, records: Sequence[QARecord]) -> None:
        for _ in self._decoder.response_states([self.encode(record) for record in records]):
            pass


class CCI:
    """Contrastive gradients as in the evaluation, keeping the top three columns.

    Each token of a span takes one backward pass to the input embeddings, and is contrasted with what the model would
    write without passages. The usual implementation is slower: it repeats the forward pass for every token and computes
    logits at every position.
    """

    top_k = 3

    def __init__(self, model: BenchmarkModel) -> None:
        self._model = model.language_model()

    def encode(self, record: QARecord) -> EncodedRow:
        return self._model.encode(record)

    def run(self, records: Sequence[QARecord]) -> None:
        for record in records:
            row = self.encode(record)
            tokens = sorted({token for span in record.target_spans or () for token in tokens_of(row, span).tolist()})
            top_columns(self._saliency(record, row, tokens), self.top_k)

    def _saliency(self, record: QARecord, row: EncodedRow, tokens: Sequence[int]) -> torch.Tensor:
        contextless = ablated_row(self._model, record, kept=(), response_of=row)
        foils = contrast_tokens(self._model.next_token_log_probabilities(contextless))
        return contrastive_saliency(self._model, row, responses=tokens, contrast=[foils[token] for token in tokens])


def blank_parse(answer: str) -> ParsedAnswer:
    """The words between spaces, without a tree."""
    words, end = [], 0
    for word in answer.split():
        start = answer.index(word, end)
        end = start + len(word)
        words.append(CharRange(start, end))
    count = len(words)
    return ParsedAnswer(tuple(words), tuple(range(count)), ("dep",) * count, ("X",) * count, ("",) * count, (0,))


def tokens_of(row: EncodedRow, span: CharRange) -> npt.NDArray[np.int64]:
    """The response tokens that overlap the span."""
    overlaps = (row.response_char_start < span.char_end) & (row.response_char_end > span.char_start)
    return np.flatnonzero(overlaps)


def passage_runs(row: EncodedRow) -> list[tuple[int, int]]:
    """The half-open range of every run of columns that belong to one passage."""
    borders = [0, *(np.flatnonzero(np.diff(row.column_passage)) + 1).tolist(), row.prompt_length]
    return [(start, end) for start, end in pairwise(borders) if row.column_passage[start] >= 0]


def _unite(
    record: QARecord,
    parsed: ParsedAnswer,
    row: EncodedRow,
    tokens: TokenAttribution | RowFault,
    settings: MethodOptions,
) -> None:
    if isinstance(tokens, RowFault):
        raise tokens
    spans: Sequence[TargetSpan] = choose_target_spans(
        parsed, record.answer, kinds=(SpanKind.GIVEN,), given=record.target_spans
    )
    results = union_results(
        answer=record.answer,
        passages=record.passages,
        parsed=parsed,
        spans=[span.chars for span in spans],
        encoded=row,
        tokens=tokens,
        settings=settings,
    )
    evidence_records(record=record, parsed=parsed, spans=spans, results=results, thresholds=settings)


def _token_ids(row: EncodedRow, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(row.token_ids.astype(np.int64))[None].to(device)
