"""The logs of an audit, read again: whether each is still what was audited, and the whole texts of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from attribeam.logs.columns import LogOptions
from attribeam.logs.files import ArrowStorage, LogStorage, fingerprint_file
from attribeam.logs.qa_log import QALog
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import QARecord, RowSource
from attribeam.schemas.run_manifest import InputFile


class LogState(StrEnum):
    """What has become of a log since it was audited."""

    AS_AUDITED = "as_audited"
    GONE = "gone"
    CHANGED = "changed"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class LogFile:
    """One input file of the manifest; it is looked at once, when its state is first asked for."""

    audited: InputFile
    options: LogOptions = field(default_factory=LogOptions)
    storage: LogStorage = field(default_factory=ArrowStorage)

    @property
    def log(self) -> QALog:
        """The file as it was read."""
        return QALog(self.audited.path, self.options, self.storage)

    @cached_property
    def state(self) -> LogState:
        """By size and SHA-256 of the whole content."""
        return self._found[0]

    @property
    def explanation(self) -> str:
        """What was expected, what was found, and the way out; never a text of the log."""
        return f"log {self.audited.path!r} {self._found[1]}"

    @cached_property
    def _found(self) -> tuple[LogState, str]:
        try:
            return self._look()
        except OSError as error:
            return LogState.UNREADABLE, f"cannot be read: {error}"

    def _look(self) -> tuple[LogState, str]:
        path, storage = self.audited.path, self.log.storage
        if storage.stamp(path) is None:
            way_out = "bring it back, or start where the audit was started if its path is a relative one"
            return LogState.GONE, f"is not there any more; {way_out}"
        if fingerprint_file(storage, path) != (self.audited.size_bytes, self.audited.sha256):
            return LogState.CHANGED, "has another content than when it was audited; audit it again, or bring it back"
        return LogState.AS_AUDITED, "is as it was audited"


@dataclass(frozen=True, slots=True)
class AuditedLogs:
    """The logs of one audit; texts come only from files whose content is still what was audited.

    Attributes:
        files: the manifest's inputs by path, with what is known of each.
    """

    files: Mapping[str, LogFile]

    @classmethod
    def of(cls, audit: AuditDirectory) -> AuditedLogs:
        """The logs that the manifest names; nothing is opened yet."""
        options = _log_options(audit.manifest.options)
        return cls({one.path: LogFile(one, options, audit.storage) for one in audit.manifest.inputs})

    def answers(self, rows: frozenset[RowSource]) -> Iterator[QARecord]:
        """The records of ``rows``, ascending by file and row; rows of logs that are gone or changed are left out.

        Only files that hold a wanted row are read, in small batches; each is fingerprinted first.
        """
        for path in sorted({row.source_file for row in rows}):
            file = self.files.get(path)
            if file is not None and file.state is LogState.AS_AUDITED:
                wanted = sorted(row.source_row for row in rows if row.source_file == path)
                yield from (one for one in file.log.outcomes(wanted) if isinstance(one, QARecord))

    def problems(self, rows: frozenset[RowSource]) -> tuple[str, ...]:
        """One sentence per log of ``rows`` that is gone, changed or not named in the manifest."""
        paths = sorted({row.source_file for row in rows})
        unknown = tuple(f"{path!r} is no input of this audit" for path in paths if path not in self.files)
        known = (self.files[path] for path in paths if path in self.files)
        return unknown + tuple(file.explanation for file in known if file.state is not LogState.AS_AUDITED)


def _log_options(recorded: Mapping[str, object]) -> LogOptions:
    """How the audit read its logs; a manifest that says less had the defaults."""
    default = LogOptions()
    columns, longest = recorded.get("columns"), recorded.get("max_text_chars")
    return LogOptions(
        columns=tuple((str(name), str(column)) for name, column in columns) if isinstance(columns, list) else (),
        max_text_chars=longest if isinstance(longest, int) else default.max_text_chars,
        format=str(recorded.get("log_format", default.format)),
    )
