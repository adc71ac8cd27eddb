"""``python -m lab.train verdict``: fits the support verdict on judged answers of many kinds, and on your own.

The bundled verdict is made by

    python -m lab.train verdict --data DATA --encoder MINILM --pages PAGES --output DIR

where DATA holds the sets of ``shared_sets`` in their own formats, MINILM is the folder of all-MiniLM-L6-v2 and PAGES
are pages of Wikipedia. With ``--decoder`` and ``--decoder-layer`` the verdict reads a decoder, too. The answers that
were made up for this project are always fitted on. With ``--keep DIR`` only the scores of claims are fitted, in minutes
on a CPU, beside the other parts of an earlier verdict: to rows of benchmarks, and to those of ``--log``, which those
parts should not know.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shutil import copyfile, copytree
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from safetensors.numpy import save_file
from tqdm import tqdm

from attribeam.attribution.attributor import Attributor
from attribeam.attribution.option_declaration import BUNDLED_VERDICT_NAME, DTYPES, MASS_VERDICT, VERDICT_FILE, fraction
from attribeam.attribution.options import ModelOptions, Quantization
from attribeam.attribution.verdict.claim_reader import READER_FILES
from attribeam.attribution.verdict.fitted_parts import (
    WORD_FILES,
    ProbeShares,
    StateProbe,
    decoder_identity,
    same_share,
    word_table,
)
from attribeam.attribution.verdict.texts import RowKind
from attribeam.attribution.verdict.verdict_model import (
    BUNDLED_VERDICT,
    CLAIM_NUMBERS,
    SHARED_WORDS,
    VerdictModel,
    load_verdict_model,
    verdict_directory,
)
from attribeam.evaluation.datasets.labelled_log import load_judged_log
from attribeam.evaluation.measures import FOLDS
from attribeam.report.messages import CommandParser, Messages, print_lines
from attribeam.schemas.errors import RunError, UsageError
from lab.training.attributor.corpus import read_pages
from lab.training.verdict.cross_encoder import pretrained
from lab.training.verdict.decoder_states import with_states
from lab.training.verdict.edited_sentences import edited_claims
from lab.training.verdict.fitting import (
    PROBE_SETS,
    WEIGHTS,
    CrossValidation,
    FittedParts,
    cross_validated,
    scored_beside,
)
from lab.training.verdict.operating_points import choose_thresholds, points_by_length, tables
from lab.training.verdict.reader import Weights, with_readings
from lab.training.verdict.shared_sets import TrainingAnswer, shared_sets
from lab.training.verdict.verdict_rows import NOISE, VerdictRow, make_word_table, verdict_rows
from lab.training.verdict.written_sets import scored_sets, written_sets

if TYPE_CHECKING:
    from attribeam.attribution.language_models import Decoder

_PROBE_SHARE = 0.5
_FEWEST = 5
_EDITED_CLAIMS = 180_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit the verdict and write it, with the words that it was fitted with.

    Raises:
        UsageError: if scikit-learn is not installed, or the verdict to keep needs a decoder.
        RunError: if the answers cannot be fitted on.
        DataError: if a file is missing or not in its format.
    """
    args = _parse(arguments)
    say = Messages("lab.train verdict").say
    kept = None if args.keep is None else _kept(args)
    answers = list(_answers(args))
    if args.output is not None:
        args.output.mkdir(parents=True, exist_ok=True)
    if args.wordllama is not None:
        make_word_table(_texts(args.pages), args.wordllama, args.output)
    table = word_table(args.output if args.wordllama is not None else BUNDLED_VERDICT) if kept is None else kept.table
    attributor = Attributor.from_pretrained(
        "bundled", parser=args.parser, verdict=MASS_VERDICT, threads=args.threads or 1
    )
    rows = list(verdict_rows(answers, attributor, table, seed=args.seed))
    judged = sum(row.set_name != NOISE for row in rows)
    if judged < len(answers):
        say(f"{len(answers) - judged:,} of {len(answers):,} answers claim nothing or cannot be audited; left out")
    if kept is None:
        _check(rows)
    decoder = None if args.decoder is None else _decoder(args)
    if decoder is not None:
        if kept is not None and kept.probe is not None:
            kept.probe.check(decoder.provenance())
        rows = list(with_states(rows, decoder, kept_in=args.decoder_states))
        _say_how_many_are_unread(rows, args)
    if kept is not None:
        _keep(rows, kept, args)
        return
    fits = 6 * (FOLDS + 1) * (1 if args.encoder is None else 2)
    with tqdm(total=fits, unit="fit", disable=None, leave=False) as bar:
        fitted = cross_validated(rows, seed=args.seed, probe_shares=args.decoder_share, progress=bar.update)
        reader = None
        if args.encoder is not None:
            rows, reader = _read(rows, fitted, args)
            fitted = cross_validated(rows, seed=args.seed, probe_shares=args.decoder_share, progress=bar.update)
    limits = choose_thresholds(rows, fitted.scores)
    shared = {
        "measured_on": _measured_on(rows, args),
        "thresholds": asdict(limits),
        **points_by_length(rows, fitted.scores),
        "claim_numbers": list(CLAIM_NUMBERS if reader else CLAIM_NUMBERS[:-1]),
        "signals": list(rows[0].signals.names),
    }
    if args.cross_validate:
        print_lines(*tables(rows, fitted.scores, limits).split("\n"))
    else:
        print_lines(*json.dumps({"thresholds": asdict(limits)}, indent=1).split("\n"))
    if args.output is not None:
        _write(verdict_json(shared, fitted.parts[-1], args, decoder), args.output, args)
        if reader is not None:
            save_file(reader, args.output / READER_FILES[0])
            copyfile(BUNDLED_VERDICT / READER_FILES[1], args.output / READER_FILES[1])
        say(f"verdict written to {args.output / VERDICT_FILE}")


def _kept(args: argparse.Namespace) -> VerdictModel:
    """The verdict to keep.

    Raises:
        UsageError: if it reads another layer of a decoder than is named, or none.
    """
    model = load_verdict_model(verdict_directory(args.keep))
    layer = None if model.probe is None else model.probe.layer
    if args.decoder_layer != layer:
        needs = "reads no --decoder" if layer is None else f"needs --decoder and --decoder-layer {layer}"
        raise UsageError(f"--keep {args.keep} {needs}")
    return model


def _keep(rows: Sequence[VerdictRow], model: VerdictModel, args: argparse.Namespace) -> None:
    """Fit new scores of claims beside the other parts of a verdict, and write a copy of it that has them."""
    scores, regression = scored_beside(rows, model, seed=args.seed)
    if args.cross_validate:
        print_lines(*tables(rows, scores, model.thresholds).split("\n"))
    if args.output is not None:
        directory = verdict_directory(args.keep)
        if directory.resolve() != args.output.resolve():
            copytree(directory, args.output, dirs_exist_ok=True)
        written = json.loads((directory / VERDICT_FILE).read_text(encoding="utf-8"))
        written |= {"claim_scores": regression.to_json(), "measured_on": _measured_on(rows, args)}
        _write_json({**written, **points_by_length(rows, scores)}, args.output)
        Messages("lab.train verdict").say(f"verdict written to {args.output / VERDICT_FILE}")


def _measured_on(rows: Sequence[VerdictRow], args: argparse.Namespace) -> str:
    judged = [row.set_name for row in rows if row.set_name != NOISE]
    return args.measured_on or f"{len(judged):,} answers of {len(set(judged))} sets"


def _answers(args: argparse.Namespace) -> Iterator[TrainingAnswer]:
    if args.log is not None:
        yield from (TrainingAnswer.of(answer, "log") for answer in load_judged_log(args.log).answers)
    if args.data is not None:
        yield from shared_sets(args.data)
    yield from scored_sets() if args.keep is not None else written_sets()


def _read(rows: list[VerdictRow], fits: CrossValidation, args: argparse.Namespace) -> tuple[list[VerdictRow], Weights]:
    """The rows with what readers of other sources say of their claims, and the weights of a reader of all."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(BUNDLED_VERDICT / READER_FILES[1]))
    edited = list(edited_claims(read_pages(args.pages), tokenizer, count=_EDITED_CLAIMS, seed=args.seed))
    start = pretrained(args.encoder, edited, seed=args.seed)
    occurring = {token for row in rows for claim in row.inputs for token in (*claim.sentence, *claim.premise)}
    words = np.zeros(tokenizer.get_vocab_size(), dtype=np.bool_)
    words[[token for piece, token in tokenizer.get_vocab().items() if _is_word(piece) and token in occurring]] = True
    return with_readings(rows, [score.claims for score in fits.scores], start, edited, words, seed=args.seed)


def _is_word(piece: str) -> bool:
    return piece.isalpha() and len(piece) > 2


def _decoder(args: argparse.Namespace) -> Decoder:
    from attribeam.attribution.language_models import Decoder

    options = ModelOptions(model=args.decoder, dtype=args.decoder_dtype, quantization=args.decoder_quantization)
    return Decoder.from_pretrained(options, layer=args.decoder_layer, threads=args.threads)


def _say_how_many_are_unread(rows: Sequence[VerdictRow], args: argparse.Namespace) -> None:
    """Say how many rows are too long for the decoder.

    Raises:
        RunError: if all are.
    """
    asked = [row for row in rows if row.set_name in PROBE_SETS]
    unread = sum(row.states is None for row in asked)
    if unread == len(asked):
        raise RunError(f"--decoder {args.decoder} should have a context that holds some of the answers, none fits")
    if unread:
        Messages("lab.train verdict").say(
            f"{unread:,} of {len(asked):,} answers are longer than the decoder's context; they are left to the trees"
        )


def verdict_json(
    shared: Mapping[str, Any], parts: FittedParts, args: argparse.Namespace, decoder: Decoder | None
) -> dict[str, Any]:
    """What ``load_verdict_model`` reads; words whose rows have states were fitted with the ``decoder``."""
    fields = {
        **shared,
        "answers": parts.answers.to_json(),
        "claims": parts.claims,
        "claim_scores": parts.scores.to_json(),
        "words": parts.words.trees,
    }
    if parts.words.probe is not None and decoder is not None:
        identity = decoder_identity(decoder.provenance())
        probe = StateProbe(decoder.layer, parts.words.probe_shares, identity, parts.words.probe, args.decoder_note)
        fields["probe"] = probe.to_json()
    return fields


def _write(fitted: Mapping[str, Any], directory: Path, args: argparse.Namespace) -> None:
    """Write a verdict with the words that it was fitted with."""
    directory.mkdir(parents=True, exist_ok=True)
    shared = {SHARED_WORDS: BUNDLED_VERDICT_NAME} if args.share_words else {}
    _write_json({**shared, **fitted}, directory)
    if args.wordllama is None and not args.share_words:
        for name in WORD_FILES:
            copyfile(BUNDLED_VERDICT / name, directory / name)


def _write_json(fitted: Mapping[str, Any], directory: Path) -> None:
    text = json.dumps(fitted, separators=(",", ":")).replace('},{"columns"', '},\n{"columns"')
    (directory / VERDICT_FILE).write_text(text + "\n", encoding="utf-8")


def _check(rows: Sequence[VerdictRow]) -> None:
    fitted = [row for row in rows if WEIGHTS[row.set_name].answers and row.set_name != NOISE]
    marked, sources = sum(row.is_marked for row in fitted), len({row.key for row in fitted})
    if min(marked, len(fitted) - marked) < _FEWEST or sources < 2 * FOLDS:
        raise RunError(
            f"--data and --log should have at least {_FEWEST} answers with unsupported claims and {_FEWEST} without, "
            f"from {2 * FOLDS} sources; have {marked}, {len(fitted) - marked} and {sources}"
        )


def _texts(pages: Path) -> Iterator[str]:
    for page in read_pages(pages).pages:
        yield " ".join([page.title, *(sentence for paragraph in page.paragraphs for sentence in paragraph)])


def _shares(text: str) -> ProbeShares:
    """The share for each kind of row, from ``0.6`` or ``questions=0.8,records=0.5``."""
    if "=" not in text:
        return same_share(cast("float", fraction(text)))
    shares = dict(same_share(_PROBE_SHARE))
    for part in text.split(","):
        kind, _, share = part.partition("=")
        if kind not in list(RowKind):
            raise argparse.ArgumentTypeError(f"should name {', '.join(RowKind)}, names {kind!r}")
        shares[RowKind(kind)] = cast("float", fraction(share))
    return shares


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(prog="python -m lab.train verdict", description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--data", type=Path, help="directory with the data sets, each in its own format")
    add("--log", type=Path, help="log of your own answers with labels of what is unsupported, see docs/schema.md")
    add("--pages", type=Path, help="plain text for word frequencies and for sentences that the reader's teacher sees")
    add("--encoder", type=Path, help="folder of all-MiniLM-L6-v2: train a reader of claims, which needs --pages")
    add("--wordllama", type=Path, help="folder of the unpacked package wordllama, for a new word table")
    add("--parser", default="bundled", help="bundled, a spaCy pipeline or a directory")
    add("--measured-on", help="what reports say that the figures were measured on")
    add("--seed", type=int, default=0)
    add("--output", type=Path, help="directory for the verdict")
    add(
        "--cross-validate", action="store_true",
        help="print figures by set and number of claims, of parts that were fitted on other sources",
    )  # fmt: skip
    add(
        "--decoder", metavar="MODEL",
        help="also fit a probe on the hidden states of this causal language model, which audits then need",
    )  # fmt: skip
    add("--decoder-layer", type=int, metavar="L", help="whose states, 1-based; 0 for the embeddings")
    add("--decoder-dtype", choices=DTYPES, default="float32", help="its precision")
    add(
        "--decoder-quantization", choices=[kind.value for kind in Quantization],
        help="keep its layers' weights in 4 (nf4) or 8 (int8) bits",
    )  # fmt: skip
    add(
        "--decoder-share", type=_shares, metavar="S|KIND=S,...", default=str(_PROBE_SHARE),
        help=f"how much the probe counts beside the trees, from 0 to 1 (default: {_PROBE_SHARE}), or that for some "
        f"kinds of rows: {', '.join(RowKind)}",
    )  # fmt: skip
    add(
        "--decoder-states", type=Path, metavar="DIR",
        help="folder for its hidden states, about 2 bytes per word and number: what is there is not computed again, so "
        "that a stopped run goes on",
    )  # fmt: skip
    add(
        "--decoder-note", default="", metavar="TEXT",
        help="what it is and how it is got, for the error where another one is named",
    )  # fmt: skip
    add("--keep", metavar="VERDICT", help="a fitted verdict: fit only its scores of claims, and keep its other parts")
    add(
        "--share-words", action="store_true",
        help="name the bundled verdict's table of words in the new verdict instead of copying it",
    )  # fmt: skip
    add("--threads", type=int, metavar="N", help="CPU threads")
    args = parser.parse_args(arguments)
    if args.data is None and args.log is None and args.keep is None:
        parser.error("--data, --log or both are needed")
    if args.output is None and not args.cross_validate:
        parser.error("--output, --cross-validate or both are needed")
    if (args.decoder is None) is not (args.decoder_layer is None):
        parser.error("--decoder and --decoder-layer belong together")
    for name in ("note", "quantization", "states"):
        if args.decoder is None and getattr(args, f"decoder_{name}") not in ("", None):
            parser.error(f"--decoder-{name} is for --decoder")
    if args.keep is not None and (args.data or args.encoder or args.wordllama or args.share_words):
        parser.error("--keep excludes --data, --encoder, --wordllama and --share-words")
    if args.wordllama is not None and args.share_words:
        parser.error("--share-words and --wordllama exclude each other")
    if args.wordllama is not None and args.output is None:
        parser.error("--wordllama needs --output")
    if args.encoder is not None and args.share_words:
        parser.error("--share-words and --encoder exclude each other")
    if args.pages is None and (args.wordllama is not None or args.encoder is not None):
        parser.error("--wordllama and --encoder need --pages")
    if args.pages is not None and args.wordllama is None and args.encoder is None:
        parser.error("--pages is for --wordllama or --encoder")
    if args.encoder is not None and not (args.encoder / "config.json").is_file():
        parser.error(f"--encoder should be a folder with a model, {args.encoder} has no config.json")
    return args
