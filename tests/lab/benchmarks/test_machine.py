import os
import sys
from pathlib import Path

import pytest

from lab.benchmarks import machine
from lab.benchmarks.machine import machine_description, markdown_table, run_measured, tree_bytes

MIB = 2**20


def test_memory_of_a_child_of_the_command_counts():
    child = f"import time; block = b'x' * {200 * MIB}; time.sleep(2)"
    parent = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {child!r}]))"
    run = run_measured([sys.executable, "-c", parent])
    assert run.exit_code == 0
    assert 200 * MIB < run.peak_bytes < 400 * MIB
    assert run.wall_seconds >= 2


def test_failure_is_reported_with_its_error_output():
    run = run_measured([sys.executable, "-c", "import sys; sys.exit('no room')"])
    assert (run.exit_code, run.standard_error.strip()) == (1, "no room")


def test_ended_process_counts_as_zero():
    assert tree_bytes(os.getpid()) > MIB
    assert tree_bytes(2**22 - 1) == 0


def test_processor_is_named_with_its_instructions_for_products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told = tmp_path / "cpuinfo"
    told.write_text("model name\t: A Processor\nflags\t\t: fpu avx2 amx_bf16 sse\nmodel name\t: Another\n")
    monkeypatch.setattr(machine, "_INFORMATION", told)
    assert machine_description().startswith("A Processor with avx2 amx_bf16, ")


def test_padded_columns_of_a_table_line_up():
    assert markdown_table(("method", "F1"), [["words", "4.5"]]) == "| method | F1 |\n| --- | ---: |\n| words | 4.5 |"
    table = markdown_table(("rows", "MiB"), [["10", "1,024"], ["10,000", "9"]], padded=True)
    assert table.splitlines()[1:] == ["| ------ | ----: |", "| 10     | 1,024 |", "| 10,000 |     9 |"]
