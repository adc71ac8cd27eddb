"""An attributor in a process that was forked from the one that loaded it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PATIENCE_SECONDS = 120

FORKING = """
import os
import signal
import sys

from attribeam import Attributor

def evidence(attributor):
    passages = ["The ferry to Aln leaves the east pier at noon. " * 40] * 12
    return attributor.attribute(question="When?", passages=passages, answer="It leaves at noon, with 40 cars.")

attributor = Attributor.from_pretrained("bundled", threads=2)
found = evidence(attributor)
if (child := os.fork()) == 0:
    signal.alarm(60)
    expected = [one.top_passage_index for one in found]
    inherited_and_own = (attributor, Attributor.from_pretrained("bundled"))
    same = all([one.top_passage_index for one in evidence(used)] == expected for used in inherited_and_own)
    try:
        Attributor.from_pretrained("bundled", threads=2)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    os._exit(0 if same else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_forked_process_ends_its_work_and_refuses_more_threads() -> None:
    command = [sys.executable, "-c", FORKING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert "UsageError threads should be 1 in a process that was forked" in done.stdout
    assert "start processes with spawn" in done.stdout
