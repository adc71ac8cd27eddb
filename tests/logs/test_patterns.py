"""Patterns: what a shell would list, links followed, and folders as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribeam.logs.files import ArrowStorage
from attribeam.logs.patterns import expand_braces


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Partitions, one of them a link, one that leads back, and files that are no logs."""
    for name in ("hv/d1/a.parquet", "real/d2/b.parquet", "hv/d1/_a.parquet", "hv/_tmp/c.parquet", "hv/.x/d.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "hv" / "notes.txt").touch()
    (tmp_path / "hv" / "d2").symlink_to("../real/d2")
    (tmp_path / "hv" / "d1" / "back").symlink_to("..")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(pattern: str) -> list[str]:
    return ArrowStorage().find(pattern, suffix=".parquet")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("hv/*/*.parquet", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("hv/d?/[a-b].parquet", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("hv", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("hv/", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("./hv/**/*.parquet", ["./hv/d1/a.parquet", "./hv/d2/b.parquet"]),
        ("hv/**.parquet", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("**/a.parquet", ["hv/d1/a.parquet"]),
        ("hv/d1/a.parquet", ["hv/d1/a.parquet"]),
        ("hv/d{1,2}/{a,b}.parquet", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("hv/_tmp/*.parquet", ["hv/_tmp/c.parquet"]),
        ("hv/d1/_a.parquet", []),
        ("hv/d3/*.parquet", []),
        ("hv/*", ["hv/d1/a.parquet", "hv/d2/b.parquet", "hv/notes.txt"]),
        ("hv/*/", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("h[v]", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("h*/**/d1", ["hv/d1/a.parquet"]),
        ("nowhere", []),
    ],
)
@pytest.mark.usefixtures("tree")
def test_pattern_names_these_files(pattern: str, expected: list[str]) -> None:
    assert found(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("hv", ["hv/d1/a.parquet"]),
        ("hv/**/*.parquet", ["hv/d1/a.parquet"]),
        ("hv/d2/evidence", ["hv/d2/evidence/e.parquet"]),
        ("hv/*/*/*.parquet", ["hv/d2/evidence/e.parquet"]),
        ("**/*/*/*.parquet", ["hv/d1/a.parquet"]),
        ("hv/**/evidence/*.parquet", ["hv/d2/evidence/e.parquet"]),
    ],
)
def test_output_of_an_audit_beside_the_logs_is_none_of_them(tree: Path, pattern: str, expected: list[str]) -> None:
    audit = tree / "real" / "d2"
    (audit / "evidence").mkdir()
    (audit / "evidence" / "e.parquet").touch()
    (audit / "_attribeam").touch()
    (audit / "b.parquet").unlink()
    (tree / "hv" / "d1" / "back").unlink()
    assert found(pattern) == expected


def test_output_of_a_distributed_audit_beside_the_logs_is_none_of_them(tree: Path) -> None:
    for folder, name in (("evidence", "e.parquet"), ("dead_letters", "d.parquet"), ("_chunks", "c.json")):
        (tree / "hv" / "d1" / folder).mkdir()
        (tree / "hv" / "d1" / folder / name).touch()
    assert found("hv") == ["hv/d1/a.parquet", "hv/d2/b.parquet"]
    (tree / "hv" / "d1" / "_chunks" / "c.json").unlink()
    (tree / "hv" / "d1" / "_chunks").rmdir()
    assert "hv/d1/evidence/e.parquet" in found("hv")


def test_log_of_the_user_in_an_audits_directory_is_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("_attribeam", "evidence/e.jsonl", "dead_letters/d.jsonl", "logs/a.jsonl", "b.jsonl"):
        path = Path("out", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in ("run_manifest.json", "metrics.json", "c.json"):
        Path("out", name).touch()
    for folder in ("out", "."):
        files = ArrowStorage().find(folder, suffix="{.jsonl,.json}")
        assert [one.removeprefix("./") for one in files] == ["out/b.jsonl", "out/c.json", "out/logs/a.jsonl"]


@pytest.mark.usefixtures("tree")
def test_links_that_lead_back_are_not_followed_for_ever() -> None:
    assert found(".") == ["./hv/d1/a.parquet", "./hv/d2/b.parquet", "./real/d2/b.parquet"]


def test_link_that_leads_nowhere_is_found_so_that_its_loss_is_told(tree: Path) -> None:
    (tree / "hv" / "d1" / "gone.parquet").symlink_to("nowhere.parquet")
    assert "hv/d1/gone.parquet" in found("hv/*/*.parquet")


@pytest.mark.parametrize("name", ["log[1].parquet", "*.parquet", "log?.parquet", "{a,log1}.parquet"])
def test_file_with_the_name_of_a_pattern_is_found_beside_what_the_pattern_matches(tree: Path, name: str) -> None:
    for one in (name, "log1.parquet", "day[1]/a.parquet"):
        (tree / one).parent.mkdir(exist_ok=True)
        (tree / one).touch()
    assert found(name) == sorted([name, "log1.parquet"])
    assert found("day[1]") == ["day[1]/a.parquet"]


def test_folder_that_matches_a_pattern_means_its_files_as_its_name_does(tree: Path) -> None:
    for name in (
        "logs/n1.parquet/part-0.parquet",
        "logs/n1.parquet/_SUCCESS",
        "logs/n2.parquet",
        "logs/out/_attribeam",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    (tree / "logs" / "out" / "evidence").mkdir()
    (tree / "logs" / "out" / "evidence" / "e.parquet").touch()
    expected = ["logs/n1.parquet/part-0.parquet", "logs/n2.parquet"]
    for pattern in ("logs/*.parquet", "logs/**.parquet", "logs/n[12].parquet", "logs/{n1,n2}.parquet", "logs/*"):
        assert found(pattern) == expected
    assert found("logs/*/*") == ["logs/n1.parquet/part-0.parquet"]


@pytest.mark.parametrize("pattern", ["logs/*.parquet", "**/*.parquet", "logs/n*", "logs", "logs/{n1,n2}.parquet"])
def test_folder_that_is_named_like_a_log_and_holds_none_is_an_error(tree: Path, pattern: str) -> None:
    for name in ("n1.parquet/_temporary/0/part-0.parquet", "n2.parquet", "notes/a.txt"):
        (tree / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "logs" / name).touch()
    with pytest.raises(FileNotFoundError, match=r"'logs/n1\.parquet/' holds no \*\.parquet"):
        found(pattern)
    (tree / "logs" / "n1.parquet" / "part-0.PARQUET").touch()
    assert "logs/n1.parquet/part-0.PARQUET" in found(pattern)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("day={20,21}/x", ["day=20/x", "day=21/x"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"]),
        ("{a}{,x}", ["{a}", "{a}x"]),
        ("plain", ["plain"]),
        ("{a,b", ["{a,b"]),
    ],
)
def test_braces_are_those_of_a_shell(pattern: str, expected: list[str]) -> None:
    assert sorted(expand_braces(pattern)) == sorted(expected)
