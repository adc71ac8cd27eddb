"""``attribeam models check``: what a model is and does, or one paragraph on why it cannot serve."""

import json
import re
from pathlib import Path

import pytest
from tests.attribution.tiny_models import save_tiny_model, save_tiny_tokenizer
from tests.evaluation.dataset_rows import HIDDEN_UNION, write_own_rows
from transformers import AutoModelForCausalLM, AutoTokenizer, BertTokenizerLegacy, GPTJConfig, MambaConfig, T5Config

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.options import ModelOptions
from attribeam.evaluation import model_description
from attribeam.evaluation.check_command import (
    CANDIDATES,
    example_lines,
    labelled_answers,
    measure_quality,
    quality_lines,
    quality_of_tallies,
    serving_line,
)
from attribeam.evaluation.measures.accuracy import MethodTally
from attribeam.evaluation.model_description import EXAMPLE_RECORD
from attribeam.logs.columns import LogOptions
from attribeam.pipeline.command_line import main
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import ModelLoadError

HUB = "https://hub.invalid/brigg/lighthouse"


@pytest.fixture(autouse=True)
def _one_sample_row(monkeypatch):
    monkeypatch.setattr(model_description, "_MOST_ROWS", 1)


@pytest.fixture
def check(tmp_path_factory):
    few_rows = write_own_rows(tmp_path_factory.mktemp("rows") / "rows.jsonl", 3)

    def run(model, *options):
        rows = ("--data", str(few_rows), "--log-format", "jsonl")
        return main(["models", "check", "--model", str(model), "--device", "cpu", *rows, *options])

    return run


def test_model_that_can_serve_is_described_measured_and_tried(check, tmp_path, capsys):
    assert check(save_tiny_model(tmp_path, "gemma2"), "--threads", "1") == 0
    printed = capsys.readouterr().out
    lines = dict(reversed([(line[:11].strip(), line) for line in printed.splitlines() if line]))
    assert lines["layers"].endswith("4: 2 sliding_attention, 2 full_attention")
    assert "layer 2 of 4: nearest full_attention layer to the default 3 (sliding_attention)" in lines["attention"]
    assert lines["context"].endswith("512 tokens; longer rows are read in windows")
    assert lines["revision"].split()[1].startswith("sha256:")
    assert lines["weights"].endswith("as float32")
    assert "tokens/s on" in lines["speed"]
    assert "agreement" not in lines
    assert EXAMPLE_RECORD.answer in lines["answer"]
    assert any(line.split("  <-  ")[0].endswith("Ada Thorne") for line in printed.splitlines())
    shares = [int(share) for share in re.findall(r"(\d+)% (?:of the answer|on the)", lines["shares"])]
    assert len(shares) == 3
    assert sum(shares) in (99, 100, 101)
    assert lines["quality"].endswith("labelled spans of 3 rows whose passage is found")
    methods = [line.split()[0] for line in printed.splitlines() if line.startswith(("attn-", "hss-", "words"))]
    assert methods == [*CANDIDATES, "words"]
    assert printed.splitlines()[-1].startswith(f"{tmp_path} runs, but does not serve at layer 2")


@pytest.mark.usefixtures("either_processor")
def test_options_of_loading_reach_the_model(check, tmp_path, capsys):
    directory = save_tiny_model(tmp_path)
    assert check(directory, "--quantization", "nf4", "--dtype", "bfloat16", "--layer", "2") == 0
    printed = capsys.readouterr().out
    assert "as nf4, the rest bfloat16" in printed
    assert "layer 2 of 4: as configured" in printed
    assert re.search(r"^agreement  \d+\.\d% of the answer tokens", printed, re.MULTILINE)


def saved(config):
    """A directory with this config and a tokenizer, and without weights."""

    def save(directory, _):
        config.save_pretrained(directory)
        save_tiny_tokenizer(directory)
        return directory

    return save


def without_fast_tokenizer(directory, monkeypatch):
    vocabulary = directory / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", encoding="utf-8")
    slow = BertTokenizerLegacy(vocab_file=str(vocabulary))
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_, **__: slow)
    return save_tiny_model(directory)


def beside_the_interface(directory, _):
    config = GPTJConfig(vocab_size=400, n_embd=32, n_layer=2, n_head=4, rotary_dim=4)
    AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    save_tiny_tokenizer(directory)
    return directory


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (lambda *_: "./absent", "should be a directory with config.json, there is none"),
        (without_fast_tokenizer, "should have a fast tokenizer"),
        (saved(MambaConfig()), "should have attention, its config.json (mamba) names no attention heads"),
        (saved(T5Config()), "is an encoder-decoder (t5)"),
        (beside_the_interface, "should go through transformers' attention interface"),
    ],
)  # fmt: skip
def test_model_that_cannot_serve_ends_with_exit_code_1_and_the_reason(
    model, complaint, check, tmp_path, monkeypatch, capsys
):
    name = model(tmp_path, monkeypatch)
    capsys.readouterr()
    assert check(name) == 2
    errors = capsys.readouterr().err.strip()
    assert errors.startswith("attribeam models: this model cannot serve: ")
    assert complaint in errors
    assert "\n" not in errors


def test_example_that_fails_means_that_the_model_cannot_serve():
    with pytest.raises(ModelLoadError, match="the worked example could not be attributed"):
        list(example_lines(EXAMPLE_RECORD, RowFault(Reason.OUT_OF_MEMORY, "the row should fit, does not")))


def quality_of(*, default, other, words):
    """Of methods that are right with the first so many hundredths of 100 rows with one span each."""
    credits = {CANDIDATES[0]: default, "hss-union": other, "words": words}
    right = {name: [float(row < 100 * share) for row in range(100)] for name, share in credits.items()}
    tallies = [MethodTally(name, own, [1] * 100) for name, own in right.items()]
    return quality_of_tallies(tallies, chance=30.0, layer=4, hidden_layer=3)


NOT_SERVING = "m runs, but does not serve at layer 4: its best method, hss-union,"


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ((0.9, 0.9, 0.8), "m can serve: attn-union-dep at layer 4 finds 90 %."),
        ((0.89, 0.9, 0.8), "m can serve: attn-union-dep at layer 4 finds 89 %."),
        ((0.2, 0.84, 0.8), f"m can serve with --method {HIDDEN_UNION} --hidden-layer 3, which finds 84 % of the "
            "passages, words 80 %. Its attention at layer 4 does not: attn-union-dep, the audit's default, finds 20 %"),
        # fewer than shared words, and not shown to beat chance
        ((0.5, 0.6, 0.9), f"{NOT_SERVING} finds 60 % of the passages, words 90 %, which needs no model."),
        ((0.3, 0.33, 0.3), f"{NOT_SERVING} finds 33 % of the passages, words 30 %, chance 30 %."),
    ],
)  # fmt: skip
def test_a_model_serves_by_the_method_that_beats_chance_and_words(shares, said):
    default, other, words = shares
    quality = quality_of(default=default, other=other, words=words)
    assert serving_line("m", quality).startswith(said)
    assert next(line for line in quality_lines(quality) if line.startswith("best")).endswith(" % of the passages")


def test_bundled_model_finds_the_passages_of_the_packages_rows():
    """What the check measures is what evaluate measures, and the bundled model does better than words alone."""
    answers = labelled_answers(None, LogOptions())
    model = AttentionModel.from_pretrained(ModelOptions(device="cpu"), threads=1)
    quality = measure_quality(answers, model, AnswerParser.from_pretrained("bundled"))
    default = quality.candidates[0]
    assert " can serve: " in serving_line("bundled", quality)
    assert default.score.passage_accuracy > quality.words.passage_accuracy > 2 * quality.chance
    assert default.hidden_layer is None
    assert {one.hidden_layer for one in quality.candidates[2:]} == {1}


def test_layer_below_the_papers_takes_the_hidden_states_below_itself(tmp_path):
    """Nothing is loaded for them."""
    options = ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu", layer=1)
    model = AttentionModel.from_pretrained(options, threads=1)
    quality = measure_quality(labelled_answers(None, LogOptions())[:2], model, AnswerParser.from_pretrained("bundled"))
    assert {one.hidden_layer for one in quality.candidates} == {None, 0}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--layer", "9"], "layer should be one of the layers with attention, [1, 2, 3, 4], was: 9"),
        (["--data", "absent.parquet"], "--data: "),
        (["--data", "unlabelled.jsonl", "--log-format", "jsonl"], "should have labels in a column span_labels"),
        (["--data", "ungiven.jsonl", "--log-format", "jsonl"], "1 rows skipped: no_gold_passage"),
    ],
)
def test_what_cannot_be_checked_is_a_usage_error(options, complaint, llama, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    row = {"record_id": "1", "question": "Who?", "passages": [{"text": "Ada Thorne."}], "answer": "Ada Thorne."}
    Path("unlabelled.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    spans = {"target_spans": [{"char_start": 0, "char_end": 3}], "span_labels": [{"gold_passages": []}]}
    Path("ungiven.jsonl").write_text(json.dumps(row | spans) + "\n", encoding="utf-8")
    assert main(["models", "check", "--model", str(llama), "--device", "cpu", *options]) == 2
    assert complaint in capsys.readouterr().err
