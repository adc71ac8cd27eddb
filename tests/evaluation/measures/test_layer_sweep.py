"""The sweep over layers, thresholds that are chosen on other sources, and what an evaluation costs."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.methods.hand_parser import ANSWER, PARSER
from tests.attribution.tiny_models import SENTENCES, save_tiny_encoder, save_tiny_model, save_tiny_tokenizer, tiny_model
from tests.evaluation.dataset_rows import HIDDEN_UNION, evaluate, quotesum_row, write_own_rows, write_rows
from tests.report.made_audit import place
from transformers import AutoModel, LlamaConfig

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.capture import LayerCapture, observing
from attribeam.attribution.methods.method import AttentionUnion, LoadedModels, MethodSettings, Need, PassageScore
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.models.model_directory import AttributionConfig, read_model_directory
from attribeam.attribution.options import UNIONS, MethodOptions, ModelOptions
from attribeam.evaluation import model_description
from attribeam.evaluation.check_command import labelled_answers
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.measures import FOLDS, accuracy, best_threshold, layer_sweep, source_folds
from attribeam.evaluation.measures.accuracy import Cost, run_methods, score_methods
from attribeam.evaluation.measures.layer_sweep import (
    SWEPT,
    AtLayer,
    LayerSearch,
    SensitivityPoint,
    attribute_layers,
    choose,
    found_settings,
    run_at_layers,
    search_layers,
    search_lines,
    sweep,
    sweep_layers,
)
from attribeam.evaluation.methods import evaluation_methods, needs_of
from attribeam.evaluation.methods.unions import attributed_tokens, response_similarity
from attribeam.evaluation.runs import with_all_layers
from attribeam.logs.columns import LogOptions
from attribeam.pipeline.command_line import main
from attribeam.schemas import Passage, QARecord, RowSource

PASSAGES = (Passage(text="Jon dances there."), Passage(text="Ada sings."), Passage(text="Bells ring in the tower."))


def answer(row, gold, passages=PASSAGES):
    spans = tuple(place(text, ANSWER) for text in ("Ada", "Jon", "Bells"))
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
    available = evaluation_methods(MethodSettings(top_k=3))
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
        kind = "hidden_layer" if point.method.startswith("hss") else "layer"
        own = choice(directory, **{kind: point.layer}, max_tokens=max_tokens)
        (alone,) = run_methods(answers, methods_named(point.method), loaded(own, methods_named(point.method)))
        assert (tally.credits, tally.spans) == (pytest.approx(alone.credits), alone.spans), point
        for name in ("isolated_spans", "spans_without_evidence"):
            assert getattr(tally, name) == getattr(alone, name)
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
    own = ModelOptions(model=str(directory), device="cpu", **options)
    return AttentionModel.from_pretrained(own, method=MethodOptions(top_k=7))


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


@pytest.mark.parametrize("kind", ["llama", "gemma2", "bert", "distilbert", "modernbert"])
def test_one_pass_gives_each_layer_what_a_model_of_that_layer_gives(kind, tmp_path):
    folder = save_tiny_model(tmp_path, kind)
    model = load(folder, loaded_layers=4)
    row = model.encode(RECORD)
    passes = []
    handle = model.network.register_forward_pre_hook(lambda *_: passes.append(1))
    found = attribute_layers(model, row, 3, layers=[1, 2, 4], top_k=7)
    handle.remove()
    assert passes == [1]
    for layer, tokens in found.items():
        (expected,) = load(folder, layer=layer).attribute([row], [3])
        np.testing.assert_allclose(tokens.top_scores, expected.top_scores, atol=2e-5)
        np.testing.assert_allclose(tokens.passage_mass, expected.passage_mass, atol=2e-5)
        np.testing.assert_allclose(tokens.sink_mass, expected.sink_mass, atol=2e-5)
    assert sorted(found) == [1, 2, 4]


def test_softmax_over_the_prompt_holds_in_the_models_own_layer_alone(tmp_path):
    kinds = ["sliding_attention", "sliding_attention", "full_attention"]
    model = load(save_tiny_encoder(tmp_path, layer_types=kinds, softmax_over="prompt"))
    far = QARecord("r", "Who?", OBSERVED_PASSAGES, "Ada lived there. " * 12, RowSource("f", 0))
    row = model.encode(far)
    found = attribute_layers(model, row, 3, layers=[1, 3], top_k=row.prompt_length)
    np.testing.assert_allclose(found[3].top_scores.sum(1), 1, atol=1e-4)
    # the last tokens of the answer see nothing of the prompt through the first layer's window
    assert found[1].top_scores[-1].sum() == 0
    assert 0 < found[1].top_scores[0].sum() < 1


@pytest.mark.parametrize(("budget", "rows_a_pass"), [(1, [1, 1, 1]), (10_000, [3])])
def test_long_row_is_put_together_from_windows_that_pass_by_the_token_budget(
    tmp_path, monkeypatch, budget, rows_a_pass
):
    model, row = model_and_long_row(tmp_path, token_budget=budget)
    (expected,) = model.attribute([row], [3])
    passes = spy_on_passes(monkeypatch)
    found = attribute_layers(model, row, 3, layers=[1, model.layer], top_k=7)[model.layer]
    assert passes == rows_a_pass
    np.testing.assert_allclose(found.top_scores, expected.top_scores, atol=2e-5)


@pytest.mark.parametrize("fitting", [1, 2])
def test_windows_that_do_not_fit_into_memory_together_are_halved(tmp_path, monkeypatch, fitting):
    model, row = model_and_long_row(tmp_path)
    expected = attribute_layers(model, row, 3, layers=[1, 3], top_k=7)
    spy_on_passes(monkeypatch, fitting=fitting)
    found = attribute_layers(model, row, 3, layers=[1, 3], top_k=7)
    for layer, tokens in found.items():
        np.testing.assert_allclose(tokens.top_scores, expected[layer].top_scores, atol=2e-5)


def model_and_long_row(folder, **options):
    """A model whose windows take one passage each, and a row of three windows."""
    longest = max(len(load(save_tiny_model(folder)).encode(one).token_ids) for one in ONE_EACH)
    model = load(folder, max_tokens=longest + 1, **options)
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
    model = load(save_tiny_model(tmp_path, "qwen3_next"))
    with pytest.raises(ValueError, match=r"these have none: \[1\]"):
        attribute_layers(model, model.encode(RECORD), 3, layers=[1, 4], top_k=2)


def test_token_is_attributed_to_its_top_k_earlier_tokens():
    similarity = torch.tensor([[0.0, 0, 0, 0], [0.3, 0, 0, 0], [0.1, 0.2, 0, 0], [0.1, 0.4, 0.1, 0]])
    found = attributed_tokens([similarity], top_k=1).tolist()
    assert found == [[place == most for place in range(4)] for most in (None, 0, 1, 1)]


@pytest.mark.parametrize(("kind", "shift"), [("llama", 1), ("bert", 0)])
def test_similarity_is_that_of_eager_attention_below_the_diagonal(tmp_path, kind, shift):
    folder = save_tiny_model(tmp_path, kind)
    model = AttentionModel.from_pretrained(ModelOptions(model=str(folder), device="cpu"))
    row = model.encode(QARecord("r", "Who?", (Passage(text="Ada."),), "Ada lit the lamp.", RowSource("f", 0)))
    found = []

    def observe(layer_index, attention):
        if layer_index == model.layer - 1:
            positions = model.request(row, 1).query_positions
            found.append(response_similarity(attention, query_positions=positions, prompt_length=row.prompt_length))

    with observing(observe):
        model.attribute([row], [1])
    reference = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
        attention = reference(ids, output_attentions=True).attentions[model.layer - 1][0].mean(0).numpy()
    expected = attention[row.prompt_length - shift : len(row.token_ids) - shift, row.prompt_length :]
    (similarity,) = found
    np.testing.assert_allclose(similarity.numpy(), np.tril(expected, -1), atol=1e-5)
    assert similarity.count_nonzero() == len(expected) * (len(expected) - 1) // 2


ROWS = 40
SPANS = [2] * ROWS
SOURCES = [*range(ROWS)]


def choose_setting(credits, *, spans=SPANS, layer_of=lambda _: 1):
    return choose(credits, layer_of=layer_of, spans=spans, sources=SOURCES)


def credits_of(share, *, seed):
    """Of 2 spans per row about this share is right, each drawn alone."""
    return np.random.default_rng(seed).binomial(2, share, size=ROWS).astype(float).tolist()


def test_best_of_many_equally_good_settings_is_not_preferred_to_the_usual_one():
    """Among 200 settings that are right as often, the luckiest is 5 points ahead or more."""
    drawn = {number: credits_of(0.7, seed=number) for number in range(200)}
    accuracies = [sum(values) / (2 * ROWS) for values in drawn.values()]
    found = choose_setting({"usual": [1.4] * ROWS, **drawn})
    assert max(accuracies) > 0.75
    assert found.cross_validated.value < 100 * max(accuracies)
    assert found.gain.low <= 0


def test_of_settings_within_a_standard_error_the_first_is_chosen():
    better = [0.0, *[1.0] * (ROWS - 3), 2.0, 2.0]
    found = choose_setting({"usual": [1.0] * ROWS, "better": better})
    assert found.setting == "usual"
    assert found.accuracy == found.usual_accuracy == 50


@pytest.mark.parametrize(
    ("right", "setting", "level"),
    [
        # as with SmolLM2: the usual layer is level with the best one by one lucky k only
        ({(1, "k 2"): range(28), (1, "k 4"): range(3, 37), (2, "k 2"): range(35), (2, "k 4"): range(35)},
            (2, "k 2"), ((1, "k 4"), (2, "k 2"), (2, "k 4"))),
        # one of the best layer that is clearly better replaces its usual one
        ({(1, "k 2"): range(10), (1, "k 4"): range(12), (2, "k 2"): range(20), (2, "k 4"): range(35)},
            (2, "k 4"), ((2, "k 4"),)),
    ],
)  # fmt: skip
def test_best_layer_is_chosen_and_then_the_first_of_its_settings_within_a_standard_error(right, setting, level):
    credits = {one: [2.0 * (row in rows) for row in range(ROWS)] for one, rows in right.items()}
    found = choose_setting(credits, layer_of=lambda one: one[0])
    assert (found.setting, found.level) == (setting, level)


def test_spans_and_not_rows_have_equal_weight():
    credits = {"usual": [0.0] * 40, "short": [1.0] * 30 + [0.0] * 10, "long": [0.0] * 30 + [9.0] * 10}
    found = choose_setting(credits, spans=[1] * 30 + [9] * 10)
    assert found.setting == "long"
    assert found.accuracy == pytest.approx(75)


_SHARPNESS = 3.0


def save_planted_decoder(directory, *, layers, planted):
    """Write a Llama whose layer ``planted``, counted from 1, has equal queries and keys; all else is random.

    Its layers add little to the embeddings, and positions hardly turn them, so that equal tokens meet in that layer.
    """
    config = LlamaConfig(
        vocab_size=400, hidden_size=32, intermediate_size=48, num_hidden_layers=layers, num_attention_heads=2,
        max_position_embeddings=512, rope_theta=1e12, bos_token_id=0, eos_token_id=1, pad_token_id=2,
    )  # fmt: skip
    model = tiny_model(config, scale=0.3)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.01)
            layer.mlp.down_proj.weight.mul_(0.01)
        attention = model.model.layers[planted - 1].self_attn
        attention.q_proj.weight.copy_(_SHARPNESS * torch.eye(32))
        attention.k_proj.weight.copy_(torch.eye(32))
    model.save_pretrained(directory)
    save_tiny_tokenizer(directory)
    return directory


def write_copied_rows(path, count):
    """Write ``count`` rows as JSONL to ``path``, which is returned: the answer repeats words of one of three passages.

    The words are drawn from those that the tiny tokenizer knows, none twice in a row.
    """
    drawn = random.Random(5)
    words = sorted({word.strip(".,:?") for sentence in SENTENCES for word in sentence.split()})
    lines = []
    for row in range(count):
        chosen = drawn.sample(words, 12)
        passages = [" ".join(chosen[start : start + 4]) for start in (0, 4, 8)]
        gold = drawn.randrange(3)
        answer = " ".join(chosen[4 * gold + 1 : 4 * gold + 4])
        line = {"record_id": f"row-{row}", "question": f"row {row}", "passages": [{"text": one} for one in passages]}
        labels = {
            "target_spans": [{"char_start": 0, "char_end": len(answer)}],
            "span_labels": [{"gold_passages": [gold]}],
        }
        lines.append({**line, "answer": answer, **labels})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _few_settings(monkeypatch):
    monkeypatch.setattr(model_description, "_MOST_ROWS", 1)
    monkeypatch.setattr(layer_sweep, "TOP_KS", (1, 2))
    monkeypatch.setattr(layer_sweep, "ISOLATION_TAUS", (2.0, math.inf))


@pytest.fixture
def run_sweep(tmp_path_factory):
    rows = write_own_rows(tmp_path_factory.mktemp("rows") / "rows.jsonl", 12)

    def run(model, *options):
        log = ("--data", str(rows), "--log-format", "jsonl", "--threads", "1")
        return main(["models", "check", "--model", str(model), "--device", "cpu", *log, "--sweep-layers", *options])

    return run


def test_choice_is_written_and_then_used(run_sweep, tmp_path, capsys):
    model, output = save_tiny_model(tmp_path / "model", "bert"), tmp_path / "found.json"
    assert run_sweep(model, "--output", str(output)) == 0
    values = json.loads(output.read_text(encoding="utf-8"))
    assert set(values) == {"layer", "top_k", "isolation_tau"}
    assert values["layer"] in (1, 2, 3, 4)
    options = ModelOptions(model=str(model), device="cpu", attribution_config=str(output))
    loaded = AttentionModel.from_pretrained(options, threads=1)
    assert (loaded.layer, loaded.settings.top_k) == (values["layer"], values["top_k"])
    assert loaded.settings.isolation_tau == float(values["isolation_tau"])
    printed = capsys.readouterr().out
    table = printed.partition("sweep ")[2].splitlines()
    assert [line.split()[0] for line in table[4:9]] == ["0", "1", "2", "3", "4"]
    assert printed.count("% by cross-validation") == 2
    assert f"written to {output}; use it with --attribution-config {output}" in printed


def test_sweep_without_an_output_writes_into_the_folder_and_replaces_nothing(run_sweep, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "attribution_config.json").write_text("{}", encoding="utf-8")
    assert run_sweep(tmp_path / "absent") == 2
    wanted = "--output should be a new file in an existing directory, was: attribution_config.json"
    assert wanted in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--output", "found.json"], "--output says where --sweep-layers writes its choice"),
        (["--sweep-layers", "--output", "no/such/found.json"], "should be a new file in an existing directory"),
        (["--sweep-layers", "--data", "few.jsonl", "--log-format", "jsonl"], "10 different questions or more, has 9"),
    ],
)
def test_sweep_that_could_not_end_well_is_refused_first(options, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_own_rows(Path("few.jsonl"), 9)
    assert main(["models", "check", "--model", "./absent", *options]) == 2
    assert complaint in capsys.readouterr().err


def test_every_layer_of_the_bundled_model_is_tried():
    """Its own layer, which it was trained for, finds the most; the two below it were not."""
    answers = labelled_answers(None, LogOptions())
    model = AttentionModel.from_pretrained(ModelOptions(device="cpu", loaded_layers=3), threads=1)
    parser = AnswerParser.from_pretrained("bundled")
    found = search_layers(answers, model, parser)
    assert [*found.by_layer] == [0, 1, 2, 3]
    assert found.by_layer[0][:2] == (None, None)
    assert found.attention.usual == SensitivityPoint(3, 6, 2.0)
    assert found.attention.setting.layer == 3
    assert found.states.cross_validated.value <= found.attention.cross_validated.value
    assert found.states.usual == AtLayer("hss-union-dep", 1)


@pytest.mark.parametrize("planted", [2, 5])
def test_layer_of_a_decoder_that_looks_at_the_same_words_is_chosen(planted, tmp_path):
    rows = write_copied_rows(tmp_path / "rows.jsonl", 20)
    answers = labelled_answers(rows, LogOptions(format="jsonl"))
    directory = save_planted_decoder(tmp_path / "model", layers=5, planted=planted)
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", loaded_layers=5), threads=1)
    found = search_layers(answers, model, AnswerParser.from_pretrained("bundled"))
    assert found.attention.usual.layer == 3
    assert found.attention.setting.layer == planted
    assert {point.layer for point in found.attention.level} == {planted}


def chosen(credits):
    """A choice among settings that know their layers, by 12 rows of one span."""
    return choose(credits, layer_of=lambda one: one.layer, spans=[1] * 12, sources=range(12))


def test_settings_of_the_model_are_kept_but_for_those_of_another_layer(tmp_path):
    model = save_tiny_model(tmp_path)
    template = {"preamble": "", "titled_passage": "{title} {text}", "passage": "{text}", "question": "{question}"}
    own = {"layer": 2, "top_k": 4, "softmax_over": "prompt", "weak_threshold": 0.1, "prompt_template": template}
    (model / "attribution_config.json").write_text(json.dumps(own), encoding="utf-8")
    directory = read_model_directory(ModelOptions(model=str(model)))
    usual = SensitivityPoint(2, 4, 2.0)
    assert found_settings(directory, chosen({usual: [1.0] * 12})) == own | {"isolation_tau": 2.0}
    better = {usual: [0.0] * 12, SensitivityPoint(3, 1, math.inf): [1.0] * 12}
    other = found_settings(directory, chosen(better))
    assert other == {"layer": 3, "top_k": 1, "isolation_tau": "inf", "prompt_template": template}
    (tmp_path / "found.json").write_text(json.dumps(other), encoding="utf-8")
    assert AttributionConfig.from_file(tmp_path / "found.json").method.isolation_tau == math.inf


@pytest.mark.parametrize(
    ("right", "advice"),
    [
        (12, f"hidden states find more than attention: --method {HIDDEN_UNION} --hidden-layer 1"),
        (3, "best       attention: layer 3, k 2, tau 2"),
    ],
)
def test_better_of_attention_and_hidden_states_is_named(right, advice):
    usual = SensitivityPoint(3, 2, 2.0)
    credits = {usual: [1.0] * 6 + [0.0] * 6}, {AtLayer("hss-union", 1): [float(row < right) for row in range(12)]}
    found = LayerSearch(*map(chosen, credits), {1: (None, None, 90.0), 3: (50.0, 50.0, None)})
    assert advice in [*search_lines(found, 12)][-1]
