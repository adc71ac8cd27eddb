"""Stage 4: runs blocks of rows through the models that the method needs, here or in another process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from attribeam.attribution.methods.audit_row import AuditRow, Outcome, RowFindings, model_outcomes, runs_models
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.methods.models import load_audit_models
from attribeam.attribution.options import MethodOptions
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import RowGroup, packs, stage, thread_stage

if TYPE_CHECKING:
    import torch

BLOCK_ROWS = 256
BLOCK_TOKENS = 131_072
_CHARS_PER_TOKEN = 4
_MODEL_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="attribeam-model")
"""One thread per process, shared by all groups; it starts with the first block."""


class Pending(Protocol):
    """Outcomes that a thread or another process computes."""

    def result(self) -> Sequence[Outcome]:
        """One outcome per row, once they are ready; exceptions of the model surface here."""
        ...


@dataclass(frozen=True, slots=True)
class AttributedBlock:
    """Rows with what the models found for each, in order, or the fault of a row that they could not process.

    ``settings`` are the method's options merged with the model's, None without a model.
    """

    rows: tuple[AuditRow, ...]
    outcomes: Sequence[Outcome] | Pending
    settings: MethodOptions | None

    @property
    def is_pending(self) -> bool:
        """Whether the outcomes are computed in the model's thread or process; it may be done by now."""
        return not isinstance(self.outcomes, Sequence)

    def pairs(self) -> list[tuple[AuditRow, Outcome]]:
        """Each row and its outcome, once they are ready; exceptions of the model surface here."""
        outcomes = self.outcomes if isinstance(self.outcomes, Sequence) else self.outcomes.result()
        return [*zip(self.rows, outcomes, strict=True)]


class BlockModel(Protocol):
    """Runs blocks through the models of a method."""

    @property
    def settings(self) -> MethodOptions | None:
        """The method's options merged with the model's; None without an attention model."""
        ...

    def start(self, rows: Sequence[AuditRow]) -> Sequence[Outcome] | Pending:
        """Run a block, or start on it."""
        ...


class OwnModels:
    """The models of this process, which are loaded once for all of its threads.

    On a GPU they work in a thread of their own, while other blocks are parsed and written. On a CPU all stages share
    the processors anyway.
    """

    def __init__(self, settings: AuditSettings) -> None:
        """Load the models.

        Raises:
            ModelLoadError: as ``load_audit_models``.
        """
        self._method, self._options = resolve_method(settings.method), settings.method
        self._models = load_audit_models(settings.models, self._method.needs)

    @property
    def settings(self) -> MethodOptions | None:
        """See ``BlockModel``."""
        return None if self._models.attention is None else self._models.attention.settings

    def start(self, rows: Sequence[AuditRow]) -> Sequence[Outcome] | Pending:
        """See ``BlockModel``."""
        if runs_in_model_thread(self._models.device):
            return _MODEL_THREAD.submit(self._run_in_thread, rows)
        with stage("attribute"):
            return model_outcomes(self._method, self._options, self._models, rows)

    def _run_in_thread(self, rows: Sequence[AuditRow]) -> list[Outcome]:
        with thread_stage("attribute"):
            return model_outcomes(self._method, self._options, self._models, rows)


def runs_in_model_thread(device: torch.device) -> bool:
    """Whether the model runs in its own thread: True on a GPU."""
    return device.type != "cpu"


_elsewhere: BlockModel | None = None


def run_blocks_elsewhere(model: BlockModel) -> None:
    """Let all stages of this process use ``model``, which runs in another process, instead of models of their own.

    Beam pickles its stages, so what cannot be pickled belongs to the process.
    """
    global _elsewhere
    _elsewhere = model


def attributed_blocks(group: RowGroup, settings: AuditSettings) -> Iterator[AttributedBlock]:
    """The ``AuditRow``s of a group in blocks of many batches, so that rows of similar length can share a batch.

    A block with pending outcomes comes when the next one was started, or all rows were read; the model works meanwhile.
    A method without a model loads nothing.
    """
    model: BlockModel | None = None
    if runs_models(resolve_method(settings.method), settings.method):
        model = _elsewhere or OwnModels(settings)
    pending: AttributedBlock | None = None
    for rows in packs(group.rows, max_rows=BLOCK_ROWS, weigh=_token_count, max_weight=BLOCK_TOKENS):
        if model is None:
            block = AttributedBlock(rows, [RowFindings() for _ in rows], None)
        else:
            block = AttributedBlock(rows, model.start(rows), model.settings)
        if pending is not None:
            yield pending
        pending = block if block.is_pending else None
        if pending is None:
            yield block
    if pending is not None:
        yield pending


def _token_count(row: AuditRow) -> int:
    """Tokens of prompt and response, those of all its windows where a row has some; else an estimate."""
    if row.encoded is not None:
        return row.encoded.token_count
    record = row.record
    return 1 + (len(record.answer) + sum(len(one.text) for one in record.passages)) // _CHARS_PER_TOKEN
