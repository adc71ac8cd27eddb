"""Compare methods on a labelled data set, or with ``--suite paper`` on all data sets of the paper below ``--data``.

What of the suite cannot run is listed with the reason and the way to fill it. Options that do not apply to the measure
are refused, so that none is silently ignored.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attribeam.attribution import options
from attribeam.attribution.methods.method import SCORE, MethodSettings, Need, PassageScore, required
from attribeam.attribution.models.model_directory import layer_types, layers_with_attention, read_model_directory
from attribeam.attribution.option_declaration import add_options, positive_integer, whole_number
from attribeam.evaluation import runs
from attribeam.evaluation.datasets import (
    CITED_LOADERS,
    DATASETS,
    JUDGED_LOADERS,
    LOADERS,
    MARKS,
    AnswerChoice,
    Measure,
    SpanChoice,
    measure_of,
)
from attribeam.evaluation.measures import Figures, interval_cell, text_table, write_json
from attribeam.evaluation.measures.accuracy import score_methods, with_progress
from attribeam.evaluation.measures.faithfulness import MOST_CITATIONS
from attribeam.evaluation.methods import EvaluationMethod, evaluation_methods
from attribeam.evaluation.methods.unions import ScoredUnion
from attribeam.logs.reader import add_log_arguments
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.messages import print_lines
from attribeam.schemas.errors import DataError, RunError, UsageError
from attribeam.schemas.files import check_apart, writing

_METHODS = frozenset({Measure.PASSAGES, Measure.CITATIONS, Measure.FAITHFULNESS})
_MEASURES: Mapping[str, tuple[frozenset[Measure], object]] = {
    "cost": (frozenset({Measure.PASSAGES}), False),
    "sweep_layers": (frozenset({Measure.PASSAGES}), False),
    "by": (frozenset({Measure.SUPPORT}), None),
    "nli_model": (frozenset({Measure.CITATIONS}), None),
    "most_citations": (frozenset({Measure.CITATIONS}), MOST_CITATIONS),
    "spans": (frozenset({Measure.FAITHFULNESS}), SpanChoice.LABELLED),
    "answers": (frozenset({Measure.FAITHFULNESS}), AnswerChoice.DATA),
    "passage_score": (_METHODS, PassageScore.SUM),
    "hidden_layer": (_METHODS, None),
}
"""The measures that an option applies to, and its default; an option that is not listed applies to all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--dataset", choices=DATASETS, help="which labelled data set (needed without --suite)")
    add(
        "--data", required=True, type=Path, metavar="PATH",
        help="the data set's file, or a directory of its files; a directory for ragtruth and --suite",
    )  # fmt: skip
    add("--audit", type=Path, metavar="DIR", help="with --dataset marks: the audit on whose page the marks were made")
    add_log_arguments(add)
    add(
        "--suite", choices=("paper",),
        help="run all that --data DIR allows and write the tables to --output DIR, without --dataset",
    )  # fmt: skip
    add(
        "--chinese-parser", metavar="NAME",
        help="for the suite: a spaCy pipeline, or a directory with one, that parses Chinese",
    )  # fmt: skip
    add(
        "--measure", choices=[*Measure],
        help="what to measure (default: the first measure that the data set has labels for)",
    )  # fmt: skip
    add(
        "--method", action="append", metavar="NAME|MODULE:CLASS",
        help=f"a method, {', '.join(evaluation_methods())}, or a class of your own, see docs/extending.md; may be "
        "repeated (default: all that work without --language-model); for --measure support also novelty and "
        "flag-all, which leave out the audit",
    )  # fmt: skip
    add_options(parser, MethodSettings, options.UNION, options.SUPPORT, options.MASS, SCORE)
    groups = (options.LOADING, options.READING, options.LAYER, options.PARSER, options.HIDDEN, options.LANGUAGE)
    add_options(parser, options.AttributorOptions, *groups, options.COMPARED, options.THREADS)
    add("--nli-model", metavar="NAME", help="the model that judges citations: a hub id or a directory")
    add(
        "--most-citations", type=positive_integer, default=MOST_CITATIONS, metavar="N",
        help=f"how many citations per sentence are judged (default: {MOST_CITATIONS}, as in ALCE)",
    )  # fmt: skip
    add(
        "--spans", type=SpanChoice, choices=list(SpanChoice), default=SpanChoice.LABELLED,
        help="for faithfulness: use the labelled spans or the answer's context-sensitive tokens (default: labelled)",
    )  # fmt: skip
    add(
        "--answers", type=AnswerChoice, choices=list(AnswerChoice), default=AnswerChoice.DATA,
        help="for faithfulness: use the data's answers or, with --spans cti, the language model's own (default: data)",
    )  # fmt: skip
    add(
        "--by", choices=runs.GROUPINGS,
        help="which groups of judged answers get figures of their own (default: label-group)",
    )  # fmt: skip
    add(
        "--cost", action="store_true",
        help="measure time and memory of each method; methods then share no computations (passages only)",
    )  # fmt: skip
    add(
        "--sweep-layers", action="store_true",
        help="run attn-union, attn-union-dep, hss-union, hss-union-dep at every layer of the model (passages only)",
    )  # fmt: skip
    add("--limit", type=positive_integer, metavar="N", help="only the first N answers")
    add(
        "--bootstrap-draws",
        type=positive_integer,
        default=2000,
        metavar="N",
        help="number of resamples of the rows (default: 2000)",
    )
    add("--seed", type=whole_number, default=0, metavar="N", help="seed of resamples and random draws (default: 0)")
    add("--output", type=Path, metavar="FILE.json", help="also write the figures to this file")


def run(args: argparse.Namespace) -> None:
    """Run the evaluation.

    Raises ``UsageError`` if the options contradict each other; ``DataError`` or ``ModelLoadError`` or ``RunError`` if
    it cannot be run as asked; the message says why and the way out.
    """
    if args.suite is None:
        _check(args)
    if args.answers is AnswerChoice.GENERATED and args.spans is SpanChoice.LABELLED:
        raise UsageError("labels belong to the data's own answers; add --spans cti to --answers generated")
    if args.suite is not None:
        _evaluate_suite(args)
        return
    figures = runs.RUNS[args.measure](args)
    print_lines(*figures.text.split("\n"))
    if args.output is not None:
        with writing(args.output):
            write_json(args.output, figures.report)
        print_lines(f"written to {args.output}")


def _check(args: argparse.Namespace) -> None:
    """Refuse options that belong to other data, other measures or the suite, and choose the measure."""
    if args.dataset is None:
        raise UsageError(f"name a data set with --dataset, one of {', '.join(DATASETS)}, or run all with --suite")
    if args.output is not None and (args.output.is_dir() or not args.output.parent.is_dir()):
        raise UsageError(f"--output should be a file in an existing directory, was: {args.output}")
    if (args.audit is None) is (args.dataset == MARKS):
        raise UsageError(
            f"--audit DIR belongs to --dataset {MARKS}, which needs it: it finds the marked answers' texts"
        )
    if args.output is not None:
        read = [*args.data.iterdir()] if args.data.is_dir() else [args.data]
        check_apart(args.output, [*read, *([] if args.audit is None else AuditDirectory.open(str(args.audit)).files)])
    args.measure = measure_of(args.dataset, args.measure)
    for name, (measures, default) in _MEASURES.items():
        if args.measure not in measures and getattr(args, name) != default:
            option, owners = "--" + name.replace("_", "-"), ", ".join(item for item in Measure if item in measures)
            raise UsageError(f"{option} applies to --measure {owners}, not to {args.measure}; leave it out")
    if args.sweep_layers and args.cost:
        raise UsageError("--cost measures methods one by one, --sweep-layers runs them together; leave one of them out")
    if args.chinese_parser is not None:
        raise UsageError("--chinese-parser is for --suite; name the parser of a single run with --parser")


SENSITIVITY = "sensitivity"
"""Passage accuracy as layer, k and tau vary, beside the measures of a single run."""
_CHINESE = ("words", "words-dep", "hss-avg", "attn-union", "attn-union-dep")
_OF_SUITE: Mapping[str, Sequence[str]] = {
    Measure.FAITHFULNESS: (
        "random", "words", "hss-avg", "hss-avg-dep", "cci", "attn-union", "attn-union-dep", "oracle",
    ),
    Measure.SUPPORT: (options.ATTN_UNION_DEP, options.ATTN_UNION),
}  # fmt: skip
_ROWS = ("*.jsonl", "*.jsonl.xz")
_SPANS = (Measure.PASSAGES, SENSITIVITY, Measure.FAITHFULNESS)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder of the layout: the files in it are one data set each, and what is measured on them."""

    name: str
    dataset: str
    patterns: tuple[str, ...]
    measures: tuple[str, ...]

    def __str__(self) -> str:
        return " or ".join(f"{self.name}/{pattern}" for pattern in self.patterns)


_LAYOUT = (
    _Folder("quotesum", "quotesum", _ROWS, _SPANS),
    _Folder("veri_gran", "veri-gran", _ROWS, _SPANS),
    _Folder("lfqa", "lfqa", _ROWS, (Measure.PASSAGES,)),
    _Folder("log", "log", ("*.parquet",), _SPANS),
    _Folder("alce", "alce", ("*.json", "*.json.xz"), (Measure.CITATIONS,)),
    _Folder("ragtruth", "ragtruth", ("response.jsonl", "response.jsonl.xz"), (Measure.SUPPORT,)),
    _Folder("chinese", "quotesum", ("quotesum*.jsonl", "quotesum*.jsonl.xz"), (Measure.PASSAGES,)),
    _Folder("chinese", "veri-gran", ("veri_gran*.jsonl", "veri_gran*.jsonl.xz"), (Measure.PASSAGES,)),
    _Folder("chinese", "log", ("*.parquet",), (Measure.PASSAGES,)),
)


@dataclass(frozen=True, slots=True)
class _Step:
    """One measure of one data set with the options of its run; ``lacks`` says what keeps it from running."""

    name: str
    folder: _Folder
    args: argparse.Namespace
    lacks: str | None


def _evaluate_suite(args: argparse.Namespace) -> None:
    """Run all steps, and write ``tables.md`` and ``results.json`` to ``--output``; all data is checked before."""
    _check_suite(args)
    steps = [*_steps(args)]
    if not steps:
        raise DataError(f"--data {args.data} should contain one of {', '.join(map(str, _LAYOUT))}; contains none")
    for step_args in (step.args for step in steps):
        if step_args.measure == Measure.SUPPORT:
            JUDGED_LOADERS[step_args.dataset](step_args.data)
        else:
            runs.load_dataset(step_args, CITED_LOADERS if step_args.measure == Measure.CITATIONS else LOADERS)
    try:
        args.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"--output of a suite should be a directory, could not be created: {error}") from error
    results, sections = [], [f"# The paper's suite: {args.model}"]
    for step in (step for step in steps if step.lacks is None):
        step_args, measure = step.args, step.args.measure
        print_lines(f"{step.name}: {measure}")
        if measure == SENSITIVITY:
            figures = _evaluate_sensitivity(step_args)
        elif measure == Measure.PASSAGES and step.folder.name != "chinese":
            figures = runs.evaluate_passages(step_args, [*_paper_weights(step_args)])
        else:
            figures = runs.RUNS[measure](step_args)
        results.append({"dataset": step.name, "measure": measure, "figures": figures.report})
        sections.append(f"## {step.name}: {measure}\n\n```\n{figures.text}\n```")
    left_out = [f"{step.name}, {step.args.measure}: {step.lacks}" for step in steps if step.lacks is not None]
    left_out += [f"{folder}: not found" for folder in _LAYOUT if not any(step.folder == folder for step in steps)]
    sections.append("\n".join(["## Left out", "", *(f"- {reason}" for reason in left_out)]))
    with writing(args.output):
        (args.output / "tables.md").write_text("\n\n".join(sections) + "\n", encoding="utf-8")
        write_json(args.output / "results.json", {"model": args.model, "results": results, "left_out": left_out})
    print_lines(f"written to {args.output}: tables.md, results.json")


def _check_suite(args: argparse.Namespace) -> None:
    for name in ("dataset", "measure", "audit"):
        if getattr(args, name) is not None:
            raise UsageError(f"--suite runs all data sets and measures; leave --{name} out")
    if unknown := sorted(set(args.method or ()) - set(evaluation_methods())):
        raise UsageError(f"--suite compares its own methods, {', '.join(evaluation_methods())}; leave out: {unknown}")
    if args.cost or args.sweep_layers:
        raise UsageError("--suite always measures costs and varies the layer; leave --cost and --sweep-layers out")
    if args.output is None:
        raise UsageError("--suite needs a directory for its tables; name one with --output")
    if not args.data.is_dir():
        raise DataError(f"--data of a suite should be a directory, was: {args.data}")


def _steps(args: argparse.Namespace) -> Iterator[_Step]:
    """All measures of all data sets below ``--data``, whose content is not read."""
    kinds = getattr(read_model_directory(runs.model_choice(args).model).config, "architectures", None) or ()
    lacking: dict[str, str] = {}
    if args.nli_model is None:
        lacking[Measure.CITATIONS] = "no NLI model is named; add --nli-model NAME"
    if args.language_model is None and not any(kind.endswith(("ForCausalLM", "LMHeadModel")) for kind in kinds):
        why = "the model is not a causal language model, and none is named; add --language-model NAME"
        lacking[Measure.FAITHFULNESS] = why
    for folder in _LAYOUT:
        is_directory, is_chinese = folder.dataset == "ragtruth", folder.name == "chinese"
        for path in sorted(path for pattern in folder.patterns for path in (args.data / folder.name).glob(pattern)):
            name = folder.name if is_directory else f"{folder.name} {path.name.partition('.')[0]}"
            for measure in folder.measures:
                step_args = argparse.Namespace(**vars(args))
                step_args.dataset, step_args.data, step_args.measure = (
                    folder.dataset,
                    path.parent if is_directory else path,
                    measure,
                )
                step_args.cost, lacks = measure == Measure.PASSAGES, lacking.get(measure)
                if is_chinese:
                    step_args.parser = args.chinese_parser or args.parser
                    if args.chinese_parser is None:
                        lacks = "no Chinese parser is named; add --chinese-parser NAME"
                if compared := _CHINESE if is_chinese else _OF_SUITE.get(measure):
                    step_args.method = [method for method in compared if args.method is None or method in args.method]
                if measure == Measure.SUPPORT:
                    step_args.method = step_args.method or [options.ATTN_UNION_DEP]
                yield _Step(name, folder, step_args, lacks)


def _paper_weights(args: argparse.Namespace) -> Iterator[EvaluationMethod]:
    """The unions without the weights that options or the model bring, if any: the alternatives use none."""
    settings = runs.method_settings(args)
    defaults = read_model_directory(runs.model_choice(args).model).defaults.method
    used = settings.union_options(options.ATTN_UNION_DEP).with_model(defaults)
    if used != used.with_paper_weights():
        for name in (options.ATTN_UNION, options.ATTN_UNION_DEP):
            if args.method is None or name in args.method:
                yield ScoredUnion(f"{name}, paper's weights", settings.with_paper_weights(), union=name)


TOP_KS = (1, 2, 3, 4, 5, 6, 8, 10)
ISOLATION_TAUS = (0, 1, 2, 3, 4, 5, math.inf)
MOST_LAYERS = 12


def _evaluate_sensitivity(args: argparse.Namespace) -> Figures:
    """Passage accuracy of ``attn-union-dep`` as layer, k and tau vary one at a time (the paper's three figures)."""
    from attribeam.evaluation.measures.layer_sweep import default_point, sweep  # torch is not needed otherwise

    dataset, settings = runs.load_dataset(args, LOADERS), runs.method_settings(args)
    models = runs.load_once(runs.with_all_layers(runs.model_choice(args)), frozenset({Need.PARSER, Need.ATTENTION}))
    model = required(models.attention, "attention model")
    default = default_point(model, settings)
    layers = layers_with_attention(layer_types(model.network.config))
    step = math.ceil(len(layers) / MOST_LAYERS)  # all layers, or about twelve at equal distances
    values: dict[str, Sequence[Any]] = {
        "layer": sorted({*layers[step - 1 :: step], layers[0], default.layer}),
        "top_k": sorted({*TOP_KS, default.top_k}),
        "isolation_tau": sorted({*ISOLATION_TAUS, default.isolation_tau}),
    }
    lines = {name: [replace(default, **{name: value}) for value in line] for name, line in values.items()}
    points = list(dict.fromkeys(point for line in lines.values() for point in line))
    tallies = sweep(with_progress(dataset.answers), models, points, settings=settings)
    scores = score_methods(tallies.values(), draws=args.bootstrap_draws, seed=args.seed)
    by_point = dict(zip(tallies, scores, strict=True))
    report: dict[str, list[dict[str, Any]]] = {
        name: [
            {
                "value": f"{getattr(point, name):g}",
                "is_default": point == default,
                "passage_accuracy": by_point[point].passage_accuracy,
                "interval": by_point[point].interval,
                "failed_rows": len(by_point[point].failed_rows),
                "isolated_spans": by_point[point].isolated_spans,
            }
            for point in line
        ]
        for name, line in lines.items()
    }
    tables = []
    for name, rows in report.items():
        cells = [
            (row["value"], f"{row['passage_accuracy']:.1f}", interval_cell(row["interval"]), "*" * row["is_default"])
            for row in rows
        ]
        tables.append(text_table((name, "accuracy %", "95% interval", "default"), cells))
    description = runs.run_description(args) | {"provenance": runs.provenance_of(args, models)}
    return Figures(description | {"lines": report}, "\n".join(tables))
