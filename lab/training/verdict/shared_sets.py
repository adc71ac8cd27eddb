"""The data sets that a verdict is fitted on, in one form each: from human labels, from edits, and from pages of text.

A set that labels whole summaries and keeps the text before its edit gets marks where the two differ.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path

from attribeam.attribution.answers.parsed_answer import whole_sentences
from attribeam.attribution.verdict.texts import OPPOSITES, carries_content
from attribeam.evaluation.datasets.dataset_file import DataRow, JudgedAnswer, UnsupportedRange, data_files, read_rows
from attribeam.evaluation.datasets.published import load_mtrag, load_ragtruth
from attribeam.schemas import CharRange, Passage, QARecord, RowSource

PAGES = "wikipedia/pages.jsonl"
_DOMAINS = ("ectsum", "news", "podcast", "qmsumm", "sales_call", "sales_email", "samsum", "scitldr")
_CLAIM_FILES = (("CG2C_doc", 8), ("CG2C_musique_minhop3_rbt_mnli_failed", 1))
"""Files of FactCG, and how many rows in sequence share a document."""
_OFFICIAL, _OTHER = "official test rows", "other rows"
_KEY_LETTERS = 80
_ANY_WORD, _WORD_OR_MARK = re.compile(r"\w+"), re.compile(r"\w+|[^\w\s]")
_UNTOKENISED = (
    (re.compile(r"\s+([.,;:!?%)\]])"), r"\1"),
    (re.compile(r"([(\[])\s+"), r"\1"),
    (re.compile(r" n't"), "n't"),
    (re.compile(r"\s+'(s|re|ll|ve|d|m)\b"), r"'\1"),
)
_EVERY_PAGE, _MOST_PAGES, _FEWEST_PARAGRAPHS = 7, 1500, 4
_SWAPPED_PAGE, _OTHER_COUNTS = 3, (0, 3, 9, 30)
_VALUES = (
    re.compile(r"(?<![\w.,-])\d{1,4}(?![\w,.-]*\d)"),
    re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*"),
)
"""A number, and a name within a sentence."""
_NAMED_PAGES, _NAMED_SENTENCES = (5, 6), 6
_TURNED_PAGES, _MOST_TURNED = (2, 4), 2250
_AUXILIARY = re.compile(r"\b(?:is|are|was|were|has|had|can|could|will|would|may|must|did|does)\b(?! not\b)")
_NOT = re.compile(r"\bnot ")
_PRONOUN = re.compile(r"(?:He|She|It) (?=[a-z]+(?:ed|s)\b|was|is|has|had|won|wrote|became|made|began|took|led)")


@dataclass(frozen=True, slots=True)
class TrainingAnswer:
    """One judged answer of a set.

    Attributes:
        judged: what people, an edit or a rule say of it.
        set_name: of its set, which decides its weights.
        key: what it was made from; all answers with one key, in whatever sets, are in one fold.
        part: of the set, for tables; may be empty.
    """

    judged: JudgedAnswer
    set_name: str
    key: str
    part: str = ""

    @classmethod
    def of(cls, judged: JudgedAnswer, set_name: str, *, key: str = "", part: str = "") -> TrainingAnswer:
        """An answer whose key, if none is given, is the beginning of its first passage, without marks and blanks.

        Spans that people judged are no target spans here: claims are found as an audit finds them.
        """
        first = judged.record.passages[0].text if judged.record.passages else ""
        own = replace(judged, record=replace(judged.record, target_spans=None))
        return cls(own, set_name, key or "".join(_ANY_WORD.findall(first.lower()))[:_KEY_LETTERS], part)


def shared_sets(data: Path) -> Iterator[TrainingAnswer]:
    """The answers of all sets in a directory, set by set.

    Raises:
        DataError: if a file is missing or a row is not in its format; the message names file, row and field.
    """
    yield from _ragtruth(data)
    for answer in load_ragtruth(data / "ragtruth_qa_train").answers:
        yield TrainingAnswer.of(answer, "ragtruth_qa")
    for answer in load_mtrag(_file(data, "support/mtrag_human.jsonl")).answers:
        yield TrainingAnswer.of(answer, "mtrag")
    yield from _begin(_file(data, "support/begin_wow.jsonl"))
    for domain in _DOMAINS:
        yield from _summedits(_file(data, f"support/summedits_{domain}.jsonl"))
    for task, trusted in ((1, False), (2, True)):
        yield from _bump(_file(data, f"support/bump_task{task}.jsonl"), references_are_right=trusted)
    for name, together in _CLAIM_FILES:
        yield from _factcg(_file(data, f"support/factcg_{name}.jsonl"), together)
    yield from _pages(_file(data, PAGES))
    yield from _swapped(_file(data, PAGES))
    yield from _named(_file(data, PAGES))
    yield from _turned(_file(data, PAGES))


def _file(data: Path, name: str) -> Path:
    plain = data / name
    return plain if plain.is_file() else data / f"{name}.xz"


def _ragtruth(data: Path) -> Iterator[TrainingAnswer]:
    folder, names = data / "ragtruth", data / "ragtruth_qa_train" / "official_test_source_ids.txt"
    answers = load_ragtruth(folder).answers
    (responses,) = data_files(folder, "response")
    source = {row.text("id"): row.text("source_id") for row in read_rows(responses)}
    official = frozenset(names.read_text(encoding="utf-8").split())
    for answer in answers:
        part = _OFFICIAL if source[answer.record.record_id] in official else _OTHER
        yield TrainingAnswer.of(answer, "ragtruth", part=part)


def _begin(file: Path) -> Iterator[TrainingAnswer]:
    """Answers of a dialogue; every other one stands without the message that it replies to."""
    for row in read_rows(file):
        answer = untokenised(row.text("answer"))
        question = row.text("message") if row.row % 2 else ""
        if answer:
            record = _record(row, file, row.text("passage"), answer, question=question)
            yield TrainingAnswer.of(JudgedAnswer(record, None, answer_supported=row.boolean("attributable")), "begin")


def _summedits(file: Path) -> Iterator[TrainingAnswer]:
    for row in read_rows(file):
        summary, label = row.text("summary"), row.integer("label")
        if label not in (0, 1):
            raise row.error("label", f"should be 0 or 1, was: {label}")
        marks = () if label else changes(row.text("original_summary"), summary)
        if label or marks:
            judged = _marked(_record(row, file, row.text("doc"), summary), marks)
            yield TrainingAnswer.of(judged, "summedits")


def _bump(file: Path, *, references_are_right: bool) -> Iterator[TrainingAnswer]:
    for row in read_rows(file):
        article = row.text("article")
        reference, edited = (untokenised(row.text(f"{name}_summary")) for name in ("reference", "edited"))
        if marks := changes(reference, edited):
            yield TrainingAnswer.of(_marked(_record(row, file, article, edited), marks), "bump")
        if references_are_right:
            yield TrainingAnswer.of(_marked(_record(row, file, article, reference, "reference"), ()), "bump")


def _factcg(file: Path, together: int) -> Iterator[TrainingAnswer]:
    for row in read_rows(file):
        document = row.text("text_a")
        if not document.strip():
            continue
        claim = " ".join(row.texts("text_b")) if isinstance(row.fields.get("text_b"), list) else row.text("text_b")
        judged = JudgedAnswer(
            _record(row, file, document, claim), None, answer_supported=row.integer("orig_label") == 1
        )
        yield TrainingAnswer.of(judged, "factcg", key=f"{file.name} {row.row // together}")


def _pages(file: Path) -> Iterator[TrainingAnswer]:
    """Sentences of a page beside its first paragraphs: one or two of these, one of the rest, or one of each."""
    draw, count = random.Random(7), 0
    for row in read_rows(file):
        if (row.row + 1) % _EVERY_PAGE:
            continue
        title = row.text("title")
        paragraphs = [text.replace("_", "").strip() for text in row.texts("paras")]
        paragraphs = [text for text in paragraphs if 150 < len(text) < 1500]
        if len(paragraphs) < _FEWEST_PARAGRAPHS:
            continue
        given = draw.choice([1, 1, 2, 3])
        passages = [Passage(text, title=title if draw.random() < 0.6 else None) for text in paragraphs[:given]]
        inside, outside = _sentences(paragraphs[:given], 5, 28), _sentences(paragraphs[given:], 4, 20)
        if not inside or not outside:
            continue
        good, bad = draw.choice(inside), min(draw.sample(outside, min(3, len(outside))), key=len)
        question = draw.choice(["", "", f"Tell me about {title}.", f"What is known about {title}?"])
        kind = (row.row + 1) // _EVERY_PAGE % 5
        second = draw.choice(inside) if kind == 4 else good
        said = ([good, bad], [good, bad], [bad], [good], [good] if second == good else [good, second])[kind]
        answer = " ".join(said)
        marks = (CharRange(len(answer) - len(bad), len(answer)),) if bad in said else ()
        record = replace(_record(row, file, "", answer, question=question), passages=tuple(passages))
        yield TrainingAnswer.of(_marked(record, marks), "pages", key=f"page {title}")
        count += 1
        if count == _MOST_PAGES:
            return


def _swapped(file: Path) -> Iterator[TrainingAnswer]:
    """Sentences beside their paragraph and those of other pages: as they are, or with a value that another page has.

    What replaces a number or a name is as long, and does not stand in the sentence's own paragraph.
    """
    draw, own = random.Random(11), []
    for row in read_rows(file):
        if (row.row + 1) % _EVERY_PAGE == _SWAPPED_PAGE:
            paragraphs = [text.replace("_", "").strip() for text in row.texts("paras")]
            own += [(row, text) for text in paragraphs if 200 < len(text) < 1000][:1]
    for index, (row, paragraph) in enumerate(own):
        others = [text for _, text in draw.sample(own, draw.choice(_OTHER_COUNTS)) if text != paragraph]
        value = _VALUES[index // 2 % 2]
        swaps = [
            (sentence, match, other)
            for sentence in _sentences([paragraph], 6, 30)
            for match in value.finditer(sentence)
            for other in value.findall(" ".join(others) or draw.choice(own)[1])
            if other not in paragraph and _shape(other) == _shape(match.group())
        ]
        if not swaps:
            continue
        answer, match, other = draw.choice(swaps)
        marks: tuple[CharRange, ...] = ()
        if index % 2:
            answer = answer[: match.start()] + other + answer[match.end() :]
            marks = (CharRange(match.start(), match.start() + len(other)),)
        before = draw.randrange(len(others) + 1)
        passages = tuple(map(Passage, [*others[:before], paragraph, *others[before:]]))
        record = replace(_record(row, file, "", answer, "swapped"), passages=passages)
        part = f"{('number', 'name')[index // 2 % 2]}, {'many' if others else 'one'}"
        yield TrainingAnswer.of(_marked(record, marks), "swapped", key=f"page {row.text('title')}", part=part)


def _named(file: Path) -> Iterator[TrainingAnswer]:
    """Sentences that begin with a pronoun, with the name of their page in its place, or with that of another page.

    Most passages have no title here: only the sentences before tell whom the pronoun means.
    """
    draw, own = random.Random(13), []
    for row in read_rows(file):
        if (row.row + 1) % _EVERY_PAGE in _NAMED_PAGES:
            title = row.text("title").split(" (")[0]
            for text in (raw.replace("_", "").strip() for raw in row.texts("paras")[:2]):
                sentences = [chars.of(text) for chars in whole_sentences(text)][:_NAMED_SENTENCES]
                fitting = [item for item in sentences[1:] if _PRONOUN.match(item) and 5 <= len(item.split()) <= 28]
                if fitting and 200 < len(text) < 1000 and title.split()[-1].lower() in sentences[0].lower():
                    own.append((row, title, text, draw.choice(fitting)))
                    break
    for index, (row, title, text, sentence) in enumerate(own):
        others = [page for page in draw.sample(own, draw.choice(_OTHER_COUNTS[:3])) if page[1] != title]
        name = title if draw.random() < 0.7 else title.split()[-1]
        marks: tuple[CharRange, ...] = ()
        if index % 2:
            name = draw.choice(others or own[:index] or own[1:])[1]
            marks = (CharRange(0, len(name)),)
        texts = [(title, text), *(page[1:3] for page in others)]
        draw.shuffle(texts)
        has_titles = draw.random() < 0.3
        passages = tuple(Passage(text, title=heading if has_titles else None) for heading, text in texts)
        answer = name + " " + sentence.split(" ", 1)[1]
        record = replace(_record(row, file, "", answer, "named"), passages=passages)
        part = f"{'titles' if has_titles else 'no titles'}, {'many' if others else 'one'}"
        yield TrainingAnswer.of(_marked(record, marks), "named", key=f"page {row.text('title')}", part=part)


def _turned(file: Path) -> Iterator[TrainingAnswer]:
    """Sentences beside their paragraph and those of other pages: as they are, or saying the opposite.

    A word has an opposite in its place, "not" is put behind an auxiliary or left out, or two names are exchanged. Of
    half of the sentences only what stands before their last comma is told.
    """
    draw, own = random.Random(17), []
    for row in read_rows(file):
        if (row.row + 1) % _EVERY_PAGE in _TURNED_PAGES:
            paragraphs = [text.replace("_", "").strip() for text in row.texts("paras")]
            own += [(row, text) for text in paragraphs if 200 < len(text) < 1000][:2]
    count = 0
    for row, paragraph in own:
        kind, turn = [*_TURNS.items()][count // 2 % len(_TURNS)]
        sentences = _sentences([paragraph], 6, 30)
        if draw.random() < 0.5:
            sentences = [_before_last_comma(sentence) for sentence in sentences]
        turned = [(sentence, *change) for sentence in sentences for change in turn(sentence)]
        if not turned:
            continue
        answer, start, end, instead = draw.choice(turned)
        marks: tuple[CharRange, ...] = ()
        if count % 2:
            answer = answer[:start] + instead + answer[end:]
            behind = _ANY_WORD.finditer(answer, start + len(instead))
            ends = (word.end() for word in behind if carries_content(word.group()))
            marks = (CharRange(start, next(ends, len(answer))),)
        others = [text for _, text in draw.sample(own, draw.choice(_OTHER_COUNTS)) if text != paragraph]
        passages = [Passage(text) for text in (paragraph, *others)]
        draw.shuffle(passages)
        record = replace(_record(row, file, "", answer, f"turned{count}"), passages=tuple(passages))
        part = f"{kind}, {'many' if others else 'one'}"
        yield TrainingAnswer.of(_marked(record, marks), "turned", key=f"page {row.text('title')}", part=part)
        count += 1
        if count == _MOST_TURNED:
            return


def _before_last_comma(sentence: str) -> str:
    """What stands before the last comma, if that are more than five words."""
    said = sentence.rpartition(",")[0]
    return f"{said}." if said.count(" ") > 4 else sentence


def _opposites(sentence: str) -> Iterator[tuple[int, int, str]]:
    """Where a word with an opposite stands in a sentence, and an opposite with the same ending."""
    for match in _ANY_WORD.finditer(sentence, 1):
        same = [word for word in sorted(OPPOSITES.get(match.group(), ())) if _ending(word) == _ending(match.group())]
        if same and carries_content(match.group()):
            yield match.start(), match.end(), same[len(sentence) % len(same)]


def _ending(word: str) -> str:
    return next((end for end in ("est", "er", "ed", "ing", "s") if word.endswith(end)), "")


def _negations(sentence: str) -> Iterator[tuple[int, int, str]]:
    """Where "not" can be left out of a sentence or, if it has none, be put in."""
    denied = [(match.start(), match.end(), "") for match in _NOT.finditer(sentence)]
    yield from denied or ((match.end(), match.end(), " not") for match in _AUXILIARY.finditer(sentence))


def _exchanges(sentence: str) -> Iterator[tuple[int, int, str]]:
    """Two successive names in each other's place, where more than marks and "and" stands between them."""
    for first, second in pairwise(_VALUES[1].finditer(sentence)):
        between = sentence[first.end() : second.start()]
        if first.group() != second.group() and any(map(carries_content, _ANY_WORD.findall(between))):
            yield first.start(), second.end(), second.group() + between + first.group()


_TURNS = {"opposite": _opposites, "not": _negations, "names": _exchanges}


def _shape(value: str) -> int:
    """What a value must share with another to stand in its place: the digits, or the words of a name."""
    return len(value) if value.isdigit() else len(value.split())


def _sentences(paragraphs: Sequence[str], fewest: int, most: int) -> list[str]:
    sentences = [chars.of(text) for text in paragraphs for chars in whole_sentences(text)]
    return [sentence for sentence in sentences if fewest <= len(sentence.split()) <= most and sentence.endswith(".")]


def _record(row: DataRow, file: Path, passage: str, answer: str, kind: str = "", *, question: str = "") -> QARecord:
    name = f"{file.name.split('.')[0]}-{row.row}{kind and '-'}{kind}"
    return QARecord(name, question, (Passage(passage),), answer, RowSource(file.name, row.row))


def _marked(record: QARecord, marks: Sequence[CharRange]) -> JudgedAnswer:
    return JudgedAnswer(record, tuple(UnsupportedRange(chars) for chars in marks))


def untokenised(text: str) -> str:
    """The text without the blanks that a tokeniser put before marks and within short forms."""
    for pattern, replacement in _UNTOKENISED:
        text = pattern.sub(replacement, text)
    return text.strip()


def changes(before: str, after: str) -> tuple[CharRange, ...]:
    """The ranges of ``after`` that are not in ``before``; where words were left out, the next word, or the last one."""
    words = list(_WORD_OR_MARK.finditer(after))
    if not words:
        return ()
    old = _WORD_OR_MARK.findall(before)
    ranges = []
    matcher = SequenceMatcher(None, old, [word.group() for word in words], autojunk=False)
    for what, _, _, start, end in matcher.get_opcodes():
        if what != "equal":
            first, last = (start, end - 1) if end > start else (min(start, len(words) - 1),) * 2
            ranges.append(CharRange(words[first].start(), words[last].end()))
    return tuple(ranges)
