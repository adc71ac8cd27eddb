"""One headless browser for all tests of the page; they are skipped where none is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report.browser.audits import (
    LoggedAudit,
    claims_audit,
    compared_audit,
    crowded_audit,
    harbour_audit,
    hostile_audit,
)
from tests.report.browser.open_page import OpenPage, start_browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenPage]:
    program, driver = _found("ATTRIBEAM_CHROMIUM", BROWSERS), _found("ATTRIBEAM_CHROMEDRIVER", ("chromedriver",))
    if program is None or driver is None:
        pytest.skip(
            "needs Chromium and its chromedriver on PATH, "
            "or their paths in ATTRIBEAM_CHROMIUM and ATTRIBEAM_CHROMEDRIVER"
        )
    with start_browser(program, driver, tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def page(browser: OpenPage) -> OpenPage:
    """The browser, with no marks, a wide screen and light colours."""
    browser.forget()
    return browser


@pytest.fixture(scope="session")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> LoggedAudit:
    return harbour_audit(tmp_path_factory.mktemp("harbour"))


@pytest.fixture(scope="session")
def claims(tmp_path_factory: pytest.TempPathFactory) -> LoggedAudit:
    return claims_audit(tmp_path_factory.mktemp("claims"))


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> LoggedAudit:
    return compared_audit(tmp_path_factory.mktemp("compared"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> LoggedAudit:
    return hostile_audit(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> LoggedAudit:
    return crowded_audit(tmp_path_factory.mktemp("crowded"))


def _found(variable: str, names: tuple[str, ...]) -> str | None:
    """The program that the environment variable names, else the first of ``names`` on PATH."""
    named = os.environ.get(variable)
    if named:
        assert Path(named).is_file(), f"{variable} should name a program, was: {named!r}"
        return named
    return next((found for found in map(shutil.which, names) if found), None)
