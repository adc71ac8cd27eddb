"""``attribeam calibrate``: thresholds from marks, refusals, and what audits read of them."""

import json

import pytest
from tests.evaluation.marked_ferries import answer_marks, claim_marks, ferry_audit, judged_by, save

from attribeam.attribution.option_declaration import Strictness
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, load_verdict_model, verdict_directory
from attribeam.attribution.verdict.verified import with_calibrated_mass
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
    """Marks on both claims of every answer."""
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
