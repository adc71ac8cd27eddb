"""The options of ``attribeam audit``: ``AuditOptions`` in, ``AuditSettings`` and ``RunOptions`` out.

``AuditSettings`` decide the records; ``RunOptions`` say how the audit is run.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from attribeam.attribution.methods.audit_row import options_read, thresholds_of
from attribeam.attribution.methods.method import Need, resolve_method
from attribeam.attribution.option_declaration import (
    AUTO_DTYPE,
    BUNDLED_MODEL_NAME,
    Option,
    Options,
    Parsed,
    PositiveInteger,
    Value,
    WholeNumber,
    add_options,
    declared,
    option,
)
from attribeam.attribution.options import (
    HIDDEN,
    LANGUAGE,
    LOADING,
    METHOD,
    PARSER,
    READING,
    SPANS,
    SUPPORT,
    THREADS,
    AttributorOptions,
    MethodOptions,
    ModelOptions,
)
from attribeam.attribution.verdict.judge import probe_of
from attribeam.attribution.verdict.verified import with_calibrated_mass
from attribeam.logs.columns import PARQUET, parse_column_mapping
from attribeam.logs.files import check_is_unicode
from attribeam.logs.privacy import PatternsFile, PrivacySettings
from attribeam.logs.reader import COLUMNS_HELP, LOG_FORMAT_HELP
from attribeam.pipeline.metrics import QualityGate, check_gates, quality_gate
from attribeam.report.messages import ConsoleKind, Messages
from attribeam.schemas.errors import UsageError, did_you_mean
from attribeam.transforms.audit_settings import AuditSettings

LOCAL = "local"
INPUT, LOG, PRIVACY, RUN, GATES = "input", "log", "privacy", "run", "gates"


def _names(value: object) -> object:
    """Comma-separated names, without duplicates, in order."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, value.split(","))))) if isinstance(value, str) else value


ALL_GPUS = "all"
_GPU = re.compile(r"cuda(:\d+)?")


def named_gpus(device: str) -> tuple[str, ...]:
    """The GPUs that ``--device`` names: ``("cuda:0", "cuda:1")``, ``("all",)``, or none for ``auto`` and ``cpu``.

    Raises ``UsageError`` if a list names something else, or a GPU twice.
    """
    if device == ALL_GPUS or _GPU.fullmatch(device):
        return (device,)
    if "," not in device:
        return ()
    names = tuple(name.strip() for name in device.split(","))
    if not all(_GPU.fullmatch(name) for name in names):
        raise UsageError(f"--device should list GPUs, such as cuda:0,cuda:1, or be all, was: {device!r}")
    indices = [int(name.partition(":")[2] or 0) for name in names]
    if len(set(indices)) < len(indices):
        raise UsageError(f"--device should list each GPU once, was: {device!r}")
    return names


def may_be_several_gpus(gpus: Sequence[str]) -> bool:
    """Whether ``--device`` names several GPUs, or all, which may be several."""
    return len(gpus) > 1 or gpus == (ALL_GPUS,)


def beam_arguments(table: Mapping[str, object]) -> Iterator[str]:
    """The command line of a table such as ``{"parallelism": 4, "environment_config": {"command": "/boot"}}``.

    A list gives an option several times, a table is written as JSON, true and false turn a switch on and off.
    """
    for key, value in table.items():
        name = key.replace("-", "_")
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, bool):
                yield from [f"--{name}"] * item
            else:
                yield f"--{name}={json.dumps(item) if isinstance(item, Mapping) else item}"


def _beam_arguments(value: object) -> object:
    return tuple(beam_arguments(value)) if isinstance(value, Mapping) else value


class RunOptions(Options):
    """How an audit is run; none of this changes a record except ``rows_per_chunk``, which cuts the batches."""

    input: Value[tuple[str, ...]] = option(
        default=(), group=INPUT, metavar="GLOB", several=True,
        help="logs, or folders of them; local, s3://, gs:// or hdfs://; *, **, ? and {a,b} are understood",
    )  # fmt: skip
    output: Value[str] = option(
        default="", group=INPUT, metavar="DIR",
        help="directory for evidence/, dead_letters/ and run_manifest.json",
    )  # fmt: skip
    table_version: WholeNumber | None = option(
        default=None, group=INPUT, metavar="N", default_words="the current one",
        help="version of the Delta table, or snapshot of the Iceberg table, that --input names",
    )  # fmt: skip
    workers: PositiveInteger | None = option(
        default=None, group=RUN, metavar="N", default_words="the number of CPUs; 1 where --device auto finds a GPU",
        help="worker processes",
    )  # fmt: skip
    model_workers: PositiveInteger | None = option(
        default=None, group=RUN, metavar="M", default_words="one per GPU that --device names, else none",
        help="processes that hold the model and serve all worker processes; see docs/running.md",
    )  # fmt: skip
    gpus: Value[tuple[str, ...]] = option(default=(), help="the GPUs that --device names")
    dtype_choice: str | None = option(default=None, help="what --dtype auto chose on a CPU, and why")
    language_model_dtype_choice: str | None = option(
        default=None, help="what it chose there for a verdict's decoder, and why"
    )
    rows_per_chunk: Value[PositiveInteger] = option(
        default=500, group=RUN, metavar="N", help="rows per chunk, which is committed as a whole"
    )
    overwrite: Value[bool] = option(default=False, group=RUN, help="redo finished chunks")
    reuse: str | None = option(
        default=None, group=RUN, metavar="AUDIT",
        help="a finished audit of the same rows: its evidence is judged anew, and no model is loaded",
    )  # fmt: skip
    dry_run: Value[bool] = option(
        default=False, group=RUN, help="check the input, try a few rows, estimate; write nothing"
    )
    quiet: Value[bool] = option(default=False, group=RUN, help="no progress and no summary, only errors")
    console: Parsed[ConsoleKind, ConsoleKind | str | None] = option(
        default=ConsoleKind.TEXT, group=RUN,
        help="text for people, or json for machines: a line for each note on standard error, and for the result",
    )  # fmt: skip
    verbose: Value[bool] = option(
        default=False, group=RUN, help="show Beam's and the models' messages, and tracebacks of errors"
    )
    runner: Value[str] = option(
        default=LOCAL, group=RUN, metavar="NAME",
        help="a Beam runner, such as FlinkRunner; it gets all options that audit does not know",
    )  # fmt: skip
    beam_arguments: Parsed[
        Annotated[tuple[str, ...], BeforeValidator(_beam_arguments)], tuple[str, ...] | Mapping[str, object] | None
    ] = option(default=(), several=True, help="what the Beam runner gets")
    fail_if: Value[tuple[str, ...]] = option(
        default=(), group=GATES, metavar="'NAME OP NUMBER'", several=True, reads=lambda text: str(quality_gate(text)),
        help="quality gates, such as 'unsupported_share > 0.05'; exit code 3 if one holds in the end; "
        "docs/nightly.md names the metrics",
    )  # fmt: skip
    report: Value[bool] = option(default=True, group=GATES, help="write report.html, the page of what was found")

    @property
    def messages(self) -> Messages:
        """How the command speaks."""
        return Messages(kind=self.console)

    @property
    def gates(self) -> tuple[QualityGate, ...]:
        """The quality gates of ``fail_if``."""
        return tuple(quality_gate(text) for text in self.fail_if)


class AuditOptions(AttributorOptions, RunOptions):
    """All options of ``attribeam audit``, its configuration file's included."""

    log_format: Value[str] = option(default=PARQUET, group=LOG, metavar="NAME", help=LOG_FORMAT_HELP)
    columns: Value[tuple[tuple[str, str], ...]] = option(
        default=(), group=LOG, metavar="FIELD=COLUMN,...", reads=parse_column_mapping, help=COLUMNS_HELP
    )
    extra_columns: Parsed[Annotated[tuple[str, ...], BeforeValidator(_names)], tuple[str, ...] | str | None] = option(
        default=(), group=LOG, metavar="COLUMN,...", help="columns to carry into the evidence"
    )
    redact: Value[bool] = option(
        default=False, group=PRIVACY,
        help="mask e-mail addresses, phone and card numbers and IBANs in all that is written; offsets do not change",
    )  # fmt: skip
    redact_patterns: str | None = option(
        default=None, group=PRIVACY, metavar="FILE",
        help="mask what the regular expressions of this file find, one per line, with or without --redact; the "
        "manifest records its path and SHA-256 only",
    )  # fmt: skip
    texts: Value[bool] = option(
        default=True, group=PRIVACY, help="write texts of questions, passages and answers, not only ids and scores"
    )


_GROUPS: Mapping[str, tuple[str, ...]] = {
    "input and output": (INPUT, LOG),
    "target spans and method": (SPANS, PARSER, METHOD, HIDDEN),
    "verdict": (SUPPORT, LANGUAGE),
    "model": (LOADING, READING),
    "privacy": (PRIVACY,),
    "run": (RUN, THREADS),
    "gates and report": (GATES,),
}
"""The headings of the help, and the groups of options below each."""
_EVERYDAY = (
    *("help", "help_all", "config", "input", "output", "log_format", "columns", "extra_columns", "method", "spans"),
    *("verdict", "strictness", "prior", "language_model", "model", "device", "redact", "texts"),
    *("workers", "overwrite", "dry_run", "quiet", "runner", "fail_if", "report"),
)
"""What ``--help`` shows; ``--help-all`` shows the rest, too."""


class _EverydayHelp(argparse.Action):
    """Prints the everyday options, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.usage = f"{parser.prog} --input GLOB --output DIR [options]"
        for action in parser._actions:
            if action.dest not in _EVERYDAY:
                action.help = argparse.SUPPRESS
        parser.print_help()
        parser.exit()


def audit_groups() -> Mapping[str, list[Option]]:
    """The options of the command line by the headings of its help."""
    every = declared(AuditOptions).values()
    return {heading: [option for option in every if option.group in groups] for heading, groups in _GROUPS.items()}


def setting_of_model(name: str) -> str:
    """Where a setting belongs that an audit leaves to the model, such as ``top_k``; empty if no name is like it."""
    settings = [option.name for option in declared(AuditOptions).values() if option.in_directory]
    own = {option.name for group in audit_groups().values() for option in group}
    near = [match for match in get_close_matches(name, settings, n=1, cutoff=0.8) if match not in own]
    return f"{near[0]} stands in the file of --attribution-config" if near else ""


def add_audit_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all options to a parser without ``--help``; one that a command line does not give is None."""
    parser.add_argument("-h", "--help", action=_EverydayHelp, nargs=0, help="show the everyday options")
    parser.add_argument("--help-all", action="help", help="show all options")
    parser.add_argument("--config", metavar="FILE", help="a TOML file of these options; see docs/nightly.md")
    for heading, groups in _GROUPS.items():
        add_options(parser.add_argument_group(heading), AuditOptions, *groups)
    parser.set_defaults(**dict.fromkeys(AuditOptions.model_fields))


def read_settings(options: AuditOptions) -> AuditSettings:
    """The settings that decide the records.

    Raises ``UsageError`` if options contradict each other, say nothing to the method, or it cannot be used.
    """
    method = with_calibrated_mass(options.only(MethodOptions), model=options.model)
    resolve_method(method)
    read = options_read(method)
    for name, value in method.explicit().items():
        if value is not False and name not in read:
            flag = declared(MethodOptions)[name].flag
            raise UsageError(f"{flag} says nothing to --method {method.method}; leave it out, or choose another method")
    model = options.only(ModelOptions)
    if model.dtype == AUTO_DTYPE:
        model = model.replaced(dtype=None)
    if may_be_several_gpus(named_gpus(model.device)):  # records do not depend on the number of GPUs
        model = model.replaced(device="cuda")
    columns = dict(options.columns)
    texts = {columns.get(field, field) for field in ("question", "passages", "answer", "prompt")}
    if not options.texts and (carried := sorted(texts.intersection(options.extra_columns))):
        raise UsageError(f"--no-texts writes no text, --extra-columns carries {', '.join(carried)}; leave one out")
    return AuditSettings(
        columns=options.columns,
        extra_columns=options.extra_columns,
        log_format=options.log_format,
        span_kinds=options.spans,
        parser=options.parser,
        model=model,
        method=method,
        privacy=PrivacySettings(
            redact=options.redact,
            patterns=None if options.redact_patterns is None else PatternsFile.read(options.redact_patterns),
            no_texts=not options.texts,
        ),
        threads=options.threads,
    )


def read_run_options(options: AuditOptions) -> RunOptions:
    """How to run the audit; paths are absolute where workers are started elsewhere.

    Raises ``UsageError`` if an argument is unknown, or no output is named.
    """
    _check_run(options)

    def absolute_path(path: str) -> str:
        return path if not path or options.runner == LOCAL or "://" in path else str(Path(path).absolute())

    return options.only(RunOptions).replaced(
        input=tuple(map(absolute_path, options.input)),
        output=absolute_path(options.output),
        gpus=named_gpus(options.device),
        fail_if=tuple(dict.fromkeys(options.fail_if)),
    )


def _check_run(options: AuditOptions) -> None:
    """Refuse what cannot be run, before anything is read, with the way out."""
    local, gpus = options.runner == LOCAL, named_gpus(options.device)
    if options.beam_arguments and local:
        flag = options.beam_arguments[0].partition("=")[0]
        flags = [option.flag for group in audit_groups().values() for option in group]
        meant = setting_of_model(flag.strip("-").replace("-", "_")) or did_you_mean(flag, flags)
        hint = meant or "see attribeam audit --help-all (Beam's own options are passed on with --runner only)"
        raise UsageError(f"unknown arguments: {' '.join(options.beam_arguments)}; {hint}")
    if not options.input:
        raise UsageError("--input is needed: the logs to audit")
    if "output" not in options.model_fields_set and not options.dry_run:
        raise UsageError("--output is needed: the directory that evidence and dead letters go to")
    if "output" in options.model_fields_set and not options.output.strip():
        raise UsageError("--output should name a directory, was empty; is a variable of the script unset?")
    check_is_unicode(options.output, "--output")
    if local and "://" in options.output:
        raise UsageError(
            f"--output of a local run should be a local directory, was: {options.output!r}; copy the finished "
            "directory there, or name a --runner"
        )
    if options.reuse is not None and (not local or options.dry_run or options.model_workers is not None):
        raise UsageError("--reuse is for local runs without --model-workers and --dry-run; leave it out")
    if options.reuse is not None and Path(options.reuse).resolve() == Path(options.output).resolve():
        raise UsageError(
            f"--reuse and --output should be two directories, both are {options.reuse}; name another output"
        )
    if not local and (options.model_workers is not None or may_be_several_gpus(gpus)):
        raise UsageError(
            "--model-workers and several devices are for local runs; with --runner, each of its workers has the model"
        )
    _check_method_of_run(options)


def _check_method_of_run(options: AuditOptions) -> None:
    """Refuse gates on metrics that spans and method do not give, and a missing causal language model."""
    gates = [quality_gate(text) for text in options.fail_if]
    check_gates(gates, span_kinds=options.spans)
    settled = with_calibrated_mass(options.only(MethodOptions), model=options.model)
    method = resolve_method(settled)
    judged = not settled.judges_by_mass or thresholds_of(method, settled, None) is not None
    for gate in gates:
        of_mass = gate.metric == "evidence_mass_mean" and not method.gives_mass
        if of_mass or (not judged and gate.metric.startswith(("supported_", "weak_"))):
            raise UsageError(
                f"--fail-if {str(gate)!r}: {settled.method} has no {'evidence mass' if of_mass else 'thresholds'}, so "
                f"that {gate.metric} says nothing; choose another gate or method"
            )
    probe = probe_of(settled)
    needed = probe is not None or Need.LANGUAGE_MODEL in method.needs
    if needed and settled.language_model is None and options.model == BUNDLED_MODEL_NAME:
        by = f"--method {settled.method}" if probe is None else f"--verdict {settled.verdict}"
        hint = "" if probe is None else probe.decoder_hint
        raise UsageError(f"{by} needs a causal language model: name it with --language-model{hint}")
