"""One declaration of an option reaches command line, ``from_pretrained``, model directory, manifest and docs."""

import argparse
import inspect
import json
import pickle
from pathlib import Path

import pytest

from attribeam import Attributor
from attribeam.attribution.models.model_directory import AttributionConfig, config_keys
from attribeam.attribution.option_declaration import add_options, declared, option_texts
from attribeam.attribution.options import MASS, UNION, AttributorOptions, MethodOptions, ModelOptions, Quantization
from attribeam.pipeline.config_file import OPTIONS
from attribeam.schemas import SpanKind
from attribeam.transforms.audit_settings import AuditSettings, output_metadata, plain_settings
from lab.option_docs import with_table

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
BOTH = {**declared(ModelOptions), **declared(MethodOptions)}


def test_docs_are_those_of_the_declarations():
    text = PAGE.read_text(encoding="utf-8")
    assert text == with_table(text), "run python -m lab.option_docs docs/options.md"
    rows = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert {*OPTIONS, *BOTH} - {"beam_arguments"} <= {*rows}


@pytest.mark.parametrize("one", BOTH.values(), ids=BOTH)
def test_every_option_reaches_keyword_and_manifest(one):
    assert one.name in inspect.signature(Attributor.from_pretrained).parameters
    assert f"{one.name}: {one.help}" in str(Attributor.from_pretrained.__doc__)
    plain = plain_settings(AuditSettings())
    recorded = {**plain["model"], **plain["method"]}
    assert recorded[one.name] is None or recorded[one.name] == one.default


def test_every_option_of_a_model_directory_is_read_from_it(tmp_path):
    values = {name: one.default for name, one in declared(MethodOptions).items() if one.in_directory}
    values |= {"evidence_window": "inf", "layer": 3, "query_position": "self", "dtype": "float32"}
    path = tmp_path / "attribution_config.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    config = AttributionConfig.from_file(path)
    given = config.model.model_fields_set | config.method.model_fields_set
    assert given == {name for name, one in BOTH.items() if one.in_directory} == set(values)
    assert given <= set(config_keys())


def test_every_option_of_the_method_reaches_the_metadata_of_files():
    own = MethodOptions(top_k=7, strict_isolation=True, hidden_layer=3, language_model="m")
    in_force = own.with_model(MethodOptions(sentence_weight=0.4))
    texts = output_metadata(AuditSettings(), option_texts(in_force))
    given = {name for name in declared(MethodOptions) if getattr(in_force, name) is not None}
    assert {f"attribeam.{name}" for name in given} <= set(texts)
    assert (texts["attribeam.top_k"], texts["attribeam.sentence_weight"]) == ("7", "0.4")
    assert texts["attribeam.evidence_window"] == "inf"


def test_what_nobody_gave_is_null_in_the_manifest():
    settings = AuditSettings(method=MethodOptions(evidence_window=160, top_k=None))
    method = plain_settings(settings)["method"]
    assert isinstance(method, dict)
    assert {name: value for name, value in method.items() if value is not None and value is not False} == {
        "method": "attn-union-dep",
        "evidence_window": 160,
        "verdict": "bundled",
    }


def _parsed(*argv):
    parser = argparse.ArgumentParser()
    add_options(parser, MethodOptions, UNION, MASS)
    return MethodOptions.from_arguments(parser.parse_args(argv), UNION, MASS)


@pytest.mark.parametrize(("argv", "complaint"), [
    ("--top-k 0", "argument --top-k: should be a whole number from 1, was: '0'"),
    ("--top-k two", "argument --top-k: should be a whole number from 1, was: 'two'"),
    ("--isolation-tau 1.5", "should be a whole number of tokens from 0, or inf, was: '1.5'"),
    ("--isolation-tau nan", "should be a whole number of tokens from 0, or inf, was: 'nan'"),
    ("--evidence-window 0", "should be a whole number of tokens from 1, or inf, was: '0'"),
    ("--sentence-weight inf", "should be a number of at least 0, was: 'inf'"),
    ("--supported-threshold 2", "should be a number from 0 to 1, was: '2'"),
])  # fmt: skip
def test_bad_value_on_the_command_line_says_what_was_expected(argv, complaint, capsys):
    with pytest.raises(SystemExit) as ended:
        _parsed(*argv.split())
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(("given", "complaint"), [
    ({"top_k": 0}, "top_k should be a whole number from 1, was: 0"),
    ({"top_k": "3"}, "top_k should be a whole number from 1, was: '3'"),
    *(({"evidence_window": one}, "evidence_window should") for one in (0, -1, 2.5, float("nan"))),
    *(({"sentence_weight": one}, "sentence_weight should") for one in (-0.1, float("inf"), float("nan"))),
    ({"isolation_tau": 1.5}, "isolation_tau should be a whole number of tokens from 0, or inf, was: 1.5"),
    ({"quantization": "nf5"}, "quantization should be one of 'none', 'nf4', 'int8', was: 'nf5'"),
    ({"spans": "clauses"}, "spans should be a comma-separated list of given"),
    ({"model": 3}, "model should be a text, was: 3"),
    ({"supported_threshold": 0.1, "weak_threshold": 0.4}, "were: 0.4 and 0.1"),
])  # fmt: skip
def test_bad_keyword_is_a_value_error_before_anything_is_loaded(given, complaint):
    with pytest.raises(ValueError, match="should") as caught:
        Attributor.from_pretrained(**given)
    assert complaint in str(caught.value)


def test_part_of_the_options_keeps_what_was_given():
    options = AttributorOptions(model="m", quantization="int8", top_k=3, spans="facts,given")
    assert options.only(ModelOptions) == ModelOptions(model="m", quantization=Quantization.INT8)
    assert options.only(MethodOptions) == MethodOptions(top_k=3)
    assert options.spans == (SpanKind.FACTS, SpanKind.GIVEN)


def test_default_that_was_given_is_not_an_open_one():
    left_open, given = MethodOptions(), MethodOptions(top_k=2)
    assert left_open.top_k == given.top_k
    assert left_open != given
    assert left_open.with_model(MethodOptions(top_k=6)).top_k == 6
    assert given.with_model(MethodOptions(top_k=6)).top_k == 2


def test_pickled_options_remember_what_was_given():
    options = MethodOptions(top_k=2)
    copied = pickle.loads(pickle.dumps(options))
    assert copied == options
    assert hash(copied) == hash(options)
    assert copied.model_fields_set == {"top_k"}


def test_paper_weights_switch_off_what_the_paper_lacks():
    own = MethodOptions(
        top_k=6, own_token_weight=12, sentence_weight=0.4, evidence_window=160, word_weight=1.0, weak_threshold=0.1
    )
    paper = own.with_paper_weights()
    assert (paper.own_token_weight, paper.sentence_weight, paper.evidence_window) == (1, 0, float("inf"))
    assert paper.word_weight == 0
    assert (paper.top_k, paper.weak_threshold) == (6, 0.1)
    assert {"own_token_weight", "sentence_weight", "evidence_window", "word_weight"} <= paper.model_fields_set
