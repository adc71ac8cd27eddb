"""Files that --verdict names: nothing of them is used unless every field is what it should be."""

import json
import os
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from attribeam.attribution.option_declaration import MASS_FILE, VERDICT_FILE
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.fitted_parts import WORD_FILES
from attribeam.attribution.verdict.judge import judge_of
from attribeam.attribution.verdict.premises import PREMISE_NUMBERS
from attribeam.attribution.verdict.verdict_model import (
    BUNDLED_VERDICT,
    CLAIM_NUMBERS,
    SCORE_NUMBERS,
    claim_log_odds,
    load_verdict_model,
    score_numbers,
    verdict_directory,
)
from attribeam.attribution.verdict.verified import MassThresholds, with_calibrated_mass
from attribeam.pipeline.command_line import main
from attribeam.schemas.errors import DataError, ModelLoadError, UsageError

NAN, INFINITY = float("nan"), float("inf")
DEEP = 100_000
SMOLLM2 = "smollm2-135m"


def own_verdict(folder, name="bundled"):
    """A copy of a shipped verdict; the bundled one brings its table of words along."""
    shutil.copytree(verdict_directory(name), folder)
    return folder


def edited(folder, place, value, name=VERDICT_FILE):
    """Change one field, such as "words.trees.0.left"; None removes it, and a function makes a new value of the old."""
    file = folder / name
    found = json.loads(file.read_text(encoding="utf-8"))
    *path, last = [int(part) if part.isdecimal() else part for part in place.split(".")]
    holder = found
    for part in path:
        holder = holder[part]
    if value is None:
        del holder[last]
    else:
        holder[last] = value(holder[last]) if callable(value) else value
    file.write_text(json.dumps(found), encoding="utf-8")


def _short(value):
    return "edited" if callable(value) else f"{value!r:.30}"


def with_node(node, child):
    return lambda old: [*old[:node], child, *old[node + 1 :]]


FIELDS = [
    ("thresholds.balanced", NAN, r"thresholds\.balanced should be a finite number, was: nan"),
    ("thresholds.balanced", -0.1, r"thresholds\.balanced should be greater than or equal to 0, was: -0\.1"),
    ("thresholds.balanced", True, r"thresholds\.balanced should be a valid number, was: True"),
    ("thresholds.balanced", None, r"thresholds\.balanced should be there, is missing"),
    *[(f"thresholds.{name}", INFINITY, rf"thresholds\.{name} should be a finite number") for name in ("lenient",
        "strict", "supported", "word", "weak_word")],
    ("thresholds.balanced", 0.9, r"thresholds: lenient, balanced, strict, supported should ascend, were: 0\.33, 0\.9"),
    ("thresholds.risk", 1, r"thresholds\.risk is unknown"), ("thresholds", [], r"thresholds should be"),
    ("operating_points", lambda old: old[::-1], r"operating_points should ascend"),
    ("operating_points.3.false_alarms", NAN, r"operating_points\.3\.false_alarms should be a finite number"),
    ("operating_points", lambda old: old * 99, r"operating_points should have at most 1000 items"),
    ("measured_on", "x" * 10_000, r"measured_on should have at most 1000 characters, was: 'xxx"),
    ("signals", [], r"signals should have at least 1 item"),
    ("words.depth", 10**12, r"words\.depth should be less than or equal to 32, was: 1000000000000"),
    ("words.depth", 4, r"words: depth should be that of the deepest tree, 5, was: 4"),
    ("words.trees.0.columns", with_node(0, 85), r"columns below 85, the number of what is measured, has one"),
    ("words.trees.0.left", with_node(0, 0), r"words\.trees\.0: the children of node 0 should be from 1 to 28"),
    ("words.trees.0.right", with_node(0, 29), r"the children of node 0 should be from 1 to 28, were: \(1, 29\)"),
    ("words.trees.0.right", with_node(0, 10**12), r"words\.trees\.0\.right\.0 should be less than 10000"),
    ("words.trees.0.values", lambda old: old[1:], r"words\.trees\.0: all parts should have one item per node"),
    ("words.trees.0.thresholds", lambda old: [1e300, *old[1:]], r"thresholds\.0 should be less than or equal to"),
    ("words.trees", lambda old: old * 20, r"words\.trees should have at most 2000 items"),
    ("claims.trees", [], r"claims\.trees should have at least 1 item"),
    ("claim_scores.bias", None, r"claim_scores\.bias should be there, is missing"),
    ("claim_numbers", lambda old: old[:3], r"claims\.trees should have columns below 3"),
    ("answers.records.inputs.claims.scale", 0, r"claims\.scale should be greater than or equal to 0\.0*1, was: 0"),
    ("answers.records.inputs.claims.weight", 1e300, r"inputs\.claims\.weight should be less than or equal to"),
    ("answers.records", None, r"answers\.records should be there, is missing"),
    ("answers.poems", {}, r"answers\.poems is unknown"), ("answers", 5, r"answers should be"),
    ("word_table", "../elsewhere", r"word_table: should name one of bundled"),
    ("extra", 1, r"extra is unknown here; leave it out"), ("x\x1b[31m\n" * 99, 1, r"x\\x1b\[31m\\n\S* is unknown"),
]  # fmt: skip

PROBE_FIELDS = [
    ("probe.layer", 10**9, r"probe\.layer should be less than or equal to 1000"),
    ("probe.share", NAN, r"probe\.share should be a finite number"),
    ("probe.share", {"questions": 1, "summaries": 1, "records": 9}, r"probe\.share\.records should be less than"),
    ("probe.decoder", {}, r"probe\.decoder should have at least 1 item"),
    ("probe.decoder.language_model_weights", 5, r"language_model_weights should be a valid string"),
    ("probe.states.inputs.state_1", None, r"probe: the inputs of states should be state_0, state_1 and so on"),
    ("probe.states.inputs.state_1.weight", INFINITY, r"probe\.states\.inputs\.state_1\.weight should be a finite"),
    ("probe", [], r"probe should be"),
]


@pytest.mark.parametrize(("place", "value", "complaint"), [*FIELDS, *PROBE_FIELDS], ids=_short)
def test_a_field_out_of_its_range_is_named_with_its_file(tmp_path, place, value, complaint):
    folder = own_verdict(tmp_path / "own", SMOLLM2 if place.startswith("probe") else "bundled")
    edited(folder, place, value)
    with pytest.raises(DataError, match=rf"own/verdict\.json: .*{complaint}"):
        judge_of(MethodOptions(verdict=str(folder)))


@pytest.mark.parametrize(("content", "complaint"), [
    (b"", "should be JSON, is not: EOF while parsing"), (b"\xff\xfe", "should be JSON, is not"),
    (b"[" * DEEP, "should be JSON, is not: recursion limit exceeded"),
    (b'{"words":' + b'{"a":' * DEEP, "should be JSON, is not: recursion limit exceeded"),
    (b"[]", "should be an object"),
    (b'{"words": 1' + b"0" * 5000 + b"}", "should be JSON, is not: number out of range"),
    (b" " * (2**24 + 1), "should have at most 16,777,216 bytes, has 16,777,217"),
    (None, "should be a regular file, is a pipe or a device"),
], ids=["empty", "garbage", "deep list", "deep object", "list", "digits", "large", "pipe"])  # fmt: skip
def test_a_file_that_is_no_verdict_at_all_is_named(tmp_path, content, complaint):
    folder = own_verdict(tmp_path / "own")
    (folder / VERDICT_FILE).unlink()
    if content is None:
        os.mkfifo(folder / VERDICT_FILE)
    else:
        (folder / VERDICT_FILE).write_bytes(content)
    with pytest.raises(DataError, match=rf"own/verdict\.json.* {complaint}"):
        judge_of(MethodOptions(verdict=str(folder)))


@pytest.mark.parametrize(
    "place",
    ["signals", "answers.records.inputs", "claim_numbers", "claim_scores.inputs"],
    ids=["signals", "answers", "claims", "scores"],
)
def test_a_verdict_of_other_signals_is_refused_before_anything_is_judged(tmp_path, place):
    folder = own_verdict(tmp_path / "own")
    edited(folder, place, lambda old: dict(reversed(old.items())) if isinstance(old, dict) else ["other", *old[1:]])
    with pytest.raises(ModelLoadError, match=r"own/verdict\.json: .* fitted on other signals .*; train it"):
        judge_of(MethodOptions(verdict=str(folder)))


@pytest.mark.parametrize(("place", "value", "complaint"), [
    ("documents", 0, r"documents should be greater than or equal to 1"),
    ("frequencies", {"-1": "a"}, r"frequencies\.-1\.\[key\] should match pattern|String should match"),
    ("frequencies", {"9" * 13: "a"}, r"frequencies should be at most \d+, the number of documents"),
    ("frequencies", {"1": 5}, r"frequencies\.1 should be a valid string"),
    ("words", "a b", r"should have int8 vectors of 2 words, has int8 of the shape"),
])  # fmt: skip
def test_a_field_of_the_words_out_of_its_range_is_named(tmp_path, place, value, complaint):
    folder = own_verdict(tmp_path / "own")
    edited(folder, place, value, WORD_FILES[0])
    with pytest.raises(DataError, match=rf"own/word_\S+: .*{complaint}|own/word_\S+ {complaint}"):
        judge_of(MethodOptions(verdict=str(folder)))


@pytest.mark.parametrize("vectors", [np.full((9, 9), NAN, dtype=np.float32), np.zeros(9, dtype=np.int8), None])
def test_vectors_of_another_kind_are_refused(tmp_path, vectors):
    folder = own_verdict(tmp_path / "own")
    if vectors is None:
        (folder / WORD_FILES[1]).write_bytes((2**63).to_bytes(8, "little") + b"{}")
    else:
        save_file({"vectors": vectors}, folder / WORD_FILES[1])
    with pytest.raises(DataError, match=r"own/word_vectors\.safetensors should"):
        judge_of(MethodOptions(verdict=str(folder)))


@pytest.mark.parametrize(("risk", "expected"), [(0, [1, 1, -3]), (4, [3, 1, -3]), (-4, [-1, -1, -3])])
def test_only_the_riskiest_claim_shares_the_risk_of_its_answer_and_none_is_riskier(risk, expected):
    numbers = np.zeros((3, len(PREMISE_NUMBERS)), dtype=np.float32)
    assert claim_log_odds(np.array([2.0, 1.0, -3.0]), risk, numbers).tolist() == expected


@pytest.mark.parametrize(("count", "few"), [(1, 1.0), (4, 0.5), (28, 0.1)])
def test_what_is_measured_of_few_claims_counts_the_less_the_more_there_are(count, few):
    numbers = np.random.default_rng(0).random((count, len(CLAIM_NUMBERS)), dtype=np.float32)
    measured = {**dict(zip(CLAIM_NUMBERS, numbers.T, strict=True)), "ratio": np.arange(count)}
    for name, column in zip(SCORE_NUMBERS, score_numbers(numbers, measured["ratio"]).T, strict=True):
        of_all = np.ones(count) if name == "few" else measured[name.removesuffix("_of_few")]
        assert column == pytest.approx(of_all * (few if name.endswith("few") else 1))


THRESHOLDS = MassThresholds(0.5, 0.25, "bundled", "attn-union-dep", "3", "nine claims")


@pytest.mark.parametrize(("place", "value", "complaint"), [
    ("supported_threshold", NAN, "supported_threshold should be a finite number"),
    ("weak_threshold", 0.75, r"weak_threshold should be at most supported_threshold, were: 0\.75 and 0\.5"),
    ("weak_threshold", None, "weak_threshold should be there"), ("other", 5, "other is unknown"),
])  # fmt: skip
def test_a_field_of_thresholds_of_mass_out_of_its_range_is_named(tmp_path, place, value, complaint):
    (tmp_path / MASS_FILE).write_text(THRESHOLDS.to_json(), encoding="utf-8")
    edited(tmp_path, place, value, MASS_FILE)
    with pytest.raises(DataError, match=rf"mass_thresholds\.json: .*{complaint}"):
        with_calibrated_mass(MethodOptions(verdict=str(tmp_path)), model="bundled")


def test_what_is_shipped_or_written_by_calibrate_is_read(tmp_path):
    for name in ("bundled", SMOLLM2):
        assert load_verdict_model(verdict_directory(name)).words.depth == 5
    (tmp_path / MASS_FILE).write_text(THRESHOLDS.to_json(), encoding="utf-8")
    found = with_calibrated_mass(MethodOptions(verdict=str(tmp_path)), model="bundled")
    assert (found.verdict, found.supported_threshold, found.weak_threshold) == ("mass", 0.5, 0.25)


def test_an_audit_with_a_damaged_verdict_is_bad_usage_and_writes_nothing(tmp_path, capsys):
    folder = own_verdict(tmp_path / "own")
    edited(folder, "thresholds.balanced", NAN)
    output = tmp_path / "audit"
    log = BUNDLED_VERDICT.parents[2] / "examples" / "qa_logs.parquet"
    assert main(["audit", "--input", str(log), "--output", str(output), "--verdict", str(folder)]) == 2
    assert "own/verdict.json: thresholds.balanced should be a finite number, was: nan" in capsys.readouterr().err
    assert not output.exists()
    assert issubclass(ModelLoadError, UsageError)
