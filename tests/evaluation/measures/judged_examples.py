"""Judged answers and evidence, written for these tests."""

from dataclasses import replace

from attribeam.evaluation.datasets.dataset_file import JudgedAnswer, UnsupportedRange
from attribeam.schemas import CharRange, Passage, QARecord, RowSource, SpanEvidence, SpanKind


def place(part, text):
    """Where the part first stands in the text."""
    return CharRange(text.index(part), text.index(part) + len(part))


def judged(text, *marked, passages=("Ada lit ten lamps.",), looked_at=None, group=None, **labels):
    """An answer in which these parts are marked; ``labels`` are those of the whole answer."""
    record = QARecord("r", "", tuple(map(Passage, passages)), text, RowSource("a", 0))
    whole = "answer_supported" in labels
    return JudgedAnswer(
        record,
        None if whole else tuple(UnsupportedRange(place(part, text), "x") for part in marked),
        None if looked_at is None else tuple(place(part, text) for part in looked_at),
        group,
        **labels,
    )


def span(text, part, support, index=0, **fields):
    """Evidence of one part of a text; a claim of its own unless ``fields`` say otherwise."""
    plain = SpanEvidence(
        span_index=index,
        span_kind=SpanKind.FACTS,
        chars=place(part, text),
        text=part,
        atomic_fact=(place(part, text),),
        evidence=(),
        passage_scores=(0.0,),
        top_passage_index=None,
        top_passage_id=None,
        margin=None,
        evidence_mass=0.5,
        evidence_isolated=False,
        support=support,
        unmatched_values=(),
        claim_index=index,
    )
    return replace(plain, **fields)
