"""Send what an audit found of each answer to the trace store that its log came from."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import NoReturn, TextIO
from uuid import uuid5

from tqdm import tqdm

from attribeam.integrations.scores import NAMESPACE, AnswerScores, answer_scores
from attribeam.integrations.targets import TARGETS, Target, target_named
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedLogs
from attribeam.report.messages import Messages, as_private_as, print_lines
from attribeam.schemas.errors import ExitCode, RunError, UsageError

_MESSAGES = Messages("attribeam send")
SENT, FAILURES = "sent.txt", "send_failures.jsonl"
BATCH_ANSWERS = 50
_WAITS = (1.0, 4.0, 16.0)
"""Seconds before each further try."""
_FOR_A_TIME, _NO_ENTRY = (408, 425, 429), (401, 403)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|HEADERS|AUTH", re.IGNORECASE)
_SHOWN_IDS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam send``."""
    add = parser.add_argument
    add("audit", type=Path, metavar="AUDIT", help="the output directory of attribeam audit")
    add("--to", choices=[*TARGETS], required=True, help="the store; its client's own variables say where, and the keys")
    add("--with-texts", action="store_true", help="send texts of unsupported claims, too, not only where they stand")
    add("--dry-run", action="store_true", help="count what would be sent, and send nothing")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Send the scores of all answers that were not sent yet; ``FAILED`` if the store refused some of them.

    Raises:
        UsageError: if there is no such audit, no answer has ids, the audit wrote no texts, or a client is missing.
        RunError: if something cannot be read or written, or the store cannot be reached.
    """
    if "://" in str(arguments.audit):
        raise UsageError(f"AUDIT should be a local directory, was: {arguments.audit}; copy it here first")
    audit = AuditDirectory.open(arguments.audit)
    if arguments.with_texts and (hidden := AuditedLogs.of(audit).hidden):
        raise UsageError(f"--with-texts: {hidden.partition(';')[0]}; leave it out")
    if not {"trace_id", "span_id"} <= set(audit.evidence_schema.names):
        raise UsageError(
            f"{audit.root} should have the columns trace_id and span_id, has none; attribeam import keeps them, and "
            "--extra-columns trace_id,span_id carries those of a log of your own"
        )
    target = None if arguments.dry_run else target_named(arguments.to)
    answers = answer_scores(audit, texts=arguments.with_texts)
    with as_private_as([audit.root]):
        sending = Sending(arguments.to, Path(audit.root), target)
        sending.send_all(tqdm(answers, desc="send", total=audit.counts.audited, unit="answer", disable=None))
    print_lines(sending.summary())
    _MESSAGES.say(*sending.notes(), *([audit.incomplete] if audit.incomplete else []))
    return ExitCode.FAILED if sending.failures else ExitCode.DONE


@dataclass
class Sending:
    """Sends answers in batches, and remembers beside the audit what the store has; without a ``target`` it counts."""

    name: str
    root: Path
    target: Target | None
    answers: int = 0
    sent: int = 0
    sent_before: int = 0
    without_ids: list[str] = field(default_factory=list)
    failures: list[tuple[AnswerScores, str]] = field(default_factory=list)

    def send_all(self, answers: Iterable[AnswerScores]) -> None:
        """Send what was not sent yet, and write what failed to ``send_failures.jsonl``.

        Raises:
            RunError: if the store cannot be reached, lets nobody in, or a file cannot be written.
        """
        try:
            known = set((self.root / SENT).read_text().split()) if (self.root / SENT).exists() else set()
            waiting = (one for one in answers if self._is_to_send(one, known))
            if self.target is None:
                self.sent = sum(1 for _ in waiting)
                return
            with (self.root / SENT).open("a") as file:
                while batch := list(islice(waiting, BATCH_ANSWERS)):
                    self._send(self.target, batch, file)
            self._write_failures()
        except OSError as error:
            raise RunError(f"{self.root} cannot be written to: {error.strerror}") from error

    def summary(self) -> str:
        """What became of how many answers."""
        done = "would be sent" if self.target is None else "sent"
        counts = {"sent before": self.sent_before, "failed": len(self.failures), "without ids": len(self.without_ids)}
        more = "".join(f", {count} {what}" for what, count in counts.items() if count)
        return f"{self.answers} answers: {self.sent} {done} to {self.name}{more}"

    def notes(self) -> Iterator[str]:
        """What is missing, and what to do."""
        if self.without_ids:
            named = ", ".join(self.without_ids[:_SHOWN_IDS])
            yield f"{len(self.without_ids)} answers have no id in the trace store and were not sent, such as {named}"
        if self.failures:
            yield f"{len(self.failures)} failed, see {self.root / FAILURES}; the first: {self.failures[0][1]}"

    def _is_to_send(self, answer: AnswerScores, known: set[str]) -> bool:
        self.answers += 1
        if answer.trace_id is None or (answer.span_id is None and TARGETS[self.name].needs_span):
            self.without_ids.append(answer.record_id)
            return False
        self.sent_before += self._mark(answer) in known
        return self._mark(answer) not in known

    def _mark(self, answer: AnswerScores) -> str:
        """A digest of what is sent and of where to, so that an answer with another verdict is sent again."""
        where = [os.environ.get(name, "") for name in TARGETS[self.name].places]
        return str(uuid5(NAMESPACE, repr((self.name, where, answer.scores))))

    def _send(self, target: Target, answers: Sequence[AnswerScores], file: TextIO) -> None:
        """Send a batch; of one that the store refuses, each half alone, until it is known which answers it refuses."""
        try:
            self._try(target, answers)
        except Exception as error:  # noqa: BLE001 - each client has its own errors
            if _may_pass(error) or _status(error) in _NO_ENTRY:
                self._stop(error)
            half = len(answers) // 2
            if half == 0:
                self.failures.append((answers[0], shown(error)))
            for part in (answers[:half], answers[half:]) if half else ():
                self._send(target, part, file)
            return
        self.sent += len(answers)
        file.writelines(f"{self._mark(one)}\n" for one in answers)
        file.flush()

    def _try(self, target: Target, answers: Sequence[AnswerScores]) -> None:
        scores = list(chain.from_iterable(one.scores for one in answers))
        for wait in _WAITS:
            try:
                return target.send(scores)
            except Exception as error:
                if not _may_pass(error):
                    raise
                time.sleep(wait)
        return target.send(scores)

    def _stop(self, error: Exception) -> NoReturn:
        self._write_failures()
        raise RunError(
            f"{self.name} does not take scores: {shown(error)}; {self.sent} answers are sent, start the same command "
            "again for the others"
        ) from error

    def _write_failures(self) -> None:
        path = self.root / FAILURES
        path.unlink(missing_ok=True)
        if self.failures:
            rows = ({"record_id": one.record_id, "trace_id": one.trace_id, "error": why} for one, why in self.failures)
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def _status(error: BaseException) -> int | None:
    """The HTTP status that an error of any client tells of."""
    ask = getattr(error, "get_http_status_code", None)
    found = ask() if ask else getattr(getattr(error, "response", error), "status_code", None)
    return found if isinstance(found, int) else None


def _may_pass(error: BaseException) -> bool:
    """Whether another try may do: not for what the store understood and refused."""
    status = _status(error)
    if status is None:
        return not isinstance(error, ValueError | TypeError | LookupError)
    return status >= 500 or status in _FOR_A_TIME


def shown(error: BaseException) -> str:
    """The error in one line, without what variables of keys hold and without the user of an address."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) > 3:
            text = text.replace(value, "***")
    return re.sub(r"//[^/@\s]+@", "//***@", text)[:500]
