"""What an audit records about itself: one manifest per chunk and one per run, as versioned JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, ClassVar, Self

from attribeam.schemas.claim_rows import CLAIM_SUPPORTS
from attribeam.schemas.evidence_record import Support
from attribeam.schemas.version import SCHEMA_VERSION


class RunStatus(StrEnum):
    """How far a run got. Only ``DONE`` says that the output is complete and reconciled."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input file and its fingerprint: ``sha256`` is that of its content."""

    path: str
    size_bytes: int
    row_count: int
    sha256: str


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One written Parquet file; ``path`` is relative to the output directory."""

    path: str
    row_count: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """Number of rows that one stage refused for one reason."""

    stage: str
    reason: str
    rows: int


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """What became of some rows.

    Attributes:
        spans: target spans by support.
        tokens: tokens of attributed rows; None where they were not counted.
        rows_in_windows: audited rows that were longer than the model's context and so were read in windows; None where
            they were not counted.
        rows_unread: audited rows that were too long for the decoder of the verdict's probe, so that its trees judged
            them alone; None where there is no probe.
        claims: the spans that count by support, a claim once; empty before schema version 1.2, when each span did.
        not_judged: those of them that cannot be judged, by ``claim_kind``.
        answers: audited rows by ``answer_kind``; empty before schema version 1.2.
    """

    rows: int = 0
    audited: int = 0
    dead_letters: tuple[DeadLetterCount, ...] = ()
    spans: Mapping[str, int] = field(default_factory=dict)
    tokens: int | None = 0
    rows_in_windows: int | None = 0
    rows_unread: int | None = None
    claims: Mapping[str, int] = field(default_factory=dict)
    not_judged: Mapping[str, int] = field(default_factory=dict)
    answers: Mapping[str, int] = field(default_factory=dict)

    @property
    def by_support(self) -> Mapping[str, int]:
        """What counts, by support: claims once, and what is no claim or cannot be judged."""
        return self.claims or self.spans

    @property
    def claim_count(self) -> int:
        """Number of claims, judged or not calibrated."""
        return sum(self.by_support.get(support, 0) for support in CLAIM_SUPPORTS)

    @property
    def not_judged_count(self) -> int:
        """Number of spans that may be claims, but cannot be judged."""
        return self.by_support.get(Support.NOT_JUDGED, 0)

    @property
    def dead_lettered(self) -> int:
        """Number of rows that became dead letters."""
        return sum(count.rows for count in self.dead_letters)

    @property
    def span_count(self) -> int:
        """Number of target spans."""
        return sum(self.spans.values())

    @property
    def is_reconciled(self) -> bool:
        """True where every row was either audited or dead-lettered."""
        return self.rows == self.audited + self.dead_lettered


@dataclass(frozen=True, slots=True)
class StageSeconds:
    """How long one stage worked, summed over chunks and processes: read, encode, parse, attribute, evidence or write.

    ``cpu_seconds`` are those of all threads of the process meanwhile. On a GPU the model works in a thread of its own:
    attribute has the seconds of that thread alone, and stages that work beside it have them once more. What Beam and
    the checks of a chunk take is in no stage.
    """

    stage: str
    wall_seconds: float
    cpu_seconds: float


class _Manifest:
    """JSON out and in, for both kinds of manifest.

    ``_kind`` names the kind in errors; ``_readers`` makes the fields of that kind from what JSON has for them.
    """

    __slots__ = ()
    _kind: ClassVar[str]
    _readers: ClassVar[Mapping[str, Callable[[Any], object]]]

    def to_json(self) -> str:
        """This manifest as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The manifest that ``to_json`` wrote.

        Raises:
            ValueError: if the text is no manifest of this kind in this version of the schema.
        """
        try:
            fields: dict[str, Any] = json.loads(text)
            fields["stages"] = fields.get("stages", ())
            return cls(
                **fields | {name: read(fields[name]) for name, read in {**_SHARED_READERS, **cls._readers}.items()}
            )
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"a {cls._kind} manifest of schema {SCHEMA_VERSION} was expected: {error}") from error


@dataclass(frozen=True, slots=True)
class ChunkManifest(_Manifest):
    """The commit of one chunk: rows ``[row_start, row_end)`` of ``source_file``, and the files that hold them.

    ``input_sha256`` is the fingerprint of the input file, ``configuration`` the hash of all that decides the records.
    """

    chunk: str
    source_file: str
    input_sha256: str
    row_start: int
    row_end: int
    configuration: str
    counts: AuditCounts
    evidence: OutputFile
    dead_letters: OutputFile
    seconds: float
    stages: tuple[StageSeconds, ...] = ()
    schema_version: str = SCHEMA_VERSION

    _kind: ClassVar[str] = "chunk"
    _readers: ClassVar[Mapping[str, Callable[[Any], object]]] = {
        "evidence": lambda one: OutputFile(**one),
        "dead_letters": lambda one: OutputFile(**one),
    }


@dataclass(frozen=True, slots=True)
class RunManifest(_Manifest):
    """``run_manifest.json``: what went in, what was done to it, and what came out.

    Attributes:
        status: only "done" says that the output is complete.
        started_at: ISO 8601 in UTC, of the last run; ``seconds`` is its duration, and ``load_seconds`` of these passed
            before the first row: planning the input and loading the models.
        rows_per_second: rows that the last run audited itself, without what it found finished and without loading.
        options: every setting as the user gave it, defaults filled in.
        models: provenance of the attributor and the parser, as in the files' metadata.
        stages: how long each stage worked in all chunks, those of an earlier run included; empty for a distributed run.
        chunks: names of the committed chunks in input order; empty for distributed runs of versions without chunks.
    """

    status: RunStatus
    attribeam_version: str
    runner: str
    started_at: str
    seconds: float
    load_seconds: float
    rows_per_second: float
    configuration: str
    inputs: tuple[InputFile, ...]
    options: Mapping[str, object]
    models: Mapping[str, str]
    versions: Mapping[str, str]
    counts: AuditCounts
    chunks: tuple[str, ...] = ()
    stages: tuple[StageSeconds, ...] = ()
    schema_version: str = SCHEMA_VERSION

    _kind: ClassVar[str] = "run"
    _readers: ClassVar[Mapping[str, Callable[[Any], object]]] = {
        "status": RunStatus,
        "inputs": lambda some: tuple(InputFile(**one) for one in some),
        "chunks": tuple,
    }


def sum_counts(parts: Iterable[AuditCounts]) -> AuditCounts:
    """The counts of several disjoint sets of rows together; dead letters are sorted by stage and reason."""
    rows = audited = 0
    letters: Counter[tuple[str, str]] = Counter()
    spans: Counter[str] = Counter()
    claims: Counter[str] = Counter()
    not_judged: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    tokens: int | None = 0
    in_windows: int | None = 0
    unread: list[int] = []
    for part in parts:
        rows, audited = rows + part.rows, audited + part.audited
        letters.update({(one.stage, one.reason): one.rows for one in part.dead_letters})
        spans.update(part.spans)
        claims.update(part.claims)
        not_judged.update(part.not_judged)
        answers.update(part.answers)
        tokens = _sum_if_known(tokens, part.tokens)
        in_windows = _sum_if_known(in_windows, part.rows_in_windows)
        unread += [] if part.rows_unread is None else [part.rows_unread]
    return AuditCounts(
        rows=rows,
        audited=audited,
        dead_letters=dead_letter_counts(letters),
        spans=dict(sorted(spans.items())),
        tokens=tokens,
        rows_in_windows=in_windows,
        rows_unread=sum(unread) if unread else None,
        claims=dict(sorted(claims.items())),
        not_judged=dict(sorted(not_judged.items())),
        answers=dict(sorted(answers.items())),
    )


def _sum_if_known(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def sum_stage_seconds(parts: Iterable[Sequence[StageSeconds]]) -> tuple[StageSeconds, ...]:
    """The seconds of several chunks together, stage by stage, in the order in which the stages first appear."""
    sums: dict[str, tuple[float, float]] = {}
    for one in chain.from_iterable(parts):
        wall, cpu = sums.get(one.stage, (0.0, 0.0))
        sums[one.stage] = (wall + one.wall_seconds, cpu + one.cpu_seconds)
    return tuple(StageSeconds(stage, round(wall, 3), round(cpu, 3)) for stage, (wall, cpu) in sums.items())


def dead_letter_counts(rows: Mapping[tuple[str, str], int]) -> tuple[DeadLetterCount, ...]:
    """Counts by (stage, reason), sorted."""
    return tuple(DeadLetterCount(stage, reason, count) for (stage, reason), count in sorted(rows.items()))


def _counts(fields: dict[str, Any]) -> AuditCounts:
    letters = fields.pop("dead_letters")
    if not isinstance(letters, list):
        raise TypeError("dead_letters should be a list")
    return AuditCounts(dead_letters=tuple(DeadLetterCount(**one) for one in letters), **fields)


_SHARED_READERS: Mapping[str, Callable[[Any], object]] = {
    "counts": _counts,
    "stages": lambda some: tuple(StageSeconds(**one) for one in some),
}
