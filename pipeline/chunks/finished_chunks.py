"""Which committed chunks a run may keep: the same rules for local and distributed runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attribeam.logs.files import fingerprint_file
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.report.committed_chunks import DEAD_LETTERS, EVIDENCE, CommittedChunks, in_threads
from attribeam.schemas.errors import UsageError
from attribeam.schemas.run_manifest import ChunkManifest, OutputFile


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

    ``damaged`` names the chunks that fit except for their files, ``foreign`` those of other rows, content or options.
    """

    def __init__(self, committed: CommittedChunks, *, configuration: str) -> None:
        self._committed = committed
        self._configuration = configuration
        self.damaged: list[str] = []
        self.foreign: list[str] = []

    def fitting(self, chunks: Sequence[Chunk], *, digests: bool = True) -> dict[str, ChunkManifest]:
        """The manifests by name of the chunks that are finished and fit.

        A chunk fits if its input's content, its rows, the configuration and its files are unchanged: their sizes, and
        their SHA-256 where ``digests`` are asked for.

        Raises:
            UsageError: if all finished chunks belong to another input or configuration.
            OSError: if the output cannot be read.
        """
        there = self._committed.readable_manifests()
        self._refuse_another_audit(there.values(), chunks)
        same = [chunk.name for chunk in chunks if chunk.name in there and self._is_own(there[chunk.name], chunk)]
        whole = self._whole({name: there[name] for name in same}, digests=digests)
        self.damaged += [name for name in same if name not in whole]
        self.foreign += sorted(there.keys() - set(same))
        return whole

    def _is_own(self, manifest: ChunkManifest, chunk: Chunk) -> bool:
        return is_of(manifest, chunk, self._configuration)

    def _refuse_another_audit(self, there: Iterable[ChunkManifest], chunks: Sequence[Chunk]) -> None:
        contents = {chunk.input.sha256 for chunk in chunks}
        found = [(one.configuration == self._configuration and one.input_sha256 in contents) for one in there]
        if found and not any(found):
            raise UsageError(
                f"--output {self._committed.root!r} holds {len(found)} finished chunks of another input, other "
                "options or versions; choose another --output, or give --overwrite to delete them"
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


def damage_notes(
    damaged: Sequence[str], finished: Mapping[str, ChunkManifest], *, verify: bool, foreign: Sequence[str] = ()
) -> Iterator[str]:
    """How many finished chunks are damaged or ``foreign``, and with ``verify`` how many are intact."""
    if foreign:
        yield (
            f"{len(foreign)} finished chunks of an earlier run were removed, first {foreign[0]}: their logs are no "
            "longer in --input or no longer the same, or --rows-per-chunk or another option has changed"
        )
    if damaged:
        yield (
            f"files are damaged or missing in {len(damaged)} of {len(damaged) + len(finished)} finished chunks, first "
            f"in {damaged[0]}; these chunks are audited again"
        )
    if verify:
        size = sum(one.evidence.size_bytes + one.dead_letters.size_bytes for one in finished.values())
        yield f"{len(finished)} finished chunks ({size / 1e6:,.1f} MB) are intact"
