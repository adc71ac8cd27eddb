"""``attribeam models suggest``: what fits by the measured figures, and what would make the rest fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.lab.model_choice.test_measured_models import MODEL

from attribeam.lab.model_choice.measured_models import MEASURED_FILE, Measurements, OtherStages, RowFigure
from attribeam.lab.model_choice.suggest_report import suggestion_lines
from attribeam.lab.model_choice.suggestion import (
    PARALLEL_COST,
    SIZE_CLASSES,
    Fit,
    Job,
    Machine,
    fits,
    workers_needed,
)
from attribeam.pipeline.command_line import main

GB = 10**9
ONE_SECOND = replace(MODEL, figures=(RowFigure(600, 8, 0.9), RowFigure(1200, 4, 1.8)))
BESIDES = OtherStages("A processor", "python -m x", (RowFigure(600, 8, 0.1), RowFigure(1200, 4, 0.2)))
"""Together a row of 600 tokens takes a second of a core; a worker takes 2 GB."""
ON_GPU = replace(ONE_SECOND, device="cuda", peak_bytes=3 * GB, figures=(RowFigure(600, 8, 0.01),))


def fit(machine: Machine, job: Job, *, model: object = ONE_SECOND) -> Fit:
    assert isinstance(model, type(MODEL))
    (found,) = fits(Measurements(BESIDES, (model,)), machine, job)
    return found


def test_one_worker_takes_as_long_as_its_rows() -> None:
    found = fit(Machine(8 * GB, cores=1), Job(3600, hours=1, row_tokens=600))
    assert (found.workers, found.hours, found.fits, found.rows_per_second) == (1, pytest.approx(1), True, 1)


def test_workers_are_those_that_cores_and_memory_hold_and_slow_each_other() -> None:
    job = Job(36_000, hours=10, row_tokens=600)
    assert fit(Machine(100 * GB, cores=4), job).hours == pytest.approx(10 * PARALLEL_COST / 4)
    held_back = fit(Machine(5 * GB, cores=4), job)
    assert held_back.workers == 2
    assert held_back.hours == pytest.approx(10 * PARALLEL_COST / 2)


def test_longer_rows_take_longer() -> None:
    assert fit(Machine(8 * GB, 1), Job(3600, 9, row_tokens=1200)).hours == pytest.approx(2)
    assert fit(Machine(8 * GB, 1), Job(3600, 9, row_tokens=300)).hours == pytest.approx(0.5)


def test_what_takes_too_long_says_how_many_cores_hours_or_rows_would_do() -> None:
    found = fit(Machine(3 * GB, cores=4), Job(36_000, hours=2, row_tokens=600))
    assert not found.fits
    assert found.problem == "takes 10.0 h, since memory holds 1 of 4 workers"
    assert found.ways_out == ("6 cores and 12.00 GB of memory", "a deadline of 10.0 h", "7,200 rows")


@pytest.mark.parametrize("cores", [2, 5, 6, 7, 40])
def test_named_number_of_cores_meets_the_deadline_and_one_less_does_not(cores: int) -> None:
    job = Job(round(3600 * cores / PARALLEL_COST), hours=1, row_tokens=600)
    needed = workers_needed(1.0, job)
    assert fit(Machine(10**12, needed), job).fits
    assert not fit(Machine(10**12, needed - 1), job).fits


def test_what_does_not_fit_into_memory_says_how_much_would_do() -> None:
    found = fit(Machine(GB, cores=4), Job(3600, hours=1, row_tokens=600))
    assert (found.workers, found.hours) == (0, None)
    assert found.problem == "a worker needs 2.00 GB, there are 1.00 GB"
    assert found.ways_out == ("1 core and 2.00 GB of memory",)


def test_model_on_a_gpu_waits_for_the_cores_where_they_are_slower() -> None:
    job = Job(3_600_000, hours=20, row_tokens=600)
    fed = fit(Machine(8 * GB, cores=64, gpu_memory=24 * GB), job, model=ON_GPU)
    assert fed.hours == pytest.approx(10)
    starved = fit(Machine(8 * GB, cores=4, gpu_memory=24 * GB), job, model=ON_GPU)
    assert starved.hours == pytest.approx(1000 * 0.1 * PARALLEL_COST / 4)
    assert starved.ways_out[0] == "more cores, since these cannot feed the GPU"


def test_model_on_a_gpu_needs_one_that_holds_it() -> None:
    job = Job(3600, hours=1, row_tokens=600)
    assert fit(Machine(8 * GB, 4), job, model=ON_GPU).problem == "needs a GPU"
    small = fit(Machine(8 * GB, 4, gpu_memory=2 * GB), job, model=ON_GPU)
    assert small.problem == "needs 3.00 GB of GPU memory, there are 2.00 GB"


def test_shapes_that_nobody_would_name_are_not_suggested() -> None:
    measured = Measurements(BESIDES, (ONE_SECOND, replace(ONE_SECOND, size="thin")))
    assert [one.model.size for one in fits(measured, Machine(GB, 1), Job(1, 1, 600))] == ["qwen2-0.5b"]


def test_measured_file_of_the_package_says_where_each_figure_is_from() -> None:
    measured = Measurements.from_file(MEASURED_FILE)
    assert measured.other_stages is not None
    assert {"bundled", "minilm", "qwen2-0.5b"} <= {one.size for one in measured.models}
    for one in measured.models:
        assert one.machine
        assert one.command.startswith("python -m attribeam.lab.benchmarks.model_sizes --device ")
        assert one.figures
        assert one.peak_bytes > 0
        assert all(figure.seconds > 0 for figure in one.figures)
    assert {one.size for one in measured.models} <= {*SIZE_CLASSES}


ASKED = ("models", "suggest", "--memory", "8GB", "--rows", "1000000", "--hours", "6")


def test_suggestion_shows_what_fits_and_what_would_make_the_rest_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--cores", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("1,000,000 rows of 600 tokens (the default; --input measures your log")
    assert "in 6 h: 46.3 rows/s" in printed
    assert "on 2 cores with 8.00 GB, no GPU" in printed
    lines = [line for line in printed.splitlines() if line.startswith("minilm") and "would fit with" in line]
    assert lines
    assert "cores and" in lines[0]
    assert "a deadline of" in lines[0]
    assert "Measured on:" in printed


@pytest.mark.parametrize(("dtype", "told"), [("float32", False), ("bfloat16", True)])
def test_half_precision_on_a_cpu_says_which_processors_are_fast_in_it(dtype: str, told: bool) -> None:
    machine, job = Machine(8 * GB, 4), Job(1000, 6, 600)
    measured = Measurements(BESIDES, (replace(ONE_SECOND, dtype=dtype),))
    said = "\n".join(suggestion_lines(fits(measured, machine, job), measured, machine, job, "asked"))
    assert ("takes a processor with AVX512-BF16 or AMX" in said) is told


def test_a_machine_stands_once_with_the_loads_that_it_measured_at() -> None:
    machine, job = Machine(8 * GB, 4), Job(1000, 6, 600)
    told = (
        "A chip, load 0.4 at the start; x 1",
        "A chip, load 1.2 at the start; x 1",
        "A chip, load 0.9 at the start; x 1",
    )
    others = ("Another chip, load 0.5 at the start; x 1", "A third chip")
    models = tuple(replace(ONE_SECOND, machine=one) for one in told + others)
    measured = Measurements(BESIDES, models)
    said = list(suggestion_lines(fits(measured, machine, job), measured, machine, job, "asked"))
    start = said.index("Measured on:") + 1
    assert said[start : start + 3] == [
        "  A chip, load 0.4 to 1.2 at the start; x 1",
        "  Another chip, load 0.5 at the start; x 1",
        "  A third chip",
    ]


def test_suggestion_for_programs_has_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--cores", "400", "--memory", "900 GiB", "--tokens-per-row", "900", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["machine"] == {"memory": 900 * 1024**3, "cores": 400, "gpu_memory": None}
    assert said["job"] == {"rows": 1_000_000, "hours": 6.0, "row_tokens": 900}
    bundled = next(one for one in said["models"] if one["size"] == "bundled")
    assert bundled["fits"] is True
    assert bundled["workers"] == 400
    assert bundled["examples"] == ["bundled"]
    assert bundled["hours"] < 6


def test_rows_of_a_log_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"record_id": str(number), "question": "Who?", "passages": [{"text": "Ada Thorne. " * words}], "answer": "Ada."}
        for number, words in enumerate((10, 10, 10, 400))
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main([*ASKED, "--input", str(log), "--log-format", "jsonl", "--format", "json"]) == 0
    mean = json.loads(capsys.readouterr().out)["job"]["row_tokens"]
    assert 300 < mean < 1200
    assert main([*ASKED, "--input", str(log), "--log-format", "jsonl"]) == 0
    assert "the mean of 4 rows; nine of ten have at most" in capsys.readouterr().out


def test_rows_beyond_the_measured_ones_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--tokens-per-row", "30000"]) == 0
    assert "Rows of 30,000 tokens are longer than those measured" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--memory", "8 parsecs"], "one of the units KB, MB, GB, TB, KiB, MiB, GiB, TiB, such as 8GB"),
        (["--memory", "8"], "should be a number above 0 with one of the units"),
        (["--memory", "0GB"], "should be a number above 0"),
        (["--gpu-memory", "0 MiB"], "should be a number above 0"),
        (["--hours", "0"], "should be a number of hours above 0"),
        (["--hours", "-2"], "should be a number of hours above 0"),
        (["--hours", "inf"], "should be a number of hours above 0"),
        (["--hours", "soon"], "should be a number of hours above 0"),
        (["--rows", "0"], "should be a whole number from 1"),
        (["--cores", "0"], "should be a whole number from 1"),
        (["--tokens-per-row", "0"], "should be a whole number from 1"),
        (["--tokens-per-row", "9", "--input", "x"], "not allowed with argument"),
    ],
)
def test_bad_options_are_usage_errors(options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*ASKED, *options])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--input", "absent/*.parquet"], "--input should name existing files, nothing matches"),
        (["--columns", "answer=response"], "--log-format and --columns say how --input is read"),
        (["--input", "other.jsonl", "--log-format", "jsonl"], "--input: "),
        (["--input", "blank.jsonl", "--log-format", "jsonl"], "should have rows that can be audited, has none"),
    ],
)
def test_logs_that_cannot_be_measured_are_usage_errors(
    options: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.jsonl").write_text('{"text": "no log"}\n', encoding="utf-8")
    blank = {"record_id": "1", "question": "Who?", "passages": [{"text": "Ada Thorne."}], "answer": " "}
    Path("blank.jsonl").write_text(json.dumps(blank) + "\n", encoding="utf-8")
    assert main([*ASKED, *options]) == 2
    assert complaint in capsys.readouterr().err


def test_action_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["models"])
    assert ended.value.code == 2
    assert "ACTION" in capsys.readouterr().err
