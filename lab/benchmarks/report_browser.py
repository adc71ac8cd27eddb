"""Opening report pages from files in a headless Chromium."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

_WAIT_SECONDS = 60
_FLAGS = (
    "--headless=new",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, slots=True)
class WindowLook:
    """Size in CSS pixels, ``light`` or ``dark`` colours, and the number of pixels per CSS pixel."""

    width: int = 1360
    height: int = 900
    colours: str = "light"
    scale: float = 1.0


@contextmanager
def browser_window(look: WindowLook | None = None, *, sandbox: bool = True) -> Iterator[Chrome]:
    """A window of a new browser with a temporary profile.

    Raises:
        FileNotFoundError: if Chromium or chromedriver is not found.
    """
    look = look or WindowLook()
    with tempfile.TemporaryDirectory(prefix="report-browser-", ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = _program("ATTRIBEAM_CHROMIUM", _BROWSERS)
        for flag in (*_FLAGS, f"--user-data-dir={profile}", *(() if sandbox else ("--no-sandbox",))):
            options.add_argument(flag)
        driver = Chrome(options=options, service=Service(_program("ATTRIBEAM_CHROMEDRIVER", ("chromedriver",))))
        try:
            _set_look(driver, look)
            yield driver
        finally:
            driver.quit()


def open_page(window: Chrome, page: Path) -> None:
    """Load the report and wait until its scripts have finished."""
    window.get(page.as_uri())
    wait = WebDriverWait(window, _WAIT_SECONDS, poll_frequency=0.05)
    wait.until(lambda _: window.execute_script("return 'ready' in document.documentElement.dataset"))


def save_picture(window: Chrome, picture: Path, *, height: int) -> None:
    """Save the top ``height`` CSS pixels of the page, as wide as the window, as a PNG file."""
    clip = {"x": 0, "y": 0, "width": window.execute_script("return innerWidth"), "height": height, "scale": 1}
    command = {"format": "png", "clip": clip, "captureBeyondViewport": True}
    answer = window.execute_cdp_cmd("Page.captureScreenshot", command)
    picture.write_bytes(base64.b64decode(answer["data"]))


def _set_look(driver: Chrome, look: WindowLook) -> None:
    size = {"width": look.width, "height": look.height, "deviceScaleFactor": look.scale, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    colours = {"features": [{"name": "prefers-color-scheme", "value": look.colours}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", colours)


def _program(variable: str, names: tuple[str, ...]) -> str:
    """The program that the environment variable names, or the first of ``names`` on the path."""
    found = os.environ.get(variable) or next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        raise FileNotFoundError(
            f"{' or '.join(names)} should be on the path, was not found; install it, or name it in {variable}"
        )
    return found
