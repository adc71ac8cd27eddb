"""The runs of ``attribeam evaluate`` that compare methods on labelled spans: by passages, citations or faithfulness."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from tqdm import tqdm

from attribeam.attribution.methods.method import SCORE, LoadedModels, MethodSettings, Need, required
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.models.layer_choice import layer_types
from attribeam.attribution.models.loading import loaded_once
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.options import (
    ATTN_UNION_DEP,
    COMPARED,
    HIDDEN,
    LANGUAGE,
    LAYER,
    LOADING,
    MASS,
    READING,
    SUPPORT,
    UNION,
    ModelOptions,
)
from attribeam.attribution.verdict.verified import with_calibrated_mass
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer, LabelledDataset
from attribeam.evaluation.datasets.loaders import CITED_LOADERS, LOADERS, LOG, read_dataset
from attribeam.evaluation.measures.accuracy import comparison_remarks, comparison_table, run_methods, score_methods
from attribeam.evaluation.measures.bootstrap import CONFIDENCE
from attribeam.evaluation.measures.citations import (
    CITING_METHODS,
    NliModel,
    RememberedEntailment,
    citation_table,
    run_citations,
    score_citations,
)
from attribeam.evaluation.methods.registry import LabMethod, chosen_methods, lab_methods, needs_of
from attribeam.evaluation.report import Figures, data_digest, skip_remarks
from attribeam.logs.reader import log_options
from attribeam.schemas.errors import DataError, UsageError

load_once = loaded_once(load_models)
"""Keeps the last models, so that a suite does not load them for each data set."""


def method_settings(args: argparse.Namespace) -> MethodSettings:
    """The options of the methods, except which of them run.

    Raises:
        UsageError: if the verdict is for another model.
    """
    groups = (UNION, SUPPORT, MASS, SCORE, HIDDEN, LANGUAGE, COMPARED)
    settings = MethodSettings.from_arguments(args, *groups).replaced(seed=args.seed)
    return with_calibrated_mass(settings, model=args.model)


def model_choice(args: argparse.Namespace) -> ModelChoice:
    """The models to load."""
    return ModelChoice(
        parser=args.parser,
        model=ModelOptions.from_arguments(args, LOADING, READING, LAYER),
        method=method_settings(args).union_options(ATTN_UNION_DEP),
        threads=args.threads,
    )


def with_all_layers(choice: ModelChoice) -> ModelChoice:
    """The same models, with every layer of the attention model loaded.

    Raises:
        ModelLoadError: if there is no such model.
    """
    layer_count = len(layer_types(read_model_directory(choice.model).config))
    return replace(choice, model=choice.model.replaced(loaded_layers=layer_count))


LANGUAGE_OPTIONS = ("language_model", "language_model_dtype", "language_model_quantization")
_OF_NEEDS = {
    **dict.fromkeys(LANGUAGE_OPTIONS, (Need.LANGUAGE_MODEL, "cci and --measure faithfulness")),
    "hidden_layer": (Need.HIDDEN_STATES, "the hss methods"),
}


def _needed(args: argparse.Namespace, methods: Sequence[LabMethod]) -> frozenset[Need]:
    """What the methods need.

    Raises:
        UsageError: if an option is of a model that none of them needs; the message names the methods that it is for.
    """
    needs = needs_of(methods) | ({Need.LANGUAGE_MODEL} if args.measure == "faithfulness" else frozenset())
    for name, (need, which) in _OF_NEEDS.items():
        if args.suite is None and getattr(args, name) is not None and need not in needs:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} is for {which}, none of which was named with --method; leave it out")
    return needs


def _methods(args: argparse.Namespace, defaults: Sequence[str] | None = None) -> list[LabMethod]:
    """The methods that were asked for, else those of ``defaults``, else all that the named models allow."""
    settings = method_settings(args)
    available = lab_methods(settings)
    if args.method is None and defaults is not None:
        available = {name: available[name] for name in defaults}
    with_language_model = args.language_model is not None or args.measure == "faithfulness"
    return chosen_methods(available, args.method, with_language_model=with_language_model, settings=settings)


def load_dataset(args: argparse.Namespace, loaders: Mapping[str, Callable[[Path], LabelledDataset]]) -> LabelledDataset:
    """The labelled answers of ``--dataset``, cut to ``--limit``.

    Raises:
        DataError: if there is none, or the file is not in its format.
    """
    dataset = read_dataset(loaders, args.dataset, args.data, log_options(args))
    if not dataset.answers:
        reasons = ", ".join(skip_remarks(dataset.skipped)) or "the file has no rows"
        hint = "; if its labels are of another kind, name it with --measure" if args.dataset == LOG else ""
        raise DataError(f"data file {args.data} should have labelled answers, has none: {reasons}{hint}")
    return dataset if args.limit is None else dataset.first(args.limit)


def run_description(args: argparse.Namespace) -> dict[str, Any]:
    """What the JSON of every run says of its data and resamples."""
    return {
        "dataset": args.dataset,
        "data_file": args.data.name,
        "data_sha256": data_digest(args.data, args.dataset),
        "confidence": CONFIDENCE,
        "bootstrap_draws": args.bootstrap_draws,
        "bootstrap_seed": args.seed,
        "limit": args.limit,
    }


def provenance_of(args: argparse.Namespace, models: LoadedModels) -> dict[str, str]:
    """Models, settings and versions."""
    found = {"python_version": platform.python_version(), "numpy_version": np.__version__}
    if models.parser is not None:
        found["parser"] = models.parser.identity
    if models.language is not None:
        found |= models.language.provenance()
    if models.attention is not None:
        hidden = models.attention.layer_count // 2 if models.hidden_layer is None else models.hidden_layer
        found |= models.attention.provenance()
        found |= {"hidden_layer": str(hidden), "passage_score": str(args.passage_score)}
    return found


def shown(answers: Sequence[LabelledAnswer]) -> Iterable[LabelledAnswer]:
    """The answers, with a progress bar on a terminal."""
    return cast("Iterable[LabelledAnswer]", tqdm(answers, desc="evaluate", unit="answer", disable=None))


def _prepared(
    args: argparse.Namespace,
    loaders: Mapping[str, Callable[[Path], LabelledDataset]],
    *,
    defaults: Sequence[str] | None = None,
    more: Sequence[LabMethod] = (),
) -> tuple[list[LabMethod], LabelledDataset, LoadedModels]:
    """The methods, the data and the models; ``defaults`` are methods that run where none is named."""
    methods = [*_methods(args, defaults), *more]
    needs = _needed(args, methods)
    dataset, choice = load_dataset(args, loaders), model_choice(args)
    return methods, dataset, load_once(with_all_layers(choice) if args.sweep_layers else choice, needs)


def evaluate_passages(args: argparse.Namespace, more: Sequence[LabMethod] = ()) -> Figures:
    """Which passages the methods find, and ``more`` methods beside those that were asked for."""
    methods, dataset, models = _prepared(args, LOADERS, more=more)
    if args.sweep_layers:
        from attribeam.evaluation.measures.layer_sweep import run_at_layers  # torch is not needed otherwise

        tallies = run_at_layers(shown(dataset.answers), methods, models)
    else:
        tallies = run_methods(shown(dataset.answers), methods, models, with_costs=args.cost)
    scores = score_methods(tallies, draws=args.bootstrap_draws, seed=args.seed)
    single = sum(len(one.spans) for one in dataset.answers if len(one.record.passages) == 1)
    description = run_description(args) | {
        "skipped_rows": dataset.skipped,
        "single_passage_spans": single,
        "provenance": provenance_of(args, models),
        "strict_isolation": args.strict_isolation,
    }
    remarks = comparison_remarks(
        scores, dataset.skipped, single_passage_spans=single, strict_isolation=args.strict_isolation
    )
    title = f"{args.dataset} ({args.data.name}): {scores[0].spans} spans of {scores[0].rows} answers"
    return Figures([asdict(score) | description for score in scores], comparison_table(scores, remarks, title=title))


def evaluate_citations(args: argparse.Namespace) -> Figures:
    """Whether what answers and methods cite entails the citing sentences."""
    nli = _nli_model(args)
    methods, dataset, models = _prepared(args, CITED_LOADERS, defaults=CITING_METHODS)
    most, asked_once = args.most_citations, RememberedEntailment(nli)
    tallies = run_citations(shown(dataset.answers), methods, models, asked_once, most_citations=most)
    rows = score_citations(tallies, draws=args.bootstrap_draws, seed=args.seed)
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
    return Figures(report, citation_table(title, rows, [*remarks, *skip_remarks(dataset.skipped)]))


def _nli_model(args: argparse.Namespace) -> NliModel:
    if args.nli_model is None:
        raise UsageError(
            "citations need an NLI model to judge them; name a hub id or a directory with --nli-model, such as a "
            "classifier trained on MNLI"
        )
    from attribeam.attribution.models.precision import choose_device

    return NliModel.from_pretrained(args.nli_model, device=choose_device(args.device))


def evaluate_faithfulness(args: argparse.Namespace) -> Figures:
    """What spans lose without the passages that the methods name.

    Raises:
        DataError: if no answer is left.
    """
    from attribeam.evaluation.measures import faithfulness  # torch is not needed otherwise

    methods, dataset, models = _prepared(args, LOADERS)
    language = required(models.language, "language model")
    targets = faithfulness.TargetAnswers(shown(dataset.answers), language, spans=args.spans, source=args.answers)
    tallies, refused = faithfulness.run_drops(targets, methods, models)
    if not tallies[0].spans:
        raise DataError(f"{args.data} should have answers that the language model accepts, has none")
    rows = faithfulness.score_drops(tallies, draws=args.bootstrap_draws, seed=args.seed)
    skipped = (*dataset.skipped, *targets.skipped, *refused)
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
    return Figures(report, faithfulness.drop_table(title, rows, skip_remarks(skipped)))
