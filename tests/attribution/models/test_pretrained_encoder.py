"""all-MiniLM-L6-v2 as an attributor: real weights of a BERT with absolute positions and room for 512 tokens.

The rows were written for this test. Without the package of ``tests/pretrained_models.txt`` everything is skipped.
"""

import numpy as np
import pytest
from tests.attribution.attention.test_capture import EVERYTHING, eager_similarity
from tests.attribution.made_rows import full_similarity
from tests.attribution.prompts.test_token_offsets import attributed_by, full_matrix
from tests.evaluation.dataset_rows import HIDDEN_UNION
from tests.pretrained_packages import MINILM, checked_package

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource

pytestmark = pytest.mark.pretrained

QUESTION = "How does the ferry to Skelde run?"
PASSAGES = {
    "winter": "From December on the boats stay in the harbour, because the sound is covered with ice.",
    "fares": "Grown-ups pay four crowns for a crossing. Children below seven travel free of charge.",
    "owners": "The line belongs to the town, which bought it from a company that had gone bankrupt.",
    "boats": "Two vessels make the trip; the older one was launched in Kalbrook seventy years ago.",
}
CLAIMS = {
    "winter": "ice covers the sound, so that no boat leaves the harbour in December",
    "fares": "children under seven years travel free",
    "owners": "the town owns the line, having bought it from a bankrupt company",
    "boats": "one vessel was built in Kalbrook seventy years ago",
}
ANSWER = "; ".join(CLAIMS.values()) + "."


@pytest.fixture(scope="module")
def directory():
    return checked_package(MINILM) / "model"


@pytest.fixture(scope="module")
def model(directory):
    method = MethodOptions(top_k=EVERYTHING)
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"), method=method, threads=1)


def record(repeats=1):
    passages = tuple(Passage(text, name) for _ in range(repeats) for name, text in PASSAGES.items())
    return QARecord("ferry", QUESTION, passages, ANSWER, RowSource("log", 0))


def test_captured_attention_is_transformers_own(model, directory):
    row = model.encode(record())
    expected = eager_similarity(directory, model, row)
    np.testing.assert_allclose(full_similarity(attributed_by(model, row, len(PASSAGES))), expected, atol=1e-5)


def test_each_window_of_a_long_row_has_transformers_own_attention(model, directory):
    row, count = model.encode(record(6)), 6 * len(PASSAGES)
    assert len(row.windows) >= 2
    shown = [sorted({*window.row.column_passage.tolist()} - {-1}) for window in row.windows]
    assert [passage for of_window in shown for passage in of_window] == list(range(count))
    whole = attributed_by(model, row, count)
    for window, passages in zip(row.windows, shown, strict=True):
        expected = eager_similarity(directory, model, window.row)
        np.testing.assert_allclose(full_matrix(model, window.row, count), expected, atol=1e-5)
        inside = [expected[:, window.row.column_passage == passage].sum(1) for passage in passages]
        np.testing.assert_allclose(whole.passage_mass[:, passages].T, inside, atol=1e-4)


def test_passage_longer_than_the_positions_is_refused_and_never_cut(model):
    long = QARecord("r", QUESTION, (Passage("ice " * 600),), ANSWER, RowSource("log", 0))
    with pytest.raises(RowFault, match="512") as caught:
        model.encode(long)
    assert caught.value.reason is Reason.TOO_MANY_TOKENS


@pytest.mark.parametrize("others", [0, 16])
def test_hidden_states_find_the_passages_of_paraphrases(directory, others):
    """Claims in other words than their passages, in a row that fits and in one of several windows."""
    attributor = Attributor.from_pretrained(
        str(directory), method=HIDDEN_UNION, spans="given", device="cpu", threads=1, verdict="mass"
    )
    museum = [
        f"Room {number} of the museum shows clocks. Each of them is wound by hand." * 3 for number in range(others)
    ]
    places = [(ANSWER.index(claim), ANSWER.index(claim) + len(claim)) for claim in CLAIMS.values()]
    found = attributor.attribute(
        question=QUESTION, passages=[*museum, *PASSAGES.values()], answer=ANSWER, target_spans=places
    )
    assert [one.top_passage_index - others for one in found] == [0, 1, 2, 3]
