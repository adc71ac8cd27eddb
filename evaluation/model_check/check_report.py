"""The quality of a model on labelled rows, and the report of ``attribeam models check``.

How well a model finds passages: the accuracy of each method with it on labelled rows, and whether that is enough.

The yardsticks are chance, and ``words``, which counts shared words and needs no model: a model that finds no more
passages than the one, or fewer than the other, does not serve.

What ``attribeam models check`` prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.hidden_states import layer_modules
from attribeam.attribution.attention.model_check import AttentionShares, ModelDescription, Speed
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import Need
from attribeam.attribution.models.model_directory import runs_own_code
from attribeam.attribution.models.quantization import stored_quantization
from attribeam.attribution.models.weight_files import revision_of
from attribeam.attribution.models.weight_loading import format_size
from attribeam.attribution.models.weight_memory import WeightGroup, held_size, total_size
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP, Quantization
from attribeam.evaluation.measures.accuracy import (
    REFERENCE_METHOD,
    MethodScore,
    MethodTally,
    run_methods,
    score_methods,
)
from attribeam.evaluation.measures.bootstrap import Interval, RowBootstrap
from attribeam.evaluation.methods.registry import LabMethod, audit_name, lab_methods
from attribeam.evaluation.report import interval_cell, text_table
from attribeam.schemas import QARecord, RowFault, SpanEvidence
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.labelled_answer import LabelledAnswer

CANDIDATES = (ATTN_UNION_DEP, ATTN_UNION, "hss-union-dep", "hss-union", "hss-avg-dep", "hss-avg")
"""The methods that are tried with a model; of equally good ones the first is named."""
DEFAULT = CANDIDATES[0]
"""The audit's method where the user names none."""
DRAWS, SEED = 2000, 0


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
        return Serving.BY_DEFAULT if self._is_default_good else Serving.BY_OTHER_METHOD

    @property
    def beats_chance(self) -> bool:
        """Whether the best method finds more passages than random draws, beyond what the rows leave open."""
        return self.best.score.interval.low > self.chance

    @property
    def _is_default_good(self) -> bool:
        return self.default_behind is None or self.default_behind.low <= 0


def measure_quality(answers: Iterable[LabelledAnswer], model: AttentionModel, parser: AnswerParser) -> Quality:
    """Run every candidate on the answers, of which there is at least one.

    The hidden states are those of the paper's layer, floor(L/2), or of the layer below L* where that is lower: no layer
    is loaded for them.
    """
    hidden_layer = min(model.layer_count // 2, model.layer - 1)
    models = LoadedModels(parser=parser, attention=model, hidden_layer=hidden_layer)
    known = [*answers]
    tallies = run_methods(known, _methods(model), models)
    scores = score_methods(tallies, draws=DRAWS, seed=SEED)
    return quality_of_tallies(tallies, scores, chance=chance(known), layer=model.layer, hidden_layer=hidden_layer)


def chance(answers: Sequence[LabelledAnswer]) -> float:
    """The share of spans, in percent, whose passage a random draw finds, all passages of a row being equally likely."""
    shares = [len(gold) / len(answer.record.passages) for answer in answers for gold in answer.gold_passages]
    return 100 * sum(shares) / len(shares)


def _methods(model: AttentionModel) -> list[LabMethod]:
    available = lab_methods()
    wanted = [available[name] for name in (*CANDIDATES, REFERENCE_METHOD)]
    return [one for one in wanted if _shows_states(model) or Need.HIDDEN_STATES not in one.needs]


def _shows_states(model: AttentionModel) -> bool:
    """Whether the layers' outputs can be taken."""
    try:
        layer_modules(model.network)
    except ValueError:
        return False
    return True


def quality_of_tallies(
    tallies: Sequence[MethodTally],
    scores: Sequence[MethodScore],
    *,
    chance: float,
    layer: int,
    hidden_layer: int,
) -> Quality:
    """What the tallies of the candidates and of word overlap, and their ``scores``, say of the model."""
    by_name = {tally.name: tally for tally in tallies}
    candidates = tuple(
        Candidate(score, hidden_layer if score.method.startswith("hss") else None)
        for score in scores
        if score.method != REFERENCE_METHOD
    )
    words = next(score for score in scores if score.method == REFERENCE_METHOD)
    best = max(candidates, key=lambda one: one.score.passage_accuracy).score.method
    behind = None if best == DEFAULT else difference(by_name[best], by_name[DEFAULT])
    return Quality(candidates, words, chance, layer, behind)


def difference(one: MethodTally, other: MethodTally) -> Interval:
    """The interval over rows of how much better ``one`` is than ``other``, in percent."""
    credits = [own - others for own, others in zip(one.credits, other.credits, strict=True)]
    return RowBootstrap(one.spans, draws=DRAWS, seed=SEED).interval(credits)


_PRECISIONS = {
    "float32": (torch.float32, Quantization.NONE),
    "bfloat16": (torch.bfloat16, Quantization.NONE),
    "int8": (torch.bfloat16, Quantization.INT8),
    "nf4": (torch.bfloat16, Quantization.NF4),
}


def description_lines(model: ModelDescription) -> Iterator[str]:
    """Lines about what is known before the weights are read."""
    directory, layer = model.directory, model.layer
    kinds = Counter(layer.kinds)
    yield _line("model", f"{directory.options.model} ({directory.config.model_type})")
    yield _line("revision", revision_of(directory, layer=layer.layer))
    yield _line("code", "of its own repository" if runs_own_code(directory) else "of transformers")
    yield _line("layers", f"{len(layer.kinds)}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    yield _line("attention", layer.provenance()["layer_choice"])
    yield _line("context", _context(model.max_tokens))
    free = "" if model.free is None else f", {format_size(model.free)} free"
    yield _line("device", f"{model.device}{free}")
    yield ""
    yield from _table(model.groups)
    yield ""
    yield _line("weights", _weights(model))


def loaded_line(model: AttentionModel, seconds: float) -> str:
    """The memory that the loaded model holds, and on a GPU the peak while loading."""
    text = f"in {seconds:.1f} s; {format_size(held_size(model.network))} of weights are kept"
    if model.device.type == "cuda":
        text += f", at most {format_size(torch.cuda.max_memory_allocated(model.device))} were in use"
    return _line("loaded", text)


def speed_line(speed: Speed) -> str:
    """The speed to three digits, and the rows it was measured on."""
    rows = "1 row" if speed.rows == 1 else f"{speed.rows} rows"
    rate = float(f"{speed.tokens_per_second:.3g}")
    return _line("speed", f"{rate:,.0f} tokens/s on {rows} of {speed.row_tokens} tokens")


def agreement_line(agreement: float | ModelLoadError) -> str:
    """How much of what float32 finds is found in the model's precision, or why that is not known."""
    if isinstance(agreement, ModelLoadError):
        return _line("agreement", f"with float32 was not measured: {agreement}")
    return _line("agreement", f"{agreement:.1%} of the answer tokens of a few rows have float32's two best columns")


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
    yield from _bare_pieces([piece.text for span in outcome for piece in span.evidence])


def _bare_pieces(texts: Sequence[str]) -> Iterator[str]:
    """A line about pieces of evidence that say nothing, such as a full stop."""
    bare = sum(not any(character.isalnum() for character in text) for text in texts)
    if bare:
        yield ""
        yield _line("evidence", f"{bare} of its {len(texts)} pieces hold no letter or digit")


def shares_line(shares: AttentionShares) -> str:
    """Where the attention of the example's answer goes, which shows whether the layer is any good."""
    return _line(
        "shares",
        f"{shares.passages:.0%} of the answer's attention on the passages ({shares.passage_tokens:.0%} of the prompt's "
        f"tokens), {shares.outside:.0%} on the rest of the prompt, {shares.rest:.0%} on the answer itself",
    )


def quality_lines(quality: Quality) -> Iterator[str]:
    """A table of methods and the passages that they find, and the best of them."""
    best = quality.best
    yield _line("quality", _rows(best.score))
    yield ""
    header = ["method", "reads", "passages %", "95% interval", "vs words", "95% interval"]
    lines = [_cells(one.score, _read_part(one, quality.layer)) for one in quality.candidates]
    lines.append(_cells(quality.words, "the words alone"))
    lines.append(["chance", "nothing", f"{quality.chance:.1f}", "", "", ""])
    if best.score.highlights is not None:
        header.append("evidence F1 %")
        scores = [one.score for one in quality.candidates] + [quality.words]
        lines = [[*line, cell] for line, cell in zip(lines, [*map(_f1, scores), ""], strict=True)]
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


def _rows(score: MethodScore) -> str:
    failed = f"; {len(score.failed_rows)} rows failed and count as wrong" if score.failed_rows else ""
    return f"share of {score.spans} labelled spans of {score.rows} rows whose passage is found{failed}"


def _read_part(one: Candidate, layer: int) -> str:
    return f"attention of layer {layer}" if one.hidden_layer is None else f"hidden states of layer {one.hidden_layer}"


def _cells(score: MethodScore, part: str) -> list[str]:
    ahead = score.difference_to_words
    return [
        score.method,
        part,
        f"{score.passage_accuracy:.1f}",
        interval_cell(score.interval),
        "" if ahead is None else f"{ahead:+.1f}",
        interval_cell(score.difference_interval, sign="+"),
    ]


def _f1(score: MethodScore) -> str:
    return "" if score.highlights is None else f"{score.highlights.f1:.1f}"


def _percent(one: Candidate) -> str:
    return f"{one.score.passage_accuracy:.0f} %"


def _table(groups: Sequence[WeightGroup]) -> Iterator[str]:
    """Memory by group and precision; int8 and nf4 keep what they do not quantise in bfloat16."""
    width = max(len(group.name) for group in groups)
    yield f"{'':{width}}  {'weights':>16}" + "".join(f"{name:>11}" for name in _PRECISIONS)
    for group in groups:
        sizes = [group.size(*precision) for precision in _PRECISIONS.values()]
        yield f"{group.name:{width}}  {group.weights:>16,}" + "".join(f"{format_size(size):>11}" for size in sizes)
    totals = [total_size(groups, *precision) for precision in _PRECISIONS.values()]
    weights = sum(group.weights for group in groups)
    yield f"{'all':{width}}  {weights:>16,}" + "".join(f"{format_size(size):>11}" for size in totals)


def _context(max_tokens: int | None) -> str:
    return "no limit" if max_tokens is None else f"{max_tokens:,} tokens; longer rows are read in windows"


def _weights(model: ModelDescription) -> str:
    options = model.directory.options
    stored = stored_quantization(model.directory.config)
    if stored is not None:
        return f"stored as {stored}; the table is of unquantised weights"
    needed = total_size(model.groups, model.dtype, options.quantization)
    return f"{format_size(needed)} as {_precision(model.dtype, options.quantization)}"


def _precision(dtype: torch.dtype, quantization: Quantization) -> str:
    name = str(dtype).removeprefix("torch.")
    return name if quantization is Quantization.NONE else f"{quantization}, the rest {name}"


def _line(name: str, text: str) -> str:
    return f"{name:<11}{text}"
