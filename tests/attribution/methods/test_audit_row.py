"""Evidence for long texts: what it takes grows with the length of a row's passages, and with that of its answer."""

import tracemalloc
from itertools import cycle, islice

import pytest

from attribeam import Attributor
from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS, choose_target_spans
from attribeam.attribution.methods.audit_row import AuditRow, RowFindings, evidence_of, model_outcomes
from attribeam.attribution.methods.method import LoadedModels
from attribeam.schemas import Passage, QARecord, RowSource
from lab.benchmarks.generated_rows import benchmark_rows, made_up_pages

PAGES = made_up_pages(seed=0, pages=20, vocabulary=2000)
SHORT, LONG = 600, 2400
ROOM = 1.3


@pytest.fixture(scope="module")
def attributor():
    return Attributor.from_pretrained("bundled", device="cpu", threads=1)


def audit_row(attributor, part, words):
    """A row of which one part has that many words."""
    made = next(benchmark_rows(PAGES, rows=1, seed=0))
    text = list(islice(cycle(word for page in PAGES for word in page.words), words))
    texts, answer = [one.text for one in made.passages], made.answer
    if part == "passage":
        texts[0] = " ".join(text)
    elif part == "passages":
        texts = [" ".join(text[start : start + 90]) for start in range(0, words, 90)]
    else:
        answer = " ".join(text)
    record = QARecord("long", made.question, tuple(map(Passage, texts)), answer, RowSource("", 0))
    parsed = attributor.parser.parse(record.answer)
    spans = choose_target_spans(parsed, record.answer, kinds=DEFAULT_SPAN_KINDS, given=None)
    return AuditRow(record, parsed, spans, attributor.model.encode(record))


def evidence_and_peak(attributor, row):
    """The evidence of a row, and the most bytes that making it had in use."""
    settings = attributor.model.settings
    (found,) = model_outcomes(attributor.method, settings, LoadedModels(attention=attributor.model), [row])
    assert isinstance(found, RowFindings)
    tracemalloc.start()
    try:
        (spans,) = evidence_of([(row, found)], method=attributor.method, options=settings, settings=settings)
        assert isinstance(spans, tuple)
        return spans, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("part", ["passage", "passages", "answer"])
def test_memory_of_evidence_grows_no_faster_than_the_text(attributor, part):
    evidence_and_peak(attributor, audit_row(attributor, part, 100))  # loads what the verdict reads
    rows = [audit_row(attributor, part, words) for words in (SHORT, LONG)]
    (_, short), (spans, long) = (evidence_and_peak(attributor, row) for row in rows)
    assert len(spans) == len(rows[1].spans)
    assert long <= ROOM * LONG / SHORT * short
