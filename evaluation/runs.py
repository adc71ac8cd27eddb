"""The runs of ``attribeam evaluate``, one for each measure; they raise what ``command.run`` does."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from attribeam.attribution import options
from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.methods.method import SCORE, LoadedModels, MethodSettings, Need, required
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.models import loaded_once
from attribeam.attribution.models.model_directory import layer_types, read_model_directory
from attribeam.attribution.verdict.judge import probe_of
from attribeam.attribution.verdict.verified import with_calibrated_mass
from attribeam.evaluation import datasets, measures
from attribeam.evaluation.datasets.dataset_file import (
    Dataset,
    JudgedAnswer,
    JudgedDataset,
    LabelledDataset,
    data_files,
    of_split,
)
from attribeam.evaluation.datasets.labelled_log import load_marks
from attribeam.evaluation.measures import accuracy, faithfulness, judged_answers, scorers
from attribeam.evaluation.methods import EvaluationMethod, chosen_methods, evaluation_methods, needs_of
from attribeam.logs.columns import LogOptions
from attribeam.logs.reader import log_options
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import RowFault, SpanEvidence, Support
from attribeam.schemas.errors import DataError, UsageError
from attribeam.schemas.files import file_sha256

load_once = loaded_once(load_models)
"""Keeps the last models, so that a suite does not load them for each data set."""


def method_settings(args: argparse.Namespace) -> MethodSettings:
    """The options of the methods, except which of them run; a verdict for another model is a ``UsageError``."""
    groups = (options.UNION, options.SUPPORT, options.MASS, SCORE, options.HIDDEN, options.LANGUAGE, options.COMPARED)
    settings = MethodSettings.from_arguments(args, *groups).replaced(seed=args.seed)
    return with_calibrated_mass(settings, model=args.model)


def model_choice(args: argparse.Namespace) -> ModelChoice:
    return ModelChoice(
        parser=args.parser,
        model=options.ModelOptions.from_arguments(args, options.LOADING, options.READING, options.LAYER),
        method=method_settings(args).union_options(options.ATTN_UNION_DEP),
        threads=args.threads,
    )


def with_all_layers(choice: ModelChoice) -> ModelChoice:
    """The same models, with every layer of the attention model."""
    layer_count = len(layer_types(read_model_directory(choice.model).config))
    return replace(choice, model=choice.model.replaced(loaded_layers=layer_count))


def load_dataset(args: argparse.Namespace, loaders: Mapping[str, Callable[[Path], LabelledDataset]]) -> LabelledDataset:
    """The labelled answers of ``--dataset``, cut to ``--limit``; it is a ``DataError`` if there is none."""
    dataset = datasets.read_dataset(loaders, args.dataset, args.data, log_options(args))
    if not dataset.answers:
        reasons = ", ".join(measures.row_remarks(dataset.skipped)) or "the file has no rows"
        hint = "; if its labels are of another kind, name it with --measure" if args.dataset == datasets.LOG else ""
        raise DataError(f"data file {args.data} should have labelled answers, has none: {reasons}{hint}")
    return dataset if args.limit is None else dataset.first(args.limit)


def run_description(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "dataset": args.dataset,
        "data_file": args.data.name,
        "data_sha256": measures.data_digest(args.data, args.dataset),
        "confidence": measures.CONFIDENCE,
        "bootstrap_draws": args.bootstrap_draws,
        "bootstrap_seed": args.seed,
        "limit": args.limit,
    }


def provenance_of(args: argparse.Namespace, models: LoadedModels) -> dict[str, str]:
    """What the figures of all methods depend on."""
    provenance = {"python_version": platform.python_version(), "numpy_version": np.__version__}
    if models.parser is not None:
        provenance["parser"] = models.parser.identity
    if models.language is not None:
        provenance |= models.language.provenance()
    if models.attention is not None:
        hidden = models.attention.layer_count // 2 if models.hidden_layer is None else models.hidden_layer
        provenance |= models.attention.provenance()
        provenance |= {"hidden_layer": str(hidden), "passage_score": str(args.passage_score)}
        del provenance["method"]  # the audit's, which need not have run
    return provenance


_LANGUAGE_OPTIONS = ("language_model", "language_model_dtype", "language_model_quantization")
_OF_NEEDS = {
    **dict.fromkeys(_LANGUAGE_OPTIONS, (Need.LANGUAGE_MODEL, "cci and --measure faithfulness")),
    "hidden_layer": (Need.HIDDEN_STATES, "the hss methods"),
}


def _prepared(
    args: argparse.Namespace,
    loaders: Mapping[str, Callable[[Path], LabelledDataset]],
    *,
    defaults: Sequence[str] | None = None,
    more: Sequence[EvaluationMethod] = (),
) -> tuple[list[EvaluationMethod], LabelledDataset, LoadedModels]:
    """The methods, the data and the models.

    Without ``--method`` the methods are ``defaults``, or all that the named models allow; ``more`` run beside them.
    """
    settings, of_language = method_settings(args), args.measure == datasets.Measure.FAITHFULNESS
    available = evaluation_methods(settings)
    if args.method is None and defaults is not None:
        available = {name: available[name] for name in defaults}
    has_language = of_language or args.language_model is not None
    methods = chosen_methods(available, args.method, with_language_model=has_language, settings=settings)
    methods += more
    needs = needs_of(methods) | ({Need.LANGUAGE_MODEL} if of_language else frozenset())
    for name, (need, which) in _OF_NEEDS.items():
        if args.suite is None and getattr(args, name) is not None and need not in needs:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} is for {which}, none of which was named with --method; leave it out")
    dataset, choice = load_dataset(args, loaders), model_choice(args)
    return methods, dataset, load_once(with_all_layers(choice) if args.sweep_layers else choice, needs)


def evaluate_passages(args: argparse.Namespace, more: Sequence[EvaluationMethod] = ()) -> measures.Figures:
    """Which passages the methods find, and ``more`` methods beside those that were asked for."""
    methods, dataset, models = _prepared(args, datasets.LOADERS, more=more)
    if args.sweep_layers:
        from attribeam.evaluation.measures.layer_sweep import run_at_layers  # torch is not needed otherwise

        tallies = run_at_layers(accuracy.with_progress(dataset.answers), methods, models)
    else:
        tallies = accuracy.run_methods(accuracy.with_progress(dataset.answers), methods, models, with_costs=args.cost)
    scores = accuracy.score_methods(tallies, draws=args.bootstrap_draws, seed=args.seed)
    single = sum(len(answer.spans) for answer in dataset.answers if len(answer.record.passages) == 1)
    strict = args.strict_isolation
    provenance = provenance_of(args, models)
    description = run_description(args) | {
        "skipped_rows": dataset.skipped,
        "single_passage_spans": single,
        "strict_isolation": strict,
    }
    remarks = accuracy.comparison_remarks(scores, dataset.skipped, single_passage_spans=single, strict_isolation=strict)
    title = f"{args.dataset} ({args.data.name}): {scores[0].spans} spans of {scores[0].rows} answers"
    entries = [asdict(score) | description | {"provenance": provenance | {"method": score.method}} for score in scores]
    return measures.Figures(entries, accuracy.comparison_table(scores, remarks, title=title))


def evaluate_citations(args: argparse.Namespace) -> measures.Figures:
    """Whether what answers and methods cite entails the citing sentences, by the model of ``--nli-model``."""
    if args.nli_model is None:
        raise UsageError(
            "citations need an NLI model to judge them; name a hub id or a directory with --nli-model, such as a "
            "classifier trained on MNLI"
        )
    nli = faithfulness.NliModel.from_pretrained(args.nli_model, device=args.device)
    methods, dataset, models = _prepared(args, datasets.CITED_LOADERS, defaults=faithfulness.CITING_METHODS)
    most = args.most_citations
    tallies = faithfulness.run_citations(
        accuracy.with_progress(dataset.answers), methods, models, nli, most_citations=most
    )
    rows = faithfulness.score_citations(tallies, draws=args.bootstrap_draws, seed=args.seed)
    report = run_description(args) | {
        "skipped_rows": dataset.skipped,
        "rows": rows,
        "nli_model": nli.identity,
        "cut_claims": nli.cut_claims,
        "most_citations": most,
        "provenance": provenance_of(args, models),
    }
    title = f"{args.dataset} ({args.data.name}): {rows[0].sentences} sentences of {rows[0].answers} answers"
    remarks = [f"judged by {nli.identity}, at most {most} citations per sentence"]
    if nli.cut_claims:
        remarks.append(f"{nli.cut_claims} claims were cut because they are longer than the NLI model reads")
    remarks += measures.row_remarks(dataset.skipped)
    return measures.Figures(report, faithfulness.citation_table(title, rows, remarks))


def evaluate_faithfulness(args: argparse.Namespace) -> measures.Figures:
    """What spans lose without the passages that the methods name."""
    methods, dataset, models = _prepared(args, datasets.LOADERS)
    language = required(models.language, "language model")
    shown = accuracy.with_progress(dataset.answers)
    targets = faithfulness.target_answers(shown, language, spans=args.spans, source=args.answers)
    tallies, left_out = faithfulness.run_drops(targets, methods, models)
    if not tallies[0].spans:
        raise DataError(f"{args.data} should have answers that the language model accepts, has none")
    rows = faithfulness.score_drops(tallies, draws=args.bootstrap_draws, seed=args.seed)
    skipped = (*dataset.skipped, *left_out)
    report = run_description(args) | {
        "answers": args.answers,
        "spans": args.spans,
        "skipped_rows": skipped,
        "rows": rows,
        "random_draws": faithfulness.RANDOM_DRAWS,
        "provenance": provenance_of(args, models),
    }
    of = f"{rows[0].spans} {args.spans} spans of {rows[0].rows} answers ({args.answers})"
    title = f"{args.dataset} ({args.data.name}): {of}"
    return measures.Figures(report, faithfulness.drop_table(title, rows, measures.row_remarks(skipped)))


SPLIT = "test"
GENERATOR = "generator"
GROUPINGS = ("label-group", GENERATOR)
"""What ``--by`` takes: the part of the data set that an answer belongs to, or what gave the answer."""
_AUDITS = (options.ATTN_UNION_DEP, options.ATTN_UNION)


def evaluate_support(args: argparse.Namespace) -> measures.Figures:
    """Audit the answers and compare the flags with their labels.

    Spans that people took from their sources are supported by construction: there every flag is false.
    """
    methods, are_supported = _audits(args), args.dataset in datasets.SUPPORTED_DATASETS
    if are_supported:
        labelled = load_dataset(args, datasets.LOADERS)
        judged = tuple(JudgedAnswer(answer.record, (), answer.spans) for answer in labelled.answers)
        dataset: JudgedDataset = Dataset(judged, labelled.skipped)
    else:
        dataset = _judged_answers(args)
    entries, texts = [], []
    for attributor in _attributors(methods, args):
        audited, failed = _audited(dataset, attributor, args)
        method, provenance = attributor.method.name, attributor.provenance()
        figures, headline, tables = (_flags if are_supported else _comparison)(method, audited, args)
        entries.append({"method": method, **figures, "failed_rows": failed, "provenance": provenance})
        texts += [headline, measures.verdict_in_use(provenance), *tables]
        texts += measures.row_remarks(failed, "failed and are left out")
    description = {
        "dataset": args.dataset,
        "data_sha256": {file.name: file_sha256(file) for file in data_files(args.data, args.dataset)},
        "skipped_rows": dataset.skipped,
        "confidence": measures.CONFIDENCE,
        "bootstrap_draws": args.bootstrap_draws,
        "bootstrap_seed": args.seed,
        "limit": args.limit,
    }
    baselines: tuple[scorers.GroupComparison, ...] = ()
    if not methods:
        parts = [judged_answers.judged_parts(answer, ()) for answer in dataset.answers]
        compared = [*scorers.BASELINES.values()]
        baselines = scorers.compare_scorers(parts, compared, draws=args.bootstrap_draws, seed=args.seed)
        texts += scorers.comparison_tables(args.dataset, baselines)
    text = "\n".join([*texts, *measures.row_remarks(dataset.skipped)])
    if are_supported:
        return measures.Figures(description | {"methods": entries}, text)
    split = SPLIT if any(answer.split == SPLIT for answer in dataset.answers) else None
    return measures.Figures(description | {"split": split, "methods": entries, "baselines": baselines}, text)


def _audits(args: argparse.Namespace) -> list[str]:
    """The methods to audit by; none if only baselines are named, which are compared in any case."""
    if others := [name for name in args.method or () if name not in [*_AUDITS, *scorers.BASELINES]]:
        expected = f"--method should be {' or '.join(_AUDITS)}, or {' or '.join(scorers.BASELINES)} for no audit"
        raise UsageError(f"only an audit raises flags; {expected}, was: {', '.join(others)}")
    methods = [name for name in dict.fromkeys(args.method or _AUDITS[:1]) if name in _AUDITS]
    if args.dataset in datasets.SUPPORTED_DATASETS:
        if args.by is not None:
            raise UsageError(f"--by is for judged answers, not for {args.dataset}; leave it out")
        if not methods:
            raise UsageError(f"a baseline flags no spans of {args.dataset}; --method should be {' or '.join(_AUDITS)}")
    return methods


def _judged_answers(args: argparse.Namespace) -> JudgedDataset:
    if args.dataset != datasets.MARKS:
        whole = datasets.read_dataset(datasets.JUDGED_LOADERS, args.dataset, args.data, log_options(args))
    elif log_options(args) != LogOptions():
        raise UsageError("--columns and --log-format are those of the audit with --dataset marks; leave them out")
    else:
        whole = load_marks(args.data, AuditDirectory.open(args.audit))
    dataset = of_split(whole, SPLIT)
    if not dataset.answers:
        reasons = ", ".join(measures.row_remarks(dataset.skipped)) or "the file has no rows"
        raise DataError(f"data {args.data} should have answers with labels of support, has none: {reasons}")
    if args.by == GENERATOR:
        answers = tuple(replace(answer, group=answer.record.generator) for answer in dataset.answers)
        dataset = replace(dataset, answers=answers)
    return dataset if args.limit is None else dataset.first(args.limit)


def _attributors(methods: Sequence[str], args: argparse.Namespace) -> Iterator[Attributor]:
    """One attributor per method, all with the same loaded models."""
    if not methods:
        return
    settings = method_settings(args)
    probed = probe_of(settings.union_options(methods[0])) is not None
    for name in _LANGUAGE_OPTIONS:
        if getattr(args, name) is not None and not probed and args.suite is None:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} says nothing to --measure support without a --verdict that has a probe")
    models = load_once(model_choice(args), frozenset({Need.PARSER, Need.ATTENTION}), verdict=probed)
    parser, attention = required(models.parser, "parser"), required(models.attention, "attention model")
    for method in methods:
        of_method = replace(models, attention=attention.with_method(settings.union_options(method)))
        yield Attributor(parser=parser, models=of_method, spans=DEFAULT_SPAN_KINDS)


_Audited = Sequence[tuple[JudgedAnswer, tuple[SpanEvidence, ...]]]


def _audited(
    dataset: JudgedDataset, attributor: Attributor, args: argparse.Namespace
) -> tuple[_Audited, list[measures.FailedRow]]:
    """The answers with the audit's evidence, and the rows that the audit refused."""
    answers: list[tuple[JudgedAnswer, tuple[SpanEvidence, ...]]] = []
    failed: list[measures.FailedRow] = []
    for index, outcome in judged_answers.audited_records([answer.record for answer in dataset.answers], attributor):
        answer = dataset.answers[index]
        if isinstance(outcome, RowFault):
            failed.append(measures.FailedRow.of(answer.record, outcome))
        else:
            answers.append((answer, outcome))
    if not answers:
        reasons = sorted({row.reason for row in failed})
        raise DataError(f"data {args.data} should have answers that can be audited, has none: {reasons}")
    return answers, failed


_Told = tuple[dict[str, Any], str, Iterable[str]]
"""Figures, a headline and tables."""


def _comparison(method: str, audited: _Audited, args: argparse.Namespace) -> _Told:
    """How far the flags agree with what people marked, and how well the audit ranks beside the baselines."""
    draws, seed = args.bootstrap_draws, args.seed
    parts = [judged_answers.judged_parts(*pair) for pair in audited]
    groups = judged_answers.group_figures(parts, draws=draws, seed=seed)
    compared = [*scorers.audit_scorers(method, parts), *scorers.BASELINES.values()]
    comparison = scorers.compare_scorers(parts, compared, draws=draws, seed=seed)
    whole = comparison[0]
    headline = f"{args.dataset}, {method}: {whole.marked_answers} of {whole.answers} answers are unsupported"
    if (verdict := whole.scorers[0].verdict) is not None:
        shares = {"F1": verdict.f1, "precision": verdict.precision, "recall": verdict.recall}
        named = (shares | {"clean answers flagged": verdict.false_alarms}).items()
        known = ((name, *measures.estimate_cells(share)) for name, share in named if share is not None)
        headline += f"; flags: {', '.join(f'{name} {value}% ({interval})' for name, value, interval in known)}"
    tables = scorers.comparison_tables(args.dataset, comparison, groups)
    return {"groups": groups, "comparison": comparison}, headline, tables


def _flags(method: str, audited: _Audited, args: argparse.Namespace) -> _Told:
    """How many spans have each level, and how many answers have an unsupported span."""
    evidence = [spans for _, spans in audited]
    sizes = [len(spans) for spans in evidence]
    of_spans = measures.RowBootstrap(sizes, draws=args.bootstrap_draws, seed=args.seed)
    of_answers = measures.RowBootstrap([1] * len(evidence), draws=args.bootstrap_draws, seed=args.seed)
    levels, lines = [], []
    for support in Support:
        counts = [sum(span.support is support for span in spans) for spans in evidence]
        if sum(counts) or support is Support.UNSUPPORTED:
            share = measures.Estimate(100 * sum(counts) / sum(sizes), of_spans.interval(counts))
            levels.append({"support": str(support), "spans": sum(counts), "share": share})
            lines.append((str(support), str(sum(counts)), f"{share.value:.1f}", measures.interval_cell(share.interval)))
    flagged = [float(any(span.support is Support.UNSUPPORTED for span in spans)) for spans in evidence]
    answers = measures.Estimate(100 * sum(flagged) / len(flagged), of_answers.interval(flagged))
    headline = f"{args.dataset}, {method}: {sum(sizes)} spans of {len(evidence)} answers, all supported"
    tables = [
        measures.text_table(("labelled spans called", "spans", "%", "95% interval"), lines),
        f"answers with a span called unsupported: {answers.value:.1f}% ({measures.interval_cell(answers.interval)})",
    ]
    figures = {"answers": len(evidence), "spans": sum(sizes), "levels": levels, "flagged_answers": answers}
    return figures, headline, tables


RUNS: Mapping[datasets.Measure, Callable[[argparse.Namespace], measures.Figures]] = {
    datasets.Measure.PASSAGES: evaluate_passages,
    datasets.Measure.CITATIONS: evaluate_citations,
    datasets.Measure.SUPPORT: evaluate_support,
    datasets.Measure.FAITHFULNESS: evaluate_faithfulness,
}
