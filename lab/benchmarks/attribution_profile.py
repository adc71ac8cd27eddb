"""The time of one audit process, stage by stage, without Beam.

python -m lab.benchmarks.attribution_profile --rows 512 --text pages.jsonl
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.target_spans import choose_target_spans
from attribeam.attribution.attention.attention_model import AttentionModel, load_attention_model
from attribeam.attribution.attention.batching import RowLayout, pack_by_token_budget
from attribeam.attribution.methods.audit_row import AuditRow, evidence_of, model_outcomes
from attribeam.attribution.methods.method import LoadedModels, resolve_method
from attribeam.attribution.options import ModelOptions
from attribeam.logs.qa_log import QALog
from attribeam.schemas import QARecord, RowFault, SpanEvidence, evidence_schema
from attribeam.schemas.evidence_record import evidence_table
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.stages import BLOCK_ROWS
from lab.benchmarks.generated_rows import RowShape, benchmark_rows, made_up_pages, read_pages, write_log
from lab.benchmarks.machine import machine_description, markdown_table

_HEADER = ("stage", "wall s", "CPU s", "CPU ms/row", "share of wall", "share of CPU")


@dataclass(slots=True)
class StageClock:
    """Wall and CPU seconds of each stage in the order in which the stages first ran, and counts of what they handled.

    CPU seconds are summed over all threads; they are more meaningful while other programs run on the machine.
    """

    wall: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    rows: int = 0
    spans: int = 0
    tokens: int = 0
    padded_tokens: int = 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to the stage ``name``."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall[name] = self.wall.get(name, 0.0) + time.perf_counter() - wall
        self.cpu[name] = self.cpu.get(name, 0.0) + time.process_time() - cpu

    def lines(self) -> Iterator[tuple[str, ...]]:
        """One line per stage and one for all of them, below ``_HEADER``."""
        wall, cpu = sum(self.wall.values()), sum(self.cpu.values())
        stages = [*((name, self.wall[name], self.cpu[name]) for name in self.wall), ("all", wall, cpu)]
        for name, own_wall, own_cpu in stages:
            shares = (f"{own_wall / wall:.1%}", f"{own_cpu / cpu:.1%}")
            yield (name, f"{own_wall:.2f}", f"{own_cpu:.2f}", f"{1000 * own_cpu / self.rows:.2f}", *shares)

    def table(self) -> str:
        """The stages, followed by speed and the shape of the rows."""
        wall, cpu = sum(self.wall.values()), sum(self.cpu.values())
        shape = (
            f"{self.rows} rows, {self.tokens / self.rows:.0f} tokens and {self.spans / self.rows:.1f} spans per row, "
            f"{100 * (1 - self.tokens / self.padded_tokens):.1f} % padding"
        )
        speed = f"{self.rows / wall:.1f} rows/s of wall time, {self.rows / cpu:.1f} rows per CPU second"
        return "\n".join([markdown_table(_HEADER, [*self.lines()], padded=True), speed, shape])


def main() -> None:
    """Generate rows, run them through every stage and print the table."""
    args = _parser().parse_args()
    settings = AuditSettings(
        parser=args.parser,
        threads=args.threads,
        model=ModelOptions(model=args.model, device=args.device, dtype=args.dtype, token_budget=args.token_budget),
    )
    print(machine_description())
    print(f"threads {args.threads}, token budget {args.token_budget or 'default'}")
    print(f"model {args.model}, parser {args.parser}")
    parser = AnswerParser.from_pretrained(settings.parser)
    model = load_attention_model(settings.model, method=settings.method, threads=settings.threads, fused=True)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "qa_logs.parquet"
        pages = read_pages(args.text) if args.text else made_up_pages(seed=args.seed)
        write_log(log, benchmark_rows(pages, rows=args.rows, seed=args.seed, shape=args.shape))
        clock = profile(log, rows=args.rows, settings=settings, parser=parser, model=model)
    print(clock.table())


def profile(
    log: Path, *, rows: int, settings: AuditSettings, parser: AnswerParser, model: AttentionModel
) -> StageClock:
    """Run the rows of a log through all stages, block by block like an audit."""
    clock = StageClock(rows=rows)
    with clock.stage("read"):
        outcomes = QALog(str(log), settings.log_options).outcomes(range(rows))
        records = [outcome for outcome in outcomes if isinstance(outcome, QARecord)]
    schema = evidence_schema()
    with pq.ParquetWriter(log.with_name("evidence.parquet"), schema, compression="zstd") as writer:
        for start in range(0, len(records), BLOCK_ROWS):
            _run_block(records[start : start + BLOCK_ROWS], settings, parser, model, clock, writer)
    return clock


def _run_block(
    records: Sequence[QARecord],
    settings: AuditSettings,
    parser: AnswerParser,
    model: AttentionModel,
    clock: StageClock,
    writer: pq.ParquetWriter,
) -> None:
    with clock.stage("parse"):
        parsed = list(parser.parse_many([record.answer for record in records], [record.passages for record in records]))
    with clock.stage("spans"):
        spans = [
            choose_target_spans(tree, record.answer, kinds=settings.span_kinds, given=record.target_spans)
            for record, tree in zip(records, parsed, strict=True)
        ]
    with clock.stage("encode"):
        rows = [
            AuditRow(record, tree, tuple(chosen), model.encode(record))
            for record, tree, chosen in zip(records, parsed, spans, strict=True)
        ]
    method = resolve_method(model.settings)
    with clock.stage("attention"):
        outcomes = model_outcomes(method, model.settings, LoadedModels(attention=model), rows)
    with clock.stage("evidence"):
        pairs = [*zip(rows, outcomes, strict=True)]
        evidence = evidence_of(pairs, method=method, options=model.settings, settings=model.settings)
    checked = [_checked(outcome) for outcome in evidence]
    with clock.stage("write"):
        _write(rows, checked, writer)
    _count(rows, checked, model, clock)


def _checked(evidence: tuple[SpanEvidence, ...] | RowFault) -> tuple[SpanEvidence, ...]:
    if isinstance(evidence, RowFault):
        raise evidence
    return evidence


def _write(rows: Sequence[AuditRow], evidence: Sequence[Sequence[SpanEvidence]], writer: pq.ParquetWriter) -> None:
    records = [row.record for row in rows]
    writer.write_table(evidence_table(list(zip(records, evidence, strict=True)), writer.schema))


def _count(
    rows: Sequence[AuditRow], evidence: Sequence[Sequence[SpanEvidence]], model: AttentionModel, clock: StageClock
) -> None:
    lengths = [len(row.encoded.token_ids) for row in rows if row.encoded is not None]
    clock.spans += sum(len(spans) for spans in evidence)
    clock.tokens += sum(lengths)
    if model.layout is RowLayout.END_TO_END:
        clock.padded_tokens += sum(lengths)
        return
    for batch in pack_by_token_budget(lengths, model.token_budget):
        clock.padded_tokens += len(batch) * max(lengths[index] for index in batch)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=512, help="number of rows (default: 512)")
    parser.add_argument(
        "--text", type=Path, help='pages to take text from: JSONL of {"title", "paras"} (default: made-up words)'
    )
    parser.add_argument(
        "--shape",
        type=RowShape,
        choices=list(RowShape),
        default=RowShape.WIKIPEDIA,
        help="shape of the rows (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of text and rows (default: 0)")
    parser.add_argument("--model", default="bundled", help="bundled, a hub id or a directory")
    parser.add_argument("--parser", default="bundled", help="bundled, a spaCy pipeline or a directory")
    parser.add_argument("--device", default="cpu", help="where the model runs (default: cpu)")
    parser.add_argument("--dtype", help="precision of the model (default: as an audit chooses)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of torch (default: 1)")
    parser.add_argument("--token-budget", type=int, help="tokens per batch (default: the model's)")
    return parser


if __name__ == "__main__":
    main()
