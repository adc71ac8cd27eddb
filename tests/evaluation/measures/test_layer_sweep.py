"""The sweep over layers, thresholds that are chosen on other sources, and what an evaluation costs."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.methods.hand_parser import ANSWER, PARSER
from tests.attribution.tiny_models import save_tiny_encoder, save_tiny_model
from tests.evaluation.dataset_rows import evaluate, quotesum_row, write_rows
from transformers import AutoModel

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.capture import LayerCapture, observing
from attribeam.attribution.methods.method import AttentionUnion, LoadedModels, MethodSettings, Need, PassageScore
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.options import UNIONS, MethodOptions, ModelOptions
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.measures import FOLDS, accuracy, best_threshold, source_folds
from attribeam.evaluation.measures.accuracy import Cost, run_methods, score_methods
from attribeam.evaluation.measures.layer_sweep import (
    SWEPT,
    AtLayer,
    SensitivityPoint,
    attribute_layers,
    run_at_layers,
    sweep,
    sweep_layers,
)
from attribeam.evaluation.methods import lab_methods, needs_of
from attribeam.evaluation.methods.unions import attributed_tokens, response_similarity
from attribeam.evaluation.runs import with_all_layers
from attribeam.schemas import CharRange, Passage, QARecord, RowSource

SIMILARITY = torch.tensor([[0.0, 0, 0, 0], [0.3, 0, 0, 0], [0.1, 0.2, 0, 0], [0.1, 0.4, 0.1, 0]])

PASSAGES = (Passage(text="Jon dances there."), Passage(text="Ada sings."), Passage(text="Bells ring in the tower."))


def answer(row, gold, passages=PASSAGES):
    spans = tuple(CharRange(ANSWER.index(text), ANSWER.index(text) + len(text)) for text in ("Ada", "Jon", "Bells"))
    record = QARecord("r", f"Question {row}?", passages, ANSWER, RowSource("f", row), target_spans=spans)
    return LabelledAnswer(record, (frozenset({gold}),) * len(spans))


ANSWERS = [answer(0, 2), answer(1, 2), answer(2, 0)]
LAYERS = {name: range(0 if name.startswith("hss") else 1, 5) for name in SWEPT}


def choice(directory, *, layer=None, hidden_layer=None, max_tokens=None):
    model = ModelOptions(model=str(directory), device="cpu", layer=layer, max_tokens=max_tokens)
    return ModelChoice(model=model, method=MethodOptions(top_k=3, hidden_layer=hidden_layer))


def loaded(choice, methods):
    models = load_models(choice, needs_of(methods) - {Need.PARSER})
    return LoadedModels(PARSER, models.attention, models.hidden_layer)


def methods_named(*names):
    available = lab_methods(MethodSettings(top_k=3))
    return [available[name] for name in names]


@pytest.fixture(scope="module", params=["llama", "bert"])
def directory(request, tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)


def test_each_layer_equals_a_separate_run(directory):
    """Of whole rows, and of one that needs windows."""
    max_tokens = 56
    answers = [*ANSWERS, answer(3, 1, tuple(Passage(text=f"Bells {number} ring there.") for number in range(4)))]
    methods = methods_named(*SWEPT)
    found = sweep_layers(answers, methods, loaded(with_all_layers(choice(directory, max_tokens=max_tokens)), methods))
    assert {*found} == {AtLayer(name, layer) for name, layers in LAYERS.items() for layer in layers}
    for point, tally in found.items():
        hidden = point.method.startswith("hss")
        own = choice(
            directory,
            layer=None if hidden else point.layer,
            hidden_layer=point.layer if hidden else None,
            max_tokens=max_tokens,
        )
        (alone,) = run_methods(answers, methods_named(point.method), loaded(own, methods_named(point.method)))
        assert (tally.credits, tally.spans) == (pytest.approx(alone.credits), alone.spans), point
        assert (tally.isolated_spans, tally.spans_without_evidence) == (
            alone.isolated_spans,
            alone.spans_without_evidence,
        )
        assert tally.name == f"{point.method}, layer {point.layer}"
    assert len({tuple(tally.credits) for tally in found.values()}) > 2


def test_refused_row_counts_as_wrong_at_every_layer(directory):
    methods = methods_named("attn-union", "hss-union")
    models = loaded(with_all_layers(choice(directory)), methods)
    refused = answer(7, 0, (Passage(text="far " * 600),))
    for tally in sweep_layers([refused, ANSWERS[0]], methods, models).values():
        assert [(one.row, one.reason) for one in tally.failed] == [(7, "too_many_tokens")]
        assert tally.credits[0] == 0


def test_methods_that_read_no_layer_run_once_beside_the_sweep(directory):
    methods = methods_named("words", "hss-union")
    models = loaded(with_all_layers(choice(directory)), methods)
    tallies = run_at_layers(iter(ANSWERS), methods, models)
    assert [one.name for one in tallies] == [*(f"hss-union, layer {layer}" for layer in range(5)), "words"]
    with pytest.raises(ValueError, match="should be some of attn-union"):
        sweep_layers(ANSWERS, methods, models)


def test_command_prints_a_line_per_layer(directory, tmp_path, capsys):
    data = write_rows(tmp_path / "dev.jsonl", [quotesum_row("The lamp is kept by [ 1 Ada Thorne ] since 1874.")])
    arguments = ("--dataset", "quotesum", "--data", data, "--model", directory, "--sweep-layers", "--device", "cpu")
    assert evaluate(*arguments, "--method", "hss-union", "--method", "words") == 0
    names = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()[3:]]
    assert names[:6] == [*(f"hss-union, layer {layer}" for layer in range(5)), "words"]
    assert evaluate(*arguments, "--cost") == 2
    assert "leave one of them out" in capsys.readouterr().err


def load(directory, **options):
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", **options))


POINTS = [
    SensitivityPoint(layer, top_k, tau)
    for layer, top_k, tau in [(1, 2, 2), (2, 2, 1), (3, 2, 2), (4, 2, 0), (3, 9, 1), (3, 5, math.inf)]
]


@pytest.mark.parametrize("method", UNIONS)
@pytest.mark.parametrize("rule", list(PassageScore))
def test_each_point_equals_a_separate_run(llama, method, rule):
    models = LoadedModels(PARSER, load(llama, loaded_layers=4))
    tallies = sweep(ANSWERS, models, POINTS, settings=MethodSettings(passage_score=rule), method=method)
    figures = score_methods(tallies.values(), draws=50, seed=0)
    found = []
    for point in POINTS:
        settings = MethodSettings(top_k=point.top_k, isolation_tau=point.isolation_tau, passage_score=rule)
        model = load(llama, layer=point.layer).with_method(settings.union_options(method))
        alone = run_methods(ANSWERS, [AttentionUnion(method, settings)], LoadedModels(PARSER, model))
        (score,) = score_methods(alone, draws=50, seed=0)
        found.append((score.passage_accuracy, score.interval, score.spans, score.rows))
    assert [(one.passage_accuracy, one.interval, one.spans, one.rows) for one in figures] == found
    assert [*tallies] == POINTS
    assert len({one.passage_accuracy for one in figures}) > 1


def test_answer_takes_one_forward_pass_for_any_number_of_points(llama):
    model = load(llama, loaded_layers=4)
    passes = []
    model.network.register_forward_pre_hook(lambda *_: passes.append(1))
    sweep(ANSWERS, LoadedModels(PARSER, model), POINTS, settings=MethodSettings())
    assert len(passes) == len(ANSWERS)


def test_refused_row_counts_as_wrong_in_every_point(llama):
    refused = answer(3, 0, (Passage(text="far " * 600),))
    models = LoadedModels(PARSER, load(llama))
    point = [SensitivityPoint(3, 2, 2)]
    (alone,) = sweep([refused], models, point, settings=MethodSettings()).values()
    assert (len(alone.failed), alone.spans, alone.credits) == (1, [3], [0.0])


def naive_f1(called, marked):
    both = sum(call and mark for call, mark in zip(called, marked, strict=True))
    return 2 * both / (sum(called) + sum(marked)) if sum(called) + sum(marked) else 0


def naive_balance(called, marked):
    found = [call for call, mark in zip(called, marked, strict=True) if mark]
    alarms = [call for call, mark in zip(called, marked, strict=True) if not mark]
    return (np.mean(found or [0]) + 1 - np.mean(alarms or [0])) / 2


@pytest.mark.parametrize(("balanced", "naive"), [(False, naive_f1), (True, naive_balance)])
@given(items=st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=20))
def test_no_threshold_is_better_than_the_best_one(balanced, naive, items):
    scores, marked = [float(score) for score, _ in items], [mark for _, mark in items]
    best = best_threshold(np.array(scores), np.array(marked), balanced=balanced)
    reached = naive([score >= best for score in scores], marked)
    others = [naive([score >= other for score in scores], marked) for other in sorted(set(scores))]
    assert reached == pytest.approx(max(others))


def test_rows_of_one_source_share_a_fold_and_folds_are_of_equal_size():
    sources = [number // 3 for number in range(60)]
    folds = source_folds(sources, seed=1)
    assert all(len({folds[row] for row in range(60) if sources[row] == source}) == 1 for source in range(20))
    assert sorted(np.bincount(folds)) == [60 // FOLDS] * FOLDS
    assert not np.array_equal(folds, source_folds(sources, seed=2))


def test_meter_adds_time_and_keeps_the_largest_peak(monkeypatch, tmp_path):
    clock = iter([1.0, 1.5, 2.0, 2.25])
    monkeypatch.setattr(accuracy.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(accuracy, "_RESET_PEAK", tmp_path / "clear")
    status = tmp_path / "status"
    monkeypatch.setattr(accuracy, "_STATUS", status)
    measured = Cost()
    for kilobytes in (3, 2):
        status.write_text(f"VmHWM: {kilobytes} kB")
        with measured.measuring(LoadedModels()):
            pass
    assert (measured.seconds, measured.peak_bytes) == (0.75, 3 * 1024)
    assert (tmp_path / "clear").read_text() == "5"


def test_method_that_fails_is_still_measured():
    measured = Cost()
    with pytest.raises(RuntimeError, match="fails"), measured.measuring(LoadedModels()):
        raise RuntimeError("fails")
    assert measured.seconds > 0


def test_command_prints_and_writes_costs_on_request(tmp_path, capsys):
    data = write_rows(tmp_path / "dev.jsonl", [quotesum_row("The lamp is kept by [ 1 Ada Thorne ] .")])
    asked = ("--dataset", "quotesum", "--data", data, "--method", "words", "--cost")
    assert evaluate(*asked, "--output", tmp_path / "figures.json") == 0
    (entry,) = json.loads((tmp_path / "figures.json").read_text())
    assert entry["ms_per_span"] > 0
    assert "peak_memory_mib" in entry
    assert "ms per span" in capsys.readouterr().out


OBSERVED_PASSAGES = tuple(Passage(text=f"Keeper {number} lived in the tower.") for number in range(3))
RECORD = QARecord("r", "Who?", OBSERVED_PASSAGES, "Ada lived there.", RowSource("f", 0))
ONE_EACH = [QARecord("r", "Who?", (one,), "Ada lived there.", RowSource("f", 0)) for one in OBSERVED_PASSAGES]


@pytest.fixture(scope="module", params=["llama", "gemma2", "bert", "distilbert", "modernbert"])
def observed_directory(request, tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)


def observed_load(observed_directory, **options):
    return AttentionModel.from_pretrained(
        ModelOptions(model=str(observed_directory), device="cpu", **options), method=MethodOptions(top_k=7)
    )


def test_one_pass_gives_each_layer_what_a_model_of_that_layer_gives(observed_directory):
    model = observed_load(observed_directory, loaded_layers=4)
    row = model.encode(RECORD)
    passes = []
    handle = model.network.register_forward_pre_hook(lambda *_: passes.append(1))
    found = attribute_layers(model, row, 3, layers=[1, 2, 4], top_k=7)
    handle.remove()
    assert passes == [1]
    for layer, tokens in found.items():
        (expected,) = observed_load(observed_directory, layer=layer).attribute([row], [3])
        np.testing.assert_allclose(tokens.top_scores, expected.top_scores, atol=2e-5)
        np.testing.assert_allclose(tokens.passage_mass, expected.passage_mass, atol=2e-5)
        np.testing.assert_allclose(tokens.sink_mass, expected.sink_mass, atol=2e-5)
    assert sorted(found) == [1, 2, 4]


def test_softmax_over_the_prompt_holds_in_the_models_own_layer_alone(tmp_path):
    kinds = ["sliding_attention", "sliding_attention", "full_attention"]
    model = observed_load(save_tiny_encoder(tmp_path, layer_types=kinds, softmax_over="prompt"))
    far = QARecord("r", "Who?", OBSERVED_PASSAGES, "Ada lived there. " * 12, RowSource("f", 0))
    row = model.encode(far)
    found = attribute_layers(model, row, 3, layers=[1, 3], top_k=row.prompt_length)
    np.testing.assert_allclose(found[3].top_scores.sum(1), 1, atol=1e-4)
    # the last tokens of the answer see nothing of the prompt through the first layer's window
    assert found[1].top_scores[-1].sum() == 0
    assert 0 < found[1].top_scores[0].sum() < 1


def test_long_row_is_put_together_from_its_windows(tmp_path):
    observed_directory = save_tiny_model(tmp_path)
    length = len(observed_load(observed_directory).encode(RECORD).token_ids)
    model = observed_load(observed_directory, max_tokens=length - 8)
    row = model.encode(RECORD)
    assert len(row.windows) > 1
    (expected,) = model.attribute([row], [3])
    found = attribute_layers(model, row, 3, layers=[model.layer], top_k=7)[model.layer]
    np.testing.assert_allclose(found.top_scores, expected.top_scores, atol=2e-5)


@pytest.mark.parametrize(("budget", "rows_a_pass"), [(1, [1, 1, 1]), (10_000, [3])])
def test_windows_go_through_the_model_by_the_token_budget(tmp_path, monkeypatch, budget, rows_a_pass):
    model, row = model_and_long_row(tmp_path, token_budget=budget)
    passes = spy_on_passes(monkeypatch)
    attribute_layers(model, row, 3, layers=[1, 3], top_k=7)
    assert passes == rows_a_pass


@pytest.mark.parametrize("fitting", [1, 2])
def test_windows_that_do_not_fit_into_memory_together_are_halved(tmp_path, monkeypatch, fitting):
    model, row = model_and_long_row(tmp_path)
    expected = attribute_layers(model, row, 3, layers=[1, 3], top_k=7)
    spy_on_passes(monkeypatch, fitting=fitting)
    found = attribute_layers(model, row, 3, layers=[1, 3], top_k=7)
    for layer, tokens in found.items():
        np.testing.assert_allclose(tokens.top_scores, expected[layer].top_scores, atol=2e-5)


def model_and_long_row(observed_directory, **options):
    """A model whose windows take one passage each, and a row of three windows."""
    longest = max(len(observed_load(save_tiny_model(observed_directory)).encode(one).token_ids) for one in ONE_EACH)
    model = observed_load(observed_directory, max_tokens=longest + 1, **options)
    row = model.encode(RECORD)
    assert len(row.windows) == 3
    return model, row


def spy_on_passes(monkeypatch, *, fitting=1000):
    """The number of rows of every pass; more than ``fitting`` rows are too many for the memory."""
    passes = []
    take = LayerCapture.take

    def spied(self, jobs, **named):
        passes.append(len(jobs))
        if len(jobs) > fitting:
            raise MemoryError
        return take(self, jobs, **named)

    monkeypatch.setattr(LayerCapture, "take", spied)
    return passes


def test_layer_without_attention_is_refused(tmp_path):
    model = observed_load(save_tiny_model(tmp_path, "qwen3_next"))
    with pytest.raises(ValueError, match=r"these have none: \[1\]"):
        attribute_layers(model, model.encode(RECORD), 3, layers=[1, 4], top_k=2)


# the fourth token attends to the second most, then equally to the first and third


def test_token_is_attributed_to_its_top_k_earlier_tokens():
    assert attributed_tokens([SIMILARITY], top_k=1).tolist() == [
        [False, False, False, False],
        [True, False, False, False],
        [False, True, False, False],
        [False, True, False, False],
    ]


@pytest.mark.parametrize(("kind", "shift"), [("llama", 1), ("bert", 0)])
def test_similarity_is_that_of_eager_attention_below_the_diagonal(tmp_path, kind, shift):
    observed_directory = save_tiny_model(tmp_path, kind)
    model = AttentionModel.from_pretrained(ModelOptions(model=str(observed_directory), device="cpu"))
    row = model.encode(QARecord("r", "Who?", (Passage(text="Ada."),), "Ada lit the lamp.", RowSource("f", 0)))
    found = []

    def observe(layer_index, attention):
        if layer_index == model.layer - 1:
            positions = model.request(row, 1).query_positions
            found.append(response_similarity(attention, query_positions=positions, prompt_length=row.prompt_length))

    with observing(observe):
        model.attribute([row], [1])
    reference = AutoModel.from_pretrained(observed_directory, attn_implementation="eager").eval()
    with torch.no_grad():
        ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
        attention = reference(ids, output_attentions=True).attentions[model.layer - 1][0].mean(0).numpy()
    expected = attention[row.prompt_length - shift : len(row.token_ids) - shift, row.prompt_length :]
    (similarity,) = found
    np.testing.assert_allclose(similarity.numpy(), np.tril(expected, -1), atol=1e-5)
    assert similarity.count_nonzero() == len(expected) * (len(expected) - 1) // 2
