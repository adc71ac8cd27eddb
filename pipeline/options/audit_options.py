"""The options of ``attribeam audit``: arguments in, ``AuditSettings`` and ``RunOptions`` out.

``AuditSettings`` decide the records; ``RunOptions`` say how the audit is run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from attribeam.attribution.methods.audit_row import thresholds_of
from attribeam.attribution.methods.method import VERDICT_OPTIONS, Need
from attribeam.attribution.methods.registry import resolve_method
from attribeam.attribution.option_declaration import Options, Value, add_options, declared, option
from attribeam.attribution.option_types import (
    BUNDLED_MODEL_NAME,
    PositiveInteger,
    WholeNumber,
    name_list,
    positive_integer,
)
from attribeam.attribution.options import (
    AUTO_DTYPE,
    HIDDEN,
    LANGUAGE,
    LOADING,
    METHOD,
    PARSER,
    READING,
    SPANS,
    SUPPORT,
    UNION,
    AttributorOptions,
    MethodOptions,
    ModelOptions,
)
from attribeam.attribution.verdict.judge import probe_of
from attribeam.attribution.verdict.mass_thresholds import with_calibrated_mass
from attribeam.logs.arguments import add_log_arguments
from attribeam.logs.columns import parse_column_mapping
from attribeam.logs.files import check_is_unicode
from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.pipeline.measures.quality_gates import QualityGate, check_gates, quality_gate
from attribeam.pipeline.options.devices import is_list, named_gpus
from attribeam.pipeline.options.resource_hints import Hints, resource_hints
from attribeam.report.messages import ConsoleKind, Messages
from attribeam.report.privacy import umask_text
from attribeam.schemas.errors import UsageError
from attribeam.transforms.audit_settings import AuditSettings

LOCAL = "local"


INPUT, RUN, MONITORING = "input", "run", "monitoring"


class RunOptions(Options):
    """How an audit is run; none of this changes a record except ``rows_per_chunk``, which cuts the batches."""

    input: Value[tuple[str, ...]] = option(
        default=(), help="logs, or folders of them; local, s3://, gs:// or hdfs://; *, **, ? and {a,b} are understood"
    )
    table_version: WholeNumber | None = option(
        default=None, group=INPUT, metavar="N", default_words="the current one",
        help="version of the Delta table, or snapshot of the Iceberg table, that --input names",
    )  # fmt: skip
    output: Value[str] = option(
        default="",
        help="directory, or with a distributed runner a prefix of one of Beam's file systems",
    )
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
    verify: Value[bool] = option(
        default=False, group=RUN, help="say how many finished chunks are intact; damaged ones are redone"
    )
    dry_run: Value[bool] = option(
        default=False, group=RUN, help="check the input, try a few rows, estimate; write nothing"
    )
    umask: str | None = option(
        default=None, group=RUN, metavar="OCTAL", default_words="the shell's", reads=umask_text,
        expects="three octal digits",
        help="umask of the files and folders that are written; 077 lets nobody but you read them",
    )  # fmt: skip
    quiet: Value[bool] = option(default=False, group=RUN, help="no progress and no summary, only errors")
    console: Value[ConsoleKind] = option(
        default=ConsoleKind.TEXT, group=RUN,
        help="text for people, or json for machines: a line of JSON for each note, on standard error, and for the "
        "result, on standard output",
    )  # fmt: skip
    verbose: Value[bool] = option(
        default=False, group=RUN, help="show Beam's and the models' messages, and tracebacks of errors"
    )
    runner: Value[str] = option(
        default=LOCAL, group=RUN, metavar="NAME",
        help="a Beam runner for one distributed run, e.g. DataflowRunner; it gets all further options, such as "
        "--setup_file ./setup.py",
    )  # fmt: skip
    runner_options: Value[str] | None = option(
        default=None, group=RUN, metavar="FILE.yaml", default_words="none",
        help="a YAML file of the runner's options, checked by name; the command line beats the file",
    )  # fmt: skip
    beam_arguments: Value[tuple[str, ...]] = option(default=(), help="what the Beam runner gets from the command line")
    model_resource_hints: Value[Hints] = option(
        default=(), group=RUN, metavar="NAME=VALUE,...", reads=resource_hints,
        help="machines that the model stage of a distributed run asks for: accelerator, min_ram, cpu_count, "
        "max_active_bundles_per_worker",
    )  # fmt: skip
    fail_if: Value[tuple[str, ...]] = option(default=(), help="quality gates, judged on the whole audit")
    otel: Value[bool] = option(
        default=False, group=MONITORING, help="send the metrics with OpenTelemetry, configured by OTEL_* variables"
    )
    previous: Value[str] | None = option(
        default=None, group=MONITORING, metavar="DIR", default_words="none",
        help="an earlier audit of the same answers; the page shows what changed since",
    )  # fmt: skip
    report: Value[bool] = option(default=True, help="write report.html, the page that shows what the audit found")

    @property
    def messages(self) -> Messages:
        """How the command speaks."""
        return Messages(kind=self.console)

    @property
    def gates(self) -> tuple[QualityGate, ...]:
        """The quality gates of ``fail_if``."""
        return tuple(quality_gate(text) for text in self.fail_if)


_SETTINGS = AuditSettings()
_METHOD_GROUPS = (METHOD, UNION, SUPPORT, HIDDEN, LANGUAGE)


def add_audit_arguments(parser: argparse.ArgumentParser) -> None:
    """All options; their defaults are those of the dataclasses."""
    _add_input_and_output(parser)
    _add_spans_and_method(parser)
    _add_model(parser)
    _add_privacy(parser)
    _add_run(parser)
    _add_monitoring(parser)


def read_settings(arguments: argparse.Namespace) -> AuditSettings:
    """Read the settings that decide the records.

    Raises:
        UsageError: if options contradict each other.
    """
    method = _read_method(arguments)
    check_read(method)
    return AuditSettings(
        columns=parse_column_mapping(arguments.columns),
        extra_columns=arguments.extra_columns,
        log_format=arguments.log_format,
        span_kinds=arguments.spans,
        parser=arguments.parser,
        model=_read_model(arguments),
        method=method,
        max_text_chars=arguments.max_text_chars,
        dead_letter_text=arguments.dead_letter_text,
        privacy=_read_privacy(arguments),
        threads=arguments.threads,
    )


def _read_method(arguments: argparse.Namespace) -> MethodOptions:
    """The method's options.

    Raises:
        UsageError: if they contradict each other.
    """
    try:
        given = MethodOptions.from_arguments(arguments, *_METHOD_GROUPS)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return with_calibrated_mass(given, model=arguments.model)


def _read_model(arguments: argparse.Namespace) -> ModelOptions:
    """The model's options; several GPUs are ``cuda`` here, because records do not depend on their number."""
    model = ModelOptions.from_arguments(arguments, LOADING, READING)
    model = model.replaced(dtype=None) if model.dtype == AUTO_DTYPE else model
    return model.replaced(device="cuda") if is_list(named_gpus(model.device)) else model


def _read_privacy(arguments: argparse.Namespace) -> PrivacySettings:
    """What is hidden in everything that is written.

    Raises:
        UsageError: if a pattern cannot be used, or ``--no-texts`` is contradicted.
    """
    if arguments.no_texts and arguments.dead_letter_text:
        raise UsageError("--no-texts writes no text, --dead-letter-text writes the answers' texts; leave one out")
    columns = dict(parse_column_mapping(arguments.columns))
    texts = {columns.get(field, field) for field in ("question", "passages", "answer", "prompt")}
    if arguments.no_texts and (carried := sorted(texts.intersection(arguments.extra_columns))):
        raise UsageError(f"--no-texts writes no text, --extra-columns carries {', '.join(carried)}; leave one out")
    return PrivacySettings.checked(
        redact=arguments.redact,
        patterns=tuple(arguments.redact_pattern),
        patterns_file=arguments.redact_patterns_file,
        no_texts=arguments.no_texts,
    )


def check_read(options: MethodOptions) -> None:
    """Refuse a method that cannot be used, and options that say nothing to it.

    Raises:
        UsageError: with the way out.
    """
    method = resolve_method(options)
    given = [
        name for name, value in options.given().items() if value is not None and value is not False and name != "method"
    ]
    for name in given:
        if method.reads is not None and name not in method.reads | VERDICT_OPTIONS:
            flag = declared(MethodOptions)[name].flag
            raise UsageError(
                f"{flag} says nothing to --method {options.method}; leave it out, or choose another method"
            )


def read_run_options(arguments: argparse.Namespace) -> RunOptions:
    """Read how to run the audit.

    Raises:
        UsageError: if an argument is unknown, or no output is named.
    """
    _check_run(arguments)
    return RunOptions.from_arguments(arguments, INPUT, RUN, MONITORING).replaced(
        input=tuple(_as_workers_find(path, arguments.runner) for path in arguments.input),
        output=_as_workers_find(arguments.output, arguments.runner),
        beam_arguments=tuple(arguments.beam_arguments),
        gpus=named_gpus(arguments.device),
        fail_if=tuple(dict.fromkeys(str(gate) for gate in arguments.fail_if)),
        report=not arguments.no_report,
    )


def _as_workers_find(path: str | None, runner: str) -> str | None:
    """A path for workers that are started elsewhere: absolute, unless it is a local run's or names a file system."""
    if path is None or runner == LOCAL or "://" in path:
        return path
    return str(Path(path).absolute())


def _check_run(arguments: argparse.Namespace) -> None:
    if arguments.beam_arguments and arguments.runner == LOCAL:
        raise UsageError(
            f"unknown arguments: {' '.join(arguments.beam_arguments)}; see attribeam audit --help (Beam's own options "
            "are passed on with --runner only)"
        )
    if not arguments.input:
        raise UsageError("--input is needed: the logs to audit")
    if arguments.runner_options is not None and arguments.runner == LOCAL:
        raise UsageError(
            f"--runner-options {arguments.runner_options!r} says nothing to a local run; name a --runner or leave "
            "it out"
        )
    if arguments.model_resource_hints and arguments.runner == LOCAL:
        raise UsageError("--model-resource-hints say nothing to a local run; name a --runner, or leave them out")
    if arguments.output is None and not arguments.dry_run:
        raise UsageError("--output is needed: the directory that evidence and dead letters go to")
    if arguments.output is not None and not arguments.output.strip():
        raise UsageError("--output should name a directory, was empty; is a variable of the script unset?")
    check_is_unicode(arguments.output or "", "--output")
    if arguments.runner == LOCAL and "://" in (arguments.output or ""):
        raise UsageError(
            f"--output of a local run should be a local directory, was: {arguments.output!r}; copy the finished "
            "directory there, or name a --runner"
        )
    if arguments.previous is not None and (arguments.no_report or arguments.runner != LOCAL):
        raise UsageError(
            "--previous is for the page of a local audit; leave --no-report and --runner out, or compare afterwards "
            "with attribeam report --previous"
        )
    if arguments.runner != LOCAL and (arguments.model_workers is not None or is_list(named_gpus(arguments.device))):
        raise UsageError(
            "--model-workers and several devices are for local runs; with --runner, each of its workers has the model"
        )
    check_gates(arguments.fail_if, span_kinds=arguments.spans)
    _check_support_gates(arguments)
    _check_language_model(arguments)


def _check_support_gates(arguments: argparse.Namespace) -> None:
    """Refuse gates on metrics that the method does not give."""
    options = _read_method(arguments)
    method = resolve_method(options)
    judged = not options.judges_by_mass or thresholds_of(method, options, None) is not None
    for gate in arguments.fail_if:
        of_mass = gate.metric == "evidence_mass_mean" and not method.gives_mass
        if of_mass or (not judged and gate.metric.startswith(("supported_", "weak_"))):
            raise UsageError(
                f"--fail-if {str(gate)!r}: {options.method} has no {'evidence mass' if of_mass else 'thresholds'}, so "
                f"that {gate.metric} says nothing; choose another gate or method"
            )


def _check_language_model(arguments: argparse.Namespace) -> None:
    """Refuse the bundled model, an encoder, where a causal language model is read and none is named."""
    options = _read_method(arguments)
    needs = resolve_method(options).needs & {Need.LANGUAGE_MODEL, Need.DECODER_STATES}
    if needs and options.language_model is None and arguments.model == BUNDLED_MODEL_NAME:
        probe = probe_of(options)
        by = f"--method {options.method}" if probe is None else f"--verdict {options.verdict}"
        hint = "" if probe is None else probe.decoder_hint
        raise UsageError(f"{by} needs a causal language model: name it with --language-model{hint}")


def _add_input_and_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("input and output")
    add = group.add_argument
    add(
        "--input", nargs="+", action="extend", default=[], metavar="GLOB",
        help="logs, or folders of them; local, s3://, gs:// or hdfs://; *, **, ? and {a,b} are understood",
    )  # fmt: skip
    add_options(group, RunOptions, INPUT)
    add("--config", metavar="FILE", help="a TOML file of these options, which the command line beats; docs/nightly.md")
    add("--output", metavar="DIR", help="directory for evidence/, dead_letters/ and run_manifest.json")
    add_log_arguments(add)
    add("--extra-columns", type=name_list, default=(), metavar="COLUMN,...", help="columns to carry into the evidence")
    add(
        "--max-text-chars", type=positive_integer, default=_SETTINGS.max_text_chars, metavar="N",
        help="the most code points of a row's texts together; a longer row is a dead letter (default: %(default)s)",
    )  # fmt: skip
    add("--dead-letter-text", action="store_true", help="write the answers' texts into dead letters")


def _add_spans_and_method(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("target spans and method")
    add_options(group, AttributorOptions, SPANS, PARSER)
    add_options(group, MethodOptions, *_METHOD_GROUPS)


def _add_model(parser: argparse.ArgumentParser) -> None:
    add_options(parser.add_argument_group("model"), ModelOptions, LOADING, READING)


def _add_privacy(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("privacy").add_argument
    add(
        "--redact", action="store_true",
        help="mask e-mail addresses, phone numbers, card numbers and IBANs in all that is written; offsets do not "
        "change",
    )  # fmt: skip
    add(
        "--redact-pattern", action="append", default=[], metavar="REGEX",
        help="mask what this regular expression finds, with or without --redact; may be repeated; the manifest records "
        "it",
    )  # fmt: skip
    add(
        "--redact-patterns-file", metavar="FILE",
        help="mask what the regular expressions of this file find, one per line; # starts a remark; the manifest "
        "records its path and SHA-256 only",
    )  # fmt: skip
    add(
        "--no-texts", action="store_true",
        help="write no text of questions, passages and answers, only ids, offsets and scores",
    )  # fmt: skip


def _add_run(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("run")
    group.add_argument(
        "--threads", type=positive_integer, default=_SETTINGS.threads, metavar="N",
        help="CPU threads per worker process (default: %(default)s)",
    )  # fmt: skip
    add_options(group, RunOptions, RUN)


def _add_monitoring(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("quality and monitoring")
    group.add_argument(
        "--fail-if", type=quality_gate, action="append", default=[], metavar="'NAME OP NUMBER'",
        help="quality gate, such as 'unsupported_share > 0.05'; exit code 3 if it holds for the finished audit; may be "
        "repeated; docs/nightly.md names the metrics",
    )  # fmt: skip
    group.add_argument("--no-report", action="store_true", help="do not write report.html")
    add_options(group, RunOptions, MONITORING)
