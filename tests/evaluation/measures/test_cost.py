"""Costs: what is measured and where it is reported, but never how large it is."""

import json
from pathlib import Path

import pytest
from tests.evaluation.dataset_rows import quotesum_row, write_rows
from tests.evaluation.evaluate_command import evaluate
from tests.evaluation.methods.test_methods import labelled_span

from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import MethodSettings
from attribeam.evaluation.comparison import run_with_costs, score_methods
from attribeam.evaluation.measures import cost
from attribeam.evaluation.measures.cost import Cost, CostMeter, resident_peak
from attribeam.evaluation.methods.words import SpanWords


def test_time_per_span_of_a_worked_example():
    assert Cost(seconds=0.6).ms_per_span(4) == 150.0


def test_peak_of_linux_status():
    assert resident_peak("Name:\tpython\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n") == 2 * 2**20
    assert Cost(peak_bytes=2 * 2**20).peak_mib == 2.0
    assert resident_peak("Name:\tpython\n") is None


def test_meter_adds_time_and_keeps_the_largest_peak(monkeypatch, tmp_path):
    clock = iter([1.0, 1.5, 2.0, 2.25])
    monkeypatch.setattr(cost.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(cost, "_RESET_PEAK", tmp_path / "clear")
    status = tmp_path / "status"
    monkeypatch.setattr(cost, "_STATUS", status)
    measured, meter = Cost(), CostMeter(LoadedModels())
    for kilobytes in (3, 2):
        status.write_text(f"VmHWM: {kilobytes} kB")
        with meter.measuring(measured):
            pass
    assert (measured.seconds, measured.peak_bytes) == (0.75, 3 * 1024)
    assert (tmp_path / "clear").read_text() == "5"


def test_peak_that_cannot_be_reset_is_not_given(monkeypatch):
    monkeypatch.setattr(cost, "_RESET_PEAK", Path("/nowhere/at/all"))
    measured = Cost()
    with CostMeter(LoadedModels()).measuring(measured):
        pass
    assert measured.peak_bytes is None
    assert measured.peak_mib is None


def test_method_that_fails_is_still_measured():
    measured = Cost()
    with pytest.raises(RuntimeError, match="fails"), CostMeter(LoadedModels()).measuring(measured):
        raise RuntimeError("fails")
    assert measured.seconds > 0


def test_figures_are_the_same_with_costs_and_methods_share_nothing(monkeypatch):
    contexts = []
    monkeypatch.setattr(SpanWords, "span_results", _remembering(contexts, SpanWords.span_results))
    answers = [labelled_span("Jon", "ring")]
    (first, second) = score_methods(
        run_with_costs(answers, [SpanWords(MethodSettings()), SpanWords(MethodSettings())], LoadedModels()),
        draws=10,
        seed=0,
    )
    assert first.passage_accuracy == second.passage_accuracy == 50.0
    assert first.ms_per_span > 0
    assert len({id(context) for context in contexts}) == 2


def _remembering(contexts, real):
    def span_results(self, context):
        contexts.append(context)
        return real(self, context)

    return span_results


def evaluated(tmp_path, *options) -> dict[str, object]:
    data = write_rows(tmp_path / "dev.jsonl", [quotesum_row("The lamp is kept by [ 1 Ada Thorne ] .")])
    output = tmp_path / "figures.json"
    command = ("--dataset", "quotesum", "--data", data, "--method", "words", "--output", output, *options)
    assert evaluate(*command) == 0
    (entry,) = json.loads(output.read_text())
    return entry


def test_command_prints_and_writes_costs_on_request(tmp_path, capsys):
    entry = evaluated(tmp_path, "--cost")
    assert entry["ms_per_span"] > 0
    assert {"ms_per_span", "peak_memory_mib"} <= set(entry)
    assert "ms per span" in capsys.readouterr().out


def test_command_leaves_costs_out_so_that_equal_runs_stay_equal(tmp_path, capsys):
    entry = evaluated(tmp_path)
    assert (entry["ms_per_span"], entry["peak_memory_mib"]) == (None, None)
    assert "ms per span" not in capsys.readouterr().out
