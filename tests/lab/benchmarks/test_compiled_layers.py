"""The benchmark of compiled layers, with the backend of torch.compile that needs no C++ compiler."""

import re

import pytest

from attribeam.lab.benchmarks.compiled_layers import main


def test_command_says_in_one_line_what_compiling_cost_and_gave(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--shape", "tiny", "--layers", "2", "--rounds", "1", "--backend", "eager"])

    _, line = capsys.readouterr().out.splitlines()
    assert line.startswith("tiny, 2 layers, 8 lengths: first call ")
    found = re.findall(r"call ([\d.]+) s|length ([\d.]+) s|; ([\d.]+) times|difference (\S+)", line)
    first, following, gain, difference = (float("".join(groups)) for groups in found)
    assert first > 0
    assert following >= 0
    assert gain > 0
    assert difference < 1e-5
