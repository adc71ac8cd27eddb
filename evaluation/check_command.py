"""Load a model and try it: memory, speed, a worked example, and how many passages each method finds with it.

The yardsticks are chance, and ``words``, which counts shared words and needs no model: a model that finds no more
passages than the one, or fewer than the other, does not serve.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attribeam.attribution import options
from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.methods.method import LoadedModels, Need
from attribeam.attribution.methods.models import with_chosen_dtype
from attribeam.attribution.models import CONFIG_FILE
from attribeam.attribution.models.model_directory import choose_layer, read_model_directory
from attribeam.attribution.option_declaration import add_options
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.datasets.labelled_log import load_log
from attribeam.evaluation.measures import Interval, RowBootstrap, row_remarks, text_table, write_json
from attribeam.evaluation.measures.accuracy import (
    REFERENCE_METHOD,
    MethodScore,
    MethodTally,
    accuracy_cells,
    run_methods,
    score_methods,
    with_progress,
)
from attribeam.evaluation.methods import audit_name, evaluation_methods
from attribeam.logs.columns import LogOptions
from attribeam.logs.reader import add_log_arguments, log_options
from attribeam.report.messages import print_lines
from attribeam.schemas import QARecord, RowFault, SpanEvidence
from attribeam.schemas.errors import DataError, ModelLoadError, UsageError
from attribeam.schemas.files import writing

if TYPE_CHECKING:
    from attribeam.attribution.attention.attention_model import AttentionModel

LABELLED_ROWS = Path(__file__).parent / "labelled_rows.jsonl"
CANDIDATES = (options.ATTN_UNION_DEP, options.ATTN_UNION, "hss-union-dep", "hss-union", "hss-avg-dep", "hss-avg")
"""The methods that are tried with a model; of equally good ones the first is named. The first is an audit's default."""
DRAWS, SEED = 2000, 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("check",), help="load a model, try it and say whether it serves")
    add_options(parser, options.AttributorOptions, options.LOADING, options.READING, options.LAYER, options.THREADS)
    rows = parser.add_argument_group("labelled rows")
    rows.add_argument(
        "--data", type=Path, metavar="FILE",
        help="a labelled log of your own, as evaluate --dataset log reads it (default: 40 English rows of the package)",
    )  # fmt: skip
    add_log_arguments(rows.add_argument)
    sweep = parser.add_argument_group("layers")
    sweep.add_argument(
        "--sweep-layers", action="store_true",
        help="try every layer of the model on the labelled rows, with several k and tau, and write the choice",
    )  # fmt: skip
    sweep.add_argument(
        "--output", type=Path, metavar="FILE.json",
        help=f"where --sweep-layers writes it (default: {CONFIG_FILE} in this folder)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    """Print what the model is, what it needs, what it does with an example, and which method serves.

    Raises ``ModelLoadError`` if it cannot be used; the message says why, and the way out; ``UsageError`` if there is no
    such layer, the labelled rows cannot be used, or the choice cannot be written; ``RunError`` if it could not be
    written after all.
    """
    output: Path | None = arguments.output
    if output is not None and not arguments.sweep_layers:
        raise UsageError("--output says where --sweep-layers writes its choice; add --sweep-layers or leave it out")
    if arguments.sweep_layers:
        output = output or Path(CONFIG_FILE)
        if output.exists() or not output.parent.is_dir():
            raise UsageError(
                f"--output should be a new file in an existing directory, was: {output}; name another with --output"
            )
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    chosen = options.ModelOptions.from_arguments(arguments, options.LOADING, options.READING, options.LAYER)
    answers = labelled_answers(arguments.data, log_options(arguments))
    if output is not None:
        from attribeam.evaluation.measures.layer_sweep import LEAST_SOURCES  # torch is not needed otherwise

        if (count := len({answer.record.question for answer in answers})) < LEAST_SOURCES:
            raise UsageError(
                f"--sweep-layers should have labelled rows with {LEAST_SOURCES} different questions or more, has "
                f"{count}; label more rows, or leave --data out to use those of the package"
            )
    try:
        if chosen.layer is not None:
            try:
                choose_layer(read_model_directory(chosen).config, chosen.layer)
            except ValueError as error:
                raise UsageError(f"--layer of {chosen.model!r}: {error}") from error
        _try_model(chosen, answers, threads=arguments.threads, output=output)
    except ModelLoadError as error:
        raise ModelLoadError(f"this model cannot serve: {error}") from error


def labelled_answers(data: Path | None, options: LogOptions) -> tuple[LabelledAnswer, ...]:
    """The answers of the user's labelled log, which ``options`` say how to read; of the package's rows for None.

    Raises ``UsageError`` if the log cannot be read, or none of its spans has a label.
    """
    if data is None:
        return load_log(LABELLED_ROWS, LogOptions(format="jsonl")).answers
    try:
        dataset = load_log(data, options)
    except DataError as error:
        raise UsageError(f"--data: {error}") from error
    if not dataset.answers:
        reasons = ", ".join(row_remarks(dataset.skipped)) or "the file has no rows"
        raise UsageError(
            f"--data {data} should have target spans with gold passages, has none: {reasons}; see 'Labels' in "
            "docs/schema.md"
        )
    return dataset.answers


def _try_model(
    chosen: options.ModelOptions, answers: Sequence[LabelledAnswer], *, threads: int | None, output: Path | None
) -> None:
    """Print what the model is, what it does with an example, and what it finds; sweep its layers into ``output``."""
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.evaluation.measures.layer_sweep import found_settings, search_layers, search_lines
    from attribeam.evaluation.model_description import (
        EXAMPLE_RECORD,
        attention_shares,
        describe_model,
        trial_lines,
    )

    chosen = with_chosen_dtype(chosen, frozenset({Need.ATTENTION}))
    directory, layer, lines = describe_model(chosen)
    print_lines(*lines)
    start = time.perf_counter()
    layers = None if output is None else len(layer.kinds)
    model = AttentionModel.from_pretrained(chosen.replaced(loaded_layers=layers), threads=threads)
    for line in trial_lines(model, chosen, seconds=time.perf_counter() - start, threads=threads):
        print_lines(line)
    parser = AnswerParser.from_pretrained("bundled")
    attributor = Attributor(parser=parser, models=LoadedModels(attention=model), spans=DEFAULT_SPAN_KINDS)
    print_lines(*example_lines(EXAMPLE_RECORD, attributor.attribute_many([EXAMPLE_RECORD])[0]))
    shares = attention_shares(model, EXAMPLE_RECORD)
    of_passages = f"on the passages ({shares.passage_tokens:.0%} of the prompt's tokens)"
    rest = f"{shares.outside:.0%} on the rest of the prompt, {shares.rest:.0%} on the answer itself"
    print_lines("", f"shares     {shares.passages:.0%} of the answer's attention {of_passages}, {rest}", "")
    quality = measure_quality(with_progress(answers, "quality", "row"), model, parser)
    print_lines(*quality_lines(quality))
    if output is None:
        print_lines("", serving_line(chosen.model, quality))
        return
    search = search_layers(answers, model, parser)
    print_lines(*search_lines(search, len(answers)))
    with writing(output):
        write_json(output, found_settings(directory, search.attention))
    print_lines(
        "", f"written to {output}; use it with --attribution-config {output}, or copy it into the model's directory"
    )


def example_lines(record: QARecord, outcome: Sequence[SpanEvidence] | RowFault) -> Iterator[str]:
    """The worked example: texts, and each target span with its passage, support and best evidence.

    Raises ``ModelLoadError`` if the example could not be attributed.
    """
    if isinstance(outcome, RowFault):
        raise ModelLoadError(f"the worked example could not be attributed: {outcome}")
    yield from ("", f"question   {record.question}")
    yield from (f"passage {index}  {passage.text}" for index, passage in enumerate(record.passages))
    yield from (f"answer     {record.answer}", "")
    for span in outcome:
        passage = "no passage" if span.top_passage_index is None else f"passage {span.top_passage_index}"
        best = max(span.evidence, key=lambda piece: piece.score, default=None)
        yield f"{span.support:<12}{span.text}  <-  {passage}{'' if best is None else f': {best.text}'}"
    texts = [piece.text for span in outcome for piece in span.evidence]
    if bare := sum(not any(character.isalnum() for character in text) for text in texts):
        yield from ("", f"evidence   {bare} of its {len(texts)} pieces hold no letter or digit")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A method with a model; ``hidden_layer`` is the layer whose states it compares, None for a method of attention."""

    score: MethodScore
    hidden_layer: int | None

    @property
    def percent(self) -> str:
        return f"{self.score.passage_accuracy:.0f} %"


@dataclass(frozen=True, slots=True)
class Quality:
    """What was found on the labelled rows by the methods that the model allows, the default first, and by words.

    ``chance`` is the accuracy of a passage drawn at random, in percent, and ``default_behind`` by how much the best
    candidate is better than the default; None if it is the best.
    """

    candidates: tuple[Candidate, ...]
    words: MethodScore
    chance: float
    layer: int
    default_behind: Interval | None

    @property
    def best(self) -> Candidate:
        return max(self.candidates, key=lambda candidate: candidate.score.passage_accuracy)


def measure_quality(answers: Iterable[LabelledAnswer], model: AttentionModel, parser: AnswerParser) -> Quality:
    """Run every candidate that the model allows on the answers, of which there is at least one.

    The hidden states are those of the paper's layer, floor(L/2), or of the layer below L* where that is lower: no layer
    is loaded for them.
    """
    from attribeam.attribution.attention.hidden_states import check_states

    hidden_layer, known, available = min(model.layer_count // 2, model.layer - 1), [*answers], evaluation_methods()
    methods = [available[name] for name in (*CANDIDATES, REFERENCE_METHOD)]
    try:
        check_states(model.network)
    except ValueError:  # the layers' outputs cannot be taken
        methods = [method for method in methods if Need.HIDDEN_STATES not in method.needs]
    models = LoadedModels(parser=parser, attention=model, hidden_layer=hidden_layer)
    tallies = run_methods(known, methods, models)
    golds = [len(gold) / len(answer.record.passages) for answer in known for gold in answer.gold_passages]
    return quality_of_tallies(
        tallies, chance=100 * sum(golds) / len(golds), layer=model.layer, hidden_layer=hidden_layer
    )


def quality_of_tallies(tallies: Sequence[MethodTally], *, chance: float, layer: int, hidden_layer: int) -> Quality:
    credits = {tally.name: tally.credits for tally in tallies}
    scores = {score.method: score for score in score_methods(tallies, draws=DRAWS, seed=SEED)}
    words = scores.pop(REFERENCE_METHOD)
    candidates = tuple(
        Candidate(score, hidden_layer if name.startswith("hss") else None) for name, score in scores.items()
    )
    behind, best = None, max(scores, key=lambda name: scores[name].passage_accuracy)
    if best != CANDIDATES[0]:
        pairs = zip(credits[best], credits[CANDIDATES[0]], strict=True)
        bootstrap = RowBootstrap(tallies[0].spans, draws=DRAWS, seed=SEED)
        behind = bootstrap.interval([own - default for own, default in pairs])
    return Quality(candidates, words, chance, layer, behind)


def quality_lines(quality: Quality) -> Iterator[str]:
    """A table of methods and the passages that they find, and the best of them."""
    score = quality.best.score

    def read_part(candidate: Candidate) -> str:
        layer = candidate.hidden_layer
        return f"attention of layer {quality.layer}" if layer is None else f"hidden states of layer {layer}"

    failed = f"; {len(score.failed_rows)} rows failed and count as wrong" if score.failed_rows else ""
    of = f"{score.spans} labelled spans of {score.rows} rows"
    yield f"quality    share of {of} whose passage is found{failed}"
    yield ""
    parts = [(item.score, read_part(item)) for item in quality.candidates] + [(quality.words, "the words alone")]
    header = ["method", "reads", "passages %", "95% interval", "vs words", "95% interval", "evidence F1 %"]
    f1s = ["" if each.highlights is None else f"{each.highlights.f1:.1f}" for each, _ in parts]
    lines = [[each.method, part, *accuracy_cells(each), f1] for (each, part), f1 in zip(parts, f1s, strict=True)]
    lines.append(["chance", "nothing", f"{quality.chance:.1f}", "", "", "", ""])
    columns = len(header) if score.highlights is not None else -1
    yield from text_table(header[:columns], [line[:columns] for line in lines]).split("\n")
    yield ""
    yield f"best       {score.method}, {read_part(quality.best)}: {quality.best.percent} of the passages"


def serving_line(model: str, quality: Quality) -> str:
    """Whether the best method beats chance and is no worse than word overlap, and the default no worse than the best.

    A method beats chance if the 95% interval of its accuracy lies above it, and is worse than another if that of their
    difference, over the same rows, lies below 0.
    """
    best, default, at = quality.best, quality.candidates[0], f"at layer {quality.layer}"
    result = f"finds {best.percent} of the passages, {quality.words.method} {quality.words.passage_accuracy:.0f} %"
    to_words, beats_chance = best.score.difference_interval, best.score.interval.low > quality.chance
    if not beats_chance or (to_words is not None and to_words.high < 0):
        result += ", which needs no model" if beats_chance else f", chance {quality.chance:.0f} %"
        return (
            f"{model} runs, but does not serve {at}: its best method, {best.score.method}, {result}. Look for a better "
            "layer with --sweep-layers, or choose another model."
        )
    if quality.default_behind is None or quality.default_behind.low <= 0:
        return f"{model} can serve: {default.score.method} {at} finds {default.percent}."
    layer = "" if best.hidden_layer is None else f" --hidden-layer {best.hidden_layer}"
    return (
        f"{model} can serve with --method {audit_name(best.score.method)}{layer}, which {result}. Its attention {at} "
        f"does not: {default.score.method}, the audit's default, finds {default.percent}."
    )
