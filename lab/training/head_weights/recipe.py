"""Fit one weight per attention head of the captured layer: ``attribeam train head-weights``.

``attribeam train head-weights --data logs.parquet --model DIR --output head_weights.json`` runs a causal language
model on every answer under random ablations of its passages. It finds the weights for which the attention on the kept
passages correlates best with the answer's log-probability (AT2). The file is for ``--head-weights`` of ``audit`` and
``evaluate``. ``--outcomes labels`` needs no language model, but a log that says which passages its spans come from.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from attribeam.attribution.attention.head_weights import HeadWeights
from attribeam.attribution.option_declaration import add_options
from attribeam.attribution.option_types import positive_integer, whole_number
from attribeam.attribution.options import LOADING, ModelOptions
from attribeam.logs.arguments import add_log_arguments, log_options
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import FaultyRow
from attribeam.report.messages import CommandParser, print_lines
from attribeam.schemas import QARecord, RowFault
from attribeam.schemas.errors import RunError, UsageError

if TYPE_CHECKING:
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.models.language_model import LanguageModel
    from attribeam.lab.training.head_weights.fitting import HeadExample

_HELD_OUT = 10
"""Every tenth row with an informative example is held out for measuring."""


LIKELIHOOD, LABELS = "log-probabilities", "labels"
"""What the attention on the kept passages is to predict: a language model's log-probabilities, or labels."""


@dataclass(frozen=True, slots=True)
class Models:
    """The model whose attention heads are weighted, and the one that gives log-probabilities, None with labels."""

    attention: AttentionModel
    language: LanguageModel | None

    def identity(self) -> dict[str, str]:
        """The settings of both models that the examples depend on."""
        attention = self.attention.provenance()
        language = {"outcomes": LABELS} if self.language is None else self.language.provenance()
        names = ("model_revision", "layer", "query_position", "softmax_over", "prompt_template", "dtype")
        return {name: attention[name] for name in names} | {
            name: language[name] for name in language if name == "outcomes" or name.startswith("language_model_")
        }


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = CommandParser(prog="attribeam train head-weights", description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, type=Path, metavar="LOG", help="a QA log as in docs/schema.md")
    add_log_arguments(parser.add_argument)
    add_options(parser, ModelOptions, LOADING)
    parser.add_argument("--language-model", help="a causal language model (default: --model)")
    parser.add_argument(
        "--outcomes",
        choices=(LIKELIHOOD, LABELS),
        default=LIKELIHOOD,
        help=f"what the attention on kept passages is to predict: a language model's log-probabilities, or whether a "
        f"labelled passage is kept, which needs a log with labels (default: {LIKELIHOOD})",
    )
    parser.add_argument("--layer", type=positive_integer, help="1-based layer (default: the model's)")
    parser.add_argument("--ablations", type=positive_integer, default=32, help="ablations per row (default: 32)")
    parser.add_argument("--limit", type=positive_integer, metavar="N", help="only the first N rows")
    parser.add_argument("--steps", type=positive_integer, default=1000, help="steps of the fit (default: 1000)")
    parser.add_argument("--seed", type=whole_number, default=0, help="seed of ablations and fit (default: 0)")
    parser.add_argument("--work", type=Path, help="folder for finished rows (default: OUTPUT.work)")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="FILE.json", help="the file that the weights are written to"
    )
    return parser.parse_args(arguments)


def load_models(options: argparse.Namespace) -> Models:
    """Both models; the language model, if outcomes need it, completely, the attention model up to its layer.

    Raises:
        ModelLoadError: if one cannot be loaded, or the language model is not a causal one.
    """
    from attribeam.attribution.attention.attention_model import AttentionModel
    from attribeam.attribution.models.language_model import LanguageModel

    own = ModelOptions.from_arguments(options, LOADING)
    attention = AttentionModel.from_pretrained(own.replaced(layer=options.layer))
    if options.outcomes == LABELS:
        return Models(attention, None)
    named = options.language_model
    language = own if named is None else own.replaced(model=named, revision=None)
    return Models(attention, LanguageModel.from_pretrained(language))


def usable_records(log: QALog) -> list[QARecord]:
    """The records of a log in their order; faulty rows are named and left out.

    Raises:
        DataError: if the log cannot be read.
    """
    records = []
    for outcome in log.outcomes():
        if isinstance(outcome, FaultyRow):
            print_lines(f"row {outcome.source.source_row} is left out: {outcome.fault}")
        else:
            records.append(outcome)
    return records


@dataclass(frozen=True, slots=True)
class Source:
    """A row of the log: its number, and what gives its examples, which may raise a RowFault."""

    row: int
    examples: Callable[[], list[HeadExample]]


def sources_of(log: QALog, options: argparse.Namespace, models: Models) -> list[Source]:
    """The usable rows of the log, at most ``--limit`` of them.

    Raises:
        DataError: if the log cannot be read, or has no labels and ``--outcomes labels`` needs them.
    """
    from attribeam.lab.evaluation.datasets.labelled_log import load_log
    from attribeam.lab.training.head_weights.fitting import labelled_examples, row_examples

    drawn = {"attention": models.attention, "ablations": options.ablations, "seed": options.seed}
    if models.language is None:
        answers = load_log(options.data, log_options(options)).answers[: options.limit]
        return [Source(one.record.source.source_row, partial(labelled_examples, one, **drawn)) for one in answers]
    records = usable_records(log)[: options.limit]
    return [
        Source(one.source.source_row, partial(row_examples, one, language=models.language, **drawn)) for one in records
    ]


def collect(
    sources: Sequence[Source], models: Models, *, work: Path, ablations: int, seed: int, data: str
) -> list[list[HeadExample]]:
    """The examples of every row, read from ``work`` if an earlier run finished them; refused rows have none.

    Raises:
        UsageError: if ``work`` belongs to another run.
    """
    from attribeam.lab.training.head_weights.fitting import load_examples, save_examples

    _claim_work_folder(work, models.identity() | {"ablations": str(ablations), "seed": str(seed), "data_sha256": data})
    found = []
    for source in tqdm(sources, desc="ablate", unit="row", disable=None):
        path = work / f"row_{source.row:08d}.pt"
        if not path.exists():
            try:
                examples = source.examples()
            except RowFault as fault:
                tqdm.write(f"row {source.row} is left out: {fault}")
                examples = []
            save_examples(path, examples)
        found.append(load_examples(path))
    return found


def fit(rows: Sequence[Sequence[HeadExample]], *, steps: int, seed: int) -> tuple[float, ...]:
    """The weights, fitted to nine rows out of ten; also prints the mean correlation on both parts.

    Raises:
        RunError: if no span's log-probability changes with its passages.
    """
    from attribeam.lab.training.head_weights.fitting import FitPlan, fit_head_weights, mean_correlation

    usable = [row for row in rows if any(example.is_informative for example in row)]
    held_out = usable[_HELD_OUT - 1 :: _HELD_OUT]
    fitted = [row for place, row in enumerate(usable) if place % _HELD_OUT != _HELD_OUT - 1]
    examples = [example for row in fitted for example in row]
    try:
        weights = fit_head_weights(examples, FitPlan(steps=steps, seed=seed))
    except ValueError as error:
        raise RunError(str(error)) from error
    equal = (1 / len(weights),) * len(weights)
    for name, part in (("fitted", fitted), ("held out", held_out)):
        spans = [example for row in part for example in row]
        if spans:
            before, after = mean_correlation(spans, equal), mean_correlation(spans, weights)
            print_lines(
                f"{name}: {len(part)} rows, {len(spans)} spans, correlation {before:.3f} equal, {after:.3f} weighted"
            )
    return weights


def run(options: argparse.Namespace) -> None:
    """Collect missing examples, fit the weights and write the file.

    Raises:
        UsageError: if ``--output`` cannot be written to, or ``--work`` belongs to another run.
        DataError, ModelLoadError, OSError: if the data or a model cannot be used; the message says why.
    """
    if options.output.is_dir() or not options.output.parent.is_dir():
        raise UsageError(f"--output should be a file in an existing directory, was: {options.output}")
    log = QALog(str(options.data), log_options(options))
    if options.outcomes == LABELS and options.language_model is not None:
        raise UsageError("--language-model is for --outcomes log-probabilities; leave one of them out")
    models = load_models(options)
    sources = sources_of(log, options, models)
    work = options.work or options.output.with_name(options.output.name + ".work")
    _, digest = log.fingerprint()
    rows = collect(sources, models, work=work, ablations=options.ablations, seed=options.seed, data=digest)
    weights = fit(rows, steps=options.steps, seed=options.seed)
    provenance = models.attention.provenance()
    HeadWeights(provenance["model"], provenance["model_revision"], models.attention.layer, weights).write(
        options.output
    )
    print_lines(f"written to {options.output}")


def main(arguments: Sequence[str] | None = None) -> None:
    """``run`` on a command line."""
    run(parse_arguments(arguments))


def _claim_work_folder(work: Path, identity: dict[str, str]) -> None:
    """Create the folder, or check that it belongs to this run.

    Raises:
        UsageError: if it was made with other models, data or options.
    """
    work.mkdir(parents=True, exist_ok=True)
    path = work / "run.json"
    if not path.exists():
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(json.dumps(identity, indent=2), encoding="utf-8")
        partial.replace(path)
    known = json.loads(path.read_text(encoding="utf-8"))
    if known != identity:
        differing = sorted(key for key in {*known, *identity} if known.get(key) != identity.get(key))
        raise UsageError(f"{work} holds rows of a run with another {', '.join(differing)}; choose another --work")


if __name__ == "__main__":
    main()
