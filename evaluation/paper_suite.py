"""``attribeam evaluate --suite paper``: every table of the paper that the available data and models allow.

A loop over the data sets below ``--data``, and over what each has labels for; each step is what the command runs for
one data set. What cannot run is listed with the reason and the way to fill it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import Need, required
from attribeam.attribution.models.model_directory import layer_types, layers_with_attention, read_model_directory
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP
from attribeam.evaluation.datasets.loaders import CITED_LOADERS, JUDGED_LOADERS, LOADERS, Measure
from attribeam.evaluation.measures.accuracy import MethodScore, score_methods
from attribeam.evaluation.measures.layer_sweep import default_point, sweep
from attribeam.evaluation.methods.registry import LabelledContext, LabMethod, lab_methods
from attribeam.evaluation.report import Figures, interval_cell, text_table, write_json
from attribeam.evaluation.runs import (
    evaluate_passages,
    load_dataset,
    load_once,
    method_settings,
    model_choice,
    provenance_of,
    run_description,
    shown,
    with_all_layers,
)
from attribeam.report.messages import print_lines
from attribeam.schemas.errors import DataError, RunError, UsageError

SENSITIVITY = "sensitivity"
"""Passage accuracy as layer, k and tau vary, beside the measures of a single run."""
_CHINESE = ("words", "words-dep", "hss-avg", "attn-union", "attn-union-dep")
_FAITHFULNESS = (
    "random", "words", "hss-avg", "hss-avg-dep", "cci", "attn-union", "attn-union-dep", "oracle",
)  # fmt: skip
_WRITES_TEXT = ("ForCausalLM", "LMHeadModel")
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
    """One measure of one data set; ``lacks`` says what keeps it from running."""

    name: str
    folder: _Folder
    path: Path
    measure: str
    lacks: str | None


def evaluate_suite(args: argparse.Namespace, runs: Mapping[Measure, Callable[[argparse.Namespace], Figures]]) -> None:
    """Run all steps, and write ``tables.md`` and ``results.json`` to ``--output``.

    Raises:
        UsageError: if an option does not apply to a suite.
        DataError: if a data set is not in its format.
        RunError: if the tables cannot be written.
    """
    _check(args)
    steps = [*_steps(args)]
    for step in steps:
        own = _own(args, step)  # all data is checked before anything runs
        if own.measure == Measure.SUPPORT:
            JUDGED_LOADERS[own.dataset](own.data)
        else:
            load_dataset(own, CITED_LOADERS if own.measure == Measure.CITATIONS else LOADERS)
    try:
        args.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"--output of a suite should be a directory, could not be created: {error}") from error
    results, sections = [], [f"# The paper's suite: {args.model}"]
    for step in (one for one in steps if one.lacks is None):
        print_lines(f"{step.name}: {step.measure}")
        figures = _run(args, step, runs)
        results.append({"dataset": step.name, "measure": step.measure, "figures": figures.report})
        sections.append(f"## {step.name}: {step.measure}\n\n```\n{figures.text}\n```")
    left_out = [f"{one.name}, {one.measure}: {one.lacks}" for one in steps if one.lacks is not None]
    left_out += [f"{folder}: not found" for folder in _LAYOUT if not any(one.folder == folder for one in steps)]
    sections.append("\n".join(["## Left out", "", *(f"- {one}" for one in left_out)]))
    try:
        (args.output / "tables.md").write_text("\n\n".join(sections) + "\n", encoding="utf-8")
        write_json(args.output / "results.json", {"model": args.model, "results": results, "left_out": left_out})
    except OSError as error:
        raise RunError(f"--output {args.output} could not be written: {error}") from error
    print_lines(f"written to {args.output}: tables.md, results.json")


def _check(args: argparse.Namespace) -> None:
    for name in ("dataset", "measure"):
        if getattr(args, name) is not None:
            raise UsageError(f"--suite runs all data sets and measures; leave --{name} out")
    unknown = sorted(set(args.method or ()) - set(lab_methods()))
    if unknown:
        raise UsageError(f"--suite compares its own methods, {', '.join(lab_methods())}; leave out: {unknown}")
    if args.cost or args.sweep_layers:
        raise UsageError("--suite always measures costs and varies the layer; leave --cost and --sweep-layers out")
    if args.output is None:
        raise UsageError("--suite needs a directory for its tables; name one with --output")
    if not args.data.is_dir():
        raise DataError(f"--data of a suite should be a directory, was: {args.data}")


def _steps(args: argparse.Namespace) -> Iterator[_Step]:
    """All measures of all data sets below ``--data``, whose content is not read.

    Raises:
        DataError: if there is no data set.
    """
    kinds = getattr(read_model_directory(model_choice(args).model).config, "architectures", None) or ()
    lacking = {}
    if args.nli_model is None:
        lacking[Measure.CITATIONS] = "no NLI model is named; add --nli-model NAME"
    if args.language_model is None and not any(kind.endswith(_WRITES_TEXT) for kind in kinds):
        lacking[Measure.FAITHFULNESS] = (
            "the model is not a causal language model, and none is named; add --language-model NAME"
        )
    found = False
    for folder in _LAYOUT:
        paths = sorted(path for pattern in folder.patterns for path in (args.data / folder.name).glob(pattern))
        for path in paths:
            found = True
            is_directory = folder.dataset == "ragtruth"
            name = folder.name if is_directory else f"{folder.name} {path.name.partition('.')[0]}"
            for measure in folder.measures:
                lacks = lacking.get(Measure(measure)) if measure != SENSITIVITY else None
                if folder.name == "chinese" and args.chinese_parser is None:
                    lacks = "no Chinese parser is named; add --chinese-parser NAME"
                yield _Step(name, folder, path.parent if is_directory else path, measure, lacks)
    if not found:
        raise DataError(f"--data {args.data} should contain one of {', '.join(map(str, _LAYOUT))}; contains none")


def _own(args: argparse.Namespace, step: _Step) -> argparse.Namespace:
    """The options of a step's own run."""
    own = argparse.Namespace(**vars(args))
    own.dataset, own.data, own.measure = step.folder.dataset, step.path, step.measure
    own.cost = step.measure == Measure.PASSAGES
    if step.folder.name == "chinese":
        own.parser = args.chinese_parser or args.parser
        own.method = [one for one in _CHINESE if args.method is None or one in args.method]
    elif step.measure == Measure.FAITHFULNESS:
        own.method = [one for one in _FAITHFULNESS if args.method is None or one in args.method]
    elif step.measure == Measure.SUPPORT:
        unions = (ATTN_UNION_DEP, ATTN_UNION)
        own.method = [one for one in unions if args.method is None or one in args.method] or [ATTN_UNION_DEP]
    return own


def _run(
    args: argparse.Namespace, step: _Step, runs: Mapping[Measure, Callable[[argparse.Namespace], Figures]]
) -> Figures:
    own = _own(args, step)
    if step.measure == SENSITIVITY:
        return _evaluate_sensitivity(own)
    if step.measure == Measure.PASSAGES and step.folder.name != "chinese":
        return evaluate_passages(own, [*_paper_weights(args)])
    return runs[Measure(step.measure)](own)


def _paper_weights(args: argparse.Namespace) -> Iterator[LabMethod]:
    """The unions without the weights that options or the model bring, if any: the alternatives use none."""
    settings = method_settings(args)
    defaults = read_model_directory(model_choice(args).model).defaults.method
    used = settings.union_options(ATTN_UNION_DEP).with_model(defaults)
    if used == used.with_paper_weights():
        return
    plain = lab_methods(settings.with_paper_weights())
    for name in (ATTN_UNION, ATTN_UNION_DEP):
        if args.method is None or name in args.method:
            yield _Renamed(f"{name}, paper's weights", plain[name])


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A method under another name."""

    name: str
    method: LabMethod

    @property
    def needs(self) -> frozenset[Need]:
        return self.method.needs

    def span_results(self, context: LabelledContext) -> Sequence[SpanResult]:
        return self.method.span_results(context)


TOP_KS = (1, 2, 3, 4, 5, 6, 8, 10)
ISOLATION_TAUS = (0, 1, 2, 3, 4, 5, math.inf)
MOST_LAYERS = 12


def _evaluate_sensitivity(args: argparse.Namespace) -> Figures:
    """Passage accuracy of ``attn-union-dep`` as layer, k and tau vary one at a time (the paper's three figures)."""
    dataset, settings = load_dataset(args, LOADERS), method_settings(args)
    models = load_once(with_all_layers(model_choice(args)), frozenset({Need.PARSER, Need.ATTENTION}))
    model = required(models.attention, "attention model")
    default = default_point(model, settings)
    values: dict[str, Sequence[Any]] = {
        "layer": varied_layers(layers_with_attention(layer_types(model.network.config)), default.layer),
        "top_k": sorted({*TOP_KS, default.top_k}),
        "isolation_tau": sorted({*ISOLATION_TAUS, default.isolation_tau}),
    }
    lines = {name: [replace(default, **{name: one}) for one in some] for name, some in values.items()}
    points = list(dict.fromkeys(point for some in lines.values() for point in some))
    tallies = sweep(shown(dataset.answers), models, points, settings=settings)
    scores = score_methods(tallies.values(), draws=args.bootstrap_draws, seed=args.seed)
    by_point = dict(zip(tallies, scores, strict=True))
    report, tables = {}, []
    for name, some in lines.items():
        report[name] = [
            _plain(by_point[point], f"{getattr(point, name):g}", is_default=point == default) for point in some
        ]
        cells = [
            (one["value"], f"{one['passage_accuracy']:.1f}", interval_cell(one["interval"]), "*" * one["is_default"])
            for one in report[name]
        ]
        tables.append(text_table((name, "accuracy %", "95% interval", "default"), cells))
    description = run_description(args) | {"provenance": provenance_of(args, models)}
    return Figures(description | {"lines": report}, "\n".join(tables))


def varied_layers(layers: Sequence[int], default: int) -> list[int]:
    """All layers, or about twelve at equal distances if there are more, always including the default."""
    step = math.ceil(len(layers) / MOST_LAYERS)
    return sorted({*layers[step - 1 :: step], layers[0], default})


def _plain(figure: MethodScore, value: str, *, is_default: bool) -> dict[str, Any]:
    return {
        "value": value,
        "is_default": is_default,
        "passage_accuracy": figure.passage_accuracy,
        "interval": figure.interval,
        "failed_rows": len(figure.failed_rows),
        "isolated_spans": figure.isolated_spans,
    }
