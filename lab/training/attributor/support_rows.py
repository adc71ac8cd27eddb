"""Held-out rows with labelled claims, and the thresholds that separate them.

Held-out rows with labelled claims, for the evaluation's support check.

``python -m lab.training.attributor.support_rows --pages FILE --count N --output FILE.jsonl`` draws them with
the generator of the attributor's training rows, using only pages that its recipe holds out.

How well evidence mass separates supported spans from invented ones, and the two thresholds.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch.nn.functional import conv1d
from transformers import ModernBertModel

from attribeam.attribution.models import BUNDLED_MODEL
from attribeam.report.messages import CommandParser
from lab.training.attributor.corpus import Corpus, read_pages, split_held_out
from lab.training.attributor.network import answer_attention, collate, load_tokenizer
from lab.training.attributor.training_rows import PROMPT_TEMPLATE, TrainingRow, draw_batch, draw_row

ROW_TOKENS = (256, 384, 512, 768)
SHORTEST_CLAIM = 3


def draw_support_rows(corpus: Corpus, tokenizer: Tokenizer, *, count: int, seed: int) -> Iterator[dict[str, object]]:
    """``count`` rows with at least one claim each; they depend only on the arguments.

    Raises:
        ValueError: if the pages do not yield enough rows with claims.
    """
    drawn = 0
    for attempt in range(1000 * count):
        rng = random.Random(f"support rows {seed} {attempt}")
        row = draw_row(corpus, tokenizer, rng, tokens=rng.choice(ROW_TOKENS))
        spans = support_spans(row)
        if spans and drawn < count:
            drawn += 1
            yield {"record_id": f"held-out-{attempt}", **row_texts(row), "spans": spans}
        if drawn == count:
            return
    raise ValueError(f"expected {count} rows with claims from these pages, found {drawn}")


def row_texts(row: TrainingRow) -> dict[str, object]:
    """Question, passages and answer of a row, in the form of a QA log."""
    passages = [
        {"passage_id": f"p{index}", "title": passage.title, "text": passage.text}
        for index, passage in enumerate(row.passages)
    ]
    return {"question": row.question, "passages": passages, "answer": row.text[answer_start(row) :]}


def support_spans(row: TrainingRow) -> list[dict[str, object]]:
    """The claims of at least ``SHORTEST_CLAIM`` characters, one per range, each with text and occurrence."""
    start = answer_start(row)
    answer, prompt = row.text[start:], row.text[: row.passages_end]
    spans = {}
    for char_start, char_end, supported in row.claims:
        text = row.text[char_start:char_end]
        if len(text.strip()) >= SHORTEST_CLAIM:
            kind = claim_kind(text, prompt, supported=supported)
            occurrence = occurrence_at(text, char_start - start, answer)
            span = {"text": text, "occurrence": occurrence, "supported": supported, "kind": kind}
            spans[char_start, char_end] = span
    return list(spans.values())


def claim_kind(text: str, prompt: str, *, supported: bool) -> str:
    """The kind of a claim: verbatim or paraphrase if supported, else a wrong value (one word) or invented clause."""
    if supported:
        return "supported" if text in prompt else "paraphrase"
    if len(text.split()) > 1:
        return "invented clause"
    return "wrong number" if any(character.isdigit() for character in text) else "wrong name"


def occurrence_at(text: str, position: int, answer: str) -> int:
    """The number of the occurrence of ``text`` at ``place``, counted from 1; occurrences may overlap."""
    return sum(answer.startswith(text, start) for start in range(position + 1))


def answer_start(row: TrainingRow) -> int:
    """The start of the answer in the row's text."""
    return row.passages_end + len(PROMPT_TEMPLATE["question"].format(question=row.question))


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = CommandParser(prog="python -m lab.training.attributor.support_rows", description=__doc__)
    parser.add_argument(
        "--pages", type=Path, required=True, help='pages: JSON lines of {"title", "paras"}, plain or .xz'
    )
    parser.add_argument("--count", type=int, required=True, help="number of rows to write")
    parser.add_argument("--output", type=Path, required=True, help="the .jsonl file to write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--tokenizer", type=Path, default=BUNDLED_MODEL, help="directory of the tokenizer that counts row lengths"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Write the rows according to the command line."""
    options = parse_arguments(arguments)
    _, held_out = split_held_out(read_pages(options.pages))
    rows = draw_support_rows(held_out, load_tokenizer(options.tokenizer), count=options.count, seed=options.seed)
    with options.output.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


if __name__ == "__main__":
    main()


TOP_K = 6
ISOLATION_TAU = 2
OWN_TOKEN_WEIGHT = 12
SENTENCE_WEIGHT = 0.4
EVIDENCE_WINDOW = 160
WORD_WEIGHT = 1.0
MISSED_SHARE = 0.05
HELD_OUT_BATCHES = 120


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of evidence mass: a span is supported from ``supported`` and weakly supported from ``weak``."""

    supported: float
    weak: float


@dataclass(frozen=True, slots=True)
class SpanMasses:
    """The evidence mass of the supported and of the unsupported held-out spans."""

    supported: torch.Tensor
    unsupported: torch.Tensor

    def auroc(self) -> float:
        """The probability that a supported span has more evidence mass than an unsupported one; ties count as half."""
        difference = self.supported[:, None] - self.unsupported[None]
        return ((difference > 0).double().mean() + 0.5 * (difference == 0).double().mean()).item()

    def thresholds(self) -> Thresholds:
        """The thresholds that these spans suggest.

        ``supported`` maximises the share of supported spans above it minus the share of unsupported ones; if several
        values do, it is their mean. 95% of the supported spans lie above ``weak``, which never exceeds ``supported``.
        """
        lines = torch.linspace(0, 1, 1001)
        gain = share_at_least(self.supported, lines) - share_at_least(self.unsupported, lines)
        supported = lines[gain >= gain.max() - 1e-6].mean().item()
        weak = self.supported.quantile(MISSED_SHARE).item()
        return Thresholds(round(supported, 2), round(min(weak, supported), 2))


def share_at_least(masses: torch.Tensor, lines: torch.Tensor) -> torch.Tensor:
    """The share of ``masses`` [spans] that reaches each line, [lines]."""
    return (masses[:, None] >= lines[None]).float().mean(0)


@torch.no_grad()
def held_out_masses(
    model: ModernBertModel, tokenizer: Tokenizer, corpus: Corpus, *, seed: int, batches: int, token_budget: int
) -> SpanMasses:
    """The evidence mass of spans in newly drawn rows; ``corpus`` must hold pages that were not trained on."""
    masses: dict[bool, list[float]] = {True: [], False: []}
    for step in range(batches):
        rows = draw_batch(corpus, tokenizer, seed=seed, step=10**6 + step, token_budget=token_budget)
        for row, attention in zip(rows, answer_attention(model, collate(rows)), strict=True):
            weights = attention.cpu()
            for start, end, supported in row.claims:
                masses[supported].append(evidence_mass(weights, row, start, end))
    return SpanMasses(torch.tensor(masses[True]), torch.tensor(masses[False]))


def evidence_mass(weights: torch.Tensor, row: TrainingRow, char_start: int, char_end: int) -> float:
    """The share of a span's attention that lies on evidence tokens, averaged over the span's tokens (Section 3.2).

    The top k of ``weights`` [answer tokens, prompt tokens] are summed over the span's tokens. Isolated tokens are then
    removed, unless all are isolated.
    """
    answer = row.offsets[row.answer_start :]
    span = [index for index, (start, end) in enumerate(answer) if start < char_end and end > char_start]
    top = weights[span].topk(min(TOP_K, row.answer_start))
    scores = torch.zeros(len(span), row.answer_start).scatter(1, top.indices, top.values).sum(0)
    scores[~evidence_columns(row)] = 0.0
    kept = drop_isolated(scores)
    return ((kept if kept.any() else scores).sum() / len(span)).item()


def evidence_columns(row: TrainingRow) -> torch.Tensor:
    """bool [prompt tokens]: whether a token covers a character of a passage."""
    end = row.passages_end
    return torch.tensor([start < stop <= end for start, stop in row.offsets[: row.answer_start]])


def drop_isolated(scores: torch.Tensor) -> torch.Tensor:
    """``scores`` [tokens], with 0 for tokens that have no other token with a score within tau (Algorithm 1)."""
    scored = (scores > 0).to(scores.dtype)
    window = torch.ones(1, 1, 2 * ISOLATION_TAU + 1)
    neighbours = conv1d(scored[None, None], window, padding=ISOLATION_TAU)[0, 0] - scored
    return scores * (neighbours > 0.5)
