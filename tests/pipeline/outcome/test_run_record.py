"""What chunks tell of rows is told of their files in the manifest of the run."""

from __future__ import annotations

from attribeam.pipeline.outcome.run_record import with_row_notes
from attribeam.schemas.run_manifest import AuditCounts, ChunkManifest, InputFile, OutputFile, ReadingNote


def _chunk(file: str, *notes: ReadingNote) -> ChunkManifest:
    output = OutputFile("", 0, 0, "")
    return ChunkManifest("", file, "", 0, 0, "", AuditCounts(), output, output, 1.0, notes=notes)


def test_notes_of_chunks_are_added_up_for_their_file() -> None:
    told = ReadingNote("answer read from response", 3)
    files = tuple(InputFile(name, 10, 3, "ab", (told,)) for name in ("a.jsonl", "b.jsonl"))
    chunks = [
        _chunk("a.jsonl", ReadingNote("no time", 1), ReadingNote("no text", 2)),
        _chunk("a.jsonl", ReadingNote("no time", 1)),
    ]
    first, second = with_row_notes(files, chunks)
    assert first.notes == (told, ReadingNote("no text", 2), ReadingNote("no time", 2))
    assert second == files[1]
