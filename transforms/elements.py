"""The elements that flow from stage to stage: rows, blocks of rows, and outcomes that may still be pending.

They are plain, picklable data without models and spaCy objects. Beam measures the size of some elements for its
metrics. Its own coder pickles them for that, which took a millisecond per row; ``RowCoder`` estimates the size.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import apache_beam as beam
from apache_beam.coders import Coder, registry
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from attribeam.attribution.methods.audit_row import AuditRow, Outcome
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import QARecord
from attribeam.transforms.stage_metrics import stage, thread_stage

_MODEL_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="attribeam-model")
"""One thread per process, shared by all stages; it starts with the first block."""


class Pending(Protocol):
    """Outcomes that a thread or another process computes."""

    def result(self) -> Sequence[Outcome]:
        """One outcome per row, once they are ready; exceptions of the model surface here."""
        ...


class BlockOutcomes:
    """One outcome per row, in order; they may be pending."""

    def __init__(self, found: Sequence[Outcome] | Pending) -> None:
        self._found = found

    @property
    def is_pending(self) -> bool:
        """Whether they are computed elsewhere, in the model's thread or process; it may be done by now."""
        return not isinstance(self._found, Sequence)

    def wait(self) -> tuple[Outcome, ...]:
        """The outcomes, once they are ready.

        Raises:
            Exception: exceptions of the model surface here.
        """
        return tuple(self._found if isinstance(self._found, Sequence) else self._found.result())

    def __reduce__(self) -> tuple[type[BlockOutcomes], tuple[tuple[Outcome, ...]]]:
        """Pickle the outcomes once they are ready."""
        return BlockOutcomes, (self.wait(),)


def start_outcomes(attribute: Callable[[], list[Outcome]], *, ahead: bool) -> BlockOutcomes:
    """Run the model now, or ``ahead`` in a thread, one block after another.

    Its time counts as stage "attribute" either way.
    """
    if ahead:
        return BlockOutcomes(_MODEL_THREAD.submit(_attribute_in_thread, attribute))
    with stage("attribute"):
        return BlockOutcomes(attribute())


def _attribute_in_thread(attribute: Callable[[], list[Outcome]]) -> list[Outcome]:
    with thread_stage("attribute"):
        return attribute()


@dataclass(frozen=True, slots=True)
class TokenisedRow:
    """A record and its tokens, short enough for the model and so for the parser; None where no model reads them."""

    record: QARecord
    encoded: EncodedRow | None


_CHARS_PER_TOKEN = 4


def row_weight(row: TokenisedRow | AuditRow) -> int:
    """Tokens of the prompt and the response, those of all its windows where a row has some.

    An estimate if the tokens are not known.
    """
    if row.encoded is not None:
        return row.encoded.token_count
    record = row.record
    return 1 + (len(record.answer) + sum(len(one.text) for one in record.passages)) // _CHARS_PER_TOKEN


@dataclass(frozen=True, slots=True)
class AttributedBlock:
    """Rows with what the model stage found for each, or the fault of a row that it could not process.

    ``settings`` are the method's options merged with the model's, None without a model. Rows and outcomes are parallel;
    the outcomes may still be pending.
    """

    rows: tuple[AuditRow, ...]
    outcomes: BlockOutcomes
    settings: MethodOptions | None


class PackRows(beam.DoFn):
    """Packs rows into tuples of at most ``max_rows``; the last one leaves when the bundle ends.

    A tuple is also closed when its weight reaches ``max_weight``; ``weigh`` gives the weight of one row.
    """

    def __init__(
        self, max_rows: int, *, weigh: Callable[[Any], int] | None = None, max_weight: int | None = None
    ) -> None:
        self._max_rows = max_rows
        self._weigh = weigh
        self._max_weight = max_weight

    def start_bundle(self) -> None:
        self._block: list[object] = []
        self._weight = 0

    def process(self, row: object) -> Iterator[tuple[object, ...]]:
        self._block.append(row)
        self._weight += self._weigh(row) if self._weigh else 0
        if len(self._block) >= self._max_rows or (self._max_weight is not None and self._weight >= self._max_weight):
            yield self._take()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._block:
            yield GlobalWindows.windowed_value(self._take())

    def _take(self) -> tuple[object, ...]:
        block, self._block, self._weight = tuple(self._block), [], 0
        return block


_BYTES_PER_TOKEN = 40


class RowCoder(Coder):
    """Pickles rows and blocks, and estimates their size from the number of tokens."""

    def encode(self, value: TokenisedRow | AuditRow | AttributedBlock) -> bytes:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def decode(self, encoded: bytes) -> TokenisedRow | AuditRow | AttributedBlock:
        value: TokenisedRow | AuditRow | AttributedBlock = pickle.loads(encoded)
        return value

    def estimate_size(self, value: TokenisedRow | AuditRow | AttributedBlock) -> int:
        rows = value.rows if isinstance(value, AttributedBlock) else (value,)
        return _BYTES_PER_TOKEN * sum(row_weight(row) for row in rows)

    def is_deterministic(self) -> bool:
        return False


def register_row_coders() -> None:
    """Let Beam use ``RowCoder`` wherever these types are declared."""
    for kind in (TokenisedRow, AuditRow, AttributedBlock):
        registry.register_coder(kind, RowCoder)
