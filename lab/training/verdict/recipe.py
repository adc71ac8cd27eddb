"""``attribeam train verdict``: fits the support verdict on judged answers.

The bundled verdict is made by

    attribeam train verdict --data RAGTRUTH --made-answers --pages PAGES.jsonl.xz --wordllama WORDLLAMA --output DIR

and the one for SmolLM2-135M-Instruct as its model card says.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from tqdm import tqdm

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.option_types import BUNDLED_VERDICT_NAME, VERDICT_FILE, fraction
from attribeam.attribution.options import DTYPES, ModelOptions, Quantization
from attribeam.attribution.verdict.row_kind import RowKind
from attribeam.attribution.verdict.state_probe import ProbeShares, decoder_identity, same_share
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, SHARED_WORDS
from attribeam.attribution.verdict.word_table import WORD_FILES, word_table
from attribeam.lab.evaluation.datasets.loaders import JUDGED_LOADERS
from attribeam.lab.evaluation.measures.source_folds import FOLDS_FILE
from attribeam.lab.evaluation.report import text_table
from attribeam.lab.training.attributor.corpus import read_pages
from attribeam.lab.training.verdict.answer_variants import variants
from attribeam.lab.training.verdict.cross_validation import (
    CrossValidation,
    FittedParts,
    Scored,
    by_source,
    cross_validated,
    fit_parts,
)
from attribeam.lab.training.verdict.cross_validation_report import report
from attribeam.lab.training.verdict.made_answers import load_made_answers
from attribeam.lab.training.verdict.operating_points import choose_thresholds, operating_points
from attribeam.lab.training.verdict.signal_importance import signal_importance
from attribeam.lab.training.verdict.unmatched_claims import unmatched_shares, with_unmatched
from attribeam.lab.training.verdict.verdict_rows import VerdictRow, verdict_rows
from attribeam.lab.training.verdict.word_fitting import PROBE_SHARE, PROBE_SHARES, FittedDecoder, with_states
from attribeam.lab.training.verdict.word_knowledge import make_word_table
from attribeam.report.messages import CommandParser, Messages, print_lines
from attribeam.schemas.errors import RunError

if TYPE_CHECKING:
    from attribeam.attribution.models.decoder import Decoder

_FOLDS = 5
_KEYS: Mapping[str, Callable[[VerdictRow], Hashable]] = {
    "source": by_source,
    "generator": attrgetter("generator"),
    "group": attrgetter("group"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit the verdict and write it, with the words that it was fitted with.

    Raises:
        UsageError: if scikit-learn is not installed.
        RunError: if the answers cannot be fitted on.
        DataError: if the data is not in its format.
    """
    args = _parse(arguments)
    if args.output is not None:
        args.output.mkdir(parents=True, exist_ok=True)
    if args.wordllama is not None:
        make_word_table(_texts(args.pages), args.wordllama, args.output)
    answers = JUDGED_LOADERS[args.dataset](args.data).answers
    parser = AnswerParser.from_pretrained(args.parser)
    table = word_table(args.output if args.wordllama is not None else BUNDLED_VERDICT)
    rows = list(verdict_rows(answers, parser, table))
    _check(rows, args)
    made = load_made_answers() if args.made_answers else []
    beside = list(verdict_rows(made, parser, table))
    decoder = None
    if args.decoder is not None:
        model = _decoder(args)
        rows = list(with_states(rows, [one.record for one in answers], model, kept_in=args.decoder_states))
        beside = list(with_states(beside, [one.record for one in made], model, kept_in=args.decoder_states))
        _say_how_many_are_unread(rows, args)
        decoder = FittedDecoder(model.layer, decoder_identity(model.provenance()), args.decoder_note)
    beside += verdict_rows(variants(made), parser, table)  # for the trees alone: with them, the probe ranks worse
    if args.cross_validate is not None:
        _cross_validate(rows, beside, args, decoder)
        return
    if args.importance:
        _print_importance(rows, args)
        return
    with tqdm(total=_FOLDS + 1, unit="fit", disable=None, leave=False) as bar:
        found = cross_validated(
            rows,
            folds=_FOLDS,
            seed=args.seed,
            beside=beside,
            probe_shares=_probe_shares(args),
            progress=lambda _: bar.update(),
        )
        parts = fit_parts(rows, folds=_FOLDS, seed=args.seed, beside=beside, probe_shares=_probe_shares(args))
        bar.update()
    fitted = verdict_json(rows, found.scores, parts, measured_on=_measured_on(rows, args), decoder=decoder)
    _write(fitted, args.output, args)
    shown = {"thresholds": fitted["thresholds"], "points": fitted["operating_points"]}
    print_lines(*json.dumps(shown, indent=1).split("\n"))


def _decoder(args: argparse.Namespace) -> Decoder:
    from attribeam.attribution.models.decoder import Decoder

    options = ModelOptions(model=args.decoder, dtype=args.decoder_dtype, quantization=args.decoder_quantization)
    return Decoder.from_pretrained(options, layer=args.decoder_layer, threads=args.threads)


def _probe_shares(args: argparse.Namespace) -> ProbeShares:
    return PROBE_SHARES if args.decoder_share is None else args.decoder_share


def _say_how_many_are_unread(rows: Sequence[VerdictRow], args: argparse.Namespace) -> None:
    """Say how many rows are too long for the decoder.

    Raises:
        RunError: if all are.
    """
    unread = sum(row.states is None for row in rows)
    if unread == len(rows):
        raise RunError(f"--decoder {args.decoder} should have a context that holds some rows of --data, none fits")
    if unread:
        Messages("attribeam train verdict").say(
            f"{unread:,} of {len(rows):,} answers are longer than the decoder's context; they are left to the trees"
        )


def _measured_on(rows: Sequence[VerdictRow], args: argparse.Namespace) -> str:
    return args.measured_on or f"{len(rows):,} answers of {args.dataset}"


def _write(fitted: Mapping[str, Any], directory: Path, args: argparse.Namespace) -> None:
    """Write a verdict with the words that it was fitted with."""
    directory.mkdir(parents=True, exist_ok=True)
    shared = {SHARED_WORDS: BUNDLED_VERDICT_NAME} if args.share_words else {}
    text = json.dumps({**shared, **fitted}, indent=None, separators=(",", ":")).replace(
        '},{"columns"', '},\n{"columns"'
    )
    (directory / VERDICT_FILE).write_text(text + "\n", encoding="utf-8")
    if args.wordllama is None and not args.share_words:
        for name in WORD_FILES:
            copyfile(BUNDLED_VERDICT / name, directory / name)
    Messages("attribeam train verdict").say(f"verdict written to {directory / VERDICT_FILE}")


def _cross_validate(
    rows: Sequence[VerdictRow], beside: Sequence[VerdictRow], args: argparse.Namespace, decoder: FittedDecoder | None
) -> None:
    keep = [name for name in rows[0].signals.names if not any(one in name for one in args.without)]
    some = [row.only(keep) for row in rows]
    with tqdm(unit="fold", disable=None, leave=False) as bar:
        found = cross_validated(
            some,
            folds=_FOLDS,
            seed=args.seed,
            key=_KEYS[args.cross_validate],
            beside=[row.only(keep) for row in beside],
            probe_shares=_probe_shares(args),
            progress=lambda _: bar.update(),
        )
    print_lines(*report(some, found).split("\n"))
    if args.output is not None:
        _write_folds(some, found, args, decoder)


def _write_folds(
    rows: Sequence[VerdictRow], found: CrossValidation, args: argparse.Namespace, decoder: FittedDecoder | None
) -> None:
    """Write the verdict of each fold, which knows only the others, and which answer is in which fold."""
    for fold, parts in enumerate(found.parts):
        others = found.others(fold)
        some, scores = [rows[one] for one in others], [found.scores[one] for one in others]
        fitted = verdict_json(some, scores, parts, measured_on=_measured_on(some, args), decoder=decoder)
        _write(fitted, args.output / str(fold), args)
    folds = {row.record_id: fold for row, fold in zip(rows, found.folds.tolist(), strict=True)}
    (args.output / FOLDS_FILE).write_text(json.dumps(folds, indent=0) + "\n", encoding="utf-8")


def _print_importance(rows: Sequence[VerdictRow], args: argparse.Namespace) -> None:
    names = rows[0].signals.names
    with tqdm(total=_FOLDS * len(names), unit="signal", disable=None, leave=False) as bar:
        found = signal_importance(
            rows,
            names,
            folds=_FOLDS,
            seed=args.seed,
            probe_shares=_probe_shares(args),
            progress=lambda _: bar.update(),
        )
    lines = [(one.signal, f"{one.answers:+.2f}", f"{one.words:+.2f}") for one in found]
    table = text_table(("signal", "answers, AUROC lost x 100", "words, AUROC lost x 100"), lines)
    print_lines(*table.split("\n"))


def verdict_json(
    rows: Sequence[VerdictRow],
    scores: Sequence[Scored],
    parts: FittedParts,
    *,
    measured_on: str,
    decoder: FittedDecoder | None = None,
) -> dict[str, Any]:
    """What ``load_verdict_model`` reads.

    ``scores`` come from cross-validation, ``parts`` from all rows, whose words have states of the ``decoder``, if any.
    """
    shares = unmatched_shares(rows)
    scores = with_unmatched(rows, scores, shares)
    risks = 1 / (1 + np.exp(-np.array([one.answer for one in scores])))
    probe = None if decoder is None else decoder.probe_of(parts.words)
    return {
        "measured_on": measured_on,
        "thresholds": asdict(choose_thresholds(rows, scores, shares)),
        "operating_points": operating_points(risks, np.array([row.is_marked for row in rows])),
        "answers": parts.answers.to_json(),
        "claims": parts.claims.to_json(),
        "signals": list(rows[0].signals.names),
        "words": parts.words.trees,
        **({} if probe is None else {"probe": probe.to_json()}),
    }


def _check(rows: Sequence[VerdictRow], args: argparse.Namespace) -> None:
    marked = sum(row.is_marked for row in rows)
    sources = len({row.source for row in rows})
    if min(marked, len(rows) - marked) < _FOLDS or sources < 2 * _FOLDS:
        raise RunError(
            f"--data {args.data} should have at least {_FOLDS} answers with unsupported claims and {_FOLDS} without, "
            f"from {2 * _FOLDS} sources; has {marked}, {len(rows) - marked} and {sources}"
        )


def _texts(pages: Path) -> Iterator[str]:
    for page in read_pages(pages).pages:
        yield " ".join([page.title, *(sentence for paragraph in page.paragraphs for sentence in paragraph)])


def _shares(text: str) -> ProbeShares:
    """The share for each kind of row, from ``0.6`` or ``questions=0.8,records=0.5``."""
    if "=" not in text:
        return same_share(cast("float", fraction(text)))
    found = dict(PROBE_SHARES)
    for part in text.split(","):
        kind, _, share = part.partition("=")
        if kind not in list(RowKind):
            raise argparse.ArgumentTypeError(f"should name {', '.join(RowKind)}, names {kind!r}")
        found[RowKind(kind)] = cast("float", fraction(share))
    return found


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(prog="attribeam train verdict", description=__doc__.split("\n\n")[0])
    parser.add_argument("--dataset", choices=sorted(JUDGED_LOADERS), default="ragtruth", help="format of --data")
    parser.add_argument("--data", type=Path, required=True, help="judged answers with marked characters")
    parser.add_argument("--pages", type=Path, help="plain text for word frequencies, with --wordllama")
    parser.add_argument("--wordllama", type=Path, help="folder of the unpacked package wordllama, for a new word table")
    parser.add_argument("--parser", default="bundled", help="bundled, a spaCy pipeline or a directory")
    parser.add_argument(
        "--made-answers", action="store_true",
        help="also fit words on the answers that were made up for this project; no regression, threshold or figure "
        "counts them",
    )  # fmt: skip
    parser.add_argument("--measured-on", help="what reports say that the figures were measured on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="directory for the verdict")
    parser.add_argument(
        "--cross-validate", choices=("source", "generator", "group"),
        help="print what parts give that were fitted on other sources, generators or groups; with --output, write "
        "the verdict of each fold to OUTPUT/0, OUTPUT/1 and so on",
    )  # fmt: skip
    parser.add_argument(
        "--without", nargs="*", default=[], metavar="TEXT",
        help="with --cross-validate, leave out the signals whose names contain one of the texts",
    )  # fmt: skip
    parser.add_argument(
        "--decoder", metavar="MODEL",
        help="also fit a probe on the hidden states of this causal language model, which audits then need",
    )  # fmt: skip
    parser.add_argument("--decoder-layer", type=int, metavar="L", help="whose states, 1-based; 0 for the embeddings")
    parser.add_argument("--decoder-dtype", choices=DTYPES, default="float32", help="its precision")
    parser.add_argument(
        "--decoder-quantization", choices=[one.value for one in Quantization],
        help="keep its layers' weights in 4 (nf4) or 8 (int8) bits",
    )  # fmt: skip
    parser.add_argument(
        "--decoder-share", type=_shares, metavar="S|KIND=S,...",
        help=f"how much the probe counts beside the trees, from 0 to 1 (default: {PROBE_SHARE}), or that for some "
        f"kinds of rows: {', '.join(RowKind)}",
    )  # fmt: skip
    parser.add_argument(
        "--decoder-states", type=Path, metavar="DIR",
        help="folder for its hidden states, about 2 bytes per word and number: what is there is not computed again, so "
        "that a stopped run goes on, and other seeds are quick",
    )  # fmt: skip
    parser.add_argument(
        "--decoder-note",
        default="",
        metavar="TEXT",
        help="what it is and how it is got, for the error where another one is named",
    )
    parser.add_argument(
        "--share-words", action="store_true",
        help="name the bundled verdict's table of words in the new verdict instead of copying it",
    )  # fmt: skip
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads of the decoder")
    parser.add_argument(
        "--importance", action="store_true",
        help="print how much worse answers and words of other sources are ordered when a signal is shuffled",
    )  # fmt: skip
    args = parser.parse_args(arguments)
    if args.output is None and args.cross_validate is None and not args.importance:
        parser.error("one of --output, --cross-validate and --importance is needed")
    if args.importance and (args.output is not None or args.cross_validate is not None or args.made_answers):
        parser.error("--importance stands alone")
    if (args.decoder is None) is not (args.decoder_layer is None):
        parser.error("--decoder and --decoder-layer belong together")
    for name in ("note", "quantization", "share", "states"):
        if args.decoder is None and getattr(args, f"decoder_{name}") not in ("", None):
            parser.error(f"--decoder-{name} is for --decoder")
    if args.wordllama is not None and args.share_words:
        parser.error("--share-words and --wordllama exclude each other")
    if args.wordllama is not None and (args.output is None or args.cross_validate is not None):
        parser.error("--wordllama needs --output, without --cross-validate")
    if (args.pages is None) is not (args.wordllama is None):
        parser.error("--pages and --wordllama belong together")
    return args
