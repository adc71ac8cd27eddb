"""The fitted verdicts of the package: the bundled one, and one with a probe that is named beside its decoder."""

import json
from dataclasses import replace
from shutil import copyfile

import numpy as np
import pytest
from tests.attribution.tiny_models import edit_json, save_tiny_model
from tests.attribution.verdict.judged_rows import DOUBTFUL, TRUSTING, save_probed_verdict

from attribeam.attribution.attributor import Attributor
from attribeam.attribution.option_declaration import SHIPPED_VERDICTS, VERDICT_FILE, verdict_source
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.claim_reader import READER_FILES
from attribeam.attribution.verdict.fitted_parts import WORD_FILES, word_table
from attribeam.attribution.verdict.judge import judge_of
from attribeam.attribution.verdict.texts import RowKind
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, load_verdict_model, verdict_directory
from attribeam.evaluation.thresholds import MarkedItems, write_verdict
from attribeam.schemas.errors import ModelLoadError

SMOLLM2 = "smollm2-135m"
ROW = {"question": "Who built it?", "passages": ["Ada Thorne built the lighthouse."], "answer": "Ada Thorne built it."}


@pytest.mark.parametrize("name", SHIPPED_VERDICTS)
def test_shipped_verdict_is_whole(name):
    model = load_verdict_model(verdict_directory(verdict_source(name)))
    points = [one.answer_risk for one in model.operating_points]
    assert points == sorted(points)
    assert points[0] < 1 - model.thresholds.balanced < points[-1]
    assert model.measured_on.startswith("answers to web questions")
    assert (verdict_directory(name) / "MODEL_CARD.md").is_file()


def test_name_of_no_verdict_is_refused_with_the_names_there_are():
    with pytest.raises(ModelLoadError, match=r"should be bundled, smollm2-135m, mass or a .*, was: 'smollm2'"):
        judge_of(MethodOptions(verdict="smollm2"))


@pytest.mark.parametrize(("name", "layer", "size"), [(SMOLLM2, 18, 576)])
def test_verdict_of_a_decoder_reads_a_layer_and_shares_the_bundled_words_and_both_weigh_kinds(name, layer, size):
    load_verdict_model.cache_clear()  # other tests may have left a bundled verdict with an older table
    word_table.cache_clear()
    model, bundled = (load_verdict_model(verdict_directory(one)) for one in (name, "bundled"))
    assert (model.probe.layer, len(model.probe.regression.names)) == (layer, size)
    for one in (model, bundled):
        assert len({id(one.answers.of_kinds[kind]) for kind in RowKind}) == len(RowKind)
    assert model.table is bundled.table
    assert not any((verdict_directory(name) / one).exists() for one in (*WORD_FILES, *READER_FILES))
    assert bundled.probe is None


@pytest.mark.parametrize("options", [{}, {"language_model": "tiny"}])
@pytest.mark.parametrize(("name", "decoder"), [(SMOLLM2, "SmolLM2-135M")])
def test_error_without_the_right_decoder_says_how_to_get_it(name, decoder, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_tiny_model(tmp_path / "tiny")
    with pytest.raises(ModelLoadError, match=rf"fitted to {decoder}-Instruct in 4 bits.*as docs/models\.md#gguf-files"):
        Attributor.from_pretrained(verdict=name, device="cpu", **options)


def risk(judge):
    (spans,) = judge.attribute_many([ROW])
    return spans[0].answer_risk


def without_words(verdict):
    """The verdict without words of its own: it names the bundled ones."""
    for name in (*WORD_FILES, *READER_FILES):
        (verdict / name).unlink()
    file = verdict / VERDICT_FILE
    file.write_text(json.dumps({"word_table": "bundled", **json.loads(file.read_text(encoding="utf-8"))}), "utf-8")
    return verdict


def test_verdict_is_named_and_judges_with_its_decoder(tmp_path, monkeypatch):
    decoder = save_tiny_model(tmp_path / "decoder")
    risks = {}
    for name, bias in (("doubtful", DOUBTFUL), ("trusting", TRUSTING)):
        verdict = without_words(save_probed_verdict(tmp_path / name, decoder, bias=bias))
        monkeypatch.setitem(SHIPPED_VERDICTS, name, str(verdict))
        judge = Attributor.from_pretrained(verdict=name, language_model=str(decoder), device="cpu")
        risks[name] = risk(judge)
        assert judge.provenance()["verdict"] == name
    assert risks["trusting"] < risks["doubtful"]


def test_words_that_a_verdict_shares_count_in_its_digest(tmp_path, monkeypatch):
    verdict = without_words(save_probed_verdict(tmp_path / "own", save_tiny_model(tmp_path / "decoder")))
    before = load_verdict_model(verdict).digest
    words = tmp_path / "words"
    words.mkdir()
    for name in (*WORD_FILES, *READER_FILES):
        copyfile(BUNDLED_VERDICT / name, words / name)
    table = json.loads((words / WORD_FILES[0]).read_text(encoding="utf-8"))
    edit_json(words / WORD_FILES[0], documents=table["documents"] + 1)
    monkeypatch.setitem(SHIPPED_VERDICTS, "bundled", str(words))
    load_verdict_model.cache_clear()
    assert load_verdict_model(verdict).digest != before
    load_verdict_model.cache_clear()


def test_calibrated_verdict_goes_on_sharing_the_words(tmp_path):
    base = verdict_directory(SMOLLM2)
    model = load_verdict_model(base)
    marks = MarkedItems(np.array([0.1, 0.9]), np.array([False, True]), np.array([0, 1]))
    limits = replace(model.thresholds, balanced=0.5)
    write_verdict(tmp_path / "own", base, limits, marks, measured_on="two answers of ours")
    found = load_verdict_model(tmp_path / "own")
    assert (found.thresholds, found.table) == (limits, model.table)
    assert found.probe.note == model.probe.note
    assert [one.name for one in (tmp_path / "own").iterdir()] == [VERDICT_FILE]
