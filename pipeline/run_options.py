"""How an audit is run, apart from what decides its records."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.quality_gates import QualityGate, quality_gate

LOCAL = "local"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How an audit is run; none of this changes a record except ``rows_per_chunk``, which cuts the batches.

    Attributes:
        output: directory, or a prefix of one of Beam's file systems with a distributed runner.
        workers: None for as many as there are CPUs, or one where the model runs on a GPU.
        runner: "local", or the name of a Beam runner, which then gets ``runner_options``.
        fail_if: quality gates as texts, judged on what the whole audit came to.
        otel: send the metrics through OpenTelemetry; the environment may ask for it, too.
        report: write ``report.html``, the page that shows what a local audit found.
    """

    input: tuple[str, ...]
    output: str
    workers: int | None = None
    rows_per_chunk: int = 500
    overwrite: bool = False
    dry_run: bool = False
    quiet: bool = False
    verbose: bool = False
    runner: str = LOCAL
    runner_options: tuple[str, ...] = ()
    fail_if: tuple[str, ...] = ()
    otel: bool = False
    report: bool = True

    @property
    def gates(self) -> tuple[QualityGate, ...]:
        """The quality gates of ``fail_if``."""
        return tuple(quality_gate(text) for text in self.fail_if)
