"""More rows from the made-up answers: single sentences, and answers beside passages that have nothing to do with them.

RAGTruth has neither. Without them a short answer on something else counts as one in other words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attribeam.attribution.answers.text_sentences import whole_sentences
from attribeam.schemas import CharRange
from attribeam.schemas.labelled_answer import JudgedAnswer, UnsupportedRange

UNRELATED = "unrelated passages"
"""The kind of the marked range that is a whole answer beside the passages of another row."""


def variants(answers: Sequence[JudgedAnswer]) -> list[JudgedAnswer]:
    """One sentence of each answer, and both beside the passages of another row, where all is unsupported.

    Raises:
        ValueError: if an answer was not judged.
    """
    sentences = single_sentences(answers)
    return [*sentences, *beside_other_passages(sentences), *beside_other_passages(answers)]


def single_sentences(answers: Sequence[JudgedAnswer]) -> list[JudgedAnswer]:
    """One sentence of each answer that has several, with its marks: the first of one, the second of the next.

    Raises:
        ValueError: if an answer was not judged.
    """
    found = []
    for place, answer in enumerate(answers):
        sentences = whole_sentences(answer.record.answer)
        if len(sentences) > 1:
            found.append(_only(answer, sentences[place % len(sentences)]))
    return found


def beside_other_passages(answers: Sequence[JudgedAnswer]) -> list[JudgedAnswer]:
    """Each answer with its question beside the passages of the row half of the list away, and marked as a whole."""
    found = []
    for place, answer in enumerate(answers):
        record = answer.record
        other = answers[(place + len(answers) // 2) % len(answers)].record
        whole = UnsupportedRange(CharRange(0, len(record.answer)), UNRELATED)
        moved = replace(record, record_id=f"{record.record_id}|other passages", passages=other.passages)
        found.append(replace(answer, record=moved, unsupported=(whole,)))
    return found


def _only(answer: JudgedAnswer, sentence: CharRange) -> JudgedAnswer:
    if answer.unsupported is None:
        raise ValueError(f"answer {answer.record.record_id!r} should be judged, its unsupported ranges were None")
    start = sentence.char_start
    marks = tuple(
        UnsupportedRange(
            CharRange(max(one.chars.char_start, start) - start, min(one.chars.char_end, sentence.char_end) - start),
            one.kind,
        )
        for one in answer.unsupported
        if one.chars.char_start < sentence.char_end and start < one.chars.char_end
    )
    text = sentence.of(answer.record.answer)
    record = replace(answer.record, record_id=f"{answer.record.record_id}|sentence", answer=text)
    return replace(answer, record=record, unsupported=marks)
