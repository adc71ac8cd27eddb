"""Long rows through a model of 512 positions: the merged attribution is that of the merged full matrices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import EncodedRow, PassageWindow, TokenAttribution
from attribeam.schemas import Passage, QARecord, RowSource, SpanKind

EVERYTHING = 10_000


def record(count: int, *, name: str = "r") -> QARecord:
    """About 40 tokens a passage; every passage has a number of its own."""
    passages = [
        Passage(f"Lamp {number} of the tower was lit in {1800 + number} by Ada Thorne, and seen far away.", title)
        for number, title in ((number, f"Lamp {number}" if number % 2 else None) for number in range(count))
    ]
    answer = "Lamp 17 was lit in 1817, and lamp 3 in 1803. 🙂"
    return QARecord(name, "When was lamp 17 lit?", tuple(passages), answer, RowSource("log", 0))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def model(directory: Path) -> AttentionModel:
    method = MethodOptions(top_k=4)
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"), method=method, threads=1)


def attributed(model: AttentionModel, row: EncodedRow, count: int) -> TokenAttribution:
    (found,) = model.attribute([row], [count])
    assert isinstance(found, TokenAttribution)
    return found


def full_matrix(model: AttentionModel, row: EncodedRow, count: int) -> np.ndarray:
    """S of a row without windows, float32 [responses, prompt_length]."""
    found = attributed(model.with_method(MethodOptions(top_k=EVERYTHING)), row, count)
    similarity = np.empty(found.top_scores.shape, np.float32)
    np.put_along_axis(similarity, found.top_columns.astype(np.int64), found.top_scores, axis=1)
    return similarity


def assert_same(found: TokenAttribution, expected: TokenAttribution) -> None:
    for name in ("top_columns", "top_scores", "passage_mass", "sink_mass"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_long_row_has_the_top_k_of_the_merged_matrices_of_its_windows(model: AttentionModel) -> None:
    row = model.encode(record(40))
    assert len(row.windows) > 2
    merged = np.zeros((len(row.response_chars), row.prompt_length), np.float32)
    outside = []
    for window in row.windows:
        matrix = full_matrix(model, window.row, 40)
        merged[:, window.columns] = np.maximum(merged[:, window.columns], matrix)
        outside.append(matrix[:, window.row.column_passage < 0].sum(1))
    found = attributed(model, row, 40)
    order = np.lexsort((np.broadcast_to(np.arange(merged.shape[1]), merged.shape), -merged))[:, :4]
    np.testing.assert_array_equal(found.top_columns, order)
    np.testing.assert_array_equal(found.top_scores, np.take_along_axis(merged, order, axis=1))
    one_hot = np.eye(41)[row.column_passage][:, :40]
    np.testing.assert_allclose(found.passage_mass, merged @ one_hot, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.sink_mass, np.mean(outside, axis=0), rtol=1e-5, atol=1e-7)


def test_row_that_fits_is_attributed_as_ever_alone_and_beside_a_long_one(model: AttentionModel) -> None:
    short, long = record(5), record(40, name="long")
    row = model.encode(short)
    assert row.windows == ()
    alone = attributed(model, row, 5)
    outcomes = model.attribute([model.encode(long), row, model.encode(long)], [40, 5, 40])
    assert isinstance(outcomes[1], TokenAttribution)
    np.testing.assert_array_equal(outcomes[1].top_columns, alone.top_columns)
    np.testing.assert_allclose(outcomes[1].top_scores, alone.top_scores, atol=1e-6)
    assert_same(outcomes[0], outcomes[2])


def test_provenance_names_the_template_beside_its_digest(model: AttentionModel) -> None:
    provenance = model.provenance()
    assert (provenance["prompt_template_name"], provenance["prompt_template"]) == ("plain", model.template.digest)


def test_one_window_gives_exactly_what_the_row_gives(model: AttentionModel) -> None:
    row = model.encode(record(5))
    window = PassageWindow(row, np.arange(row.prompt_length, dtype=np.int32))
    assert_same(attributed(model, replace(row, windows=(window,)), 5), attributed(model, row, 5))


def test_limit_of_the_users_makes_windows_and_every_passage_keeps_its_mass(directory: Path) -> None:
    options = ModelOptions(model=str(directory), device="cpu", max_tokens=180)
    model = AttentionModel.from_pretrained(options, method=MethodOptions(top_k=EVERYTHING), threads=1)
    row = model.encode(record(12))
    assert len(row.windows) > 2
    found = attributed(model, row, 12)
    assert found.top_columns.shape == (len(row.response_chars), row.prompt_length)
    assert (found.passage_mass > 0).all()
    for window in row.windows:
        shown = sorted({*window.row.column_passage.tolist()} - {-1})
        alone = attributed(model, window.row, 12)
        np.testing.assert_array_equal(found.passage_mass[:, shown], alone.passage_mass[:, shown])


def test_evidence_of_a_long_row_points_at_its_passages_own_words(directory: Path, tmp_path: Path) -> None:
    parser = save_tiny_parser(tmp_path / "parser")
    attributor = Attributor.from_pretrained(
        str(directory), parser=str(parser), spans=[SpanKind.WORDS], top_k=12, threads=1, device="cpu"
    )
    asked = record(40)
    (spans,) = attributor.attribute_many([asked])
    assert isinstance(spans, tuple)
    pieces = [piece for span in spans for piece in span.evidence]
    assert len({piece.passage_index for piece in pieces}) > 12
    for piece in pieces:
        passage = asked.passages[piece.passage_index]
        text = passage.title if piece.in_title else passage.text
        assert text
        assert piece.chars.of(text) == piece.text
        assert piece.text == piece.text.strip() != ""
