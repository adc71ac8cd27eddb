"""A log of made-up answers whose spans are labelled with the passages that they come from.

``python -m attribeam.lab.training.attributor.labelled_log --pages FILE --count N --output FILE.parquet`` draws them
with the generator of the attributor's training rows, for ``attribeam train head-weights --outcomes labels``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from attribeam.attribution.models.model_directory import BUNDLED_MODEL
from attribeam.attribution.option_types import positive_integer, whole_number
from attribeam.lab.evaluation.datasets.log_writer import write_log
from attribeam.lab.training.attributor.corpus import Corpus, read_pages
from attribeam.lab.training.attributor.support_rows import SHORTEST_CLAIM, answer_start
from attribeam.lab.training.attributor.training_rows import TrainingRow, draw_row
from attribeam.lab.training.attributor.vocabulary import load_tokenizer
from attribeam.report.messages import CommandParser, print_lines
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import LabelledAnswer

_FEWEST_PASSAGES = 2


def draw_labelled_answers(
    corpus: Corpus, tokenizer: Tokenizer, *, count: int, tokens: int, seed: int
) -> Iterator[LabelledAnswer]:
    """``count`` answers to about ``tokens`` tokens of prompt and answer; they depend only on the arguments.

    Each has two passages or more, and a span that comes from one of them alone.

    Raises:
        ValueError: if the pages do not yield so many.
    """
    drawn = 0
    for attempt in range(1000 * count):
        row = draw_row(corpus, tokenizer, random.Random(f"labelled rows {seed} {attempt}"), tokens=tokens)
        spans = sourced_spans(row)
        if spans and len(row.passages) >= _FEWEST_PASSAGES:
            yield _labelled(row, spans, number=drawn)
            drawn += 1
        if drawn == count:
            return
    raise ValueError(f"expected {count} rows with spans of one passage from these pages, found {drawn}")


def sourced_spans(row: TrainingRow) -> dict[CharRange, int]:
    """The supported claims of a row's answer that come from a single passage, and that passage."""
    start = answer_start(row)
    found = {}
    for char_start, char_end, supported in row.claims:
        passages = {row.column_passage[column] for column in _columns(row, char_start, char_end)} - {-1}
        if supported and len(passages) == 1 and len(row.text[char_start:char_end].strip()) >= SHORTEST_CLAIM:
            found[CharRange(char_start - start, char_end - start)] = passages.pop()
    return dict(sorted(found.items(), key=lambda one: (one[0].char_start, one[0].char_end)))


def _columns(row: TrainingRow, char_start: int, char_end: int) -> Iterator[int]:
    for (start, end), columns in zip(row.offsets[row.answer_start :], row.gold, strict=True):
        if start < char_end and end > char_start:
            yield from columns


def _labelled(row: TrainingRow, spans: dict[CharRange, int], *, number: int) -> LabelledAnswer:
    record = QARecord(
        record_id=f"made-{number}",
        question=row.question,
        passages=tuple(Passage(one.text, one.title, passage_id=f"p{index}") for index, one in enumerate(row.passages)),
        answer=row.text[answer_start(row) :],
        source=RowSource("made", number),
        target_spans=tuple(spans),
    )
    return LabelledAnswer(record, tuple(frozenset({passage}) for passage in spans.values()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the log according to the command line."""
    parser = CommandParser(
        prog="python -m attribeam.lab.training.attributor.labelled_log", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--pages", type=Path, required=True, help='pages: JSON lines of {"title", "paras"}, plain or .xz'
    )
    parser.add_argument("--count", type=positive_integer, required=True, help="number of rows to write")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.parquet", help="the log to write")
    parser.add_argument(
        "--tokens", type=positive_integer, default=384, help="tokens of the bundled model per row (default: 384)"
    )
    parser.add_argument("--seed", type=whole_number, default=0, help="seed of the rows (default: 0)")
    options = parser.parse_args(arguments)
    corpus, tokenizer = read_pages(options.pages), load_tokenizer(BUNDLED_MODEL)
    answers = draw_labelled_answers(corpus, tokenizer, count=options.count, tokens=options.tokens, seed=options.seed)
    print_lines(f"{write_log(options.output, answers)} rows written to {options.output}")


if __name__ == "__main__":
    main()
