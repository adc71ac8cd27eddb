"""The logs of an audit, read again: whether each is still what was audited, and what of its rows may be shown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.logs.columns import LogOptions, TableVersion, plain_array
from attribeam.logs.files import ArrowStorage, LogStorage
from attribeam.logs.privacy import (
    LostPatternsError,
    PrivacySettings,
    Redactor,
    SlowPatternError,
    check_masked,
    masked_record,
    masking,
    recorded_settings,
)
from attribeam.logs.qa_log import QALog
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import QARecord, RowSource
from attribeam.schemas.errors import DataError
from attribeam.schemas.run_manifest import InputFile

NO_MASKS = Redactor(PrivacySettings())


@dataclass(frozen=True)
class LogFile:
    """One input file of the manifest; it is looked at once, when its problem is first asked for.

    It gives nothing of the log but what the audit may show: with the masks that the audit made.
    """

    audited: InputFile
    options: LogOptions = field(default_factory=LogOptions)
    storage: LogStorage = field(default_factory=ArrowStorage)
    redactor: Redactor = NO_MASKS

    def records(self, rows: Sequence[int]) -> Iterator[QARecord]:
        """The records of these rows, which ascend, without extra columns; rows that have none are left out."""
        for one in self._log.outcomes(rows):
            if isinstance(one, QARecord):
                with suppress(SlowPatternError):
                    yield masked_record(one, self.redactor)

    def passage_ids(self) -> Iterator[pa.Table]:
        """The ids of rows' passages, batch by batch: ``row`` counts the rows of the batch, ``passage`` is a text."""
        for lists in self._log.passage_ids():
            ids = plain_array(pc.struct_field(pc.list_flatten(lists), "passage_id")).cast(pa.string())
            shown = masking(self.redactor).array("passage_id", ids) if self.redactor.settings.masks else ids
            yield pa.table({"row": pc.list_parent_indices(lists), "passage": shown})

    @cached_property
    def _log(self) -> QALog:
        """The file that is looked at."""
        return QALog(self.audited.path, self.options, self.storage).stamped()

    @cached_property
    def problem(self) -> str | None:
        """Why it is not what was audited, and the way out; None where size and SHA-256 are. Never a text of the log."""
        name = f"log {self.audited.path!r}"
        try:
            if self._log.stamp is None:
                way_out = "bring it back, or start where the audit was started if its path is a relative one"
                return f"{name} is not there any more; {way_out}"
            if self._log.fingerprint() == (self.audited.size_bytes, self.audited.sha256):
                return None
        except DataError as error:
            return str(error)
        return f"{name} has another content than when it was audited; audit it again, or bring it back"


TEXTS_HELP = "read the texts from the logs although the audit was made with --no-texts"
_NO_TEXTS = "the audit was made with --no-texts; give --texts to read them from the logs all the same"


@dataclass(frozen=True, slots=True)
class AuditedLogs:
    """The logs of one audit; texts come only from files whose content is still what was audited.

    Whoever shows a text of a log reads it here: it comes with the audit's masks, and not at all where the audit wrote
    no texts or its masks cannot be made again.

    Attributes:
        files: the manifest's inputs by path, with what is known of each.
        redactor: makes the masks that the audit made.
        hidden: why no text is shown, in a sentence; None where texts are shown.
        shows_ids: whether ids of passages may be shown.
    """

    files: Mapping[str, LogFile]
    redactor: Redactor = NO_MASKS
    hidden: str | None = None
    shows_ids: bool = True

    @classmethod
    def of(cls, audit: AuditDirectory, *, texts: bool = False) -> AuditedLogs:
        """The logs that the manifest names; nothing is opened yet. ``texts`` shows them after ``--no-texts``, too."""
        recorded = audit.manifest.options
        redactor, lost = NO_MASKS, ""
        try:
            redactor = Redactor(recorded_settings(recorded.get("privacy")))
        except LostPatternsError as error:
            lost = str(error)
        no_texts = _NO_TEXTS if redactor.settings.no_texts and not texts else None
        options = _log_options(recorded)
        files = {one.path: LogFile(one, options, audit.storage, redactor) for one in audit.manifest.inputs}
        return cls(files, redactor, hidden=lost or no_texts, shows_ids=not lost)

    def masked(self, record_id: str) -> str:
        """An id of the log as the audit wrote it."""
        return self.redactor.mask(record_id)

    def check(self, name: str, written: str) -> None:
        """Refuse JSON of ``name`` that shows what should be masked; paths of the logs are shown as the user gave them.

        Raises:
            LeakError: if it does; the message says where.
        """
        check_masked(name, json.loads(written), self.redactor.settings, self.files)

    def answers(self, rows: frozenset[RowSource]) -> Iterator[QARecord]:
        """The records of ``rows``, ascending by file and row; rows of logs that are gone or changed are left out.

        Only files that hold a wanted row are read, in small batches; each is fingerprinted first.
        """
        if self.hidden is not None:
            return
        for path in sorted({row.source_file for row in rows}):
            file = self.files.get(path)
            if file is not None and file.problem is None:
                wanted = sorted(row.source_row for row in rows if row.source_file == path)
                yield from file.records(wanted)

    def problems(self, rows: frozenset[RowSource]) -> tuple[str, ...]:
        """Why texts of ``rows`` are not shown: one sentence, or one per log that is gone, changed or unknown."""
        if self.hidden is not None:
            return (self.hidden,)
        paths = sorted({row.source_file for row in rows})
        unknown = tuple(f"{path!r} is no input of this audit" for path in paths if path not in self.files)
        known = (self.files[path].problem for path in paths if path in self.files)
        return unknown + tuple(problem for problem in known if problem is not None)


def _log_options(recorded: Mapping[str, object]) -> LogOptions:
    """How the audit read its logs; a manifest that says less had the defaults."""
    default = LogOptions()
    columns, longest = recorded.get("columns"), recorded.get("max_text_chars")
    return LogOptions(
        columns=tuple((str(name), str(column)) for name, column in columns) if isinstance(columns, list) else (),
        max_text_chars=longest if isinstance(longest, int) else default.max_text_chars,
        format=str(recorded.get("log_format", default.format)),
        tables=tuple(TableVersion(**one) for one in recorded.get("tables", ())),  # type: ignore[attr-defined]
    )
