"""Hidden texts, and who may read what is written.

What stands for the texts of an audit that wrote none: the texts of its log where they are shown, else places.

Who may read what is written: the umask of ``--umask``, for a while and for all processes that start meanwhile.
"""

from __future__ import annotations

import errno
import os
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path

from attribeam.report.audited_answer import AuditedAnswer
from attribeam.schemas import EvidencePiece, QARecord, SpanEvidence

UNKNOWN_VALUE = "(not written)"


def with_texts(answer: AuditedAnswer, record: QARecord | None = None) -> AuditedAnswer:
    """The answer with a text for every span and piece: its own, that of ``record``, or where it stands.

    A span's text is empty only where the audit wrote none. Values that no passage has can be counted, not read.
    """
    if all(span.text for span in answer.spans):
        return answer
    return replace(answer, spans=tuple(_span(span, record) for span in answer.spans))


def without_texts(answer: AuditedAnswer) -> AuditedAnswer:
    """The answer as if its audit had written no texts: with the places of its spans and pieces."""
    hidden = (
        replace(span, expected=None, unmatched_values=("",) * len(span.unmatched_values)) for span in answer.spans
    )
    return replace(answer, spans=tuple(_span(span, None) for span in hidden))


def _span(span: SpanEvidence, record: QARecord | None) -> SpanEvidence:
    chars = span.chars
    return replace(
        span,
        text=f"characters {chars.char_start} to {chars.char_end}" if record is None else chars.of(record.answer),
        evidence=tuple(replace(piece, text=_piece_text(piece, record)) for piece in span.evidence),
        unmatched_values=tuple(value or UNKNOWN_VALUE for value in span.unmatched_values),
    )


def _piece_text(piece: EvidencePiece, record: QARecord | None) -> str:
    if record is None:
        return f"characters {piece.chars.char_start} to {piece.chars.char_end}"
    passage = record.passages[piece.passage_index]
    return piece.chars.of((passage.title or "") if piece.in_title else passage.text)


_OCTAL = re.compile(r"0?[0-7]{3}")
_OWNER = 0o700


def umask_text(text: str) -> str:
    """Parse the argument of ``--umask``: what others than the owner may not do, as in the shell.

    Raises:
        argparse.ArgumentTypeError: if it is no such number, or would shut out the owner.
    """
    if not _OCTAL.fullmatch(text) or int(text, 8) & _OWNER:
        raise ArgumentTypeError(
            f"should be three octal digits that leave the owner all rights, such as 077, was: {text!r}"
        )
    return text


@contextmanager
def made_with(umask: str | None) -> Iterator[None]:
    """Make what the block and the processes started in it write with this umask; None changes nothing."""
    if umask is None:
        yield
        return
    before = os.umask(int(umask, 8))
    try:
        yield
    finally:
        os.umask(before)


def recorded_umask(*audits: Mapping[str, object]) -> str | None:
    """The umask that denies what this process' own denies, or that of one of the audits, by the options in its
    manifest; None if none had one.
    """
    runs = [options.get("run") for options in audits]
    texts = [run.get("umask") for run in runs if isinstance(run, Mapping)]
    return _together(int(one, 8) for one in texts if isinstance(one, str) and _OCTAL.fullmatch(one))


def umask_of_folders(folders: Iterable[Path]) -> str | None:
    """The umask that denies what this process' own denies, or one of the folders to others than its owner; None where
    there are no folders.
    """
    return _together(~folder.stat().st_mode & 0o077 for folder in folders)


def _together(umasks: Iterable[int]) -> str | None:
    found = [*umasks]
    own = os.umask(0o077)
    os.umask(own)
    return f"{reduce(or_, found, own & 0o077):03o}" if found else None


def take_rights(folder: Path, names: re.Pattern[str], umask: str) -> None:
    """Take the rights that the umask denies from a folder and what has these names in it.

    Links are passed over, as is what is gone meanwhile.

    Raises:
        OSError: if rights cannot be taken, or the folder is a link.
    """
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in filter(names.fullmatch, os.listdir(at)):  # noqa: PTH208
            try:
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOENT):
                    raise
                continue
            try:
                _deny(descriptor, int(umask, 8))
            finally:
                os.close(descriptor)
        _deny(at, int(umask, 8))
    finally:
        os.close(at)


def _deny(descriptor: int, umask: int) -> None:
    mode = os.fstat(descriptor).st_mode & 0o7777
    if mode & umask:
        os.fchmod(descriptor, mode & ~umask)
