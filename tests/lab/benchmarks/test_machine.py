import os
import sys

from attribeam.lab.benchmarks.machine import run_measured, tree_bytes

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
