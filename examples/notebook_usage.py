"""The facade in three lines, as in a notebook, and the evidence that it finds.

Run it with ``python examples/notebook_usage.py``.
"""

from __future__ import annotations

from attribeam import Attributor
from attribeam.schemas import SpanEvidence

QUESTION = "How much did the Larkfield cannery earn in 2012 and 2013?"
PASSAGES = [
    ("Annual review 2012", "The cannery closed its books for 2012 with earnings of one million dollars."),
    ("Annual review 2013", "The cannery closed its books for 2013 with earnings of two million dollars."),
]
ANSWER = "The cannery earned one million dollars and two million dollars in 2012 and 2013, respectively."


def find_evidence() -> list[SpanEvidence]:
    """The evidence of every fact and mention of ``ANSWER``: the three lines, the first one being the import above."""
    attributor = Attributor.from_pretrained()
    return attributor.attribute(question=QUESTION, passages=PASSAGES, answer=ANSWER)


def lines(spans: list[SpanEvidence]) -> list[str]:
    """One line a target span, and below it one line a piece of evidence."""
    printed: list[str] = []
    for span in spans:
        printed.append(f"{span.support:<12}{span.span_kind:<10}{span.text}")
        for piece in span.evidence:
            place = "title" if piece.in_title else "text"
            printed.append(f"    {piece.score:.2f}  passage {piece.passage_index}, {place}: {piece.text}")
    return printed


if __name__ == "__main__":
    print("\n".join(lines(find_evidence())))
