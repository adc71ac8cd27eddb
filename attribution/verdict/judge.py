"""Gives the evidence records of one answer their verdict: what each claim is called, why, and the answer's risk."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import chain, takewhile
from typing import Any

import numpy as np

from attribeam.attribution.answers.answer_names import TITLES, AnswerName, passage_content
from attribeam.attribution.answers.markup import hide_ranges, range_overlapping
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.plain_text import (
    FUNCTION_WORDS,
    MONEY_BEFORE,
    MONTHS,
    UNIT_BESIDE_NUMBER,
    Kind,
    clock_times_in,
    comparable_words,
    numbers_in,
)
from attribeam.attribution.answers.quantities import RATE, number_quantities, phrases_in
from attribeam.attribution.answers.unmatched_values import AnswerValue, Value, ValueMatcher
from attribeam.attribution.option_declaration import MASS_VERDICT, SHIPPED_VERDICTS, VERDICT_FILE, Strictness
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.citations import LiteralIndex
from attribeam.attribution.verdict.claim_reader import ClaimReader
from attribeam.attribution.verdict.claims import SpanClaim, answer_claims, word_kinds
from attribeam.attribution.verdict.fitted_parts import StateProbe, WordTable
from attribeam.attribution.verdict.premises import PREMISE_NUMBERS, Premise, claim_premises, is_attended
from attribeam.attribution.verdict.signals import AnswerRow, Signals, answer_signals
from attribeam.attribution.verdict.texts import WEEKDAYS, WORD_OR_MARK, PassageSentences, carries_content, stem
from attribeam.attribution.verdict.verdict_model import (
    AnswerToScore,
    ScoredAnswer,
    VerdictModel,
    load_verdict_model,
    log_odds,
    verdict_directory,
)
from attribeam.schemas import (
    CharRange,
    ClaimKind,
    QARecord,
    SpanEvidence,
    Support,
    SupportedHow,
    TargetSpan,
    UnsupportedReason,
)
from attribeam.schemas.errors import ModelLoadError

_ABOUT_THE_SAME = 0.4
"""The share of a claim that its premise must cover, alike words included, to have something *instead* of the rest."""
_QUOTED_SHARE = 0.85
_COVERED, _ADDED = 0.8, 0.15
"""A claim of which one premise covers less than the first share, and a second sentence adds the second, is combined."""
_MOSTLY_INVERTED = 0.5
_MONTH = "|".join(name.capitalize() for name in MONTHS if len(name) > 3 or name == "may")
_HALF_OF_DAY = r"[AaPp]\.?[Mm]\b\.?"
_TIMES = re.compile(
    rf"(?:\d{{1,2}}\s+)?\b(?:{_MONTH})\b(?:\s+\d{{1,2}}(?!\d))?(?:,?\s+\d{{4}})?|\b\d{{1,2}}:\d\d(?:\s?{_HALF_OF_DAY})?"
    rf"|\b\d{{1,2}}(?:\.\d\d)?\s?{_HALF_OF_DAY}|\b(?:1[0-9]|20)\d\d\b(?!\s*%)"
    rf"|\b(?:{'|'.join(day.capitalize() for day in WEEKDAYS)})s?\b|\bnoon\b|\bmidnight\b"
)
_NAME = re.compile(r"[A-Z][\w’'.-]*\w(?:[ -](?:(?:(?:of|the|de|von|van|and|&) )?[A-Z]|\d)[\w’'-]*)*")
_NO_NAMES = frozenset({*MONTHS, *WEEKDAYS, *(day[:3] for day in WEEKDAYS)}) | TITLES | FUNCTION_WORDS
_PERCENT_BEHIND = re.compile(r"\s?(?:%|percent\b|per cent\b)")
_CURRENCY_BEHIND = re.compile(r"\s?(?:euros?|dollars?|pounds?|cents?|pence|[€$£¢]|(?-i:EUR|USD|GBP)\b)", re.IGNORECASE)
_LONGEST_CURRENCY = 4
_EMPHASIS, _LONGEST_UNIT, _LONGEST_BEFORE = re.compile(r"[*`_~]"), 40, 120
_WORD_BEHIND = re.compile(r"[\s-]*([^\W\d_]+)")
_HOURS_PER_WORD = 2
"""How many hours nearer to the claim's time of day one is that counts as much as one more word of the claim beside."""
_ENDS = re.compile(r"(?:\b(?:until|till|to)\s+|[-–])$")
_OF_ENDS = frozenset(["until", "till"])
"""Words before the end of any length of time; they do not tell which one."""


@dataclass(frozen=True, slots=True)
class RowToJudge:
    """A row and the ``evidence`` of its ``spans``, in order.

    ``matcher`` is one for its answer and passages, where the caller has it already. ``probed`` is what the verdict's
    probe says of each word of the answer, if it has one, or ``UNREAD``.
    """

    record: QARecord
    parsed: ParsedAnswer
    spans: Sequence[TargetSpan]
    evidence: Sequence[SpanEvidence]
    matcher: ValueMatcher | None = None
    probed: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class _Why:
    """What stands beside a verdict: the reason of an unsupported claim with what its evidence has instead, or how."""

    reason: UnsupportedReason | None = None
    expected: str | None = None
    how: SupportedHow | None = None
    others: tuple[CharRange, ...] = ()
    """The claim's values and names of which the evidence has others."""


class _Reasons:
    """Finds the reasons of one answer's claims; ``sentences`` are those that the premises point into."""

    def __init__(self, answer: AnswerRow, table: WordTable, sentences: PassageSentences, literal: LiteralIndex) -> None:
        self._answer, self._parsed, self._words = answer.record.answer, answer.words.parsed, answer.words
        self._matcher, self._literal, self._sentences, self._table = answer.matcher, literal, sentences, table

    def why(self, words: Sequence[int], premise: Premise, support: Support, chars: CharRange) -> _Why:
        """The reason of the claim with these words of the answer, which stands at ``chars``; none for a weak one."""
        numbers = dict(zip(PREMISE_NUMBERS, premise.numbers.tolist(), strict=True))
        if support is Support.SUPPORTED:
            is_in_runs = numbers["run"] >= _QUOTED_SHARE and self._is_one_run(words, premise)
            if is_in_runs or self._literal.literal_passages(chars.of(self._answer)):
                return _Why(how=SupportedHow.QUOTED)
            is_combined = numbers["window"] < _COVERED and numbers["pair"] - numbers["window"] >= _ADDED
            return _Why(how=SupportedHow.COMBINED if is_combined else SupportedHow.PARAPHRASED)
        if support is not Support.UNSUPPORTED:
            return _Why()
        lacking = self._lacking(words, premise, numbers["soft"], chars) if premise.sentence is not None else []
        why = self._other_value(words, premise, lacking) or self._contradicted(premise)
        if why is None and numbers["soft"] >= _ABOUT_THE_SAME:
            why = self._turned(words, premise, numbers)
        nowhere = self._matcher.unmatched_ranges(chars, ()) if lacking else ()
        return why or _Why(UnsupportedReason.NOT_IN_PASSAGES, others=tuple(nowhere))

    def _contradicted(self, premise: Premise) -> _Why | None:
        contradiction = premise.contradiction
        if contradiction is None:
            return None
        others = tuple(self._parsed.words[word] for word in contradiction.words)
        return _Why(contradiction.reason, contradiction.expected, others=others)

    def _is_one_run(self, words: Sequence[int], premise: Premise) -> bool:
        """Whether all words that carry content stand in a row in the premise, as they do in the claim."""
        texts = [text for text in (self._parsed.words[word].of(self._answer) for word in words) if text[0].isalnum()]
        near = [self._sentences.all[index] for index in premise.window]
        stems = [text for part in near for word, text in zip(part.words, part.stems, strict=True) if word[0].isalnum()]
        own = [*map(stem, texts)]
        if "\0{}\0".format("\0".join(own)) in "\0{}\0".format("\0".join(stems)):
            return True
        _, start, size = SequenceMatcher(None, stems, own, autojunk=False).find_longest_match()
        return not any(map(carries_content, (*texts[:start], *texts[start + size :])))

    def _lacking(self, words: Sequence[int], premise: Premise, soft: float, chars: CharRange) -> list[Value]:
        """The values, and then the names, of the claim that its premise has not; none where it is not about the same.

        Words of values that it lacks do not count for that, but names are only sought where all words count.
        """
        own_chars = [self._parsed.words[word] for word in words if self._words.states[word]]
        own = [value for value in self._matcher.values_in(chars) if any(map(value.chars.overlaps, own_chars))]
        content = self._sentences.content_of(premise.window)
        main = self._sentences.content_of([*self._sentences.titles_of(premise.sentence or 0), premise.sentence or 0])
        values = [value for value in own if isinstance(value, AnswerValue) or self._is_time(value)]
        values = [value for value in values if not value.is_repeated_by(value.parts_in(content))]
        names = [name for name in own if isinstance(name, AnswerName) and not name.is_repeated_by(name.parts_in(main))]
        if soft >= _ABOUT_THE_SAME:
            return [*values, *names]
        weights = {word: self._table.weight(self._words.stems[word]) for word in words if self._words.content[word]}
        others = [word for word in weights if not any(map(self._parsed.words[word].overlaps, map(_chars, values)))]
        rest = sum(map(weights.__getitem__, others)) / max(sum(weights.values()), 1.0)
        return values if 0 < _ABOUT_THE_SAME * rest <= soft else []

    def _other_value(self, words: Sequence[int], premise: Premise, lacking: Sequence[Value]) -> _Why | None:
        """What the premise has instead of the first of these values and names of the claim, where it has another."""
        said = (*premise.label, *words)
        stems = frozenset(self._words.stems[word] for word in said if self._words.content[word]) - _OF_ENDS
        why = next(filter(None, (self._another(value, premise, stems) for value in lacking)), None)
        return replace(why, others=tuple(map(_chars, lacking))) if why else None

    @cached_property
    def _told(self) -> set[str]:
        return _stems_of(self._answer)

    def _is_told(self, text: str) -> bool:
        return self._told >= _stems_of(text)

    def _is_stated(self, amount: _Amount) -> bool:
        """Whether a value of the answer is an amount in other words: "6.4 million" is "£6.4m"."""
        values = self._matcher.values_in(CharRange(0, len(self._answer)))
        amounts = [value for value in values if isinstance(value, AnswerValue) and not value.terms]
        said = passage_content(amount.measured, None)
        return any(value.is_repeated_by(value.parts_in(said)) for value in amounts)

    def _is_time(self, value: Value) -> bool:
        is_written_so = _TIMES.fullmatch(_EMPHASIS.sub("", value.chars.of(self._answer))) is not None
        is_money = bool(_currency_before(self._answer, value.chars.char_start))
        return (is_written_so and not is_money) or (isinstance(value, AnswerValue) and value.is_time)

    def _another(self, value: Value, premise: Premise, stems: frozenset[str]) -> _Why | None:
        """What the premise has instead of one value or name; None for nothing of its kind that the answer lacks.

        Of several values it is the one with most ``stems`` of the claim beside it.
        """
        if self._is_time(value):
            expected = self._other_time(value.chars, premise, stems)
            return _Why(UnsupportedReason.OTHER_TIME, expected) if expected else None
        if isinstance(value, AnswerValue):
            is_often = value.counted == Kind.OFTEN or value.counted.startswith(RATE)
            other = (
                self._other_frequency(value.counted, premise)
                if is_often
                else self._other_amount(value.chars, premise, stems)
            )
            expected = None if value.terms else other
            return _Why(UnsupportedReason.OTHER_VALUE, expected) if expected else None
        names = [name for name in self._names(premise) if self._told.isdisjoint(map(stem, name.split()))]
        own = _has_digit(value.chars.of(self._answer)), len(value.parts)
        alike = max(names, key=lambda name: (_has_digit(name) is own[0], len(name.split()) == own[1]), default=None)
        return _Why(UnsupportedReason.OTHER_ENTITY, alike) if alike else None

    def _turned(self, words: Sequence[int], premise: Premise, numbers: dict[str, float]) -> _Why | None:
        """The opposite of what the premise says, or its roles exchanged."""
        expected = self._sentences.all[premise.sentence or 0].text
        if numbers["denied"] > 0:
            return _Why(UnsupportedReason.NEGATED, expected)
        names = sum(self._parsed.universal_tags[word] == "PROPN" for word in words)
        if numbers["opposed"] > 0 or (numbers["inverted"] >= _MOSTLY_INVERTED and names and not premise.missing):
            return _Why(UnsupportedReason.REVERSED, expected)
        return None

    def _other_time(self, chars: CharRange, premise: Premise, stems: frozenset[str]) -> str | None:
        """A date, a weekday or a time of day of the premise, as the one at ``chars`` is, if possible as precise."""
        written, before = _EMPHASIS.sub("", chars.of(self._answer)), self._answer[: chars.char_start].split()
        own, rivals = _kind_of_time(written), list[tuple[tuple[bool, float, int], str]]()
        for passage in self._texts(premise):
            times = [CharRange(*match.span()) for match in _TIMES.finditer(passage)]
            for time, near in zip(times, _stems_beside(passage, times), strict=True):
                text = time.of(passage).strip()
                kind, hours = _kind_of_time(text), _hours_between(written, text)
                if kind[0] == own[0] and not self._is_told(text):
                    said = passage[max(time.char_start - _LONGEST_BEFORE, 0) : time.char_start]
                    same = _same_at_end(before, said.split())
                    rivals.append(((kind == own, len(near & stems) - hours / _HOURS_PER_WORD, same), text))
        return max(rivals, key=lambda rival: rival[0])[1] if rivals else None

    def _other_frequency(self, kind: str, premise: Premise) -> str | None:
        """How often something happens there, or what the period of the same amount is."""
        rivals = (
            text[phrase.start : phrase.end]
            for text in self._texts(premise)
            for phrase in phrases_in(text)
            if kind in dict(phrase.readings)
        )
        return next((text for text in rivals if not self._is_told(text)), None)

    def _other_amount(self, chars: CharRange, premise: Premise, stems: frozenset[str]) -> str | None:
        """An amount of the premise of the sort of the one at ``chars``, if possible one that counts the same thing."""
        start = chars.char_start - len(_currency_before(self._answer, chars.char_start))
        own = next(_amounts_in(_EMPHASIS.sub("", self._answer[start : chars.char_end + _LONGEST_UNIT])), None)
        is_end = _ENDS.search(self._answer, 0, start) is not None
        titles = [self._sentences.all[index].text for index in self._sentences.titles_of(premise.sentence or 0)]
        rivals = list[tuple[tuple[bool, bool, bool, float], str]]()
        for passage in self._texts(premise):
            amounts = [
                (amount, text)
                for amount in _amounts_in(passage)
                if own is None or (amount.sort == own.sort and (amount.behind or passage not in titles))
                for text in [amount.measured if self._is_told(amount.text) else amount.text]
                if not (self._is_told(text) or (text is amount.text and self._is_stated(amount)))
            ]
            beside, behind = _stems_beside(passage, [amount.chars for amount, _ in amounts]), ""
            for (amount, text), near in zip(amounts, beside, strict=True):
                behind = amount.behind or behind  # "51 points, and the others 45"
                likeness, is_counted, is_same = float(len(near & stems)), True, True
                if own is not None:
                    is_same, is_counted = amount.text == own.text, own.behind in (amount.behind, behind)
                    likeness -= abs(math.log10((1 + own.size) / (1 + amount.size)))
                is_at_end = not is_end or _ENDS.search(passage, 0, amount.chars.char_start) is not None
                rivals.append(((is_same, is_counted, is_at_end, likeness), text))
        return max(rivals, key=lambda rival: rival[0])[1] if rivals else None

    def _texts(self, premise: Premise) -> list[str]:
        """Those of the premise's sentences, the main one first."""
        return [self._sentences.all[index].text for index in dict.fromkeys([premise.sentence or 0, *premise.window])]

    @cached_property
    def _capitalised(self) -> set[str]:
        """The words that have a capital where no sentence begins."""
        return {word for sentence in self._sentences.all for word in sentence.words[1:] if word[0].isupper()}

    def _names(self, premise: Premise) -> Iterator[str]:
        """The names in the main sentence of the premise; no times, no units, no title or common first word alone."""
        text = self._sentences.all[premise.sentence or 0].text
        units = [CharRange(*match.span(match.lastgroup or 0)) for match in UNIT_BESIDE_NUMBER.finditer(text)]
        for match in _NAME.finditer(text):
            name = match.group()
            is_name = match.start() or " " in name or not self._capitalised.isdisjoint(WORD_OR_MARK.findall(name))
            if (
                is_name
                and not range_overlapping(CharRange(*match.span()), units)
                and not _NO_NAMES.issuperset(
                    word.removesuffix("s") for word in comparable_words(name) if not word.isdecimal()
                )
            ):
                yield name


@dataclass(frozen=True, slots=True)
class _Amount:
    """A number of a text, with what it is written with; ``measured`` has the word behind it, too.

    ``sort`` is "money", "percent", the kind of a length of time or the dimension of a measure; "" for what counts.
    ``size`` is the number.
    """

    chars: CharRange
    text: str
    measured: str
    behind: str
    sort: str
    size: float


def _amounts_in(text: str) -> Iterator[_Amount]:
    """The amounts of a text, ascending; no parts of dates, times of day or names such as "Q3"."""
    times = [CharRange(*match.span()) for match in _TIMES.finditer(text)]
    for quantity in number_quantities(numbers_in(text), text):
        start, end = quantity.start, quantity.end
        if text[max(start - 1, 0) : start].isalpha():
            continue
        before = len(_currency_before(text, start))
        percent, word = _PERCENT_BEHIND.match(text, end), _WORD_BEHIND.match(text, end)
        sort = next((kind for kind, _ in sorted(quantity.readings) if kind not in _PLAIN_KINDS), "")
        if before or _CURRENCY_BEHIND.match(text, end):
            sort = "money"
        elif percent:
            sort, end = "percent", percent.end()
        elif sort == Kind.MONTHS:
            sort = Kind.SECONDS
        time = range_overlapping(CharRange(start, end), times)
        is_year = time is not None and time.of(text).isdigit()
        if time is not None and not (is_year and (sort or end > time.char_end)):
            continue
        written, measured = text[start - before : end], text[start - before : word.end() if word else end]
        sizes = (abs(size) for kind, size in quantity.readings if kind in _PLAIN_KINDS - {Kind.PERHAPS_MINUTE})
        size = float(max(sizes, default=0))
        yield _Amount(CharRange(start, end), written.strip(), measured, stem(word[1]) if word else "", sort, size)


_PLAIN_KINDS = frozenset(Kind) - {Kind.SECONDS, Kind.MONTHS, Kind.PERCENT}


def _kind_of_time(text: str) -> tuple[str, tuple[bool, ...]]:
    """Whether it is a "day" of the week, a time on the "clock" or a "date", and which parts a date has."""
    words = re.findall(r"[a-z]+", text.lower())
    if words and words[0].removesuffix("s") in WEEKDAYS:
        return "day", ()
    has_month = not MONTHS.keys().isdisjoint(words)
    if not has_month and not re.search(r"\d{4}|century", text):
        return "clock", ()
    return "date", (has_month, re.search(r"\d{4}", text) is not None, re.search(r"\b\d{1,2}(?!\d)", text) is not None)


def _same_at_end(words: Sequence[str], others: Sequence[str]) -> int:
    """How many words are the same at the ends of two texts."""
    pairs = zip(reversed(words), reversed(others), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0].lower() == pair[1].lower(), pairs))


def _hours_between(time: str, other: str) -> float:
    """The fewest hours between two times of day; 0 for dates."""
    minutes, others = ([size for one in clock_times_in(text) for _, size in one.readings] for text in (time, other))
    return float(min((abs(one - two) for one in minutes for two in others), default=0)) / 60


_CLAUSE_END = re.compile(r"[,;:.()–—]|\b(?:and|or|but|while|whereas)\b")


def _stems_beside(text: str, parts: Sequence[CharRange]) -> Iterator[set[str]]:
    """The stems beside each of some parts of a text: behind the part before it, and up to the end of its clause.

    What stands between two parts of one clause is only beside the second one.
    """
    ends, starts = (0, *(part.char_end for part in parts)), (*(part.char_start for part in parts[1:]), None)
    for part, since, until in zip(parts, ends, starts, strict=False):
        behind, *others = _CLAUSE_END.split(text[part.char_end : until], maxsplit=1)
        yield _stems_of(f"{text[since : part.char_start]} {behind if others or until is None else ''}")


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _chars(part: Value | _Amount) -> CharRange:
    return part.chars


def _stems_of(text: str) -> set[str]:
    return {stem(word) for word in WORD_OR_MARK.findall(text) if word[0].isalnum()}


def _currency_before(text: str, start: int) -> str:
    match = MONEY_BEFORE.search(text, max(start - _LONGEST_CURRENCY, 0), start)
    return match[0] if match else ""


_COPIED_SHARE = 0.8
"""The share of a span in a language that is not read from which on it counts as copied from a passage."""
_LARGEST_EXPONENT = 700.0
_AT_ONCE = 16
"""How many answers are measured at once."""
_EVEN = 0.5
"""The prior unless told: half of the answers have an unsupported claim."""


def judge_of(options: MethodOptions) -> VerdictJudge | None:
    """The judge that the options ask for, None where claims are judged by their evidence mass.

    Raises:
        ModelLoadError: if the verdict's directory cannot be read.
    """
    if options.judges_by_mass:
        return None
    return _judge(
        options.verdict,
        options.strictness or Strictness.BALANCED,
        _EVEN if options.prior is None else options.prior,
        assume_language=options.assume_language,
    )


def probe_of(options: MethodOptions) -> StateProbe | None:
    """The probe of the verdict that the options ask for, None where it has none or is no fitted one.

    Raises:
        ModelLoadError: if the verdict's file cannot be read.
    """
    directory = verdict_directory(options.verdict)
    is_fitted = not options.judges_by_mass and (directory / VERDICT_FILE).is_file()
    return load_verdict_model(directory).probe if is_fitted else None


@lru_cache(maxsize=4)
def _judge(verdict: str, strictness: Strictness, prior: float, *, assume_language: bool) -> VerdictJudge:
    directory = verdict_directory(verdict)
    if not directory.is_dir():
        names = ", ".join((*SHIPPED_VERDICTS, MASS_VERDICT))
        raise ModelLoadError(f"verdict should be {names} or a directory of a fitted one, was: {verdict!r}")
    return VerdictJudge(load_verdict_model(directory), strictness, prior=prior, assume_language=assume_language)


class VerdictJudge:
    """Judges answers with one fitted model.

    ``prior`` is the share of answers that are expected to have an unsupported claim; ``assume_language`` judges every
    language.
    """

    def __init__(self, model: VerdictModel, strictness: Strictness, *, prior: float, assume_language: bool) -> None:
        self._model, self._reader = model, model.reader
        self._strictness, self._prior, self._assume_language = strictness, prior, assume_language
        self._unsupported = model.thresholds.unsupported(strictness)

    def provenance(self) -> dict[str, str]:
        """The model's digest, the thresholds in force, and what was measured with it."""
        return self._model.provenance(self._strictness, self._prior)

    def judged(self, rows: Sequence[RowToJudge]) -> list[tuple[SpanEvidence, ...]]:
        """The records of each row's spans, in order, with kinds, claims, scores, reasons and the answer's risk.

        Each claim is held against its premise: the sentences that its evidence and its words point to. Its support
        score is a probability, and decides alone whether it is supported, weak or unsupported; that of the riskiest
        claim is one minus the answer's risk. The words that speak most against an unsupported claim are named, and the
        suspicious ones of weak claims beside it. A span without a word that can be judged is no claim. A mention has
        the verdict of its claim.
        """
        return [row for at in range(0, len(rows), _AT_ONCE) for row in self._judged_at_once(rows[at : at + _AT_ONCE])]

    def _judged_at_once(self, rows: Sequence[RowToJudge]) -> Iterator[tuple[SpanEvidence, ...]]:
        kinds = [word_kinds(row.parsed, row.record, assume_language=self._assume_language) for row in rows]
        answers = [AnswerRow.of(row.record, row.parsed, one, row.matcher) for row, one in zip(rows, kinds, strict=True)]
        signals = answer_signals(answers, self._model.table)
        read = [_ReadAnswer(*row, self._model.table, self._reader) for row in zip(rows, answers, signals, strict=True)]
        scored = iter(self._scored([answer for answer in read if answer.claimed]))
        for answer in read:
            risk, verdicts = self._verdicts(answer, next(scored)) if answer.claimed else (None, {})
            yield tuple(
                replace(record, answer_kind=answer.kind, answer_risk=risk, **answer.fields_of(record, claim, verdicts))
                for record, claim in zip(answer.row.evidence, answer.spans, strict=True)
            )

    def _scored(self, answers: Sequence[_ReadAnswer]) -> list[ScoredAnswer]:
        """What is said of answers with claims, all of which the reader reads at once."""
        to_score = [answer.to_score for answer in answers]
        if self._reader is not None:
            odds = self._reader.log_odds([claim for answer in answers for claim in answer.inputs])
            parts = np.split(odds, np.cumsum([len(answer.inputs) for answer in answers]))
            to_score = [replace(answer, read=part) for answer, part in zip(to_score, parts, strict=False)]
        return self._model.scored(to_score)

    def _verdicts(self, answer: _ReadAnswer, scored: ScoredAnswer) -> tuple[float, dict[int, dict[str, Any]]]:
        """The answer's risk, and the fields of each claim's verdict by its index."""
        shift = log_odds(self._prior)
        scores = [1 - _probability(odds + shift) for odds in scored.claims.tolist()]
        flagged = min(scores) < self._unsupported
        of_words = dict(zip(answer.to_score.signals.words, scored.words.tolist(), strict=True))
        verdicts: dict[int, dict[str, Any]] = {}
        for (index, words), premise, score in zip(answer.claimed.items(), answer.premises, scores, strict=True):
            support = Support.SUPPORTED if score >= self._model.thresholds.supported else Support.WEAK
            if score < self._unsupported:
                support = Support.UNSUPPORTED
            named = self._named(words, of_words, support) if flagged else ()
            why = answer.reasons.why(words, premise, support, answer.row.spans[index].chars)
            if why.others:
                named = answer.only_others(words, premise, why.others) or named
            verdicts[index] = {
                "support": support,
                "support_score": score,
                "reason": why.reason,
                "expected": why.expected,
                "how": why.how,
                "evidence_agrees": is_attended(premise.numbers),
                "unsupported_words": answer.ranges_of(named),
            }
        return _probability(scored.answer + shift), verdicts

    def _named(self, claimed: Sequence[int], of_words: Mapping[int, float], support: Support) -> Sequence[int]:
        """The claim's words that speak most against it: of an unsupported one at least one, if any is judged."""
        if support is Support.SUPPORTED:
            return ()
        limits = self._model.thresholds
        level = limits.word if support is Support.UNSUPPORTED else limits.weak_word
        judged = [word for word in claimed if word in of_words]
        named = [word for word in judged if _probability(of_words[word]) >= level]
        if named or support is Support.WEAK:
            return named
        return tuple(sorted(judged, key=of_words.__getitem__)[-1:])


class _ReadAnswer:
    """An answer with its premises and what its reader reads, before it is scored.

    ``claimed`` has the words of the claims with a judged word by the index of their span, ``premises`` in their order.
    """

    def __init__(
        self, row: RowToJudge, answer: AnswerRow, signals: Signals, table: WordTable, reader: ClaimReader | None
    ) -> None:
        every = answer_claims(row.parsed, row.record.answer, row.spans, answer.kinds)
        self.row, self.kind, self.spans, self._words = row, every.kind, every.spans, answer.words
        judged = frozenset(signals.words)
        self.claimed = {
            index: span.words
            for index, span in enumerate(every.spans)
            if span.claim_index == index and not judged.isdisjoint(span.words)
        }
        self._sentences = sentences = PassageSentences(row.record.passages if self.claimed else (), answer.words.wholes)
        pairs = [(words, row.evidence[index]) for index, words in self.claimed.items()]
        self.premises = claim_premises(answer, sentences, pairs, table)
        claims = [*zip(self.claimed.values(), self.premises, strict=True)]
        self.inputs = reader.inputs(answer.words, claims, sentences) if reader else []
        numbers = [premise.numbers for premise in self.premises]
        self.to_score = AnswerToScore(signals, [*self.claimed.values()], numbers, probed=row.probed)
        self._literal = LiteralIndex(row.record.passages)
        self._copied: dict[int, tuple[float, int | None]] = {}
        self.reasons = _Reasons(answer, table, sentences, self._literal)

    @cached_property
    def _stated(self) -> str:
        return hide_ranges(self.row.record.answer, self.row.parsed.marked)

    def only_others(self, words: Sequence[int], premise: Premise, others: Sequence[CharRange]) -> Sequence[int]:
        """The words of a claim that its premise lacks, where all of them stand in these values and names; else none."""
        stems = {*chain.from_iterable(self._sentences.all[index].stems for index in premise.window)}
        chars, is_word = self.row.parsed.words, self._words.is_word
        own = (
            word
            for word in words
            if self._words.content[word] or (is_word[word] and any(map(chars[word].overlaps, others)))
        )
        missing = [word for word in own if self._words.stems[word] not in stems]
        near = [chars[max(word - 1, 0) : word + 1] for word in missing]  # "hours" of "35 hours" stands behind the value
        return missing if all(any(word.overlaps(other) for word in pair for other in others) for pair in near) else ()

    def ranges_of(self, words: Sequence[int]) -> list[CharRange]:
        """Where the words stand; those with only white space, marks or one short word between them are one range."""
        answer, ranges = self.row.record.answer, list[CharRange]()
        for chars in (self.row.parsed.words[word] for word in words):
            if ranges and len(answer[ranges[-1].char_end : chars.char_start].split()) <= 1:
                ranges[-1] = CharRange(ranges[-1].char_start, chars.char_end)
            else:
                ranges.append(chars)
        return ranges

    def fields_of(
        self, record: SpanEvidence, claim: SpanClaim, verdicts: Mapping[int, dict[str, Any]]
    ) -> dict[str, Any]:
        """What the record of a span says of its kind, its claim and the claim's verdict."""
        fields: dict[str, Any] = {"claim_kind": claim.kind, "claim_index": claim.claim_index}
        if claim.claim_index is None:
            return fields | {"support": Support.NO_CLAIM if claim.kind.is_judgeable else Support.NOT_JUDGED}
        if claim.kind is ClaimKind.LANGUAGE:
            return fields | self._in_another_language(record, self.row.evidence[claim.claim_index])
        verdict = verdicts.get(claim.claim_index)
        if verdict is None:
            return {"claim_kind": ClaimKind.DISCOURSE, "claim_index": None, "support": Support.NO_CLAIM}
        within = tuple(
            CharRange(max(chars.char_start, record.chars.char_start), min(chars.char_end, record.chars.char_end))
            for chars in verdict["unsupported_words"]
            if chars.overlaps(record.chars)
        )
        return fields | verdict | {"unsupported_words": within}

    def _in_another_language(self, record: SpanEvidence, claim: SpanEvidence) -> dict[str, Any]:
        """Supported by the passage that the span's claim copies, which becomes its best; else no claim, not judged."""
        if claim.span_index not in self._copied:
            stated = claim.chars.of(self._stated)
            self._copied[claim.span_index] = self._literal.copied(stated, preferred=claim.top_passage_index)
        copied_share, index = self._copied[claim.span_index]
        if index is None or copied_share < _COPIED_SHARE:
            return {"claim_index": None, "support": Support.NOT_JUDGED}
        return {
            "support": Support.SUPPORTED,
            "top_passage_index": index,
            "top_passage_id": self.row.record.passages[index].passage_id,
            "margin": record.margin if index == record.top_passage_index else 0.0,
        }


def _probability(log_odds: float) -> float:
    return float(1 / (1 + np.exp(min(-log_odds, _LARGEST_EXPONENT))))
