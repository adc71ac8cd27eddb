"""The figures of an audit, as JSON and as Prometheus reads them, and quality gates on them."""

import argparse
import json
from dataclasses import replace
from datetime import UTC, datetime
from math import sqrt

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.pipeline.audit_fixtures import tiny_audit
from tests.pipeline.audit_process import log_rows, read_all, read_manifest
from tests.pipeline.made_metrics import made_manifest, made_metrics, metrics_of_nothing
from tests.report.made_audit import made_audit, no_claim, supported_span, told_spans, unsupported_span

from attribeam.pipeline.command_line import main
from attribeam.pipeline.metrics import (
    METRICS,
    AnswerTally,
    EvidenceTotals,
    FinishedRun,
    QualityGate,
    RiskTotals,
    RunMetrics,
    Unit,
    failed_gate_lines,
    judge_gates,
    metrics_json,
    prometheus_text,
    quality_gate,
    sum_evidence,
)
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import ClaimKind, Support
from attribeam.schemas.evidence_record import claim_rows
from attribeam.schemas.run_manifest import AuditCounts, CutPassages, RunStatus


def samples(text):
    """What Prometheus' own parser reads: values by name and sorted labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _metrics_of(made):
    audit = AuditDirectory.open(made.root)
    return RunMetrics(audit.manifest, sum_evidence(audit))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", 40), ("dead_letters", 3), ("dead_letters.empty_answer", 2), ("dead_letters.out_of_memory", 0),
        ("dead_letter_share", 3 / 40), ("spans", 154), ("claims", 100), ("unsupported_claims_share", 0.1),
        ("no_claim_spans", 4), ("not_judged_share", 0.2), ("refusals", 6), ("partial_refusals", 2),
        ("mean_answer_risk", 0.25), ("answers_at_risk", 0.15), ("unsupported_spans", 10), ("unsupported_share", 0.1),
        ("unsupported_share.facts", 0.125), ("supported_share.mentions", 0.75), ("weak_share.words", None),
        ("unmatched_share", 0.08), ("evidence_mass_mean", 0.625), ("tokens", 9000), ("load_seconds", 4.0),
    ],
)  # fmt: skip
def test_a_metric_is_what_its_name_says(name, value):
    assert made_metrics().value(name) == value


def test_metrics_of_nothing_have_no_shares_and_divide_by_nothing():
    values = metrics_of_nothing().values()
    assert {name for name, value in values.items() if value is None} == {
        *(name for name, metric in METRICS.items() if metric.unit == Unit.RATIO),
        "rows_per_second",
    }


def test_the_json_file_has_every_metric_and_the_judged_gates():
    metrics = made_metrics()
    fields = json.loads(metrics_json(metrics, judge_gates([quality_gate("weak_share > 0.01")], metrics)))
    assert set(fields["metrics"]) == set(METRICS)
    assert fields["metrics"]["evidence_mass_mean"] == 0.625
    assert (fields["status"], fields["ended_at"]) == ("done", "2026-11-19T02:00:20+00:00")
    gate = {"metric": "weak_share", "operator": ">", "limit": 0.01, "value": 0.05, "failed": True}
    assert fields["quality_gates"] == [gate]


def test_prometheus_reads_the_text_with_labels_and_zeros():
    metrics = made_metrics()
    read = samples(prometheus_text(metrics, judge_gates([quality_gate("rows < 1")], metrics)))
    assert read["attribeam_rows", ()] == 40
    assert read["attribeam_dead_letters", (("reason", "empty_answer"),)] == 2
    assert read["attribeam_dead_letters", (("reason", "out_of_memory"),)] == 0
    assert read["attribeam_kind_spans", (("span_kind", "facts"), ("support", "unsupported"))] == 10
    assert read["attribeam_span_ratio", (("support", "weak"),)] == 0.05
    assert read["attribeam_spans", (("support", "not_judged"),)] == 25
    assert read["attribeam_answers", (("answer_kind", "refusal"),)] == 6
    assert read["attribeam_answers", (("answer_kind", "not_judged"),)] == 0
    assert read["attribeam_run_end_timestamp_seconds", ()] == 1795053620
    assert read["attribeam_run_status", (("status", "done"),)] == 1
    assert read["attribeam_run_status", (("status", "failed"),)] == 0
    assert read["attribeam_quality_gate_failed", (("gate", "rows < 1"),)] == 0


def test_a_run_that_did_not_finish_has_its_totals_and_no_sums_of_evidence():
    counts = AuditCounts(rows=4, audited=4, spans={"weak": 9}, claims={"weak": 9}, tokens=70)
    metrics = RunMetrics(made_manifest(counts, status=RunStatus.INTERRUPTED))
    read = samples(prometheus_text(metrics, ()))
    assert read["attribeam_run_status", (("status", "interrupted"),)] == 1
    assert read["attribeam_spans", (("support", "weak"),)] == 9
    assert {name for name, _ in read}.isdisjoint({"attribeam_kind_spans", "attribeam_evidence_mass_mean_ratio"})
    assert json.loads(metrics_json(metrics))["metrics"]["evidence_mass_mean"] is None


def test_the_evidence_of_all_chunks_is_summed_up(tmp_path):
    totals = sum_evidence(AuditDirectory.open(made_audit(tmp_path).root))
    spans = {("facts", "supported"): 3, ("mentions", "unsupported"): 3}
    mass, others = 3 * (0.625 + 0.0625), {"answers": totals.answers, "groups": totals.groups}
    assert totals == EvidenceTotals(spans, 6, mass, unmatched_spans=3, isolated_spans=0, **others)


def test_the_time_of_an_audit_is_the_hour_of_its_middle_answer(tmp_path):
    moments = [datetime(2026, 8, 3, 14, 59, tzinfo=UTC), None, datetime(2099, 1, 1, tzinfo=UTC)]
    change = lambda record: replace(record, answered_at=moments[record.source.source_row])  # noqa: E731
    metrics = _metrics_of(made_audit(tmp_path, change=change))
    assert json.loads(metrics_json(metrics))["answered_at"] == "2026-08-03T14:00:00+00:00"


def test_a_claim_counts_once_and_what_is_no_claim_does_not(tmp_path):
    inside = replace(unsupported_span(), span_index=2, claim_index=1)
    spans = {0: (supported_span(), unsupported_span(), inside, no_claim(ClaimKind.HEADING, 3))}
    totals = sum_evidence(AuditDirectory.open(made_audit(tmp_path, record_ids=["ferry"], spans=spans).root))
    assert (totals.claims, totals.unmatched_spans, totals.evidence_mass) == (2, 1, 0.6875)
    assert totals.spans["mentions", "unsupported"] == 2


def test_citations_and_those_that_agree_are_counted_over_claims(tmp_path):
    right = replace(supported_span(), cited_passages=(0,), citation_agrees=True)
    wrong = replace(unsupported_span(), cited_passages=(1,), citation_agrees=False)
    inside = replace(wrong, span_index=2, claim_index=1)
    spans = {0: (right, wrong, inside), 1: (supported_span(), unsupported_span())}
    run = _metrics_of(made_audit(tmp_path, record_ids=["ferry", "pier"], spans=spans))
    assert [run.value(name) for name in ("cited_claims", "cited_share", "citation_agreement")] == [2, 0.5, 0.5]


def test_reasons_and_hows_are_counted_over_claims(tmp_path):
    quoted, other = told_spans()
    inside = replace(other, span_index=2, claim_index=1)
    spans = {0: (quoted, other, inside), 1: (quoted, other), 2: (supported_span(), unsupported_span())}
    run = _metrics_of(made_audit(tmp_path, spans=spans))
    told = {
        name: value for name, value in run.values().items() if name.startswith(("uns", "sup")) and "_spans." in name
    }
    own = {"unsupported_spans.other_value": 2, "supported_spans.quoted": 2}
    assert told == dict.fromkeys(told, 0) | own
    read = samples(prometheus_text(run, ()))
    assert read["attribeam_unsupported_claims", (("reason", "other_value"),)] == 2
    assert read["attribeam_unsupported_claims", (("reason", "reversed"),)] == 0
    assert read["attribeam_supported_claims", (("how", "quoted"),)] == 2
    assert RunMetrics(run.manifest).value("unsupported_spans.other_value") is None


@pytest.mark.parametrize(("models", "at_risk"), [({}, 1), ({"answer_risk_threshold": "0.25"}, 2)])
def test_answers_are_at_risk_from_the_threshold_of_the_verdict_on(tmp_path, models, at_risk):
    risks = {0: 0.75, 1: 0.25, 2: None}
    spans = {
        row: tuple(replace(span, answer_risk=risk) for span in (supported_span(), unsupported_span()))
        for row, risk in risks.items()
    }
    totals = sum_evidence(AuditDirectory.open(made_audit(tmp_path, spans=spans, models=models).root))
    assert totals.risks == RiskTotals(answers=2, risk=1.0, at_risk=at_risk, squared_risk=0.625)
    assert totals.risks.mean_error == pytest.approx(0.25)


def _many_spans(row):
    """As many claims as the row's number says, some of them unsupported, and a heading that is none."""
    claims = [(supported_span(), unsupported_span())[(row + number) % 3 == 0] for number in range(row)]
    placed = (replace(one, span_index=place, claim_index=place) for place, one in enumerate(claims, start=1))
    return (no_claim(ClaimKind.HEADING), *placed)


def _naive_error(counts):
    """Of the share of the second numbers among the first ones, by the formula of a ratio estimator."""
    whole, part = (sum(one[place] for one in counts) for place in (0, 1))
    spread = sum((mine - part / whole * claims) ** 2 for claims, mine in counts)
    return sqrt(len(counts) / (len(counts) - 1) * spread) / whole


def test_the_standard_error_of_a_share_counts_answers_and_not_claims(tmp_path):
    spans = {row: _many_spans(row) for row in range(7)}
    made = made_audit(tmp_path, record_ids=[f"ferry-{row}" for row in range(7)], spans=spans, rows_per_chunk=3)
    metrics = _metrics_of(made)
    supports = [[one.support for one in spans[row][1:]] for row in range(1, 7)]
    for support in (Support.SUPPORTED, Support.UNSUPPORTED):
        counts = [(len(one), one.count(support)) for one in supports]
        assert metrics.standard_errors()[f"{support}_share"] == pytest.approx(_naive_error(counts))
    claims = sum(len(one) for one in supports)
    share = sum(one.count(Support.UNSUPPORTED) for one in supports) / claims
    assert metrics.standard_errors()["unsupported_share"] != pytest.approx(sqrt(share * (1 - share) / claims))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_an_answer_may_begin_in_one_batch_and_end_in_another(tmp_path, size):
    spans = {row: _many_spans(row) for row in range(5)}
    made = made_audit(tmp_path, record_ids=[f"ferry-{row}" for row in range(5)], spans=spans, rows_per_chunk=9)
    (batch,) = AuditDirectory.open(made.root).evidence_batches()
    whole, cut = AnswerTally(), AnswerTally()
    whole.add(batch)
    for start in range(0, batch.num_rows, size):
        cut.add(batch.slice(start, size))
    cut.add(batch.slice(0, 0))
    sums = []
    for tally in (whole, cut):
        tally.finish()
        sums.append((tally.answers, tally.claims.tolist(), tally.products.tolist()))
    assert sums[0] == sums[1]
    assert whole.answers == 4


def test_errors_of_a_few_answers_are_unknown_and_of_shares_of_rows_binomial():
    errors = made_metrics().standard_errors()
    assert "unsupported_share" not in errors
    assert errors["dead_letter_share"] == pytest.approx(sqrt(3 / 40 * 37 / 40 / 40))
    assert errors["answers_at_risk"] == pytest.approx(sqrt(0.15 * 0.85 / 20))
    assert metrics_of_nothing().standard_errors() == {}


def test_the_json_file_has_errors_claims_by_generator_and_carried_columns_and_cut_passages(tmp_path):
    metrics = _metrics_of(made_audit(tmp_path))
    fields = json.loads(metrics_json(metrics))
    counts = {"supported": 3, "weak": 0, "unsupported": 3}
    assert fields["groups"] == {"generator": [{"value": "gull-1", **counts}], "team": [{"value": "harbour", **counts}]}
    assert fields["standard_errors"]["unsupported_share"] == 0.0
    assert fields["cut_passages"] is None
    cut = replace(metrics.manifest, cut_passages=CutPassages(9, 12, "words", 40))
    without = json.loads(metrics_json(RunMetrics(cut)))
    assert without["cut_passages"] == {"passages": 9, "sampled": 12, "unit": "words", "length": 40}
    assert (without["groups"], "unsupported_share" in without["standard_errors"]) == ({}, False)


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("unsupported_share > 0.05", ("unsupported_share", ">", 0.05)), ("  rows<1 ", ("rows", "<", 1)),
        ("dead_letters.out_of_memory >= 1", ("dead_letters.out_of_memory", ">=", 1)),
        ("supported_share.facts <= .9", ("supported_share.facts", "<=", 0.9)),
    ],
)  # fmt: skip
def test_a_gate_is_a_name_an_operator_and_a_number(text, gate):
    assert quality_gate(text) == QualityGate(*gate)


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


def test_a_share_of_nothing_fails_its_gate_and_says_so_and_so_does_an_unknown_count_of_tokens():
    (verdict,) = judge_gates([quality_gate("unsupported_share > 0.05")], metrics_of_nothing())
    assert verdict.failed
    assert "has no value" in next(failed_gate_lines([verdict]))
    unknown = RunMetrics(made_manifest(AuditCounts(rows=1, audited=1, spans={"weak": 1}, tokens=None)))
    assert judge_gates([quality_gate("tokens > 5")], unknown)[0].failed


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
