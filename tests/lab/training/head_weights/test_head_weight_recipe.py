"""Weights of attention heads: planted weights are recovered, and runs are repeatable and resume where they stopped."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tests.attribution.tiny_models import SENTENCES, save_tiny_model
from tests.logs.log_files import write_log

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.head_weights import HeadWeights
from attribeam.attribution.attention.observed_attention import head_masses
from attribeam.attribution.models.language_model import LanguageModel
from attribeam.attribution.options import ModelOptions
from attribeam.lab.evaluation.datasets.log_writer import write_log as write_labelled_log
from attribeam.lab.training.head_weights.fitting import (
    FitPlan,
    HeadExample,
    fit_head_weights,
    labelled_examples,
    mean_correlation,
    pearson,
    random_ablations,
    row_examples,
)
from attribeam.lab.training.head_weights.recipe import main, usable_records
from attribeam.logs.qa_log import QALog
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.errors import DataError, UsageError
from attribeam.schemas.labelled_answer import LabelledAnswer

BELL = "A bell buoy lies off the rock, and the keeper rows there."
RECORD = QARecord(
    "r",
    "Who built the lighthouse?",
    (Passage(text=SENTENCES[0]), Passage(text=SENTENCES[1]), Passage(text=BELL)),
    "Ada Thorne built it in 1874.",
    RowSource("f", 3),
    (CharRange(0, 10), CharRange(20, 27)),
)


def planted(attention_head: int, *, seed: int, noise: float = 0.02) -> HeadExample:
    """Random masses of four attention heads; the log-probability follows one of them."""
    generator = torch.Generator().manual_seed(seed)
    masses = torch.rand(4, 5, generator=generator)
    kept = torch.rand(32, 5, generator=generator) < 0.5
    log_probabilities = kept.double() @ masses[attention_head].double()
    return HeadExample(masses, kept, log_probabilities + noise * torch.randn(32, generator=generator).double())


def test_pearson_of_a_worked_example():
    # means 2 and 3; deviations (-1, 0, 1) and (-2, 1, 1): 3 / sqrt(2 * 6)
    found = pearson(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, 4.0, 4.0]]))
    assert found.tolist() == pytest.approx([3 / np.sqrt(12)])
    assert pearson(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 2.0])).item() == 0.0


def test_pearson_equals_that_of_numpy():
    generator = torch.Generator().manual_seed(1)
    first, second = torch.rand(2, 6, 9, generator=generator).double()
    expected = [np.corrcoef(one, other)[0, 1] for one, other in zip(first, second, strict=True)]
    np.testing.assert_allclose(pearson(first, second), expected)


def test_correlation_of_one_worked_span():
    # predictions with weights (1, 0): 3, 1, 4 for the passages {0}, {1}, both; log-probabilities -1, -3, 0
    masses = torch.tensor([[3.0, 1.0], [1.0, 3.0]])
    kept = torch.tensor([[True, False], [False, True], [True, True]])
    example = HeadExample(masses, kept, torch.tensor([-1.0, -3.0, 0.0]).double())
    assert mean_correlation([example], (1.0, 0.0)) == pytest.approx(np.corrcoef([3, 1, 4], [-1, -3, 0])[0, 1])
    assert mean_correlation([example], (0.0, 1.0)) == pytest.approx(np.corrcoef([1, 3, 4], [-1, -3, 0])[0, 1])


@pytest.mark.parametrize("attention_head", [0, 2])
def test_planted_attention_head_gets_nearly_all_the_weight(attention_head):
    examples = [planted(attention_head, seed=seed) for seed in range(20)]
    weights = fit_head_weights(examples, FitPlan(steps=250, rate=3e-3))
    assert sum(weights) == pytest.approx(1)
    assert min(weights) >= 0
    assert weights[attention_head] > 0.9
    assert mean_correlation(examples, weights) > mean_correlation(examples, (0.25,) * 4) + 0.05


def test_planted_mixture_of_attention_heads_is_found():
    examples = [planted(0, seed=seed, noise=0.0) for seed in range(20)]
    mixed = [
        replace(one, log_probabilities=one.kept.double() @ (0.75 * one.masses[1] + 0.25 * one.masses[3]).double())
        for one in examples
    ]
    weights = fit_head_weights(mixed, FitPlan(steps=400, rate=1e-2))
    assert weights == pytest.approx((0, 0.75, 0, 0.25), abs=0.02)


def test_fit_is_the_same_for_the_same_seed_and_batches():
    examples = [planted(1, seed=seed) for seed in range(6)]
    plan = FitPlan(steps=50, batch=2)
    assert fit_head_weights(examples, plan) == fit_head_weights(examples, plan)
    assert fit_head_weights(examples, plan) != fit_head_weights(examples, replace(plan, seed=1))


def test_uninformative_spans_are_left_out():
    silent = replace(planted(0, seed=1), log_probabilities=torch.full((32,), -2.0).double())
    unmoved = replace(planted(0, seed=1), kept=torch.ones(32, 5, dtype=torch.bool))
    assert not silent.is_informative
    assert not unmoved.is_informative
    told = [planted(2, seed=seed) for seed in range(3)]
    assert mean_correlation([*told, silent, unmoved], (0, 0, 1, 0)) == mean_correlation(told, (0, 0, 1, 0))
    with pytest.raises(ValueError, match="should have a log-probability that changes with its passages"):
        fit_head_weights([silent, unmoved])


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def attention(directory):
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))


@pytest.fixture(scope="module")
def language(directory):
    return LanguageModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))


def test_examples_follow_the_definition(attention, language):
    examples = row_examples(RECORD, attention=attention, language=language, ablations=4, seed=5)
    assert len(examples) == 2
    kept = random_ablations(3, ablations=4, seed=5, row=3)
    masses = head_masses(attention, attention.encode(RECORD), 3)
    characters = attention.encode(RECORD).response_chars
    for example, span in zip(examples, RECORD.target_spans, strict=True):
        tokens = [place for place, chars in enumerate(characters) if chars is not None and chars.overlaps(span)]
        np.testing.assert_array_equal(example.kept, kept)
        np.testing.assert_allclose(example.masses, masses[:, tokens].mean(1))
        for ablation, passages in enumerate(kept):
            left = tuple(one for one, stays in zip(RECORD.passages, passages, strict=True) if stays)
            (expected,) = language.token_log_probabilities([language.encode(replace(RECORD, passages=left))])
            assert example.log_probabilities[ablation].item() == pytest.approx(expected[tokens].sum(), abs=1e-4)


def test_answer_without_spans_is_one_example(attention, language):
    whole = replace(RECORD, target_spans=None)
    assert len(row_examples(whole, attention=attention, language=language, ablations=2, seed=0)) == 1


class FollowsOneHead:
    """A language model whose answer depends on one attention head of the attention model, and on nothing else."""

    def __init__(self, attention: AttentionModel, attention_head: int) -> None:
        self.attention, self.attention_head = attention, attention_head

    def encode(self, record):
        self.masses = head_masses(self.attention, self.attention.encode(RECORD), 3)[self.attention_head]
        return self.attention.encode(record)

    def token_log_probabilities(self, rows):
        texts = [len(self.attention.encode(replace(RECORD, passages=(one,))).token_ids) for one in RECORD.passages]
        assert len(set(texts)) == 3
        return [self._follow(row) for row in rows]

    def _follow(self, row):
        # which passages a row kept: those whose first token's surroundings are found in it
        ids = row.token_ids[: row.prompt_length].tolist()
        found = []
        for passage in range(3):
            whole = self.attention.encode(RECORD)
            own = whole.token_ids[: whole.prompt_length][whole.column_passage == passage].tolist()
            found.append(any(ids[start : start + len(own)] == own for start in range(len(ids))))
        return (self.masses[:, torch.tensor(found)].sum(1) - 5).double().numpy()


def test_attention_head_that_a_model_follows_is_found(attention):
    language = FollowsOneHead(attention, 1)
    rows = [replace(RECORD, source=RowSource("f", row)) for row in range(4)]
    examples = [
        example
        for row in rows
        for example in row_examples(row, attention=attention, language=language, ablations=16, seed=0)
    ]
    assert mean_correlation(examples, (0, 1, 0, 0)) == pytest.approx(1)
    weights = fit_head_weights(examples, FitPlan(steps=200, rate=1e-2))
    assert mean_correlation(examples, weights) > 0.999


def test_examples_from_labels_follow_the_definition(attention):
    gold = (frozenset({0, 2}), frozenset({1}))
    examples = labelled_examples(LabelledAnswer(RECORD, gold), attention=attention, ablations=6, seed=5)
    kept = random_ablations(3, ablations=6, seed=5, row=3)
    assert [one.log_probabilities.tolist() for one in examples] == [
        [float(row[0] or row[2]) for row in kept],
        [float(row[1]) for row in kept],
    ]
    masses = head_masses(attention, attention.encode(RECORD), 3)
    characters = attention.encode(RECORD).response_chars
    for example, span in zip(examples, RECORD.target_spans, strict=True):
        tokens = [place for place, chars in enumerate(characters) if chars is not None and chars.overlaps(span)]
        np.testing.assert_array_equal(example.kept, kept)
        np.testing.assert_allclose(example.masses, masses[:, tokens].mean(1))


def test_head_that_looks_at_the_labelled_passages_gets_the_weight():
    generator = torch.Generator().manual_seed(2)
    examples = []
    for row in range(20):
        masses = torch.rand(4, 5, generator=generator)
        masses[2] = 0.1 + 0.8 * (torch.arange(5) == row % 5)
        kept = torch.rand(32, 5, generator=generator) < 0.5
        examples.append(HeadExample(masses, kept, kept[:, row % 5].double()))
    weights = fit_head_weights(examples, FitPlan(steps=250, rate=3e-3))
    assert weights[2] > 0.9


def test_recipe_fits_an_encoder_to_the_labels_of_a_log(tmp_path, capsys):
    directory = save_tiny_model(tmp_path / "bert", "bert")
    records = [replace(RECORD, record_id=f"r{row}", source=RowSource("f", row)) for row in range(3)]
    labelled = [LabelledAnswer(one, (frozenset({0}), frozenset({row}))) for row, one in enumerate(records)]
    write_labelled_log(tmp_path / "log.parquet", labelled)
    recipe(tmp_path / "log.parquet", directory, tmp_path / "w.json", "--outcomes", "labels")
    found = HeadWeights.from_file(tmp_path / "w.json")
    assert (len(found.weights), sum(found.weights)) == (4, pytest.approx(1))
    assert "fitted: 3 rows, 6 spans, correlation " in capsys.readouterr().out
    with pytest.raises(UsageError, match="--language-model is for --outcomes log-probabilities"):
        recipe(
            tmp_path / "log.parquet", directory, tmp_path / "v.json", "--outcomes", "labels", "--language-model", "x"
        )
    llama = save_tiny_model(tmp_path / "llama")
    with pytest.raises(UsageError, match=r"rows of a run with another .*outcomes"):
        recipe(tmp_path / "log.parquet", llama, tmp_path / "w.json")


def test_log_without_labels_is_refused(log, directory, tmp_path):
    with pytest.raises(DataError, match="span_labels"):
        recipe(log, directory, tmp_path / "w.json", "--outcomes", "labels")


@pytest.fixture
def log(tmp_path):
    rows = [
        {
            "record_id": f"r{row}",
            "question": RECORD.question,
            "passages": [{"text": one.text, "title": None} for one in RECORD.passages],
            "answer": answer,
            "target_spans": spans,
        }
        for row, (answer, spans) in enumerate(
            [
                (RECORD.answer, [{"char_start": 0, "char_end": 10}]),
                (" ", None),
                ("The keeper lived in the tower.", None),
            ]
        )
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def recipe(log, directory, output, *options) -> None:
    command = ("--data", log, "--model", directory, "--device", "cpu", "--ablations", 4, "--steps", 20)
    main([str(one) for one in (*command, "--output", output, *options)])


def test_recipe_writes_weights_that_fit_their_model(log, directory, attention, tmp_path, capsys):
    recipe(log, directory, tmp_path / "w.json")
    found = HeadWeights.from_file(tmp_path / "w.json")
    found.check_fits(revision=attention.provenance()["model_revision"], layer=attention.layer, attention_heads=4)
    assert "fitted: 2 rows, 2 spans, correlation " in capsys.readouterr().out


def test_recipe_resumes_from_finished_rows_with_equal_results(log, directory, tmp_path, monkeypatch):
    recipe(log, directory, tmp_path / "one.json")
    work = tmp_path / "one.json.work"
    assert sorted(path.name for path in work.iterdir()) == ["row_00000000.pt", "row_00000002.pt", "run.json"]
    (work / "row_00000002.pt").unlink()
    calls = []
    real = row_examples
    monkeypatch.setattr(
        "attribeam.lab.training.head_weights.fitting.row_examples",
        lambda record, **rest: calls.append(record) or real(record, **rest),
    )
    recipe(log, directory, tmp_path / "two.json", "--work", work)
    assert [record.record_id for record in calls] == ["r2"]
    assert (tmp_path / "two.json").read_bytes() == (tmp_path / "one.json").read_bytes()


def test_recipe_refuses_the_rows_of_another_run(log, directory, tmp_path):
    recipe(log, directory, tmp_path / "one.json")
    work = ("--work", tmp_path / "one.json.work")
    with pytest.raises(UsageError, match="rows of a run with another seed; choose another --work"):
        recipe(log, directory, tmp_path / "two.json", *work, "--seed", 1)


def test_output_without_a_directory_is_refused_before_any_model_is_loaded(log, tmp_path):
    with pytest.raises(UsageError, match="--output should be a file in an existing directory"):
        recipe(log, tmp_path / "no model", tmp_path / "nowhere" / "w.json")


def test_row_that_a_model_refuses_is_reported_and_left_out(log, tmp_path, capsys):
    directory = save_tiny_model(tmp_path / "short")
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 120}))
    rows = pq.read_table(log).to_pylist()
    rows[0]["passages"][0]["text"] = "far " * 200
    pq.write_table(pa.Table.from_pylist(rows), log)
    recipe(log, directory, tmp_path / "w.json")
    output = capsys.readouterr()
    assert "row 0 is left out: a row should have at most 120 tokens" in output.out
    assert "fitted: 1 rows" in output.out


@pytest.mark.parametrize(
    "change",
    [
        {"answer": None, "passages": None},
        {"passages": [{"text": None, "title": "no text"}]},
        {"target_spans": [{"char_start": 5, "char_end": 2}]},
        {"answer": b"caf\xe9"},
    ],
)
def test_faulty_row_is_named_and_left_out(change, tmp_path, capsys):
    row = {"record_id": "1", "question": "q", "passages": [{"text": "t", "passage_id": "p"}], "answer": "a"}
    rows = [{**row, **change}, {**row, "record_id": "2"}]
    (record,) = usable_records(QALog(write_log(tmp_path / "log.parquet", rows)))
    assert (record.record_id, record.passages[0].passage_id) == ("2", "p")
    assert capsys.readouterr().out.startswith("row 0 is left out: column ")
