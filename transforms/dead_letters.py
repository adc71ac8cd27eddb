"""Dead letters inside the graph: one tag for all stages, and what becomes of a ``RowFault``."""

from __future__ import annotations

from dataclasses import dataclass

from apache_beam.pvalue import TaggedOutput

from attribeam.schemas import DeadLetter, QARecord, RowFault, Stage
from attribeam.transforms.stage_metrics import count_dead_letter

DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True, slots=True)
class DeadLetterOffice:
    """Turns the faults of one stage into tagged dead letters, and counts them."""

    stage: Stage
    with_text: bool

    def refuse(self, record: QARecord, fault: RowFault) -> TaggedOutput:
        """The dead letter of a valid record that this stage could not do."""
        return tag_dead_letter(
            DeadLetter(
                record_id=record.record_id,
                source=record.source,
                stage=self.stage,
                reason=fault.reason,
                message=str(fault),
                column=fault.column,
                answer=record.answer if self.with_text else None,
            )
        )


def tag_dead_letter(letter: DeadLetter) -> TaggedOutput:
    """The dead letter on its way to the sink, counted."""
    count_dead_letter(letter.reason)
    return TaggedOutput(DEAD_LETTERS, letter)
