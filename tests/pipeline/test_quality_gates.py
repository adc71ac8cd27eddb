"""Quality gates: their forms, their exit code, and what an audit says of those that failed."""

import argparse
import json

import pytest
from tests.pipeline.audit_fixtures import tiny_audit
from tests.pipeline.audit_process import log_rows, read_all, read_manifest, write_log
from tests.pipeline.made_metrics import made_manifest, made_metrics, metrics_of_nothing
from tests.pipeline.test_metrics import samples

from attribeam.pipeline.command_line import main
from attribeam.pipeline.metrics import FinishedRun, QualityGate, failed_gate_lines, judge_gates, quality_gate
from attribeam.schemas.evidence_record import claim_rows
from attribeam.schemas.run_manifest import AuditCounts


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("unsupported_share > 0.05", QualityGate("unsupported_share", ">", 0.05)),
        ("  rows<1 ", QualityGate("rows", "<", 1)),
        ("dead_letters.out_of_memory >= 1", QualityGate("dead_letters.out_of_memory", ">=", 1)),
        ("supported_share.facts <= .9", QualityGate("supported_share.facts", "<=", 0.9)),
    ],
)
def test_a_gate_is_a_name_an_operator_and_a_number(text, gate):
    assert quality_gate(text) == gate


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("unsupported > 0.05", "unsupported_share"), ("pressure > 0.05", "unknown metric 'pressure'"),
        ("seconds > 60", "cannot be a quality gate"), ("rows == 5", "as operator, was: '=='"),
        ("unsupported_share > nan", "finite"), ("rows > 1e999", "finite"),
        ("unsupported_share > 5", "share from 0 to 1"), ("unsupported_share", "NAME OP NUMBER"),
        ("rows > 5 and spans > 5", "NAME OP NUMBER"), ("", "NAME OP NUMBER"),
    ],
)  # fmt: skip
def test_what_is_no_gate_is_refused_and_told_why(text, complaint):
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        quality_gate(text)
    assert complaint in str(refused.value)


def test_a_gate_on_spans_that_are_not_chosen_is_refused(tmp_path, capsys):
    given_options = ["--input", "x", "--output", str(tmp_path / "out"), "--spans", "facts"]
    assert main(["audit", *given_options, "--fail-if", "unsupported_share.words > 0.2"]) == 2
    assert "no spans of the kind 'words'" in capsys.readouterr().err


def test_every_failed_gate_is_named_with_value_and_limit_and_no_other():
    gates = [
        quality_gate(text)
        for text in ("unsupported_share > 0.05", "unsupported_share > 0.1", "audited_rows < 100", "rows < 1")
    ]
    verdicts = judge_gates(gates, made_metrics())
    assert [verdict.failed for verdict in verdicts] == [True, False, True, False]
    assert list(failed_gate_lines(verdicts)) == [
        "quality gate failed: unsupported_share > 0.05: unsupported_share is 0.1, the limit is 0.05",
        "quality gate failed: audited_rows < 100: audited_rows is 37, the limit is 100",
    ]


def test_a_share_of_nothing_fails_its_gate_and_says_so():
    (verdict,) = judge_gates([quality_gate("unsupported_share > 0.05")], metrics_of_nothing())
    assert verdict.failed
    assert "has no value" in next(failed_gate_lines([verdict]))


@pytest.mark.parametrize(("text", "code"), [("rows < 1", 0), ("rows < 100", 3)])
def test_a_failed_gate_has_an_exit_code_of_its_own(text, code, capsys):
    metrics = made_metrics()
    assert FinishedRun(metrics, judge_gates([quality_gate(text)], metrics)).report(()) == code
    assert ("attribeam audit: quality gate failed" in capsys.readouterr().err) == (code == 3)


ROWS = 6
GATES = ("--fail-if", "dead_letter_share > 0.1", "--fail-if", "rows < 1", "--fail-if", "spans < 1000000")


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """Small models, and a log whose second row has no answer."""
    rows = log_rows(ROWS)
    rows[1]["answer"] = None
    return tiny_audit(tmp_path_factory.mktemp("gates"), rows)


def test_gates_are_judged_on_a_new_audit_and_again_on_the_finished_one(audit, tmp_path, capfd):
    output = tmp_path / "out"
    for done_before, more in ((0, ("--no-report",)), (ROWS, ())):
        assert audit.run_here(output, "--workers", "1", *GATES, *more) == 3
        assert (output / "report.html").exists() == (not more)
        captured = capfd.readouterr()
        failed = [line for line in captured.err.splitlines() if "quality gate" in line]
        assert len(failed) == 2
        assert failed[0].endswith("dead_letter_share is 0.1666666667, the limit is 0.1")
        assert "spans < 1000000" in failed[1]
        assert ("were finished by an earlier run" in captured.out) == (done_before > 0)
        assert "metrics.prom" in captured.out
        _check_metrics(output)
    assert read_manifest(output).status == "done"


def _check_metrics(output):
    """Both files tell what the evidence holds."""
    fields = json.loads((output / "metrics.json").read_text())
    evidence = read_all(output / "evidence")
    assert fields["status"] == "done"
    assert fields["metrics"]["spans"] == evidence.num_rows
    assert fields["metrics"]["dead_letters.empty_answer"] == 1
    (batch,) = evidence.combine_chunks().to_batches()
    masses = claim_rows(batch)["evidence_mass"].to_pylist()
    assert fields["metrics"]["evidence_mass_mean"] == pytest.approx(sum(masses) / len(masses))
    assert [gate["failed"] for gate in fields["quality_gates"]] == [True, False, True]
    read = samples((output / "metrics.prom").read_text())
    assert read["attribeam_quality_gate_failed", (("gate", "dead_letter_share > 0.1"),)] == 1
    assert read["attribeam_dead_letters", (("reason", "empty_answer"),)] == 1


@pytest.mark.parametrize("text", ["unsupported_shore > 0.05", "rows != 3", "weak_share < nan"])
def test_a_bad_gate_ends_with_exit_code_2_before_anything_starts(text, tmp_path, capsys):
    log = write_log(tmp_path / "log.parquet", log_rows(1))
    with pytest.raises(SystemExit) as ended:
        main(["audit", "--input", str(log), "--output", str(tmp_path / "out"), "--fail-if", text])
    assert ended.value.code == 2
    assert "--fail-if" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unknown_count_of_tokens_fails_its_gate():
    metrics = made_metrics()
    unknown = type(metrics)(made_manifest(AuditCounts(rows=1, audited=1, spans={"weak": 1}, tokens=None)))
    assert judge_gates([quality_gate("tokens > 5")], unknown)[0].failed
