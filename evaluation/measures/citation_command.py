"""``attribeam evaluate --measure citations``: the quality of an answer's own citations and of each method's."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tqdm import tqdm

from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.evaluation.lab_methods import LabMethod
from attribeam.evaluation.measures.bootstrap import CONFIDENCE
from attribeam.evaluation.measures.citations import (
    CitationRow,
    EntailmentModel,
    RememberedEntailment,
    run_citations,
    score_citations,
)
from attribeam.evaluation.report import (
    data_digest,
    failure_remarks,
    interval_cell,
    skip_remarks,
    text_table,
    write_figures,
)
from attribeam.report.messages import one_line, print_lines
from attribeam.schemas.errors import UsageError
from attribeam.schemas.labelled_answer import LabelledDataset, SkippedRow

CITING_METHODS = ("hss-avg", "cci", "attn-union", "words")
"""The default methods: those of the paper's table, and ``words``."""

_HEADER = ("method", "recall %", "95% interval", "precision %", "95% interval", "F1 %", "95% interval", "per sentence")


@dataclass(frozen=True, slots=True)
class CitationReport:
    """The figures of one run and what they depend on; ``cut_claims`` counts claims longer than the NLI model reads."""

    dataset: str
    data_file: str
    data_sha256: str
    skipped_rows: tuple[SkippedRow, ...]
    rows: tuple[CitationRow, ...]
    nli_model: str
    cut_claims: int
    most_citations: int
    confidence: float
    bootstrap_draws: int
    bootstrap_seed: int
    limit: int | None
    provenance: Mapping[str, str]


def load_nli_model(args: argparse.Namespace) -> EntailmentModel:
    """The model that ``--nli-model`` names, on ``--device``.

    Raises:
        UsageError: if none is named.
        ModelLoadError: if it cannot be used.
    """
    if args.nli_model is None:
        raise UsageError(
            "citations need an NLI model to judge them; name a hub id or a directory with --nli-model, such as a "
            "classifier trained on MNLI"
        )
    from attribeam.attribution.models.weight_loading import choose_device
    from attribeam.evaluation.measures.nli_model import NliModel

    return NliModel.from_pretrained(args.nli_model, device=choose_device(args.device))


def evaluate_citations(
    args: argparse.Namespace,
    dataset: LabelledDataset,
    methods: Sequence[LabMethod],
    models: LoadedModels,
    entailment: EntailmentModel,
    *,
    provenance: Mapping[str, str],
) -> None:
    """Judge all citations, print the table, and write the JSON if ``--output`` is given."""
    bar = tqdm(dataset.answers, desc="evaluate", unit="answer", disable=None)
    tallies = run_citations(bar, methods, models, RememberedEntailment(entailment), most_citations=args.most_citations)
    report = CitationReport(
        dataset=args.dataset,
        data_file=args.data.name,
        data_sha256=data_digest(args.data, args.dataset),
        skipped_rows=dataset.skipped,
        rows=score_citations(tallies, draws=args.bootstrap_draws, seed=args.seed),
        nli_model=entailment.identity,
        cut_claims=getattr(entailment, "cut_claims", 0),
        most_citations=args.most_citations,
        confidence=CONFIDENCE,
        bootstrap_draws=args.bootstrap_draws,
        bootstrap_seed=args.seed,
        limit=args.limit,
        provenance=provenance,
    )
    print_lines(*citation_table(report).split("\n"))
    write_figures(args.output, report)


def citation_table(report: CitationReport) -> str:
    """The figures, one line per method, followed by what was skipped, cut or failed."""
    first = report.rows[0]
    title = f"{report.dataset} ({report.data_file}): {first.sentences} sentences of {first.answers} answers"
    remarks = [f"judged by {one_line(report.nli_model)}, at most {report.most_citations} citations per sentence"]
    if report.cut_claims:
        remarks.append(f"{report.cut_claims} claims were cut because they are longer than the NLI model reads")
    remarks += skip_remarks(report.skipped_rows)
    for row in report.rows:
        failures = failure_remarks(row.failed_rows, consequence="count as answers without citations")
        remarks += [f"{row.method}: {remark}" for remark in failures]
    return "\n".join([one_line(title), text_table(_HEADER, [_cells(row) for row in report.rows]), *remarks])


def _cells(row: CitationRow) -> tuple[str, ...]:
    score = row.score
    return (
        row.method,
        f"{score.recall:.1f}",
        interval_cell(score.recall_interval),
        f"{score.precision:.1f}",
        interval_cell(score.precision_interval),
        f"{score.f1:.1f}",
        interval_cell(score.f1_interval),
        f"{score.citations_a_sentence:.2f}",
    )
