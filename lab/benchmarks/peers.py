"""CPU time per row of attribeam and of other packages, on the same rows in one run.

python -m lab.benchmarks.peers --data quotesum/dev_a.jsonl

The methods take each row in turn, so that other work on the machine meets all of them alike. They have the same weights
in float32, except LettuceDetect: random ones of ModernBERT-base's shape. A row's time is processor time, the median of
its rounds. A method that has used --limit seconds takes no further row.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import distributions
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

from transformers import AutoTokenizer, ModernBertConfig, ModernBertForTokenClassification, PreTrainedModel

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.attributor import Attributor, torch_threads
from attribeam.attribution.methods.method import LoadedModels
from attribeam.attribution.models import BUNDLED_MODEL
from attribeam.attribution.options import ATTN_UNION_DEP
from attribeam.evaluation.datasets.published import load_quotesum
from attribeam.schemas import Passage, QARecord, RowSource
from lab.benchmarks.latency_methods import AttnUnion, EagerUnion, LatencyMethod, TwoStageUnion
from lab.benchmarks.machine import machine_description, markdown_table
from lab.benchmarks.random_model import SHAPES, BenchmarkModel, NamedModel, RandomModel
from lab.benchmarks.support_check import EVERYDAY_ROWS, load_support_rows

VERSIONS = {"inseq": "0.7.1", "context-cite": "0.0.4", "lettucedetect": "0.2.3"}
"""What is measured; a package that is missing or has another version is left out."""
OURS, ABLATIONS = "Attributor, parser and verdict included", 32
_WARM_UP = QARecord("", "Who lit it?", (Passage("Ada lit the lamp. It rained."),), "Ada did.", RowSource("", 0))

RunRow = Callable[[QARecord], object]


@dataclass(slots=True)
class RowTimes:
    """How a method runs, and its CPU seconds by the row's number, one per round."""

    run: RunRow
    seconds: dict[int, list[float]] = field(default_factory=dict)

    def take(self, number: int, record: QARecord, *, limit: float) -> None:
        """Run the row and keep its time, unless all rows and rounds have taken ``limit`` seconds."""
        if sum(map(sum, self.seconds.values())) < limit:
            start = time.process_time()
            self.run(record)
            self.seconds.setdefault(number, []).append(time.process_time() - start)

    def milliseconds(self, rows: Sequence[int]) -> float:
        """CPU milliseconds per row: the mean over these rows of the median of their rounds."""
        return 1000 * mean(median(self.seconds[row]) for row in rows)


def methods(model: BenchmarkModel, tokenizer: Any, folder: Path) -> Iterator[tuple[str, RunRow]]:
    """Our methods, those on transformers, and those of the packages that are installed, loaded."""
    yield OURS, _attributor(model)
    yield "attribution alone, words split at spaces", _one_row(AttnUnion(model))
    yield "the paper's two stages (cache, then eager)", _one_row(TwoStageUnion(model, lm_head=True))
    yield "transformers' eager pass, all attentions", _one_row(EagerUnion(model))
    if _is_there("inseq"):
        for name in ("attention", "saliency"):
            yield f"inseq {VERSIONS['inseq']}, {name}", _inseq(model, tokenizer, name)
    if _is_there("context-cite"):
        yield f"context-cite {VERSIONS['context-cite']}, {ABLATIONS} ablations", _context_cite(model, tokenizer)
    if _is_there("lettucedetect"):
        yield f"lettucedetect {VERSIONS['lettucedetect']}, verdict only", _lettucedetect(tokenizer, folder)


def _is_there(package: str) -> bool:
    version = next((distribution.version for distribution in distributions(name=package)), "not installed")
    if version != VERSIONS[package]:
        print(f"{package} {VERSIONS[package]} is left out: {version}", flush=True)
    return version == VERSIONS[package]


def _attributor(model: BenchmarkModel) -> RunRow:
    parser, attention = AnswerParser.from_pretrained("bundled"), model.attributor(method=ATTN_UNION_DEP)
    attributor = Attributor(parser=parser, models=LoadedModels(attention=attention), spans=DEFAULT_SPAN_KINDS)
    return lambda record: attributor.attribute(
        question=record.question, passages=record.passages, answer=record.answer, target_spans=record.target_spans
    )


def _one_row(method: LatencyMethod) -> RunRow:
    return lambda record: method.run([record])


def _inseq(model: BenchmarkModel, tokenizer: Any, name: str) -> RunRow:
    causal, encoder = _causal(model, tokenizer, "eager"), model.encoder()
    attribution = import_module("inseq").load_model(causal, name, tokenizer=tokenizer, device=model.device)

    def run(record: QARecord) -> None:
        row = encoder.encode(record)
        prompt = tokenizer.decode(row.token_ids[: row.prompt_length])
        attribution.attribute(prompt, prompt + record.answer, show_progress=False)

    return run


def _context_cite(model: BenchmarkModel, tokenizer: Any) -> RunRow:
    """Its sources are sentences; it gets them, because it would fetch what splits them."""
    causal, package = _causal(model, tokenizer, "sdpa"), import_module("context_cite")
    partitioner = import_module("context_cite.context_partitioner").SimpleContextPartitioner
    tokenizer.chat_template = tokenizer.chat_template or "{{ messages[0]['content'] }}\n"

    def run(record: QARecord) -> None:
        sentences = [sentence for passage in record.passages for sentence in re.split(r"(?<=[.!?])\s+", passage.text)]
        context = " ".join(sentences)
        sources = partitioner(context)
        sources._cache = {"parts": sentences, "separators": ["", *[" "] * (len(sentences) - 1)]}
        options = {"num_ablations": ABLATIONS, "partitioner": sources}
        citer = package.ContextCiter(causal, tokenizer, context, record.question, **options)
        citer._cache["output"] = citer._get_prompt_ids(return_prompt=True)[1] + record.answer  # else it generates one
        for span in record.target_spans or ():
            citer.get_attributions(span.char_start, span.char_end, verbose=False)

    return run


def _causal(model: BenchmarkModel, tokenizer: Any, implementation: str) -> PreTrainedModel:
    causal = model.causal(implementation=implementation)
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if getattr(causal.config, name, None) is None:
            setattr(causal.config, name, getattr(tokenizer, name))
    return causal


def _lettucedetect(tokenizer: Any, folder: Path) -> RunRow:
    config = ModernBertConfig(vocab_size=max(len(tokenizer), 50_368))
    ModernBertForTokenClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    detector = import_module("lettucedetect.detectors.transformer").TransformerDetector(str(folder), device="cpu")
    return lambda record: detector.predict(
        [passage.text for passage in record.passages], record.answer, record.question, output_format="spans"
    )


def measure(timers: Sequence[RowTimes], records: Sequence[QARecord], *, rounds: int, limit: float) -> None:
    """Let the methods take the rows in turn, after a small one that does not count."""
    for timer in timers:
        timer.run(_WARM_UP)
    for _, (number, record), timer in product(range(rounds), enumerate(records), timers):
        timer.take(number, record, limit=limit)


def table(timers: Mapping[str, RowTimes]) -> str:
    """One line per method, which is compared with ours on the rows that it took."""
    lines = []
    for name, timer in timers.items():
        rows = sorted(timer.seconds)
        own, ours = timer.milliseconds(rows), timers[OURS].milliseconds(rows)
        runs = sum(map(len, timer.seconds.values()))
        lines.append((name, f"{own:,.0f}", f"{own / ours:.1f}", f"{len(rows)}", f"{runs}"))
    return markdown_table(("method", "CPU ms/row", "against ours", "rows", "runs"), lines, padded=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    args = _parser().parse_args(arguments)
    labelled = load_quotesum(args.data).answers if args.data else load_support_rows(EVERYDAY_ROWS)
    records = [answer.record for answer in labelled[: args.rows]]
    model: BenchmarkModel = NamedModel(args.model) if args.model else RandomModel(args.shape)
    lengths = [len(row.token_ids) for row in map(model.encoder().encode, records)]
    print(machine_description())
    print(f"{model}, one thread; {len(lengths)} rows, {mean(lengths):.0f} tokens per row", flush=True)
    with torch_threads(1), tempfile.TemporaryDirectory() as folder:
        tokenizer = AutoTokenizer.from_pretrained(args.model or BUNDLED_MODEL)
        timers = {name: RowTimes(run) for name, run in methods(model, tokenizer, Path(folder))}
        measure([*timers.values()], records, rounds=args.rounds, limit=args.limit)
    print(table(timers))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a QuoteSum .jsonl file (default: everyday_rows.jsonl)")
    parser.add_argument("--rows", type=int, default=8, help="number of rows (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds over the rows (default: %(default)s)")
    parser.add_argument("--shape", choices=SHAPES, default="smollm2-135m", help="shape of the model, random weights")
    parser.add_argument("--model", help="a causal model's directory instead of a shape")
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds of one method (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
