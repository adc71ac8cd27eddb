"""The figures of an audit, as JSON and as Prometheus reads them."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from math import sqrt

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.pipeline.made_metrics import made_manifest, made_metrics, metrics_of_nothing
from tests.report.made_audit import made_audit, no_claim, supported_span, told_spans, unsupported_span

from attribeam.pipeline.metrics import (
    METRICS,
    AnswerTally,
    EvidenceTotals,
    RiskTotals,
    RunMetrics,
    Unit,
    judge_gates,
    metrics_json,
    prometheus_text,
    quality_gate,
    sum_evidence,
)
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import ClaimKind, Support
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
    assert fields["quality_gates"] == [
        {"metric": "weak_share", "operator": ">", "limit": 0.01, "value": 0.05, "failed": True}
    ]


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
    assert totals == EvidenceTotals(
        spans,
        claims=6,
        evidence_mass=3 * (0.625 + 0.0625),
        unmatched_spans=3,
        isolated_spans=0,
        answers=totals.answers,
        groups=totals.groups,
    )


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
    assert {name for name, value in told.items() if value == 0} == told.keys() - {
        "unsupported_spans.other_value",
        "supported_spans.quoted",
    }
    assert (told["unsupported_spans.other_value"], told["supported_spans.quoted"]) == (2, 2)
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
    return (
        no_claim(ClaimKind.HEADING),
        *(replace(one, span_index=place + 1, claim_index=place + 1) for place, one in enumerate(claims)),
    )


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
