"""Stage 4: blocks of encoded rows through the model, by RunInference with a handler of our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference

from attribeam.attribution.attention.attention_model import AttentionModel, load_attention_model
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas import RowFault
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.elements import AttributedBlock, AuditRow, PackRows, start_outcomes
from attribeam.transforms.stage_metrics import NAMESPACE

if TYPE_CHECKING:
    import torch

BLOCK_ROWS = 256
BLOCK_TOKENS = 131_072


@dataclass
class PackForModel(beam.PTransform):
    """Gathers rows into blocks of many batches, large enough for rows of like length to meet in a batch."""

    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        pack = beam.ParDo(PackRows(BLOCK_ROWS, weigh=token_count, max_weight=BLOCK_TOKENS))
        return rows | pack.with_output_types(beam.typehints.Tuple[AuditRow, ...])


@dataclass
class AttributeRows(beam.PTransform):
    """Blocks of ``AuditRow`` in, ``AttributedBlock`` out."""

    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        run = RunInference(AttentionModelHandler(self.settings).with_no_batching())
        return blocks | run.with_output_types(AttributedBlock)


class AttentionModelHandler(ModelHandler[AuditRow, AttributedBlock, AttentionModel]):
    """Runs one block through the attention model.

    The model packs the block by its token budget and halves a batch that does not fit into memory. Nothing of torch is
    touched before ``load_model``.
    """

    def __init__(self, settings: AuditSettings) -> None:
        super().__init__()
        self._settings = settings

    def load_model(self) -> AttentionModel:
        settings = self._settings
        return load_attention_model(settings.model, method=settings.method, threads=settings.threads)

    def run_inference(
        self,
        batch: Sequence[AuditRow],
        model: AttentionModel,
        inference_args: Mapping[str, object] | None = None,  # noqa: ARG002 - Beam's signature
    ) -> Iterable[AttributedBlock]:
        outcomes = start_outcomes(partial(attribute_block, model, batch), ahead=runs_in_model_thread(model.device))
        return [AttributedBlock(tuple(batch), outcomes, model.settings)]

    def get_num_bytes(self, batch: Sequence[AuditRow]) -> int:
        return sum(row.encoded.token_ids.nbytes for row in batch)

    def get_metrics_namespace(self) -> str:
        return NAMESPACE

    def share_model_across_processes(self) -> bool:
        return False


def runs_in_model_thread(device: torch.device) -> bool:
    """Whether the model works in a thread of its own, while the next block is read and parsed and the last one's
    evidence is made: on a GPU. On a CPU all stages share the processors."""
    return device.type != "cpu"


def attribute_block(model: AttentionModel, rows: Sequence[AuditRow]) -> list[TokenAttribution | RowFault]:
    """One outcome a row, in order.

    Raises:
        RuntimeError: if the model gives another number of outcomes; rows would be lost otherwise.
    """
    outcomes = model.attribute([row.encoded for row in rows], [len(row.record.passages) for row in rows])
    if len(outcomes) != len(rows):
        raise RuntimeError(f"the model should give one outcome for each of {len(rows)} rows, gave {len(outcomes)}")
    return outcomes


def token_count(row: AuditRow) -> int:
    """Tokens of the prompt and the response; those of all its windows, where a row has some."""
    return row.encoded.token_count
