"""The tables of the suite that need a language model, an NLI model, a Chinese parser or RAGTruth."""

import json

import pytest
from tests.attribution.tiny_models import save_tiny_encoder, save_tiny_model
from tests.evaluation.dataset_rows import write_rows
from tests.evaluation.suite_rows import QUOTESUM, results_of, suite, table, write_all
from tests.evaluation.tiny_nli import save_tiny_nli

from attribeam.attribution.models.attribution_config import FILE_NAME
from attribeam.evaluation.suite.measure_cell import swept_layers


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """A run of some methods with a decoder and all optional models."""
    decoder, nli = save_tiny_model(tmp_path_factory.mktemp("llama")), save_tiny_nli(tmp_path_factory.mktemp("nli"))
    output = tmp_path_factory.mktemp("suite")
    methods = [part for name in METHODS for part in ("--method", name)]
    named = ("--model", decoder, "--nli-model", nli, "--chinese-parser", "bundled", "--spans", "cti")
    assert suite(data, output, *named, *methods) == 0
    return output


METHODS = ("attn-union", "cci", "words", "random", "oracle")


def test_a_decoder_serves_as_the_language_model(finished):
    assert "cci" in {row[0] for row in table(finished, "Passage accuracy")}
    header, *rows = table(finished, "Faithfulness")
    assert [row[0] for row in rows] == ["attn-union", "cci", "words", "random", "oracle"]
    (drops, _) = results_of(finished)["faithfulness"]
    assert header[0] == f"quotesum dev ({drops['scores'][0]['spans']} spans, 2 answers)"
    assert [row[1] for row in rows] == [
        f"{one['log_probability_drop']:.2f} ({one['interval']['low']:.2f} to {one['interval']['high']:.2f})"
        for one in drops["scores"]
    ]
    assert "cti spans, answers: data" in (finished / "tables.md").read_text()


def test_oracle_drops_most(finished):
    for drops in results_of(finished)["faithfulness"]:
        largest = max(one["log_probability_drop"] for one in drops["scores"])
        assert drops["scores"][-1] | {"log_probability_drop": largest} == drops["scores"][-1]


def test_citations_are_those_of_the_answers_and_of_each_method(finished):
    header, *rows = table(finished, "Sentence level")
    assert header[0] == "alce asqa (2 sentences, 1 answers)"
    assert [row[0] for row in rows] == ["self-citation", "attn-union", "cci", "words"]
    (citations,) = results_of(finished)["citations"]
    for row, one in zip(rows, citations["rows"], strict=True):
        assert row[3].startswith(f"{one['score']['f1']:.1f} (")


def test_latency_has_a_column_of_the_cited_data(finished):
    header, *_ = table(finished, "Latency")
    assert "alce asqa: ms per span" in header
    timed = {one["method"] for one in results_of(finished)["latency"] if one["dataset"] == "alce asqa"}
    assert timed == {"attn-union", "cci", "words"}


def test_chinese_has_its_own_table(finished):
    header, *rows = table(finished, "An additional language: Chinese")
    assert header == ["method", "chinese quotesum (1 spans, 1 answers)", "vs words"]
    assert [row[0] for row in rows] == ["attn-union", "words"]
    assert "chinese" not in " ".join(table(finished, "Passage accuracy")[0])


def test_support_labels_are_those_of_the_chosen_union(finished):
    (support,) = results_of(finished)["support"]
    (header, first, *_) = table(finished, "Support labels")
    assert header[0] == support["method"] == "attn-union"
    level = support["groups"][0]["levels"][0]
    assert first[:2] == ["all", level["level"]]
    assert first[2].startswith(f"{level['characters']['f1']:.1f} (")


def test_only_other_models_are_left_out_if_everything_is_named(finished):
    assert [row[0] for row in table(finished, "Left out")[1:]] == ["other models"]


def test_a_models_own_weights_add_rows_with_the_papers_weights(tmp_path):
    (tmp_path / "data" / "quotesum").mkdir(parents=True)
    write_rows(tmp_path / "data" / "quotesum" / "dev.jsonl", QUOTESUM)
    model = save_tiny_encoder(tmp_path / "model", layer_types=["full_attention"])
    path = model / FILE_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | {"own_token_weight": 5}))
    assert (
        suite(tmp_path / "data", tmp_path / "output", "--model", model, "--limit", 1, "--method", "attn-union-dep") == 0
    )
    methods = [row[0] for row in table(tmp_path / "output", "Passage accuracy")[1:]]
    assert methods == ["attn-union-dep", "attn-union-dep, paper's weights", "attn-union-dep, top5-mean"]
    (_, *rows) = table(tmp_path / "output", "Alternatives to dependency augmentation")
    assert [row[0] for row in rows] == ["attn-union-dep, paper's weights"]


def test_about_twelve_of_many_layers_are_swept():
    assert swept_layers((1, 2, 3), 2) == (1, 2, 3)
    assert swept_layers(tuple(range(1, 33)), 17) == (1, 3, 6, 9, 12, 15, 17, 18, 21, 24, 27, 30)
