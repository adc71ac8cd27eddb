from evaluation.highlight_overlap import HighlightOverlap, highlight_overlap
from evaluation.labelled_answer import PassageRange
from schemas import CharRange, Passage

PASSAGES = [Passage(text="red lamp at sea"), Passage(text="blue lamp")]


def in_passage(passage_index: int, text: str) -> PassageRange:
    start = PASSAGES[passage_index].text.index(text)
    return PassageRange(passage_index, CharRange(start, start + len(text)))


def overlap(evidence: list[PassageRange], gold: list[PassageRange]) -> HighlightOverlap:
    return highlight_overlap(evidence=evidence, gold=gold, passages=PASSAGES)


def test_recall_and_precision_count_visible_characters():
    assert overlap([in_passage(0, "lamp at")], [in_passage(0, "red lamp")]) == HighlightOverlap(4 / 7, 4 / 6)


def test_same_characters_of_another_passage_do_not_count():
    assert overlap([in_passage(1, "lamp")], [in_passage(0, "lamp")]) == HighlightOverlap(0.0, 0.0)


def test_overlapping_ranges_count_once():
    evidence = [in_passage(0, "red lamp"), in_passage(0, "lamp")]
    assert overlap(evidence, [in_passage(0, "red lamp")]) == HighlightOverlap(1.0, 1.0)


def test_no_evidence_is_zero_for_both():
    assert overlap([], [in_passage(0, "red")]) == HighlightOverlap(0.0, 0.0)
