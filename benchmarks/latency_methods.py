"""The attributors of the paper's table of latencies, each from a record to what it says about every target span."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import avg_pool1d, normalize

from attribution.answers.parsed_answer import ParsedAnswer
from attribution.answers.target_spans import choose_target_spans
from attribution.attention.contrastive_gradients import contrast_tokens, contrastive_saliency
from attribution.attention.top_columns import top_columns
from attribution.evidence.span_evidence import span_evidence
from attribution.models.attribution_config import AttributionConfig, merge_settings
from attribution.models.model_options import MethodOptions
from attribution.prompts.passage_ablation import ablated_row
from attribution.settings import Method, UnionSettings
from attribution.token_attribution import EncodedRow, TokenAttribution
from benchmarks.random_model import RandomModel
from benchmarks.two_stage import TwoStage
from schemas import CharRange, QARecord, RowFault, SpanKind, TargetSpan


class LatencyMethod(Protocol):
    """One attributor, loaded."""

    def run(self, records: Sequence[QARecord]) -> None:
        """Attribute every target span of the records, run together."""

    def encode(self, record: QARecord) -> EncodedRow:
        """The record's tokens."""


class AttnUnion:
    """Ours, without the dependency augmentation; answers are cut into words at blanks, which costs nothing."""

    def __init__(self, random_model: RandomModel, token_budget: int | None = None) -> None:
        self._model = random_model.attributor(token_budget=token_budget)

    def encode(self, record: QARecord) -> EncodedRow:
        return self._model.encode(record)

    def run(self, records: Sequence[QARecord]) -> None:
        rows = [self._model.encode(record) for record in records]
        found = self._model.attribute(rows, [len(record.passages) for record in records])
        for record, row, tokens in zip(records, rows, found, strict=True):
            _unite(record, blank_parse(record.answer), row, tokens, self._model.settings)


class AttnUnionDep:
    """Ours with the augmentation: answers go through the bundled parser in the same process."""

    def __init__(self, random_model: RandomModel, token_budget: int | None = None) -> None:
        from attribution.answers.answer_parser import AnswerParser  # needs spaCy, which a GPU machine may lack

        self._model = random_model.attributor(method=Method.ATTN_UNION_DEP, token_budget=token_budget)
        self._parser = AnswerParser.from_pretrained("bundled")

    def encode(self, record: QARecord) -> EncodedRow:
        return self._model.encode(record)

    def run(self, records: Sequence[QARecord]) -> None:
        rows = [self._model.encode(record) for record in records]
        found = self._model.attribute(rows, [len(record.passages) for record in records])
        trees = self._parser.parse_many([record.answer for record in records])
        for record, row, tokens, tree in zip(records, rows, found, trees, strict=True):
            _unite(record, tree, row, tokens, self._model.settings)


class TwoStageUnion:
    """AttnUnion on the weights of the appendix's two-stage implementation; reduction and union are ours.

    The appendix's model is one for causal language modelling, whose head makes logits at every position. Without
    ``lm_head`` the base model is called instead, which is kinder than the appendix.
    """

    def __init__(self, random_model: RandomModel, *, lm_head: bool) -> None:
        self._encoder = random_model.encoder()
        self._settings = merge_settings(MethodOptions(method=Method.ATTN_UNION), AttributionConfig())
        model = random_model.causal() if lm_head else random_model.base()
        self._two_stage = TwoStage(model, layer=random_model.layer)

    def encode(self, record: QARecord) -> EncodedRow:
        return self._encoder.encode(record)

    def run(self, records: Sequence[QARecord]) -> None:
        rows = [self._encoder.encode(record) for record in records]
        counts = [len(record.passages) for record in records]
        found = self._two_stage.attribute(rows, counts, top_k=self._settings.top_k)
        for record, row, tokens in zip(records, rows, found, strict=True):
            _unite(record, blank_parse(record.answer), row, tokens, self._settings)


class HSSAvg:
    """Cosine similarity of a span's mean hidden state with those of windows of eight tokens, from layer floor(L/2)."""

    window = 8

    def __init__(self, random_model: RandomModel) -> None:
        self._encoder = random_model.encoder()
        self._layers = random_model.base(layers=random_model.layer - 1)

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


class CCI:
    """Contrastive gradients as the evaluation has them: for every token of a span one backward pass to the input
    embeddings, held against what the model would write without passages; the top three columns are kept.

    Kinder than the usual implementation, which repeats the forward pass for every token as well and makes logits at
    every position.
    """

    top_k = 3

    def __init__(self, random_model: RandomModel) -> None:
        self._model = random_model.language_model()

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
    """Words between blanks, without a tree."""
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
    """First column and end of every run of columns of one passage."""
    borders = [0, *(np.flatnonzero(np.diff(row.column_passage)) + 1).tolist(), row.prompt_length]
    return [(start, end) for start, end in pairwise(borders) if row.column_passage[start] >= 0]


def _unite(
    record: QARecord,
    parsed: ParsedAnswer,
    row: EncodedRow,
    tokens: TokenAttribution | RowFault,
    settings: UnionSettings,
) -> None:
    if isinstance(tokens, RowFault):
        raise tokens
    spans: Sequence[TargetSpan] = choose_target_spans(
        parsed, record.answer, kinds=(SpanKind.GIVEN,), given=record.target_spans
    )
    span_evidence(record=record, parsed=parsed, spans=spans, encoded=row, tokens=tokens, settings=settings)


def _token_ids(row: EncodedRow, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(row.token_ids.astype(np.int64))[None].to(device)
