"""What an audit records about itself: one manifest per chunk and one per run, as versioned JSON.

What is read back is checked: types, ranges, and that the numbers agree.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from hashlib import blake2b
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from attribeam.schemas.errors import SCHEMA_VERSION, SchemaVersionError, check_version
from attribeam.schemas.evidence_record import CLAIM_SUPPORTS, AnswerKind, ClaimKind, Support

_SAMPLED = 64
_MARKS = re.compile(r"\s*[\[(]?(?:\.{3,}|…)[\])]?\s*\Z")
_UNITS = {"characters": 50, "bytes": 50, "words": 20}
"""Each with the fewest of a cut text: shorter texts of one length are headings, or rows of a table."""
_FEWEST_CUT = 4
_LEAST_SHARE = 0.1
_LEAST_COMMON_SHARE = 0.3
_LEAST_OPEN_SHARE = 0.5

_YEARS = range(2000, 3000)
_T = TypeVar("_T")

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
FiniteNumber = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[FiniteNumber, Field(ge=0, le=1)]
Seconds = Annotated[FiniteNumber, Field(ge=0, le=10**9)]


def utc_moment(text: str) -> datetime:
    """The moment of an ISO 8601 text; one without an offset is in UTC.

    Raises ``ValueError`` if it is none of this millennium.
    """
    moment = datetime.fromisoformat(text)
    if moment.year not in _YEARS:
        raise ValueError(f"a year from {_YEARS.start} to {_YEARS.stop - 1} was expected")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _share_text(text: str) -> str:
    if not 0 <= float(text) <= 1:
        raise ValueError("a share from 0 to 1 was expected")
    return text


def _one_of(kind: type[StrEnum]) -> AfterValidator:
    return AfterValidator(lambda text: kind(text))  # an enumeration of Python 3.12 has no signature for pydantic


Moment = Annotated[str, AfterValidator(lambda text: utc_moment(text) and text)]
_ShareText = Annotated[str, AfterValidator(_share_text)]
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def read_json(kind: type[_T], text: str | bytes, *, extra: Literal["forbid", "ignore"] = "forbid") -> _T:
    """JSON text as ``kind``, whose types are taken strictly; ``extra`` says what becomes of unknown fields.

    Raises ``ValueError`` if it is something else; the message says where, and does not repeat what stands there.
    """
    try:
        value: _T = _adapter(kind).validate_json(text, strict=True, extra=extra)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ValueError(f"{field}: {first['msg']}" if field else first["msg"]) from error
    return value


@dataclass(frozen=True, slots=True, order=True)
class PassageEnd:
    """How long one passage is and how it ends.

    Attributes:
        key: 24 bits of a digest of its text, which tell that it is another one and nothing of what it says.
        characters: code points, as ``bytes`` and ``words`` with what was put at the end in place of the rest.
        is_open: ends with a letter.
        is_marked: ends with "..." or its like.
    """

    key: Count
    characters: Count
    bytes: Count
    words: Count
    is_open: bool
    is_marked: bool


@dataclass(frozen=True, slots=True)
class CutPassages:
    """How many of the ``sampled`` different passages of a run seem to be stored cut.

    ``length`` is that of each, in ``unit``: "characters", "bytes" or "words". Both are None where all that they have
    in common is the mark at their end.
    """

    passages: Count
    sampled: Count
    unit: str | None = None
    length: Count | None = None

    def __str__(self) -> str:
        end = 'in "..."' if self.unit is None else f"after {self.length} {self.unit}, in the middle of a sentence"
        return (
            f"{self.passages} of {self.sampled} passages that were sampled end {end}: the log seems to store passages "
            "cut, so claims may be unsupported only because what supports them is not in the log; log whole passages "
            "(pieces that the application itself retrieved are no fault)"
        )


def sample_passages(texts: Iterable[str], earlier: Iterable[PassageEnd] = ()) -> tuple[PassageEnd, ...]:
    """The sample of these texts and of an ``earlier`` one together, see ``merge_samples``."""
    keys = ((int.from_bytes(blake2b(text.encode(), digest_size=3).digest()), text) for text in set(texts))
    ends = (
        PassageEnd(
            key, len(text), len(text.encode()), len(text.split()), text[-1:].isalpha(), bool(_MARKS.search(text))
        )
        for key, text in heapq.nsmallest(_SAMPLED, keys)
    )
    return merge_samples([tuple(earlier), tuple(ends)])


def merge_samples(samples: Iterable[Iterable[PassageEnd]]) -> tuple[PassageEnd, ...]:
    """The sample of all passages of which these are samples: the 64 different ones with the lowest keys, ascending."""
    by_key = {end.key: end for end in sorted(chain.from_iterable(samples), reverse=True)}
    return tuple(by_key[key] for key in sorted(by_key)[:_SAMPLED])


def cut_passages(sample: Iterable[PassageEnd]) -> CutPassages | None:
    """What is cut in a sample; None where nothing seems so.

    Cut are passages of one length that end with a letter or a mark where none is longer, or many have this length;
    and passages that end with a mark, if many do.
    """
    ends = tuple(sample)
    for unit, shortest in _UNITS.items():
        lengths = [int(getattr(end, unit)) for end in ends]
        open_ended = Counter(length for length, end in zip(lengths, ends, strict=True) if end.is_open or end.is_marked)
        length, count = max(open_ended.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
        is_longest = length == max(lengths, default=0)
        share = _LEAST_SHARE if is_longest and unit != "words" else _LEAST_COMMON_SHARE
        fewest = max(_FEWEST_CUT, share * len(ends), _LEAST_OPEN_SHARE * lengths.count(length))
        if length >= shortest and count >= fewest and (is_longest or unit != "words"):
            return CutPassages(count, len(ends), unit, length)
    marked = sum(end.is_marked for end in ends)
    return CutPassages(marked, len(ends)) if marked >= max(_FEWEST_CUT, _LEAST_COMMON_SHARE * len(ends)) else None


class RunStatus(StrEnum):
    """How far a run got. Only ``DONE`` says that the output is complete and reconciled."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class ReadingNote:
    """What was chosen, left out or could not be read when a log was read, and in how many rows."""

    note: str
    rows: Count

    def __str__(self) -> str:
        return f"{self.note}: {self.rows:,} row{'' if self.rows == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input file and its fingerprint: ``sha256`` is that of its content."""

    path: str
    size_bytes: Count
    row_count: Count
    sha256: str
    notes: tuple[ReadingNote, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One written Parquet file; ``path`` is relative to the output directory."""

    path: str
    row_count: Count
    size_bytes: Count
    sha256: str


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """Number of rows that one stage refused for one reason."""

    stage: str
    reason: str
    rows: Count


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """What became of some rows; numbers are None where they were not counted.

    Attributes:
        spans: target spans by support.
        tokens: tokens of attributed rows.
        rows_in_windows: audited rows that were longer than the model's context and so were read in windows.
        rows_unread: audited rows that were too long for the verdict's own model, a decoder or a verifier, and were
            judged without it.
        rows_asked: audited rows that this model was asked about: those in the verdict's band.
        claims: the spans that count by support: claims once, and what is no claim or cannot be judged.
        not_judged: those of them that cannot be judged, by ``claim_kind``.
        answers: audited rows by ``answer_kind``.
    """

    rows: Count = 0
    audited: Count = 0
    dead_letters: tuple[DeadLetterCount, ...] = ()
    spans: Mapping[Annotated[str, _one_of(Support)], Count] = field(default_factory=dict)
    tokens: Count | None = 0
    rows_in_windows: Count | None = 0
    rows_unread: Count | None = None
    rows_asked: Count | None = None
    claims: Mapping[Annotated[str, _one_of(Support)], Count] = field(default_factory=dict)
    not_judged: Mapping[Annotated[str, _one_of(ClaimKind)], Count] = field(default_factory=dict)
    answers: Mapping[Annotated[str, _one_of(AnswerKind)], Count] = field(default_factory=dict)

    @property
    def claim_count(self) -> int:
        """Number of claims, judged or not calibrated."""
        return sum(self.claims.get(support, 0) for support in CLAIM_SUPPORTS)

    @property
    def not_judged_count(self) -> int:
        """Number of spans that may be claims, but cannot be judged."""
        return self.claims.get(Support.NOT_JUDGED, 0)

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

    def contradictions(self) -> Iterator[str]:
        """Which of these numbers cannot be true at once."""
        if (bool(self.claims), bool(self.answers)) != (bool(self.spans),) * 2:
            yield "spans, claims and answers should go together"
        if not self.is_reconciled:
            yield "rows should be those audited and those dead-lettered"
        if self.audited > self.span_count:
            yield "each audited row should have a span"
        if any(number > self.spans.get(support, 0) for support, number in self.claims.items()):
            yield "claims should be spans"
        if sum(self.answers.values()) != self.audited:
            yield "answers should be the audited rows"
        if sum(self.not_judged.values()) != self.not_judged_count:
            yield "not_judged should be the spans that are not judged"
        if max(self.rows_in_windows or 0, self.rows_unread or 0, self.rows_asked or 0) > self.audited:
            yield "rows_in_windows, rows_unread and rows_asked should be audited rows"


@dataclass(frozen=True, slots=True)
class StageSeconds:
    """How long one stage worked, summed over chunks and processes: read, encode, parse, attribute, evidence or write.

    ``cpu_seconds`` are those of all threads of the process meanwhile. On a GPU the model works in a thread of its own:
    attribute has the seconds of that thread alone, and stages that work beside it have them once more. What Beam and
    the checks of a chunk take is in no stage.
    """

    stage: str
    wall_seconds: Seconds
    cpu_seconds: Seconds


@dataclass(frozen=True, slots=True)
class _Versioned:
    schema_version: str = SCHEMA_VERSION


class _Manifest:
    """JSON out and in, for both kinds of manifest; ``_kind`` names the kind in errors."""

    __slots__ = ()
    _kind: ClassVar[str]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str | bytes, name: str = "the manifest") -> Self:
        """The manifest that ``to_json`` wrote; ``name`` is its name in the error that tells of another version.

        Raises ``SchemaVersionError`` if it is of another version of the schema; ``ValueError`` if the text is no
        manifest of this kind, or contradicts itself.
        """
        try:
            check_version(read_json(_Versioned, text, extra="ignore").schema_version, name)
            manifest = read_json(cls, text)
            if contradiction := next(manifest.contradictions(), None):
                raise ValueError(contradiction)
        except SchemaVersionError:
            raise
        except ValueError as error:
            raise ValueError(f"a {cls._kind} manifest of schema {SCHEMA_VERSION} was expected: {error}") from error
        return manifest

    def contradictions(self) -> Iterator[str]:
        """What cannot be true at once."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ChunkManifest(_Manifest):
    """The commit of one chunk: rows ``[row_start, row_end)`` of ``source_file``, and the files that hold them.

    ``input_sha256`` is the fingerprint of the input file, ``configuration`` the hash of all that decides the records,
    ``passage_sample`` a sample of the passages of audited rows, ``notes`` what of these rows could not be read.
    """

    chunk: str
    source_file: str
    input_sha256: str
    row_start: Count
    row_end: Count
    configuration: str
    counts: AuditCounts
    evidence: OutputFile
    dead_letters: OutputFile
    seconds: Seconds
    stages: tuple[StageSeconds, ...] = ()
    passage_sample: tuple[PassageEnd, ...] = ()
    notes: tuple[ReadingNote, ...] = ()
    schema_version: str = SCHEMA_VERSION

    _kind: ClassVar[str] = "chunk"

    def contradictions(self) -> Iterator[str]:
        yield from self.counts.contradictions()
        if self.counts.rows != self.row_end - self.row_start:
            yield "counts.rows should be those from row_start to row_end"
        if not self.chunk.endswith(f"-r{self.row_start:010d}"):
            yield "chunk should name row_start"
        for folder, file, rows in (
            ("evidence", self.evidence, self.counts.span_count),
            ("dead_letters", self.dead_letters, self.counts.dead_lettered),
        ):
            if not re.fullmatch(rf"{folder}/{re.escape(self.chunk)}(-[0-9a-f]{{12}})?\.parquet", file.path):
                yield f"{folder}.path should be a file of the chunk in {folder}/"
            if file.row_count != rows:
                yield f"{folder}.row_count should be {rows}, as counts say"


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
        chunks: names of the committed chunks in input order.
        cut_passages: what speaks for passages that the log stores cut; None where nothing does.
    """

    status: RunStatus
    attribeam_version: str
    runner: str
    started_at: Moment
    seconds: Seconds
    load_seconds: Seconds
    rows_per_second: Annotated[FiniteNumber, Field(ge=0)]
    configuration: str
    inputs: tuple[InputFile, ...]
    options: Mapping[str, object]
    models: Mapping[str, str]
    versions: Mapping[str, str]
    counts: AuditCounts
    chunks: tuple[str, ...] = ()
    stages: tuple[StageSeconds, ...] = ()
    cut_passages: CutPassages | None = None
    schema_version: str = SCHEMA_VERSION

    _kind: ClassVar[str] = "run"

    def contradictions(self) -> Iterator[str]:
        """See ``_Manifest``; options and models are checked as far as reports read them."""
        yield from self.counts.contradictions()
        if self.status is RunStatus.DONE and self.counts.rows != sum(file.row_count for file in self.inputs):
            yield "counts.rows should be those of the inputs"
        read_json(dict[str, _ShareText], json.dumps({n: value for n, value in self.models.items() if n in _SHARES}))
        read_json(_ReadOptions, json.dumps(self.options), extra="ignore")
        read_json(_ReadPrivacy, json.dumps(self.options.get("privacy", {})))


@dataclass(frozen=True, slots=True)
class _ReadFile:
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class _ReadPrivacy:
    """What masks are made of again; a wrong one would show texts that the audit has masked."""

    redact: bool = False
    redact_patterns: _ReadFile | None = None
    no_texts: bool = False


@dataclass(frozen=True, slots=True)
class _ReadOptions:
    """Those of a run's options that logs are read with again."""

    columns: tuple[tuple[str, str], ...] = ()
    log_format: str = ""
    max_text_chars: Count = 0


_SHARES = (
    "answer_risk_threshold", "supported_threshold", "weak_threshold", "verdict_precision", "verdict_recall",
    "verdict_false_alarms", "verdict_short_precision", "verdict_short_recall", "verdict_short_false_alarms",
)  # fmt: skip
"""Those of a run's models that are read as numbers."""


def sum_counts(parts: Iterable[AuditCounts]) -> AuditCounts:
    """The counts of several disjoint sets of rows together; dead letters are sorted by stage and reason."""
    counts = [*parts]
    letters: Counter[tuple[str, str]] = Counter()
    tallies: dict[str, Counter[str]] = {name: Counter() for name in ("spans", "claims", "not_judged", "answers")}
    for part in counts:
        letters.update({(letter.stage, letter.reason): letter.rows for letter in part.dead_letters})
        for name, tally in tallies.items():
            tally.update(getattr(part, name))
    return AuditCounts(
        rows=sum(part.rows for part in counts),
        audited=sum(part.audited for part in counts),
        dead_letters=dead_letter_counts(letters),
        tokens=_sum([part.tokens for part in counts]),
        rows_in_windows=_sum([part.rows_in_windows for part in counts]),
        rows_unread=_sum([part.rows_unread for part in counts if part.rows_unread is not None] or [None]),
        rows_asked=_sum([part.rows_asked for part in counts if part.rows_asked is not None] or [None]),
        **{name: dict(sorted(tally.items())) for name, tally in tallies.items()},
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    """The sum; None where one is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def sum_stage_seconds(parts: Iterable[Sequence[StageSeconds]]) -> tuple[StageSeconds, ...]:
    """The seconds of several chunks together, stage by stage, in the order in which the stages first appear."""
    sums: dict[str, tuple[float, float]] = {}
    for part in chain.from_iterable(parts):
        wall, cpu = sums.get(part.stage, (0.0, 0.0))
        sums[part.stage] = (wall + part.wall_seconds, cpu + part.cpu_seconds)
    return tuple(StageSeconds(stage, round(wall, 3), round(cpu, 3)) for stage, (wall, cpu) in sums.items())


def dead_letter_counts(rows: Mapping[tuple[str, str], int]) -> tuple[DeadLetterCount, ...]:
    """Counts by (stage, reason), sorted."""
    return tuple(DeadLetterCount(stage, reason, count) for (stage, reason), count in sorted(rows.items()))
