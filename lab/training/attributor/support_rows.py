"""Held-out rows with labelled claims, for the evaluation's support check.

``python -m attribeam.lab.training.attributor.support_rows --pages FILE --count N --output FILE.jsonl`` draws them with
the generator of the attributor's training rows, using only pages that its recipe holds out.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer

from attribeam.attribution.models.model_directory import BUNDLED_MODEL
from attribeam.lab.training.attributor.corpus import Corpus, read_pages, split_held_out
from attribeam.lab.training.attributor.training_rows import PROMPT_TEMPLATE, TrainingRow, draw_row
from attribeam.lab.training.attributor.vocabulary import load_tokenizer
from attribeam.report.messages import CommandParser

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


def occurrence_at(text: str, place: int, answer: str) -> int:
    """The number of the occurrence of ``text`` at ``place``, counted from 1; occurrences may overlap."""
    return sum(answer.startswith(text, start) for start in range(place + 1))


def answer_start(row: TrainingRow) -> int:
    """The start of the answer in the row's text."""
    return row.passages_end + len(PROMPT_TEMPLATE["question"].format(question=row.question))


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = CommandParser(prog="python -m attribeam.lab.training.attributor.support_rows", description=__doc__)
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
