"""Which committed chunks a run may keep, and that it removes no others unasked: for local and distributed runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attribeam.logs.files import fingerprint_file
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.report.audit_directory import DEAD_LETTERS, EVIDENCE, CommittedChunks, in_threads
from attribeam.schemas.errors import SchemaVersionError, UsageError
from attribeam.schemas.run_manifest import ChunkManifest, OutputFile, RunManifest, RunStatus

_NAMED_LOGS = 3


def is_of(manifest: ChunkManifest, chunk: Chunk, configuration: str) -> bool:
    """Whether a manifest is that of this chunk: the same rows of a file of the same content, the same configuration."""
    return (
        manifest.source_file == chunk.rows.file
        and manifest.input_sha256 == chunk.input.sha256
        and (manifest.row_start, manifest.row_end) == (chunk.rows.row_start, chunk.rows.row_end)
        and manifest.configuration == configuration
    )


class FinishedChunks:
    """Compares the committed chunks of an output with what a run of ``configuration`` would do.

    ``damaged`` names the chunks whose manifest or files are not as they were written. After a run that was done, its
    own manifest tells of chunks that have lost theirs.
    """

    def __init__(self, committed: CommittedChunks, *, configuration: str) -> None:
        self._committed = committed
        self._configuration = configuration
        self.damaged: list[str] = []

    def fitting(self, chunks: Sequence[Chunk], *, digests: bool = True) -> dict[str, ChunkManifest]:
        """The manifests by name of the chunks that are finished and fit.

        A chunk fits if its input's content, its rows, the configuration and its files are unchanged: their sizes, and
        their SHA-256 where ``digests`` are asked for.

        Raises:
            UsageError: if there are finished chunks of other rows, content or options, or of another schema version,
                which the run would remove.
            OSError: if the output cannot be read.
        """
        planned = {chunk.name: chunk for chunk in chunks}
        there = {**dict.fromkeys(self._recorded()), **self._committed.manifests_by_name()}
        lost = {name: one for name, one in there.items() if not self._is_redone(one, planned.get(name))}
        if lost:
            raise UsageError(self._refusal(lost))
        whole = self._whole({name: one for name, one in there.items() if one is not None}, digests=digests)
        self.damaged += [name for name in there if name not in whole]
        return whole

    def _recorded(self) -> Sequence[str]:
        """The chunks of a run that was done."""
        try:
            path = self._committed.path("run_manifest.json")
            with self._committed.storage.open(path) as file:
                found = RunManifest.from_json(file.read(), path)
        except SchemaVersionError:
            raise
        except (OSError, ValueError):
            return ()
        return found.chunks if found.status is RunStatus.DONE else ()

    def _is_redone(self, manifest: ChunkManifest | None, planned: Chunk | None) -> bool:
        """Whether the run has the chunk, too: the very same, or one for a manifest that is damaged."""
        return planned is not None and (manifest is None or is_of(manifest, planned, self._configuration))

    def _refusal(self, lost: Mapping[str, ChunkManifest | None]) -> str:
        rows = sum(one.counts.rows for one in lost.values() if one is not None)
        logs = sorted({one.source_file for one in lost.values() if one is not None})
        more = f" and {len(logs) - _NAMED_LOGS} more" if len(logs) > _NAMED_LOGS else ""
        named = ", ".join(map(repr, logs[:_NAMED_LOGS])) + more
        return (
            f"--output {self._committed.root!r} holds {len(lost)} finished chunks with {rows:,} rows"
            f"{f' of {named}' if logs else ''}, first {min(lost)}, that this run would remove: their logs are not in "
            "--input at the same place, or have changed, or --rows-per-chunk, another option or a version is not the "
            "same. Start the same command as before, choose another --output, or give --overwrite to audit all rows "
            "again"
        )

    def _whole(self, manifests: Mapping[str, ChunkManifest], *, digests: bool) -> dict[str, ChunkManifest]:
        """Those whose files are there as they were written."""
        sizes = {
            f"{folder}/{name}": size
            for folder in (EVIDENCE, DEAD_LETTERS)
            for name, size in self._committed.storage.sizes(self._committed.path(folder)).items()
        }
        files = {name: (one.evidence, one.dead_letters) for name, one in manifests.items()}
        there = [name for name, two in files.items() if all(sizes.get(one.path) == one.size_bytes for one in two)]
        if digests:
            intact = in_threads(lambda name: all(map(self._has_digest, files[name])), there)
            there = [name for name, is_intact in zip(there, intact, strict=True) if is_intact]
        return {name: manifests[name] for name in there}

    def _has_digest(self, file: OutputFile) -> bool:
        return fingerprint_file(self._committed.storage, self._committed.path(file.path))[1] == file.sha256


def damage_notes(damaged: Sequence[str], finished: Mapping[str, ChunkManifest]) -> Iterator[str]:
    """How many finished chunks are damaged; they are audited again."""
    if damaged:
        yield (
            f"files are damaged or missing in {len(damaged)} of {len(damaged) + len(finished)} finished chunks, first "
            f"in {damaged[0]}; these chunks are audited again"
        )
