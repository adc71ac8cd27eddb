"""What the verdict is trained on: judged answers as rows, and the table of words.

Judged answers as rows for the verdict: an audit's evidence, what is measured of words and claims, and the labels.

Makes the table of words: document frequencies of stems in plain text, and word vectors from a wordllama package.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save
from tqdm import tqdm

from attribeam.attribution.answers.answer_parser import parse_each
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.target_spans import choose_target_spans
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.verdict.claim_reader import ReaderInput, load_reader
from attribeam.attribution.verdict.claims import answer_claims, word_kinds
from attribeam.attribution.verdict.fitted_parts import WORD_FILES, WordTable
from attribeam.attribution.verdict.premises import claim_premises
from attribeam.attribution.verdict.signals import AnswerRow, Signals, answer_signals
from attribeam.attribution.verdict.texts import PassageSentences, stem
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.schemas import CharRange, EvidencePiece, Passage, QARecord, RowFault, SpanEvidence
from attribeam.schemas.errors import DataError
from lab.training.verdict.shared_sets import TrainingAnswer

NOISE = "noise"
"""The set of supported answers beside evidence that says nothing, as a random model finds it: all is unsupported."""
_NOISE_COUNTS: Mapping[str, int] = {"trial": 500, "ragtruth": 150, "made": 150, "pages": 200}
_FEWEST_LETTERS = 400
_ANSWERS_PER_BATCH = 64
_WORDS_OF_FULL_WEIGHT, _LEAST_WEIGHT, _MARK_EXPONENT = 3, 0.2, 0.6
"""A word of a long marked range counts less than one of a short range: (3 / words of the range) to this power."""
_Flags = npt.NDArray[np.bool_]
_Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One judged answer that claims something.

    Attributes:
        record: the answer.
        set_name, part, key: as ``TrainingAnswer`` has them.
        signals: of its words.
        chars: the characters of each word.
        claims: the words of each claim, as indices of the answer's words.
        premises: float32 [claims, PREMISE_NUMBERS].
        marked_words, marked_claims: what is unsupported; everything, where an answer was only found so as a whole.
        word_weights, claim_weights: how much each counts in a fit; 0 where nobody judged it.
        has_marks: whether characters were marked, or nothing had to be.
        is_marked: whether the answer has anything unsupported.
        inputs: what the reader reads of each claim.
        read: what a reader of other sources says of each claim; None before one was trained.
        states: float16 (words, size), the words' hidden states in a decoder, None without one.
    """

    record: QARecord
    set_name: str
    part: str
    key: str
    signals: Signals
    chars: tuple[CharRange, ...]
    claims: tuple[tuple[int, ...], ...]
    premises: npt.NDArray[np.float32]
    marked_words: _Flags
    marked_claims: _Flags
    word_weights: _Weights
    claim_weights: _Weights
    has_marks: bool
    is_marked: bool
    inputs: tuple[ReaderInput, ...] = ()
    read: npt.NDArray[np.float64] | None = None
    states: npt.NDArray[np.float16] | None = None

    @property
    def letters(self) -> npt.NDArray[np.int64]:
        """How many characters each word has."""
        return np.array([word.char_end - word.char_start for word in self.chars], dtype=np.int64)


def verdict_rows(
    answers: Sequence[TrainingAnswer], attributor: Attributor, table: WordTable, *, seed: int
) -> Iterator[VerdictRow]:
    """The rows of those answers that claim something, in order, and rows of noise; shows a bar in a terminal.

    Answers that cannot be audited have no row.
    """
    noisy = _noisy(answers, seed)
    with tqdm(total=len(answers), unit="answer", disable=None, leave=False) as bar:
        for start in range(0, len(answers), _ANSWERS_PER_BATCH):
            some = answers[start : start + _ANSWERS_PER_BATCH]
            records = [answer.judged.record for answer in some]
            parses = parse_each(attributor.parser, records)
            outcomes = attributor.attribute_many(records)
            for index, (answer, parsed, spans) in enumerate(zip(some, parses, outcomes, strict=True), start):
                if isinstance(parsed, RowFault) or isinstance(spans, RowFault):
                    continue
                measured = [_row(answer, parsed, spans, attributor, table)]
                if index in noisy:
                    draw = _draw(answer, seed)
                    measured.append(_row(answer, parsed, _noise(answer.judged.record, spans, draw), attributor, table))
                for number, row in enumerate(measured):
                    if row is not None:
                        yield _as_noise(row) if number else row
            bar.update(len(some))


def _row(
    answer: TrainingAnswer,
    parsed: ParsedAnswer,
    evidence: Sequence[SpanEvidence],
    attributor: Attributor,
    table: WordTable,
) -> VerdictRow | None:
    """The row, None where no claim has a word that can be judged."""
    judged, record = answer.judged, answer.judged.record
    kinds = word_kinds(parsed, record)
    read = AnswerRow.of(record, parsed, kinds)
    (signals,) = answer_signals([read], table)
    spans = choose_target_spans(parsed, record.answer, kinds=attributor.spans, given=None)
    indices = {word: index for index, word in enumerate(signals.words)}
    claims = {
        index: span.words
        for index, span in enumerate(answer_claims(parsed, record.answer, spans, kinds).spans)
        if span.claim_index == index and not indices.keys().isdisjoint(span.words)
    }
    if not claims:
        return None
    pairs = [(words, evidence[index]) for index, words in claims.items()]
    sentences = PassageSentences(record.passages, read.words.wholes)
    premises = claim_premises(read, sentences, pairs, table)
    beside = [*zip(claims.values(), premises, strict=True)]
    chars = tuple(parsed.words[word] for word in signals.words)
    has_marks, is_marked = judged.unsupported is not None, not judged.is_supported
    marked, weights = np.full(len(chars), is_marked and not has_marks), np.ones(len(chars))
    for mark in judged.unsupported or ():
        inside = np.array([word.overlaps(mark.chars) for word in chars], dtype=bool)
        marked |= inside
        share = np.clip(_WORDS_OF_FULL_WEIGHT / max(inside.sum(), 1), _LEAST_WEIGHT, 1.0) ** _MARK_EXPONENT
        weights[inside] = np.minimum(weights[inside], share)
    if judged.judged is not None:
        weights[[not any(word.overlaps(seen) for seen in judged.judged) for word in chars]] = 0
    own = [[indices[word] for word in words if word in indices] for words in claims.values()]
    return VerdictRow(
        record=record,
        set_name=answer.set_name,
        part=answer.part,
        key=answer.key,
        signals=signals,
        chars=chars,
        claims=tuple(tuple(words) for words in claims.values()),
        premises=np.stack([premise.numbers for premise in premises]),
        marked_words=marked,
        marked_claims=np.array([bool(marked[words].any()) for words in own]),
        word_weights=weights,
        claim_weights=np.array([float(weights[words].any()) for words in own]),
        has_marks=has_marks,
        is_marked=is_marked,
        inputs=tuple(load_reader(BUNDLED_VERDICT).inputs(read.words, beside, sentences)),
    )  # fmt: skip


def _draw(answer: TrainingAnswer, seed: int) -> random.Random:
    """Chance that depends on the answer alone, so that every set may be measured by itself."""
    return random.Random(f"{seed} {answer.set_name} {answer.judged.record.record_id}")


def _noisy(answers: Sequence[TrainingAnswer], seed: int) -> frozenset[int]:
    """The places of the answers that are to have a row of noise: supported ones with enough text to point into."""
    chosen: list[int] = []
    for name, count in _NOISE_COUNTS.items():
        fitting = [
            index
            for index, row in enumerate(answers)
            if row.set_name == name and row.judged.is_supported and _size(row.judged.record.passages) > _FEWEST_LETTERS
        ]
        chosen += sorted(fitting, key=lambda index: _draw(answers[index], seed).random())[:count]
    return frozenset(chosen)


def _size(passages: Sequence[Passage]) -> int:
    return len(passages) * sum(len(passage.text) for passage in passages)


def _noise(record: QARecord, spans: Sequence[SpanEvidence], draw: random.Random) -> list[SpanEvidence]:
    """The same spans with random pieces of the passages as evidence."""
    passages, noisy = record.passages, []
    lengths = [len(passage.text) + 1 for passage in passages]
    for span in spans:
        pieces, scores = [], [0.0] * len(passages)
        for _ in range(draw.randrange(3, 9)):
            index = draw.choices(range(len(passages)), lengths)[0]
            text = passages[index].text
            if len(text) < 20:
                continue
            start = draw.randrange(max(len(text) - 15, 1))
            chars = CharRange(start, min(start + draw.randrange(8, 60), len(text)))
            score = draw.random() + 0.1
            scores[index] += score
            pieces.append(EvidencePiece(index, passages[index].passage_id, False, chars, chars.of(text), score))
        total = sum(scores) or 1.0
        first, second = sorted([0.0, *(score / total for score in scores)], reverse=True)[:2]
        mass = span.evidence_mass if draw.random() < 0.5 else draw.uniform(0.1, 0.9)
        noisy.append(
            replace(
                span, evidence=tuple(pieces), passage_scores=tuple(scores), evidence_mass=mass, margin=first - second
            )
        )
    return noisy


def _as_noise(row: VerdictRow) -> VerdictRow:
    return replace(
        row, set_name=NOISE, part="", marked_claims=np.ones(len(row.claims), dtype=bool), has_marks=True, is_marked=True
    )


_WORD = re.compile(r"[^\W_]+")
_FEWEST_DOCUMENTS, _FEWEST_OCCURRENCES, _DIMENSIONS = 5, 25, 64
_TOKENIZER, _VECTORS = "tokenizers/l2_supercat_tokenizer_config.json", "weights/l2_supercat_256.safetensors"


def make_word_table(texts: Iterable[str], wordllama: Path, output: Path) -> None:
    """Write the table of the words in ``texts``, one document each, to the directory ``output``.

    A word's vector is the mean of its tokens' vectors in ``wordllama`` (the unpacked package's folder of that name),
    centred and reduced to 64 dimensions by a principal component analysis over all words of the table.

    Raises:
        DataError: if the package's files are not there.
    """
    from tokenizers import Tokenizer  # a dependency of transformers

    for file in (wordllama / _TOKENIZER, wordllama / _VECTORS):
        if not file.is_file():
            raise DataError(f"--wordllama {wordllama} should be the folder of the package wordllama, has no {file}")
    documents: list[list[str]] = []
    occurrences: Counter[str] = Counter()
    for text in texts:
        words = _WORD.findall(text.lower())
        documents.append(list(dict.fromkeys(words)))
        occurrences.update(words)
    frequencies = {form: count for form, count in _stem_frequencies(documents).items() if count >= _FEWEST_DOCUMENTS}
    words = sorted(word for word, count in occurrences.items() if count >= _FEWEST_OCCURRENCES and _is_plain(word))
    tokenizer = Tokenizer.from_file(str(wordllama / _TOKENIZER))
    tokens = next(iter(load_file(wordllama / _VECTORS).values())).astype(np.float32)
    vectors = np.stack([tokens[tokenizer.encode(word, add_special_tokens=False).ids].mean(axis=0) for word in words])
    vectors -= vectors.mean(axis=0)
    _, directions = np.linalg.eigh(vectors.T @ vectors)
    reduced = vectors @ directions[:, ::-1][:, :_DIMENSIONS]
    reduced /= np.maximum(np.linalg.norm(reduced, axis=1, keepdims=True), 1e-6)
    _save_word_table(output, documents=len(documents), frequencies=frequencies, words=words, vectors=reduced)


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isalpha() and len(word) > 2


def _save_word_table(
    directory: Path,
    *,
    documents: int,
    frequencies: Mapping[str, int],
    words: Sequence[str],
    vectors: npt.NDArray[np.float32],
) -> None:
    """Write a table: stems grouped by document frequency as JSON, vectors as 8-bit numbers."""
    by_count: dict[str, list[str]] = {}
    for form, count in sorted(frequencies.items()):
        by_count.setdefault(str(count), []).append(form)
    grouped = {count: " ".join(stems) for count, stems in sorted(by_count.items(), key=lambda item: int(item[0]))}
    table = {"documents": documents, "words": " ".join(words), "frequencies": grouped}
    (directory / WORD_FILES[0]).write_text(json.dumps(table, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    scale = 127 / np.abs(vectors).max()
    (directory / WORD_FILES[1]).write_bytes(save({"vectors": np.round(vectors * scale).astype(np.int8)}))


def _stem_frequencies(documents: Sequence[Sequence[str]]) -> dict[str, int]:
    """In how many documents each stem occurs; a document is a sequence of words."""
    counts: dict[str, int] = {}
    for words in documents:
        for form in {stem(word) for word in words}:
            counts[form] = counts.get(form, 0) + 1
    return counts
