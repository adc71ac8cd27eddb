"""Stage 4: runs blocks of rows through the models that the method needs, with RunInference and our own handler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference

from attribeam.attribution.methods.audit_row import AuditRow
from attribeam.attribution.methods.models import ModelStage, stage_of
from attribeam.attribution.methods.registry import resolve_method
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.block_model import BlockModel, load_block_model
from attribeam.transforms.elements import AttributedBlock, BlockOutcomes, PackRows, row_weight
from attribeam.transforms.stage_metrics import NAMESPACE

BLOCK_ROWS = 256
BLOCK_TOKENS = 131_072


@dataclass
class PackForModel(beam.PTransform):
    """Gathers rows into blocks of many batches, so that rows of similar length can share a batch."""

    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        return rows | beam.ParDo(pack_for_model()).with_output_types(beam.typehints.Tuple[AuditRow, ...])


def pack_for_model() -> PackRows:
    """Blocks of ``AuditRow``."""
    return PackRows(BLOCK_ROWS, weigh=row_weight, max_weight=BLOCK_TOKENS)


@dataclass
class AttributeRows(beam.PTransform):
    """Blocks of ``AuditRow`` in, ``AttributedBlock`` out; a method without a model loads nothing."""

    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        if stage_of(resolve_method(self.settings.method).needs) is ModelStage.NONE:
            return blocks | beam.Map(without_model).with_output_types(AttributedBlock)
        run = RunInference(MethodModelHandler(self.settings).with_no_batching())
        return blocks | run.with_output_types(AttributedBlock)


def without_model(rows: Sequence[AuditRow]) -> AttributedBlock:
    """A block without model outcomes."""
    return AttributedBlock(tuple(rows), BlockOutcomes([None] * len(rows)), None)


class MethodModelHandler(ModelHandler[AuditRow, AttributedBlock, BlockModel]):
    """Runs one block through the models of the method.

    The attention model packs the block by its token budget and halves a batch that does not fit into memory. Torch is
    not touched before ``load_model``.
    """

    def __init__(self, settings: AuditSettings) -> None:
        super().__init__()
        self._settings = settings

    def load_model(self) -> BlockModel:
        return load_block_model(self._settings)

    def run_inference(
        self,
        batch: Sequence[AuditRow],
        model: BlockModel,
        inference_args: Mapping[str, object] | None = None,  # noqa: ARG002 - Beam's signature
    ) -> Iterable[AttributedBlock]:
        return [AttributedBlock(tuple(batch), model.start(batch), model.settings)]

    def get_num_bytes(self, batch: Sequence[AuditRow]) -> int:
        return sum(row.encoded.token_ids.nbytes for row in batch if row.encoded is not None)

    def get_metrics_namespace(self) -> str:
        return NAMESPACE

    def share_model_across_processes(self) -> bool:
        return False
