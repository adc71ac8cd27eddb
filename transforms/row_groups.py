"""Groups of rows: in a distributed run, each chunk goes through all stages as one element.

So a chunk is read, audited and committed wherever a runner puts it, whatever it fuses, retries or doubles, and its rows
never meet those of another chunk: the files are the same, however many workers there are. The stages are those of a
local run. A group is to them what a bundle is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import registry
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.utils.windowed_value import WindowedValue

from attribeam.attribution.methods.audit_row import AuditRow, is_asked, is_unread
from attribeam.attribution.methods.models import ModelStage, stage_of
from attribeam.attribution.methods.registry import resolve_method
from attribeam.schemas import DeadLetter
from attribeam.transforms.attribute_rows import MethodModelHandler, without_model
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.block_model import BlockModel
from attribeam.transforms.dead_letters import DEAD_LETTERS
from attribeam.transforms.elements import AttributedBlock, RowCoder
from attribeam.transforms.make_evidence import MakeEvidence
from attribeam.transforms.stage_metrics import NAMESPACE, RecordsSeen, TokenCounts


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The rows of one chunk between two stages.

    Attributes:
        chunk: what the group is of; stages only pass it on.
        rows: what the last stage made, in the order of the input: a range, records, rows, blocks or tables.
        letters: the dead letters of all stages so far.
        counts: of the audited rows, once there is evidence.
        started: seconds since 1970 when the group was taken up.
    """

    chunk: Any
    rows: tuple[Any, ...]
    letters: tuple[DeadLetter, ...] = ()
    counts: TokenCounts = field(default_factory=TokenCounts)
    started: float = 0.0

    def __len__(self) -> int:
        """Number of elements, which ``RunInference`` counts."""
        return len(self.rows)


def register_group_coder() -> None:
    """Let Beam pickle groups once, and not also to weigh them."""
    registry.register_coder(RowGroup, RowGroupCoder)


class RowGroupCoder(RowCoder):
    """Pickles groups; the size is that of a short row for each element, which is near enough for a metric."""

    def estimate_size(self, value: object) -> int:
        return 1000 * len(value) if isinstance(value, RowGroup) else 0


def each_group(*stages: beam.DoFn) -> beam.ParDo:
    """Runs the stages, one behind the other, on the rows of one group at a time."""
    return beam.ParDo(StagesOfGroup(stages)).with_output_types(RowGroup)


class StagesOfGroup(beam.DoFn):
    """A group in, a group out; its dead letters stay with it."""

    def __init__(self, stages: Sequence[beam.DoFn]) -> None:
        self._stages = tuple(stages)

    def setup(self) -> None:
        for stage in self._stages:
            stage.setup()

    def teardown(self) -> None:
        for stage in self._stages:
            stage.teardown()

    def process(self, group: RowGroup) -> Iterator[RowGroup]:
        rows, letters = list(group.rows), list(group.letters)
        for stage in self._stages:
            rows = run_bundle(stage, rows, letters)
        yield replace(group, rows=tuple(rows), letters=tuple(letters))


def run_bundle(stage: beam.DoFn, elements: Iterable[object], letters: list[DeadLetter]) -> list[object]:
    """What a DoFn makes of a bundle of these elements; tagged dead letters are added to ``letters``."""
    made: list[object] = []
    stage.start_bundle()
    for element in elements:
        _sort(stage.process(element), made, letters)
    _sort(stage.finish_bundle(), made, letters)
    return made


def _sort(outputs: Iterable[Any] | None, made: list[object], letters: list[DeadLetter]) -> None:
    for output in outputs or ():
        if isinstance(output, beam.pvalue.TaggedOutput):
            if output.tag != DEAD_LETTERS:
                raise ValueError(f"a stage should have dead letters beside its main output, has {output.tag!r}")
            letters.append(_without_window(output.value))
        else:
            made.append(_without_window(output))


def _without_window(value: Any) -> Any:
    """What a DoFn gives at the end of a bundle is wrapped."""
    return value.value if isinstance(value, WindowedValue) else value


@dataclass
class AttributeGroups(beam.PTransform):
    """Groups of blocks of ``AuditRow`` in, groups of ``AttributedBlock`` out; see ``AttributeRows``."""

    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, groups: beam.PCollection) -> beam.PCollection:
        if stage_of(resolve_method(self.settings.method).needs) is ModelStage.NONE:
            return groups | each_group(_WithoutModel())
        run = RunInference(GroupModelHandler(self.settings).with_no_batching())
        return groups | run.with_output_types(RowGroup)


class _WithoutModel(beam.DoFn):
    def process(self, block: Sequence[AuditRow]) -> Iterator[AttributedBlock]:
        yield without_model(block)


class GroupModelHandler(ModelHandler[RowGroup, RowGroup, BlockModel]):
    """Runs the blocks of one group through the models, as ``MethodModelHandler`` runs each."""

    def __init__(self, settings: AuditSettings) -> None:
        super().__init__()
        self._of_blocks = MethodModelHandler(settings)

    def load_model(self) -> BlockModel:
        return self._of_blocks.load_model()

    def run_inference(
        self, batch: RowGroup, model: BlockModel, inference_args: Mapping[str, object] | None = None
    ) -> Iterable[RowGroup]:
        blocks = (made for block in batch.rows for made in self._of_blocks.run_inference(block, model, inference_args))
        return [replace(batch, rows=tuple(blocks))]

    def get_num_bytes(self, batch: RowGroup) -> int:
        return sum(map(self._of_blocks.get_num_bytes, batch.rows))

    def get_metrics_namespace(self) -> str:
        return NAMESPACE

    def share_model_across_processes(self) -> bool:
        return False


class MakeGroupEvidence(StagesOfGroup):
    """``MakeEvidence`` on each group; adds up what no table has of the audited rows."""

    def __init__(self, settings: AuditSettings, schema: pa.Schema) -> None:
        super().__init__((MakeEvidence(settings, schema),))
        self._encodes, self._has_probe = settings.encodes_rows, settings.has_probe

    def process(self, group: RowGroup) -> Iterator[RowGroup]:
        for made in super().process(group):
            refused = {letter.source for letter in made.letters}
            pairs = [pair for block in group.rows for pair in zip(block.rows, block.outcomes.wait(), strict=True)]
            audited = [(row, outcome) for row, outcome in pairs if row.record.source not in refused]
            encoded = [row.encoded for row, _ in audited if row.encoded is not None]
            counts = TokenCounts(
                tokens=sum(one.token_count for one in encoded) if self._encodes else None,
                rows_in_windows=sum(bool(one.windows) for one in encoded) if self._encodes else None,
                rows_unread=sum(is_unread(outcome) for _, outcome in audited) if self._has_probe else None,
                rows_asked=sum(is_asked(outcome) for _, outcome in audited) if self._has_probe else None,
                seen=RecordsSeen().with_records([row.record for row, _ in audited]),
            )
            yield replace(made, counts=counts)
