"""What flows from stage to stage: plain data, picklable, no models and no spaCy objects."""

from __future__ import annotations

from dataclasses import dataclass

from attribution.answers.parsed_answer import ParsedAnswer
from attribution.settings import UnionSettings
from attribution.token_attribution import EncodedRow
from schemas import QARecord, TargetSpan
from transforms.block_outcomes import BlockOutcomes


@dataclass(frozen=True, slots=True)
class TokenisedRow:
    """A record and its tokens: short enough for the model, and so for the parser."""

    record: QARecord
    encoded: EncodedRow


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A row that is ready for the model."""

    record: QARecord
    parsed: ParsedAnswer
    spans: tuple[TargetSpan, ...]
    encoded: EncodedRow


@dataclass(frozen=True, slots=True)
class AttributedBlock:
    """Rows with their token-wise attributions, or the fault of a row that the model could not do.

    ``settings`` are those of the union that belong to the model. Rows and outcomes are parallel; the outcomes may
    still be on their way.
    """

    rows: tuple[AuditRow, ...]
    outcomes: BlockOutcomes
    settings: UnionSettings
