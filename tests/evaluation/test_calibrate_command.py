"""``attribeam calibrate``: thresholds from marks, by a verifier too, refusals, and what audits read of them."""

import csv
import json
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.evaluation.marked_ferries import answer_marks, claim_marks, ferry_audit, judged_by, save

from attribeam.attribution.option_declaration import Strictness
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, load_verdict_model, verdict_directory
from attribeam.attribution.verdict.verified import Blend, calibrated_verifier, with_calibrated_mass
from attribeam.evaluation.thresholds import MarkedItems, call_figures, choose_threshold, fit_threshold
from attribeam.pipeline.command_line import main
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import Support
from attribeam.schemas.errors import UsageError

ANSWERS, RATE = 120, "--false-alarm-rate"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return ferry_audit(tmp_path_factory.mktemp("ferries"), ANSWERS)


@pytest.fixture
def marks(tmp_path):
    return save(tmp_path / "marks.jsonl", claim_marks(range(ANSWERS)))


def calibrate(audit, marks, output, *more):
    return main(["calibrate", "--audit", str(audit.root), "--marks", str(marks), "--output", str(output), *more])


def test_thresholds_move_to_where_marks_part_and_a_verdict_can_be_read(made, marks, tmp_path, capsys):
    assert calibrate(made, marks, tmp_path / "verdict") == 0
    fitted, base = load_verdict_model(tmp_path / "verdict"), load_verdict_model(BUNDLED_VERDICT)
    limits = fitted.thresholds
    assert 0.45 < limits.balanced < 0.65
    assert limits.lenient < limits.balanced < limits.strict < limits.supported < 1
    assert (limits.word, limits.weak_word) == (base.thresholds.word, base.thresholds.weak_word)
    assert fitted.measured_on == "120 marked answers of log.parquet, which its thresholds were fitted to"
    assert fitted.digest != base.digest
    assert fitted.operating_points == fitted.short_operating_points
    told = fitted.provenance(Strictness.BALANCED, 0.5)
    assert "verdict_recall" in told
    assert "verdict_short_recall" not in told
    text = capsys.readouterr().out
    use = f"attribeam audit --verdict {tmp_path / 'verdict'}"
    wanted = ("240 marks: 120 answers and 240 claims", "95% interval", use, "warning")
    assert [part in text for part in wanted] == [True, True, True, False]


def test_a_mark_on_other_words_is_left_out(made, tmp_path, capsys):
    first, *rest = claim_marks(range(ANSWERS))
    marks = save(tmp_path / "marks.jsonl", [first | {"text": "The boat sinks"}, *rest])
    assert calibrate(made, marks, tmp_path / "verdict") == 0
    assert "240 marks: 119 answers and 239 claims (1 not in this audit left out)" in capsys.readouterr().out


def test_use_of_a_verdict_that_reads_a_decoder_names_the_decoder(marks, tmp_path, capsys):
    digest = load_verdict_model(verdict_directory("smollm2-135m")).digest[:16]
    audit = ferry_audit(tmp_path / "audit", ANSWERS, models={"verdict_model": digest, "language_model": "Smol"})
    assert calibrate(judged_by(audit, "smollm2-135m"), marks, tmp_path / "own") == 0
    assert f"attribeam audit --verdict {tmp_path / 'own'} --language-model Smol\n" in capsys.readouterr().out


def test_the_merged_marks_of_two_people_are_what_calibrate_takes(made, tmp_path, capsys):
    files = [save(tmp_path / f"{name}.jsonl", claim_marks(range(ANSWERS))) for name in ("ada", "ben")]
    merged = tmp_path / "merged.jsonl"
    assert main(["import", "marks", *map(str, files), "--output", str(merged)]) == 0
    assert calibrate(made, merged, tmp_path / "verdict") == 0
    assert "240 marks: 120 answers and 240 claims" in capsys.readouterr().out


def test_a_false_alarm_rate_is_kept_on_the_marks(made, tmp_path):
    marks = save(tmp_path / "marks.jsonl", [*claim_marks(range(ANSWERS)), *answer_marks(range(ANSWERS))])
    points = {}
    for rate in ("0.05", "0.2"):
        assert calibrate(made, marks, tmp_path / rate, "--false-alarm-rate", rate) == 0
        points[rate] = load_verdict_model(tmp_path / rate).thresholds.balanced
    assert points["0.05"] < points["0.2"]


def test_a_threshold_that_is_worse_on_other_marks_than_the_old_one_says_so(made, tmp_path, capsys):
    old = 1 - load_verdict_model(BUNDLED_VERDICT).thresholds.balanced
    batches = AuditDirectory.open(made.root).evidence_batches(["record_id", "answer_risk"])
    risks = {row["record_id"]: row["answer_risk"] for batch in batches for row in batch.to_pylist()}
    marks = [{"record_id": name, "label": "unsupported" if risk > old else "supported"} for name, risk in risks.items()]
    assert calibrate(made, save(tmp_path / "marks.jsonl", marks), tmp_path / "verdict") == 0
    text = capsys.readouterr().out
    assert "warning: answers: unsupported below score: the new threshold is worse than the old one" in text
    assert "was 100.0; keep the old verdict" in text


EVERY = range(ANSWERS)


@pytest.mark.parametrize(
    ("marks", "options", "complaint"),
    [
        (claim_marks(range(30)), (), "20 answers that lack support are needed, 15 are marked, 5 more to go"),
        (claim_marks(range(80)), (RATE, "0.005"), "200 answers that are supported are needed, 40 are marked, 160 more"),
        (None, (), "--marks: marks file"),
    ],
    ids=["too-few", "too-few-for-the-rate", "unreadable"],
)
def test_marks_that_say_too_little_are_refused(made, tmp_path, capsys, marks, options, complaint):
    file = tmp_path / "nowhere.csv" if marks is None else save(tmp_path / "marks.jsonl", marks)
    assert calibrate(made, file, tmp_path / "verdict", *options) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "verdict").exists()


@pytest.mark.parametrize(
    ("marks", "what"),
    [(claim_marks(EVERY), "answers"), (answer_marks(EVERY), "answers"), (claim_marks(EVERY)[1::2], "claims")],
    ids=["claims-that-say-it-of-answers", "answers-alone", "too-few-answers-marked-whole"],
)
def test_the_threshold_is_fitted_to_answers_where_enough_of_them_are_marked(made, tmp_path, capsys, marks, what):
    assert calibrate(made, save(tmp_path / "marks.jsonl", marks), tmp_path / "verdict") == 0
    assert f"{what}: unsupported below score" in capsys.readouterr().out
    assert f"marked {what}" in load_verdict_model(tmp_path / "verdict").measured_on


def test_an_audit_by_another_verdict_is_refused(marks, tmp_path, capsys):
    other = ferry_audit(tmp_path, ANSWERS, models={"verdict_model": "0123456789abcdef"})
    assert calibrate(other, marks, tmp_path / "verdict") == 2
    assert "was judged by the verdict 0123456789abcdef" in capsys.readouterr().err


def test_a_model_without_thresholds_gets_some_of_evidence_mass(marks, tmp_path):
    made = ferry_audit(tmp_path, ANSWERS, support=Support.NOT_CALIBRATED)
    assert calibrate(made, marks, tmp_path / "mass", "--verdict", "mass") == 0
    found = json.loads((tmp_path / "mass" / "mass_thresholds.json").read_text(encoding="utf-8"))
    assert 0 < found["weak_threshold"] <= found["supported_threshold"] <= 1
    options = with_calibrated_mass(MethodOptions(verdict=str(tmp_path / "mass")), model="tiny")
    assert options.judges_by_mass
    assert {name: getattr(options, name) for name in ("supported_threshold", "weak_threshold")}.items() <= found.items()


@pytest.mark.parametrize(
    ("options", "model", "complaint"),
    [
        ({}, "other", "for --model tiny, not for other"),
        ({"method": "attn-union"}, "tiny", "for --method attn-union-dep, not for attn-union"),
        ({"weak_threshold": 0.1}, "tiny", "leave out --supported-threshold"),
    ],
)
def test_thresholds_of_mass_are_not_taken_for_anything_else(marks, tmp_path, options, model, complaint):
    made = ferry_audit(tmp_path, ANSWERS, support=Support.NOT_CALIBRATED)
    assert calibrate(made, marks, tmp_path / "mass", "--verdict", "mass") == 0
    with pytest.raises(UsageError, match=complaint):
        with_calibrated_mass(MethodOptions(verdict=str(tmp_path / "mass"), **options), model=model)


@pytest.mark.parametrize("kind", ["verdict", "empty", "file", "link"])
def test_output_that_is_there_stays_as_it_is(kind, made, marks, tmp_path, capsys):
    output = tmp_path / "verdict"
    if kind == "verdict":
        assert calibrate(made, marks, output) == 0
    elif kind == "empty":
        output.mkdir()
    elif kind == "file":
        output.write_text("mine", encoding="utf-8")
    else:
        output.symlink_to(tmp_path / "nowhere")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert calibrate(made, marks, output, "--seed", "1") == 2
    assert f"--output should be a new directory, but {output} is there already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


TOWNS = ("Aln", "Brigg", "Carrow", "Denholm", "Eskdale", "Farne", "Garth", "Holm", "Ister", "Jarrow", "Kelby", "Luss")
MILL_ANSWERS = (
    "The mill in {town} grinds oats for the bakers of the harbour.",
    "Oats are ground in {town}, and the bakers of the harbour buy them.",
    "The mill in {town} grinds oats, and its owner also keeps a small museum of clocks.",
    "The mill in {town} burns coal that trains bring from the northern pits.",
)
COLUMNS = (
    "record_id", "source_file", "source_row", "span_index", "char_start", "char_end", "text", "support", "risk", "mark",
    "label", "note", "reviewer", "marked_at", "audit",
)  # fmt: skip
"""What the page writes of each mark."""


def mill_log(path):
    """Four answers about each of twelve towns: two that the passages support, and two with something of their own."""
    rows = []
    for number, (town, answer) in enumerate(product(TOWNS, MILL_ANSWERS)):
        mill = f"The mill in {town} grinds oats. The bakers of the harbour buy them every morning."
        passages = [mill, f"A bridge leads to the mill in {town}. It is closed when the river is high."]
        asked = {"record_id": f"mill-{number}", "question": f"What does the mill in {town} do?"}
        rows.append({**asked, "passages": passages, "answer": answer.format(town=town)})
    pq.write_table(pa.Table.from_pylist(rows), path)


def claims(audit):
    rows = ds.dataset(audit / "evidence").to_table().to_pylist()
    return [row for row in rows if row["claim_index"] == row["span_index"] and row["support_score"]]


def risks(audit):
    return {str(row["record_id"]): row["answer_risk"] for row in claims(audit)}


def page_marks(found, lacking):
    """A reviewer's marks on every answer and its claims: the first claim of the answers ``lacking`` lacks support."""
    seen = set[object]()
    for row in found:
        is_first = row["record_id"] not in seen
        label = "unsupported" if is_first and row["record_id"] in lacking else "supported"
        said = {"label": label, "reviewer": "Ada", "marked_at": "2026-11-20T08:00:00.000Z", "audit": "0" * 16}
        where = {name: row[name] for name in ("record_id", "source_file", "source_row")}
        if is_first:
            yield {**where, **said}
        seen.add(row["record_id"])
        yield {**where, **{name: row[name] for name in ("span_index", "char_start", "char_end", "text")}, **said}


def save_csv(path, marks):
    """As the page does: with a byte order mark and CR LF."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(marks)


def test_the_second_audit_judges_by_the_thresholds_that_were_fitted_to_marks_on_the_first(tmp_path):
    log, marks, verdict = tmp_path / "log.parquet", tmp_path / "marks.csv", tmp_path / "verdicts" / "ours"
    first, second = tmp_path / "audits" / "first", tmp_path / "audits" / "second"
    mill_log(log)
    audit = ["audit", "--input", str(log), "--quiet", "--workers", "1", "--output"]
    assert main([*audit, str(first)]) == 0
    riskiest = sorted(risks(first), key=lambda one: -risks(first)[one])[:24]
    save_csv(marks, page_marks(claims(first), frozenset(riskiest)))
    assert main(["calibrate", "--audit", str(first), "--marks", str(marks), "--output", str(verdict)]) == 0
    assert main([*audit, str(second), "--verdict", str(verdict)]) == 0
    limits, old = (load_verdict_model(one).thresholds for one in (verdict, BUNDLED_VERDICT))
    assert limits.balanced != old.balanced
    assert risks(second) == risks(first)
    flagged = {row["record_id"] for row in claims(second) if row["support"] == "unsupported"}
    assert 0 < len(flagged) < len(risks(second))
    for row in claims(second):
        risk, score = row["answer_risk"], row["support_score"]
        expected = "supported" if score >= limits.supported else "weak"
        assert row["support"] == ("unsupported" if score < limits.balanced else expected)
        assert score >= 1 - risk - 1e-6


VERIFIED_ANSWERS = 120
VERIFIER = {"verifier": "org/own", "verifier_revision": "abc"}


def calibrate_verified(folder, *more, answers=VERIFIED_ANSWERS, **models):
    audit = ferry_audit(folder / "audit", VERIFIED_ANSWERS, models={**VERIFIER, **models})
    marks = save(folder / "marks.jsonl", claim_marks(range(answers)))
    arguments = ["--audit", str(audit.root), "--marks", str(marks), "--output", str(folder / "own")]
    return main(["calibrate", *arguments, *more])


def test_thresholds_of_a_verifier_stand_between_the_marks(tmp_path, capsys):
    assert calibrate_verified(tmp_path) == 0
    found = calibrated_verifier(str(tmp_path / "own"))
    assert (found.verifier, found.identity, found.bundled) == ("org/own", {"verifier_revision": "abc"}, "")
    assert found.claims == found.answers == Blend()
    assert 0.35 < found.answer_risk < 0.55
    assert 0.45 < found.unsupported < 0.65
    assert found.unsupported <= found.supported
    text = capsys.readouterr().out
    assert "answers: risk from" in text
    assert f"attribeam audit --verdict {tmp_path / 'own'}\n" in text


def test_blend_counts_both_scores_and_names_the_bundled_verdict(tmp_path):
    bundled = ferry_audit(tmp_path / "bundled", VERIFIED_ANSWERS)
    assert calibrate_verified(tmp_path, "--blend", str(bundled.root)) == 0
    found = calibrated_verifier(str(tmp_path / "own"))
    assert found.bundled == load_verdict_model(BUNDLED_VERDICT).digest[:16]
    for blend in (found.claims, found.answers):  # both audits have the same scores here, so both count alike
        assert blend.verifier == pytest.approx(blend.bundled, abs=1e-5)
        assert blend.verifier > 0.3
    assert found.unsupported <= found.supported


@pytest.mark.parametrize(
    ("models", "answers", "complaint"),
    [
        ({"verdict_calibration": "0"}, 120, "by a calibrated verifier; audit again with --verdict org/own"),
        ({"verdict_band": "(0.1, 0.6)"}, 120, "was judged by a verifier in a band"),
        ({}, 30, "5 more to go"),
    ],
)
def test_audit_that_tells_too_little_of_the_verifier_is_refused(models, answers, complaint, tmp_path, capsys):
    assert calibrate_verified(tmp_path, answers=answers, **models) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("count", "verdict", "complaint"),
    [
        (VERIFIED_ANSWERS - 1, "bundled", "--blend should have the same marked answers and claims as --audit"),
        (VERIFIED_ANSWERS, "smollm2-135m", "should be an audit by the bundled verdict, was judged by smollm2-135m"),
    ],
)
def test_audit_that_cannot_be_blended_in_is_refused(count, verdict, complaint, tmp_path, capsys):
    other = judged_by(ferry_audit(tmp_path / "other", count), verdict)
    assert calibrate_verified(tmp_path, "--blend", str(other.root)) == 2
    assert complaint in capsys.readouterr().err


def drawn(seed, count=60):
    """Items whose suspicion tells something, with ties."""
    chance = np.random.default_rng(seed)
    lacking = chance.random(count) < 0.4
    suspicion = np.round(np.clip(chance.normal(0.4 + 0.2 * lacking, 0.15), 0, 1), 2)
    return MarkedItems(suspicion, lacking, np.arange(count) // 2)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_f1_of_all_thresholds_is_found(seed):
    items = drawn(seed)
    found = choose_threshold(items.suspicion, items.lacking, None)
    every = [call_figures(items.suspicion >= one, items.lacking).f1 for one in np.unique(items.suspicion)]
    assert call_figures(items.suspicion >= found, items.lacking).f1 == max(every)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.25])
def test_the_lowest_threshold_within_the_rate_is_found(seed, rate):
    items = drawn(seed)
    found = choose_threshold(items.suspicion, items.lacking, rate)
    figures = call_figures(items.suspicion >= found, items.lacking)
    assert figures.false_alarms <= rate
    lower = [one for one in np.unique(items.suspicion) if one < found]
    assert all(call_figures(items.suspicion >= one, items.lacking).false_alarms > rate for one in lower)


def test_figures_are_of_answers_that_a_threshold_was_not_fitted_on():
    items = drawn(3)
    noise = MarkedItems(items.suspicion, np.random.default_rng(0).permutation(items.lacking), items.answers)
    fitted = fit_threshold(noise, None, seed=0)
    inside = call_figures(noise.suspicion >= fitted.threshold, noise.lacking)
    assert fitted.figures.f1 < inside.f1
    assert fitted.f1_interval.low <= fitted.figures.f1 <= fitted.f1_interval.high
    assert fitted.threshold_interval.low <= fitted.threshold_interval.high
