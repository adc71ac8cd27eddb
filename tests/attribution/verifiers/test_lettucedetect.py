"""Token classifiers: the spans of LettuceDetect's own package, windows, and what a claim takes of its tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.attribution.tiny_verifiers import save_verifier

from attribeam.attribution.options import ModelOptions
from attribeam.attribution.verdict.verified import ClaimToVerify
from attribeam.attribution.verifiers.loading import load_verifier
from attribeam.attribution.verifiers.token_classifier import AnswerDoubts, TokenClassifier
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource

CASES = {
    "question": ("Who built it?", ("The lighthouse was built in 1874 by Ada Thorne.", "Its lamp burned oil."),
                 "Ada Thorne built the lighthouse. Its keeper painted the tower."),
    "summary": ("", ("The ferry leaves at nine and carries forty cars.",), "Forty cars leave at nine, with a dog."),
    "marks": ("Wo?", ("Am Kai, hinter dem Zollhaus – Tür „3“.",), "Hinter dem Zollhaus, Tür 3 🙂 (links)."),
}  # fmt: skip
# made by lettucedetect 0.2.3 with the model of save_verifier
SPANS = {
    "question": [(0, 3, 0.954832), (20, 31, 0.766803), (44, 45, 0.96961), (46, 49, 0.735818), (50, 51, 0.857523),
                 (61, 62, 0.612359)],
    "summary": [(2, 3, 0.789368), (8, 12, 0.944062), (16, 19, 0.693068), (33, 34, 0.566713), (35, 37, 0.859326)],
    "marks": [(1, 4, 0.596949), (7, 9, 0.633002), (11, 12, 0.966556), (13, 15, 0.983159), (18, 19, 0.629042),
              (22, 23, 0.824066), (25, 26, 0.696852), (27, 28, 0.979157), (29, 31, 0.774494), (34, 37, 0.80955)],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_verifier(tmp_path_factory.mktemp("verifiers"), "lettucedetect")


@pytest.fixture(scope="module")
def verifier(folder: Path) -> TokenClassifier:
    found = load_verifier(ModelOptions(model=str(folder), device="cpu"))
    assert isinstance(found, TokenClassifier)
    return found


def record(name: str) -> QARecord:
    question, passages, answer = CASES[name]
    return QARecord(name, question, tuple(Passage(text=one) for one in passages), answer, RowSource("log", 0))


def spans_of(found: AnswerDoubts | RowFault) -> list[tuple[int, int, float]]:
    """As LettuceDetect gives them: the range of each run, and its largest doubt."""
    assert isinstance(found, AnswerDoubts)
    doubts = dict(zip(found.chars, found.doubts.tolist(), strict=True))
    return [
        (one.char_start, one.char_end, max(doubt for chars, doubt in doubts.items() if chars.overlaps(one)))
        for one in found.ranges()
    ]


@pytest.mark.parametrize("name", CASES)
def test_spans_are_those_that_lettucedetect_gave(name: str, verifier: TokenClassifier) -> None:
    found = spans_of(verifier.doubts([record(name)])[0])
    assert [one[:2] for one in found] == [one[:2] for one in SPANS[name]]
    assert [one[2] for one in found] == pytest.approx([one[2] for one in SPANS[name]], abs=1e-5)


def test_spans_are_those_of_the_package_where_it_is_installed(folder: Path, verifier: TokenClassifier) -> None:
    package = pytest.importorskip("lettucedetect.detectors.transformer")
    detector = package.TransformerDetector(str(folder), device="cpu")
    batch = verifier.doubts([record(name) for name in CASES])
    for name, ours in zip(CASES, batch, strict=True):
        question, passages, answer = CASES[name]
        theirs = detector.predict([*passages], answer, question or None, output_format="spans")
        found = spans_of(ours)
        assert [one[:2] for one in found] == [(one["start"], one["end"]) for one in theirs]
        assert [one[2] for one in found] == pytest.approx([one["confidence"] for one in theirs], abs=1e-5)


def test_long_row_is_read_in_windows_and_the_least_doubt_of_a_token_counts(verifier: TokenClassifier) -> None:
    passages = tuple(
        Passage(text=f"Ferry {number} carries forty cars to the island at noon. " * 4) for number in range(9)
    )
    answer = "Ferry 7 carries forty cars."
    whole = QARecord("1", "Which?", passages, answer, RowSource("log", 0))
    (found,) = verifier.doubts([whole])
    assert isinstance(found, AnswerDoubts)
    rows = [verifier._classifier.row(prompt, answer) for prompt in verifier._prompts(whole)]
    assert len(rows) > 1
    assert all(len(row["input_ids"]) <= 512 for row in rows)
    count = len(verifier._classifier.tokenizer(answer, add_special_tokens=False)["input_ids"])
    each = [one for one in verifier._classifier.probabilities(rows) if not isinstance(one, RowFault)]
    doubts = [one[len(row["input_ids"]) - 1 - count :][:count, 1] for one, row in zip(each, rows, strict=True)]
    assert found.doubts == pytest.approx(np.min([one.numpy() for one in doubts], axis=0), abs=1e-5)


def test_passage_beyond_a_window_is_cut_into_pieces_that_overlap(verifier: TokenClassifier) -> None:
    text = " ".join(f"cars{number}" for number in range(600))
    pieces = [one for (one,) in verifier._classifier.windows([Passage(text=text)], overhead=20)]
    assert len(pieces) > 2
    assert all(one in text for one in pieces)
    places = [text.index(one) for one in pieces]
    ends = [place + len(one) for place, one in zip(places, pieces, strict=True)]
    assert places[0] == 0
    assert ends[-1] == len(text)
    assert all(start < end for start, end in zip(places[1:], ends, strict=False))


def test_answer_beyond_what_it_reads_is_refused_alone(verifier: TokenClassifier) -> None:
    long = QARecord("1", "Which?", (Passage(text="Short."),), "Ferries carry cars. " * 300, RowSource("log", 0))
    refused, read = verifier.doubts([long, record("summary")])
    assert isinstance(refused, RowFault)
    assert refused.reason is Reason.TOO_MANY_TOKENS
    assert isinstance(read, AnswerDoubts)


def test_token_counts_for_the_shortest_claim_around_it() -> None:
    chars = tuple(CharRange(start, start + 4) for start in range(0, 25, 5))
    doubts = AnswerDoubts(chars, np.array([0.1, 0.9, 0.2, 0.6, 0.7]))
    outer, inner, same = (ClaimToVerify(CharRange(*one), "", (0,)) for one in ((0, 14), (5, 9), (15, 24)))
    assert doubts.support([outer, inner, same]) == pytest.approx((0.8, 0.1, 0.3))
    assert doubts.ranges() == (CharRange(5, 9), CharRange(15, 24))
