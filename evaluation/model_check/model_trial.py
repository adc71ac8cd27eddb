"""Loads a model and tries it, printing what it is and does, and how well each method finds passages with it.

The yardsticks are chance, and ``words``, which counts shared words and needs no model: a model that finds no more
passages than the one, or fewer than the other, does not serve.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import torch

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.hidden_states import layer_modules
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.methods.method import LoadedModels, Need
from attribeam.attribution.methods.models import with_chosen_dtype
from attribeam.attribution.models.model_directory import choose_layer, read_model_directory, runs_own_code
from attribeam.attribution.models.precision import stored_quantization
from attribeam.attribution.models.weight_files import revision_of
from attribeam.attribution.models.weight_loading import format_size, held_size, total_size
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP, ModelOptions, Quantization
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.datasets.labelled_log import load_log
from attribeam.evaluation.measures.accuracy import (
    REFERENCE_METHOD,
    MethodScore,
    MethodTally,
    difference_cells,
    run_methods,
    score_methods,
)
from attribeam.evaluation.measures.bootstrap import Interval, RowBootstrap
from attribeam.evaluation.methods.registry import audit_name, lab_methods
from attribeam.evaluation.model_check.model_description import (
    EXAMPLE_RECORD,
    ModelDescription,
    agreement_with_float32,
    attention_shares,
    describe_model,
    is_exact,
    measure_speed,
)
from attribeam.evaluation.model_check.setting_search import (
    LEAST_SOURCES,
    found_settings,
    search_layers,
    search_lines,
    shown,
)
from attribeam.evaluation.report import interval_cell, skip_remarks, text_table, write_json
from attribeam.logs.columns import LogOptions
from attribeam.report.messages import print_lines
from attribeam.schemas import QARecord, RowFault, SpanEvidence
from attribeam.schemas.errors import DataError, ModelLoadError, RunError, UsageError

LABELLED_ROWS = Path(__file__).parent / "labelled_rows.jsonl"
CANDIDATES = (ATTN_UNION_DEP, ATTN_UNION, "hss-union-dep", "hss-union", "hss-avg-dep", "hss-avg")
"""The methods that are tried with a model; of equally good ones the first is named. The first is an audit's default."""
DRAWS, SEED = 2000, 0


def labelled_answers(data: Path | None, options: LogOptions) -> tuple[LabelledAnswer, ...]:
    """The answers of the user's labelled log, which ``options`` say how to read; of the package's rows for None.

    Raises:
        UsageError: if the log cannot be read, or none of its spans has a label.
    """
    if data is None:
        return load_log(LABELLED_ROWS, LogOptions(format="jsonl")).answers
    try:
        dataset = load_log(data, options)
    except DataError as error:
        raise UsageError(f"--data: {error}") from error
    if not dataset.answers:
        reasons = ", ".join(skip_remarks(dataset.skipped)) or "the file has no rows"
        raise UsageError(
            f"--data {data} should have target spans with gold passages, has none: {reasons}; see 'Labels' in "
            "docs/schema.md"
        )
    return dataset.answers


def check_sources(answers: Sequence[LabelledAnswer]) -> None:
    """Refuse labelled rows that are too few for a choice of layers.

    Raises:
        UsageError: if their questions are.
    """
    count = len({answer.record.question for answer in answers})
    if count < LEAST_SOURCES:
        raise UsageError(
            f"--sweep-layers should have labelled rows with {LEAST_SOURCES} different questions or more, has {count}; "
            "label more rows, or leave --data out to use those of the package"
        )


def check_layer(options: ModelOptions) -> None:
    """Refuse a layer that the model does not have.

    Raises:
        UsageError: if the options name one.
        ModelLoadError: if there is no such model.
    """
    if options.layer is None:
        return
    try:
        choose_layer(read_model_directory(options).config, options.layer)
    except ValueError as error:
        raise UsageError(f"--layer of {options.model!r}: {error}") from error


def try_model(
    options: ModelOptions, answers: Sequence[LabelledAnswer], *, threads: int | None, output: Path | None
) -> None:
    """Print what the model is, what it does with an example, and what it finds; sweep its layers into ``output``.

    Raises:
        ModelLoadError: if it cannot be used.
        RunError: if the choice cannot be written.
    """
    options = with_chosen_dtype(options, frozenset({Need.ATTENTION}))
    described = describe_model(options)
    print_lines(*_description_lines(described))
    start = time.perf_counter()
    layers = None if output is None else len(described.layer.kinds)
    model = AttentionModel.from_pretrained(options.replaced(loaded_layers=layers), threads=threads)
    print_lines(_loaded_line(model, time.perf_counter() - start))
    speed = measure_speed(model)
    rows, rate = "1 row" if speed.rows == 1 else f"{speed.rows} rows", float(f"{speed.tokens_per_second:.3g}")
    print_lines(_line("speed", f"{rate:,.0f} tokens/s on {rows} of {speed.row_tokens} tokens"))
    if not is_exact(model, options):
        print_lines(_agreement_line(model, options, threads))
    parser = AnswerParser.from_pretrained("bundled")
    attributor = Attributor(parser=parser, models=LoadedModels(attention=model), spans=DEFAULT_SPAN_KINDS)
    print_lines(*example_lines(EXAMPLE_RECORD, attributor.attribute_many([EXAMPLE_RECORD])[0]))
    shares = attention_shares(model, EXAMPLE_RECORD)
    of_passages = f"on the passages ({shares.passage_tokens:.0%} of the prompt's tokens)"
    rest = f"{shares.outside:.0%} on the rest of the prompt, {shares.rest:.0%} on the answer itself"
    print_lines("", _line("shares", f"{shares.passages:.0%} of the answer's attention {of_passages}, {rest}"), "")
    quality = measure_quality(shown(answers, "quality"), model, parser)
    print_lines(*quality_lines(quality))
    if output is None:
        print_lines("", serving_line(options.model, quality))
        return
    found = search_layers(answers, model, parser)
    print_lines(*search_lines(found, len(answers)))
    try:
        write_json(output, found_settings(described.directory, found.attention))
    except OSError as error:
        raise RunError(f"--output {output} could not be written: {error}") from error
    print_lines(
        "", f"written to {output}; use it with --attribution-config {output}, or copy it into the model's directory"
    )


def _agreement_line(model: AttentionModel, options: ModelOptions, threads: int | None) -> str:
    """How much of what float32 finds is found in the model's precision, or why float32 cannot be loaded beside it."""
    try:
        agreement = agreement_with_float32(model, options, threads=threads)
    except ModelLoadError as error:
        return _line("agreement", f"with float32 was not measured: {error}")
    return _line("agreement", f"{agreement:.1%} of the answer tokens of a few rows have float32's two best columns")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A method with a model; ``hidden_layer`` is the layer whose states it compares, None for a method of attention."""

    score: MethodScore
    hidden_layer: int | None

    @property
    def options(self) -> str:
        """What asks an audit for it."""
        layer = "" if self.hidden_layer is None else f" --hidden-layer {self.hidden_layer}"
        return f"--method {audit_name(self.score.method)}{layer}"


class Serving(StrEnum):
    """Whether a model serves."""

    BY_DEFAULT = "with the audit's default method"
    BY_OTHER_METHOD = "with another method only"
    NOT = "not"


@dataclass(frozen=True, slots=True)
class Quality:
    """What was found on the labelled rows.

    Attributes:
        candidates: the methods that the model allows; the audit's default comes first.
        words: word overlap, which needs no model.
        chance: the accuracy of a passage drawn at random, in percent.
        layer: 1-based L*.
        default_behind: by how much the best candidate is better than the default, in percent; None if it is the best.
    """

    candidates: tuple[Candidate, ...]
    words: MethodScore
    chance: float
    layer: int
    default_behind: Interval | None

    @property
    def default(self) -> Candidate:
        """The audit's method where the user names none."""
        return self.candidates[0]

    @property
    def best(self) -> Candidate:
        """The method that finds the most passages, of equally good ones the first."""
        return max(self.candidates, key=lambda one: one.score.passage_accuracy)

    @property
    def serving(self) -> Serving:
        """Whether the best method beats chance and is no worse than word overlap, and the default no worse than it.

        A method beats chance if the 95% interval of its accuracy lies above it, and is worse than another if that of
        their difference, over the same rows, lies below 0.
        """
        to_words = self.best.score.difference_interval
        if not self.beats_chance or (to_words is not None and to_words.high < 0):
            return Serving.NOT
        is_default_good = self.default_behind is None or self.default_behind.low <= 0
        return Serving.BY_DEFAULT if is_default_good else Serving.BY_OTHER_METHOD

    @property
    def beats_chance(self) -> bool:
        """Whether the best method finds more passages than random draws, beyond what the rows leave open."""
        return self.best.score.interval.low > self.chance


def measure_quality(answers: Iterable[LabelledAnswer], model: AttentionModel, parser: AnswerParser) -> Quality:
    """Run every candidate that the model allows on the answers, of which there is at least one.

    The hidden states are those of the paper's layer, floor(L/2), or of the layer below L* where that is lower: no layer
    is loaded for them.
    """
    hidden_layer, known, available = min(model.layer_count // 2, model.layer - 1), [*answers], lab_methods()
    methods = [available[name] for name in (*CANDIDATES, REFERENCE_METHOD)]
    try:
        layer_modules(model.network)
    except ValueError:  # the layers' outputs cannot be taken
        methods = [one for one in methods if Need.HIDDEN_STATES not in one.needs]
    models = LoadedModels(parser=parser, attention=model, hidden_layer=hidden_layer)
    tallies = run_methods(known, methods, models)
    golds = [len(gold) / len(answer.record.passages) for answer in known for gold in answer.gold_passages]
    chance = 100 * sum(golds) / len(golds)
    return quality_of_tallies(tallies, chance=chance, layer=model.layer, hidden_layer=hidden_layer)


def quality_of_tallies(tallies: Sequence[MethodTally], *, chance: float, layer: int, hidden_layer: int) -> Quality:
    """What the tallies of the candidates and of word overlap say of the model."""
    by_name = {tally.name: tally for tally in tallies}
    scores = {one.method: one for one in score_methods(tallies, draws=DRAWS, seed=SEED)}
    words = scores.pop(REFERENCE_METHOD)
    candidates = tuple(
        Candidate(score, hidden_layer if name.startswith("hss") else None) for name, score in scores.items()
    )
    behind, best = None, max(scores, key=lambda name: scores[name].passage_accuracy)
    if best != CANDIDATES[0]:
        pairs = zip(by_name[best].credits, by_name[CANDIDATES[0]].credits, strict=True)
        bootstrap = RowBootstrap(tallies[0].spans, draws=DRAWS, seed=SEED)
        behind = bootstrap.interval([own - other for own, other in pairs])
    return Quality(candidates, words, chance, layer, behind)


_PRECISIONS = {
    "float32": (torch.float32, Quantization.NONE),
    "bfloat16": (torch.bfloat16, Quantization.NONE),
    "int8": (torch.bfloat16, Quantization.INT8),
    "nf4": (torch.bfloat16, Quantization.NF4),
}


def _description_lines(model: ModelDescription) -> Iterator[str]:
    """Lines about what is known before the weights are read."""
    directory, layer = model.directory, model.layer
    kinds = Counter(layer.kinds)
    yield _line("model", f"{directory.options.model} ({directory.config.model_type})")
    yield _line("revision", revision_of(directory, layer=layer.layer))
    yield _line("code", "of its own repository" if runs_own_code(directory) else "of transformers")
    yield _line("layers", f"{len(layer.kinds)}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    yield _line("attention", layer.provenance()["layer_choice"])
    limit = model.max_tokens
    context = "no limit" if limit is None else f"{limit:,} tokens; longer rows are read in windows"
    yield _line("context", context)
    free = "" if model.free is None else f", {format_size(model.free)} free"
    yield _line("device", f"{model.device}{free}")
    yield ""
    yield from _weight_table(model)
    yield ""
    yield _line("weights", _weights(model))


def _loaded_line(model: AttentionModel, seconds: float) -> str:
    """The memory that the loaded model holds, and on a GPU the peak while loading."""
    text = f"in {seconds:.1f} s; {format_size(held_size(model.network))} of weights are kept"
    if model.device.type == "cuda":
        text += f", at most {format_size(torch.cuda.max_memory_allocated(model.device))} were in use"
    return _line("loaded", text)


def example_lines(record: QARecord, outcome: Sequence[SpanEvidence] | RowFault) -> Iterator[str]:
    """The worked example: texts, and each target span with its passage, support and best evidence.

    Raises:
        ModelLoadError: if the example could not be attributed.
    """
    if isinstance(outcome, RowFault):
        raise ModelLoadError(f"the worked example could not be attributed: {outcome}")
    yield ""
    yield _line("question", record.question)
    for index, passage in enumerate(record.passages):
        yield _line(f"passage {index}", passage.text)
    yield _line("answer", record.answer)
    yield ""
    for span in outcome:
        place = "no passage" if span.top_passage_index is None else f"passage {span.top_passage_index}"
        best = max(span.evidence, key=lambda piece: piece.score, default=None)
        evidence = "" if best is None else f": {best.text}"
        yield f"{span.support:<12}{span.text}  <-  {place}{evidence}"
    texts = [piece.text for span in outcome for piece in span.evidence]
    if bare := sum(not any(character.isalnum() for character in text) for text in texts):
        yield from ("", _line("evidence", f"{bare} of its {len(texts)} pieces hold no letter or digit"))


def quality_lines(quality: Quality) -> Iterator[str]:
    """A table of methods and the passages that they find, and the best of them."""
    best = quality.best
    score = best.score
    failed = f"; {len(score.failed_rows)} rows failed and count as wrong" if score.failed_rows else ""
    found = f"share of {score.spans} labelled spans of {score.rows} rows whose passage is found{failed}"
    yield _line("quality", found)
    yield ""
    header = ["method", "reads", "passages %", "95% interval", "vs words", "95% interval"]
    lines = [_cells(one.score, _read_part(one, quality.layer)) for one in quality.candidates]
    lines.append(_cells(quality.words, "the words alone"))
    lines.append(["chance", "nothing", f"{quality.chance:.1f}", "", "", ""])
    if best.score.highlights is not None:
        header.append("evidence F1 %")
        overlaps = [one.score.highlights for one in quality.candidates] + [quality.words.highlights]
        cells = ["" if overlap is None else f"{overlap.f1:.1f}" for overlap in overlaps]
        lines = [[*line, cell] for line, cell in zip(lines, [*cells, ""], strict=True)]
    yield from text_table(header, lines).split("\n")
    yield ""
    yield _line("best", f"{best.score.method}, {_read_part(best, quality.layer)}: {_percent(best)} of the passages")


def serving_line(model: str, quality: Quality) -> str:
    """Whether the model serves, and with which method."""
    best, default = quality.best, quality.default
    found = f"finds {_percent(best)} of the passages, {quality.words.method} {quality.words.passage_accuracy:.0f} %"
    match quality.serving:
        case Serving.BY_DEFAULT:
            return f"{model} can serve: {default.score.method} at layer {quality.layer} finds {_percent(default)}."
        case Serving.BY_OTHER_METHOD:
            return (
                f"{model} can serve with {best.options}, which {found}. Its attention at layer {quality.layer} does "
                f"not: {default.score.method}, the audit's default, finds {_percent(default)}."
            )
        case Serving.NOT:
            found += ", which needs no model" if quality.beats_chance else f", chance {quality.chance:.0f} %"
            return (
                f"{model} runs, but does not serve at layer {quality.layer}: its best method, {best.score.method}, "
                f"{found}. Look for a better layer with --sweep-layers, or choose another model."
            )


def _read_part(one: Candidate, layer: int) -> str:
    return f"attention of layer {layer}" if one.hidden_layer is None else f"hidden states of layer {one.hidden_layer}"


def _cells(score: MethodScore, part: str) -> list[str]:
    ahead = difference_cells(score.difference_to_words, score.difference_interval)
    return [score.method, part, f"{score.passage_accuracy:.1f}", interval_cell(score.interval), *ahead]


def _percent(one: Candidate) -> str:
    return f"{one.score.passage_accuracy:.0f} %"


def _weight_table(model: ModelDescription) -> Iterator[str]:
    """Memory by group and precision; int8 and nf4 keep what they do not quantise in bfloat16."""
    width = max(len(group.name) for group in model.groups)
    yield f"{'':{width}}  {'weights':>16}" + "".join(f"{name:>11}" for name in _PRECISIONS)
    named = [(group.name, [group]) for group in model.groups]
    for name, groups in [*named, ("all", list(model.groups))]:
        sizes = [total_size(groups, *precision) for precision in _PRECISIONS.values()]
        weights = sum(group.weights for group in groups)
        yield f"{name:{width}}  {weights:>16,}" + "".join(f"{format_size(size):>11}" for size in sizes)


def _weights(model: ModelDescription) -> str:
    options = model.directory.options
    stored = stored_quantization(model.directory.config)
    if stored is not None:
        return f"stored as {stored}; the table is of unquantised weights"
    needed = total_size(model.groups, model.dtype, options.quantization)
    name, quantization = str(model.dtype).removeprefix("torch."), options.quantization
    precision = name if quantization is Quantization.NONE else f"{quantization}, the rest {name}"
    return f"{format_size(needed)} as {precision}"


def _line(name: str, text: str) -> str:
    return f"{name:<11}{text}"
