"""One headless browser for all tests of the page; they are skipped where none is installed."""

import os
import shutil
from pathlib import Path

import pytest
from tests.report.browser import audits
from tests.report.browser.open_page import start_browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    program, driver = _found("ATTRIBEAM_CHROMIUM", BROWSERS), _found("ATTRIBEAM_CHROMEDRIVER", ("chromedriver",))
    if program is None or driver is None:
        pytest.skip(
            "needs Chromium and its chromedriver on PATH, "
            "or their paths in ATTRIBEAM_CHROMIUM and ATTRIBEAM_CHROMEDRIVER"
        )
    with start_browser(program, driver, tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def page(browser):
    """The browser, with no marks, a wide screen and light colours."""
    browser.forget()
    return browser


def _audit(name):
    """A session's fixture of the audit that ``NAME_audit`` makes."""

    @pytest.fixture(scope="session", name=name)
    def made(tmp_path_factory):
        return getattr(audits, f"{name}_audit")(tmp_path_factory.mktemp(name))

    return made


harbour, claims, compared, hostile, crowded = map(_audit, ("harbour", "claims", "compared", "hostile", "crowded"))


def _found(variable, names):
    """The program that the environment variable names, else the first of ``names`` on PATH."""
    if named := os.environ.get(variable):
        assert Path(named).is_file(), f"{variable} should name a program, was: {named!r}"
        return named
    return next((found for found in map(shutil.which, names) if found), None)
