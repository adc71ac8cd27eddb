"""The chunks of an output: which are committed, which of them a run may keep, and how one is committed.

A commit puts the two files of a chunk, and then its manifest, which makes them count. A distributed run gives files
names that no other attempt has and never writes to them again, so a retried or doubled attempt can only leave files
that no manifest names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attribeam.logs.files import WritableStorage, fingerprint_file
from attribeam.pipeline.chunks.chunk_attempt import ChunkAttempt, manifest_of
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.chunks.output_directory import OWN_FOLDERS, RESULTS
from attribeam.report.audit_directory import CHUNKS, DEAD_LETTERS, EVIDENCE, RUN_MANIFEST, CommittedChunks, in_threads
from attribeam.schemas.errors import SchemaVersionError, UsageError
from attribeam.schemas.run_manifest import ChunkManifest, OutputFile, RunManifest, RunStatus
from attribeam.schemas.written_files import UNFINISHED

FOLDERS = (CHUNKS, EVIDENCE, DEAD_LETTERS)
_NAMED_LOGS = 3
_MARK = ".taken_up"


@dataclass(frozen=True, slots=True)
class ChunkStore:
    """Commits chunks of one configuration below ``root``; picklable, for drivers and for the workers of a cluster."""

    root: str
    configuration: str

    @property
    def storage(self) -> WritableStorage:
        """Where the files lie."""
        if "://" not in self.root:
            return WritableStorage()
        from attribeam.transforms.beam_storage import BeamStorage

        return BeamStorage()

    @property
    def committed(self) -> CommittedChunks:
        """The reader of what is committed."""
        return CommittedChunks(self.root, self.storage)

    def fitting(self, chunks: Sequence[Chunk], *, digests: bool = True) -> tuple[dict[str, ChunkManifest], list[str]]:
        """The manifests by name of the chunks that are finished and fit, and the names of the damaged ones.

        A chunk fits if its input's content, its rows, the configuration and its files are unchanged: their sizes, and
        their SHA-256 where ``digests`` are asked for. It is damaged if its manifest or files are not as they were
        written; after a run that was done, its own manifest tells of chunks that have lost theirs. Changes nothing.

        Raises:
            UsageError: if there are finished chunks of other rows, content or options, or of another schema version,
                which the run would remove.
            OSError: if the output cannot be read.
        """
        planned = {chunk.name: chunk for chunk in chunks}
        there = {**dict.fromkeys(self._recorded()), **self.committed.manifests_by_name()}
        lost = {name: one for name, one in there.items() if not self._is_redone(one, planned.get(name))}
        if lost:
            raise UsageError(self._refusal(lost))
        whole = self._whole({name: one for name, one in there.items() if one is not None}, digests=digests)
        return whole, [name for name in there if name not in whole]

    def keep_only(self, kept: Mapping[str, ChunkManifest]) -> None:
        """Remove what other runs and slower attempts left: results, then manifests, then files. Make the folders.

        Raises:
            OSError: if something cannot be removed.
        """
        names = {f"{CHUNKS}/{name}.json" for name in kept}
        names |= {file.path for one in kept.values() for file in (one.evidence, one.dead_letters)}
        removed = [self.committed.path(one) for one in self._own_files() if one not in names]
        if removed:
            self.remove_results()
        self.storage.delete(removed)
        for folder in (self.root, self.committed.path(CHUNKS)):
            there = self.storage.sizes(folder)
            unfinished = [name for name in there if name.endswith(_MARK) or UNFINISHED.fullmatch(name)]
            self.storage.delete([f"{folder.rstrip('/')}/{name}" for name in unfinished])
        self.storage.make_folders([self.committed.path(folder) for folder in FOLDERS])

    def remove_results(self) -> None:
        """Remove the page and the metrics of an earlier run, which are not those of the chunks that are to be.

        Raises:
            OSError: if one cannot be removed.
        """
        self.storage.delete([path for path in map(self.committed.path, RESULTS) if self.storage.exists(path)])

    def put(self, name: str, text: str) -> None:
        """Replace a text file of the output.

        Raises:
            OSError: if it cannot be written.
        """
        self.storage.put_text(self.committed.path(name), text)

    def commit(self, chunk: Chunk, attempt: ChunkAttempt, *, mark: str = "") -> ChunkManifest:
        """Move the attempt's files into place, then write the manifest, which makes the chunk exist.

        Attempts that others may double have a ``mark`` in the names of their files; the faster one counts.

        Raises:
            OSError: if the output cannot be written.
        """
        placed = replace(
            attempt,
            evidence=replace(attempt.evidence, path=f"{EVIDENCE}/{chunk.name}{mark}.parquet"),
            dead_letters=replace(attempt.dead_letters, path=f"{DEAD_LETTERS}/{chunk.name}{mark}.parquet"),
        )
        files = ((attempt.evidence, placed.evidence), (attempt.dead_letters, placed.dead_letters))
        for local, file in files:
            self.storage.put_file(self.committed.path(file.path), Path(attempt.folder) / local.path)
        if mark and self.is_committed(chunk):
            self.storage.delete([self.committed.path(file.path) for _, file in files])
            return self.committed.read(chunk.name)
        manifest = manifest_of(chunk, placed, configuration=self.configuration)
        self.put(f"{CHUNKS}/{chunk.name}.json", manifest.to_json())
        return manifest

    def is_committed(self, chunk: Chunk) -> bool:
        """Whether an attempt of this chunk has been committed; a damaged manifest is none.

        Raises:
            OSError: if the output cannot be read.
        """
        try:
            is_there = self.storage.exists(self.committed.path(CHUNKS, f"{chunk.name}.json"))
            return is_there and self._is_of(self.committed.read(chunk.name), chunk)
        except ValueError:
            return False

    def lost(self, finished: Mapping[str, ChunkManifest]) -> list[str]:
        """Names of the ``finished`` chunks that are no longer there, as where a run on another machine removed them.

        Raises:
            OSError: if a manifest cannot be read.
        """
        there = self.committed.manifests_by_name()
        return [
            name
            for name, one in finished.items()
            if (now := there.get(name)) is None or (now.evidence, now.dead_letters) != (one.evidence, one.dead_letters)
        ]

    def mark_taken_up(self, chunk: Chunk) -> None:
        """Note that an attempt of this chunk has begun; the mark stays until ``keep_only``.

        It is not empty, because Beam cannot write an empty object to S3.

        Raises:
            OSError: if the output cannot be written.
        """
        self.put(f"{CHUNKS}/.{chunk.name}{_MARK}", "taken up\n")

    def was_taken_up(self, chunk: Chunk) -> bool:
        """Whether an attempt of this chunk has begun in this run."""
        return self.storage.exists(self.committed.path(CHUNKS, f".{chunk.name}{_MARK}"))

    def _own_files(self) -> Iterator[str]:
        """What audits wrote, relative to the root: manifests, then files; nothing hidden."""
        for folder in FOLDERS:
            for name in sorted(self.storage.sizes(self.committed.path(folder))):
                if OWN_FOLDERS[folder].fullmatch(name):
                    yield f"{folder}/{name}"

    def _recorded(self) -> Sequence[str]:
        """The chunks of a run that was done."""
        try:
            path = self.committed.path(RUN_MANIFEST)
            with self.committed.storage.open(path) as file:
                found = RunManifest.from_json(file.read(), path)
        except SchemaVersionError:
            raise
        except (OSError, ValueError):
            return ()
        return found.chunks if found.status is RunStatus.DONE else ()

    def _is_of(self, manifest: ChunkManifest, chunk: Chunk) -> bool:
        """Whether a manifest is that of this chunk: the same rows, content and configuration."""
        return (
            manifest.source_file == chunk.rows.file
            and manifest.input_sha256 == chunk.input.sha256
            and (manifest.row_start, manifest.row_end) == (chunk.rows.row_start, chunk.rows.row_end)
            and manifest.configuration == self.configuration
        )

    def _is_redone(self, manifest: ChunkManifest | None, planned: Chunk | None) -> bool:
        """Whether the run has the chunk, too: the very same, or one for a manifest that is damaged."""
        return planned is not None and (manifest is None or self._is_of(manifest, planned))

    def _refusal(self, lost: Mapping[str, ChunkManifest | None]) -> str:
        rows = sum(one.counts.rows for one in lost.values() if one is not None)
        logs = sorted({one.source_file for one in lost.values() if one is not None})
        more = f" and {len(logs) - _NAMED_LOGS} more" if len(logs) > _NAMED_LOGS else ""
        named = ", ".join(map(repr, logs[:_NAMED_LOGS])) + more
        return (
            f"--output {self.committed.root!r} holds {len(lost)} finished chunks with {rows:,} rows"
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
            for name, size in self.committed.storage.sizes(self.committed.path(folder)).items()
        }
        files = {name: (one.evidence, one.dead_letters) for name, one in manifests.items()}
        there = [name for name, two in files.items() if all(sizes.get(one.path) == one.size_bytes for one in two)]
        if digests:
            intact = in_threads(lambda name: all(map(self._has_digest, files[name])), there)
            there = [name for name, is_intact in zip(there, intact, strict=True) if is_intact]
        return {name: manifests[name] for name in there}

    def _has_digest(self, file: OutputFile) -> bool:
        return fingerprint_file(self.committed.storage, self.committed.path(file.path))[1] == file.sha256


def damage_notes(damaged: Sequence[str], finished: Mapping[str, ChunkManifest]) -> Iterator[str]:
    """How many finished chunks are damaged; they are audited again."""
    if damaged:
        yield (
            f"files are damaged or missing in {len(damaged)} of {len(damaged) + len(finished)} finished chunks, first "
            f"in {damaged[0]}; these chunks are audited again"
        )
