"""A headless Chromium that opens report pages from files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from playwright.sync_api import BrowserContext, Page, ViewportSize, sync_playwright

_FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
)


@contextmanager
def browser_window(
    *,
    width: int = 1360,
    height: int = 900,
    color_scheme: Literal["light", "dark"] = "light",
    sandbox: bool = True,
    scale: float = 1,
) -> Iterator[BrowserContext]:
    """A window of these CSS pixels, offline, with a profile of its own that is thrown away.

    ``scale`` is how many pixels a CSS pixel has.

    Raises:
        FileNotFoundError: if no ``chromium`` is on the path.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise FileNotFoundError("chromium, chromium-browser or google-chrome was expected on the path; install one")
    viewport: ViewportSize = {"width": width, "height": height}
    with tempfile.TemporaryDirectory(prefix="report-browser-") as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=chromium,
            args=list(_FLAGS),
            chromium_sandbox=sandbox,
            color_scheme=color_scheme,
            device_scale_factor=scale,
            offline=True,
            viewport=viewport,
        )
        try:
            yield context
        finally:
            context.close()


def open_page(window: BrowserContext, address: str) -> Page:
    """A new tab with the report at ``address``, once its scripts are done."""
    page = window.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached")
    return page
