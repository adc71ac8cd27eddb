"""Packages with pretrained models are pinned twice, and one whose files differ is not read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.pretrained_packages import DIGESTS, checked_package, files_digest

REQUIREMENTS = Path(__file__).with_name("pretrained_models.txt")
_PINNED = re.compile(r"([\w-]+)==[\d.]+ --hash=sha256:[0-9a-f]{64}")


def test_every_package_has_a_version_a_hash_and_a_digest_of_its_files() -> None:
    lines = [one for one in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if one and not one.startswith("#")]
    matches = [_PINNED.fullmatch(one) for one in lines]
    assert all(matches)
    assert {one[1].replace("-", "_") for one in matches if one} == {*DIGESTS}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "own_pretrained_package"
    (folder / "model").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('was run')")
    (folder / "model" / "weights").write_bytes(b"\1\2")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_reviewed_package_is_found_without_running_it(package: Path) -> None:
    assert checked_package(package.name, digest=files_digest(package)) == package


@pytest.mark.parametrize("change", ["other bytes", "added", "removed", "renamed"])
def test_changed_package_fails_before_it_is_read(package: Path, change: str) -> None:
    reviewed, weights = files_digest(package), package / "model" / "weights"
    match change:
        case "other bytes":
            weights.write_bytes(b"\1\3")
        case "added":
            (package / "more.py").write_text("")
        case "removed":
            weights.unlink()
        case _:
            weights.rename(weights.with_name("weight"))
    with pytest.raises(pytest.fail.Exception, match="they were not read"):
        checked_package(package.name, digest=reviewed)


def test_package_that_is_not_installed_skips_its_tests() -> None:
    with pytest.raises(pytest.skip.Exception, match=r"is not installed; see tests/pretrained_models\.txt"):
        checked_package("no_such_pretrained_package", digest="")
