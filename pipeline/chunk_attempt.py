"""What a chunk is given and what its run gives back; light to import, because the driver has no models."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from schemas.run_manifest import AuditCounts, OutputFile, StageSeconds


@dataclass(frozen=True, slots=True)
class OutputSchemas:
    """The Arrow schemas of the two outputs, provenance in their metadata."""

    evidence: pa.Schema
    dead_letters: pa.Schema


@dataclass(frozen=True, slots=True)
class ChunkAttempt:
    """A chunk that was run and verified but not yet committed; files are relative to ``folder``."""

    folder: str
    evidence: OutputFile
    dead_letters: OutputFile
    counts: AuditCounts
    seconds: float
    stages: tuple[StageSeconds, ...] = ()
