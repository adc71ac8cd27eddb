"""Answers that were made up for this project, and rows that are made of them: more for a verdict to learn from.

``made_answers.jsonl`` has short, freely worded answers over help pages, policies or encyclopaedias. ``claim_trials``
has single claims of known kinds beside short passages, and ``hard_trials`` such as mislead a count of words: right ones
share few words with their passage, and invented ones many. Nobody checked each mark. Of the rows of benchmarks only the
scores of claims learn, which have few weights; no part learns from ``newcomer_rows.jsonl``.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from attribeam.attribution.answers.parsed_answer import whole_sentences
from attribeam.attribution.answers.plain_text import FUNCTION_WORDS
from attribeam.evaluation.datasets.dataset_file import DataRow, JudgedAnswer, UnsupportedRange, read_rows
from attribeam.evaluation.datasets.labelled_log import load_judged_log
from attribeam.logs.columns import LogOptions
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from lab import benchmarks
from lab.benchmarks.support_check import SupportAnswer, load_support_rows
from lab.data_files import passage_of, span_chars
from lab.training.verdict.shared_sets import TrainingAnswer

MADE_ANSWERS = Path(__file__).with_name("made_answers.jsonl")
CLAIM_TRIALS = Path(__file__).with_name("claim_trials.jsonl")
HARD_TRIALS = Path(__file__).with_name("hard_trials.jsonl")
_BENCHMARKS = Path(benchmarks.__path__[0])
_LOGS = {"web": "web_answers.jsonl", "trades": "trade_answers.jsonl"}
_SPANS = {"everyday": "everyday_rows.jsonl", "support": "support_rows.jsonl", "claim_rows": "claim_rows.jsonl"}
SCORED_SETS = (*_LOGS, *_SPANS)
"""The rows of benchmarks."""
_OTHER_PASSAGES, _CLAIMS_TOGETHER = 9, (2, 3, 4)
_ENDS = (".", "!", "?")
_One = TypeVar("_One")


def written_sets(
    made: Path = MADE_ANSWERS, trials: Path = CLAIM_TRIALS, hard: Path = HARD_TRIALS
) -> Iterator[TrainingAnswer]:
    """The sets ``made``, ``made_variants``, ``made_mixed``, ``trial`` and ``hard_trial``.

    Raises:
        DataError: if a file cannot be read or a row is faulty; the message names row and field, not the text.
    """
    answers = load_made_answers(made)
    sentences = single_sentences(answers)
    variants = [*sentences, *beside_other_passages(sentences), *beside_other_passages(answers)]
    for name, group in (("made", answers), ("made_variants", variants), ("made_mixed", beside_copies(answers))):
        for answer in group:
            yield TrainingAnswer.of(answer, name, key=f"made {answer.record.record_id.split('|')[0]}")
    yield from _trials(trials, "trial")
    yield from _trials(hard, "hard_trial")
    yield from scored_sets()


def scored_sets() -> Iterator[TrainingAnswer]:
    """The sets of ``SCORED_SETS``; single claims also as ``_varied`` has them."""
    for name, file in _LOGS.items():
        answers = load_judged_log(_BENCHMARKS / file, LogOptions(format="jsonl")).answers
        yield from (TrainingAnswer.of(answer, name) for answer in answers)
    for name, file in _SPANS.items():
        judged = [_judged_spans(answer) for answer in load_support_rows(_BENCHMARKS / file)]
        yield from (TrainingAnswer.of(answer, name) for answer in judged)
        yield from _varied(judged, name) if name == "claim_rows" else ()


def _judged_spans(answer: SupportAnswer) -> JudgedAnswer:
    wrong = [UnsupportedRange(chars, kind) for chars, kind in answer.truth_of.items() if not kind.supported]
    return JudgedAnswer(answer.record, tuple(wrong), judged=answer.record.target_spans)


def _varied(answers: Sequence[JudgedAnswer], name: str) -> Iterator[TrainingAnswer]:
    """Each claim beside a copied sentence, among other rows' passages, and with others of its passages."""
    every = list(dict.fromkeys(passage for answer in answers for passage in answer.record.passages))
    draw = random.Random(13)
    for answer in answers:
        record, key = answer.record, TrainingAnswer.of(answer, name).key
        text = draw.choice(whole_sentences(record.passages[0].text)).of(record.passages[0].text)
        whole = (CharRange(0, len(text)),)
        copied = replace(answer, record=replace(record, answer=text), unsupported=(), judged=whole)
        yield TrainingAnswer.of(_together([copied, answer]), name, key=key, part="beside a copied sentence")
        others = [passage for passage in draw.sample(every, _OTHER_PASSAGES) if passage not in record.passages]
        passages = draw.sample([*record.passages, *others], len(record.passages) + len(others))
        among = replace(answer, record=replace(record, passages=tuple(passages)))
        yield TrainingAnswer.of(among, name, key=key, part="among other passages")
    by_passages = defaultdict[tuple[Passage, ...], list[JudgedAnswer]](list)
    for answer in answers:
        by_passages[answer.record.passages].append(answer)
    for group in by_passages.values():
        waiting = draw.sample(group, len(group))
        while waiting:
            some = [waiting.pop() for _ in range(min(draw.choice(_CLAIMS_TOGETHER), len(waiting)))]
            yield TrainingAnswer.of(_together(some), name, part="together")


def _together(answers: Sequence[JudgedAnswer]) -> JudgedAnswer:
    """One answer that says what all of some say of the same passages."""
    text, marks, judged = "", list[UnsupportedRange](), list[CharRange]()
    for answer in answers:
        text, offset = text + " " * bool(text), len(text) + bool(text)
        marks += _moved(answer.unsupported or (), offset)
        judged += (_moved_by(chars, offset) for chars in answer.judged or ())
        text += _ended(answer.record.answer)
    record = replace(answers[0].record, answer=text, target_spans=None)
    return replace(answers[0], record=record, unsupported=tuple(marks), judged=tuple(judged))


def load_made_answers(path: Path = MADE_ANSWERS) -> tuple[JudgedAnswer, ...]:
    """The answers of a ``.jsonl`` or ``.jsonl.xz`` file, in order.

    A row has ``record_id``, ``question``, ``answer``, ``passages`` (with ``passage_id``, ``text`` and ``title``, which
    may be null) and ``unsupported`` (with ``text``, ``occurrence`` and ``kind``), empty for a faithful answer.

    Raises:
        DataError: if the file cannot be read or a row is faulty; the message names row and field, not the text.
    """
    return tuple(_made(row, path) for row in read_rows(path))


def _made(row: DataRow, path: Path) -> JudgedAnswer:
    answer = row.text("answer")
    record = QARecord(
        record_id=row.text("record_id"),
        question=row.text("question"),
        passages=tuple(passage_of(passage) for passage in row.objects("passages")),
        answer=answer,
        source=RowSource(path.name, row.row),
    )
    marks = [UnsupportedRange(span_chars(mark, answer), mark.text("kind")) for mark in row.objects("unsupported")]
    return JudgedAnswer(record, tuple(marks))


def single_sentences(answers: Sequence[JudgedAnswer]) -> list[JudgedAnswer]:
    """One sentence of each answer that has several, with its marks: the first of one, the second of the next."""
    parts = []
    for index, answer in enumerate(answers):
        sentences = whole_sentences(answer.record.answer)
        if len(sentences) > 1:
            parts.append(_sentence(answer, sentences[index % len(sentences)]))
    return parts


def beside_other_passages(answers: Sequence[JudgedAnswer]) -> list[JudgedAnswer]:
    """Each answer with its question beside the passages of the row half of the list away, and marked as a whole."""
    results = []
    for index, answer in enumerate(answers):
        other = answers[(index + len(answers) // 2) % len(answers)].record
        moved = replace(answer.record, passages=other.passages)
        results.append(_told(replace(answer, record=moved), "other passages", [(answer.record.answer, True)]))
    return results


def beside_copies(answers: Sequence[JudgedAnswer]) -> list[JudgedAnswer]:
    """A sentence copied from a passage beside a sentence: of the answer, with its marks, or of another row, marked."""
    draw, results = random.Random(5), []
    for index, answer in enumerate(answers):
        every = [sentence.of(text.text) for text in answer.record.passages for sentence in whole_sentences(text.text)]
        fitting = [text for text in every if 5 <= len(text.split()) <= 30]
        if not fitting:
            continue
        copied = _ended(draw.choice(fitting))
        if index % 2 == 0:
            own = _sentence(answer, draw.choice(whole_sentences(answer.record.answer)))
        else:
            other = answers[(index + draw.randrange(1, 40)) % len(answers)].record.answer
            short = [text for span in whole_sentences(other) if 3 <= len((text := span.of(other)).split()) <= 25]
            if not short:
                continue
            own = _told(answer, "sentence", [(draw.choice(short), True)])
        text = own.record.answer
        if draw.random() < 0.3:
            whole, offset = f"{_ended(text)} {copied}", 0
        else:
            whole, offset = f"{copied} {text}", len(copied) + 1
        record = replace(answer.record, record_id=f"{answer.record.record_id}|beside a copy", answer=whole)
        results.append(replace(answer, record=record, unsupported=_moved(own.unsupported or (), offset)))
    return results


def _ended(text: str) -> str:
    return text if text.rstrip().endswith((*_ENDS, ":")) else f"{text.rstrip()}."


def _moved(marks: Sequence[UnsupportedRange], by: int) -> tuple[UnsupportedRange, ...]:
    return tuple(replace(old, chars=_moved_by(old.chars, by)) for old in marks)


def _moved_by(chars: CharRange, by: int) -> CharRange:
    return CharRange(chars.char_start + by, chars.char_end + by)


def _sentence(answer: JudgedAnswer, sentence: CharRange) -> JudgedAnswer:
    start, end = sentence.char_start, sentence.char_end
    marks = [
        replace(mark, chars=CharRange(max(mark.chars.char_start, start), min(mark.chars.char_end, end)))
        for mark in answer.unsupported or ()
        if mark.chars.overlaps(sentence)
    ]
    text = sentence.of(answer.record.answer)
    record = replace(answer.record, record_id=f"{answer.record.record_id}|sentence", answer=text)
    return replace(answer, record=record, unsupported=_moved(marks, -start))


def _told(answer: JudgedAnswer, kind: str, parts: Sequence[tuple[str, bool]]) -> JudgedAnswer:
    """An answer of sentences, each with whether it is unsupported."""
    text, marks = "", []
    for part, is_wrong in parts:
        start = len(text) + bool(text)
        text = f"{text} {part}" if text else part
        marks += [UnsupportedRange(CharRange(start, len(text)))] if is_wrong else []
    record = replace(answer.record, record_id=f"{answer.record.record_id}|{kind}", answer=text)
    return replace(answer, record=record, unsupported=tuple(marks))


def _trials(file: Path, name: str) -> Iterator[TrainingAnswer]:
    """Each claim alone, some beside a copied sentence, some joined to another, and some among many passages."""
    rows, draw = list(read_rows(file)), random.Random(11)
    every = [_trial_passages(row) for row in rows]
    for index, row in enumerate(rows):
        base = QARecord(row.text("id"), row.text("question"), every[index], "", RowSource(file.name, row.row))
        judged = [
            *_trial_answers(row, JudgedAnswer(base, ())),
            *_combined(row, JudgedAnswer(base, ()), draw),
            *_among_many(row, base, every, index, draw),
        ]
        for number, answer in enumerate(judged):
            record = replace(answer.record, record_id=f"{answer.record.record_id}|{number}")
            kind = answer.record.record_id.partition("|")[2].replace("|", ", ")
            yield TrainingAnswer.of(replace(answer, record=record), name, key=f"trial {base.record_id}", part=kind)


def _trial_passages(row: DataRow) -> tuple[Passage, ...]:
    return tuple(Passage(raw.text("text"), title=raw.optional_text("title") or None) for raw in row.objects("passages"))


def _trial_answers(row: DataRow, base: JudgedAnswer) -> Iterator[JudgedAnswer]:
    copied, *others = row.texts("copied")
    for name, is_wrong in (("invented", True), ("paraphrases", False)):
        for text in row.texts(name):
            yield _told(base, name, [(text, is_wrong)])
            yield _told(base, f"{name} beside", [(copied, False), (text, is_wrong)])
    for wrong, right in zip(row.objects("wrong"), row.texts("right_twins"), strict=True):
        yield _wrong(base, wrong)
        yield _told(base, "right_twin", [(right, False)])
    yield _told(base, "copied", [(copied, False)])
    if others:
        yield _told(base, "copied twice", [(copied, False), (others[0], False)])


def _wrong(base: JudgedAnswer, row: DataRow) -> JudgedAnswer:
    text, claim = row.text("text"), row.text("claim")
    start = text.find(claim)
    marked = CharRange(start, start + len(claim)) if start >= 0 else CharRange(0, len(text))
    answer = _told(base, row.text("reason"), [(text, True)])
    return replace(answer, unsupported=(UnsupportedRange(marked),))


def _combined(row: DataRow, base: JudgedAnswer, draw: random.Random) -> Iterator[JudgedAnswer]:
    """Two statements in one sentence, both right or one of them wrong; half of them over passages in two parts."""
    right = [*row.texts("paraphrases"), *row.texts("copied"), *row.texts("right_twins")]
    wrong = [*row.texts("invented"), *(entry.text("text") for entry in row.objects("wrong"))]
    for is_wrong in (False, False, True, True):
        first, second = draw.sample(right, 2)
        parts = [(first, False), (draw.choice(wrong) if is_wrong else second, is_wrong)]
        draw.shuffle(parts)
        passages = base.record.passages if draw.random() < 0.5 else _in_two(base.record.passages)
        own = replace(base, record=replace(base.record, passages=passages))
        yield _one_sentence(own, parts, draw.choice([", and ", ", and ", "; ", ", while "]))


def _in_two(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Each passage cut in two between sentences, as a log has them that cuts documents into chunks."""
    parts: list[Passage] = []
    for doc in passages:
        sentences = whole_sentences(doc.text)
        cut = sentences[len(sentences) // 2].char_start if len(sentences) > 1 else len(doc.text)
        parts += [replace(doc, text=text) for text in (doc.text[:cut].strip(), doc.text[cut:].strip()) if text]
    return tuple(parts)


def _one_sentence(answer: JudgedAnswer, parts: Sequence[tuple[str, bool]], joint: str) -> JudgedAnswer:
    """An answer of one sentence that says the parts, each with whether it is unsupported."""
    names = {word for passage in answer.record.passages for word in _names(passage)}
    text, marks = "", []
    for index, (part, is_wrong) in enumerate(parts):
        said = part if index == len(parts) - 1 else part.rstrip(".")
        if index:
            text += joint
            if said.split(" ", 1)[0] not in names:
                said = said[0].lower() + said[1:]
        marks += [UnsupportedRange(CharRange(len(text), len(text) + len(said)))] if is_wrong else []
        text += said
    kind = "combined, one wrong" if marks else "combined"
    record = replace(answer.record, record_id=f"{answer.record.record_id}|{kind}", answer=text)
    return replace(answer, record=record, unsupported=tuple(marks))


def _names(passage: Passage) -> Iterator[str]:
    """Words in capitals of the title, and of the text where they do not begin a sentence."""
    yield from (word for word in (passage.title or "").split() if word.lower() not in FUNCTION_WORDS)
    for sentence in whole_sentences(passage.text):
        yield from (word for word in sentence.of(passage.text).split()[1:] if word[0].isupper())


def _among_many(
    row: DataRow, base: QARecord, every: Sequence[tuple[Passage, ...]], index: int, draw: random.Random
) -> Iterator[JudgedAnswer]:
    count = draw.choice([5, 10, 31])
    drawn = draw.sample(range(len(every)), min(len(every), count))
    others = [passage for at in drawn if at != index for passage in every[at]][:count]
    passages = (*others[: count // 2], *base.passages, *others[count // 2 :])
    among = JudgedAnswer(replace(base, record_id=f"{base.record_id}|many", passages=passages), ())
    for wrong in _some(row.objects("wrong"), 2, draw):
        yield _wrong(among, wrong)
    for name, is_wrong, number in (
        ("copied", False, 1), ("right_twins", False, 2), ("invented", True, 1), ("paraphrases", False, 2),
    ):  # fmt: skip
        for text in _some(row.texts(name), number, draw):
            yield _told(among, name, [(text, is_wrong)])


def _some(every: Sequence[_One], number: int, draw: random.Random) -> list[_One]:
    return draw.sample(every, min(len(every), number))
