"""The page in a real browser, and what a person can do with it."""

from contextlib import contextmanager

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

WAIT_SECONDS = 20
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1400,900",
)  # fmt: skip
WATCH_POLICY = """
window.brokenPolicies = [];
addEventListener("securitypolicyviolation", (event) => window.brokenPolicies.push(event.violatedDirective));
"""
GO = """
const [place, done] = arguments;
const before = location.href;
addEventListener("hashchange", () => setTimeout(done), {once: true});
location.hash = place;
if (location.href === before) done();
"""


class OpenPage:
    """One browser window; ``downloads`` is where its files go."""

    def __init__(self, driver, downloads):
        self.driver = driver
        self.downloads = downloads
        self.loads = 0

    def forget(self):
        """Drop what earlier tests left: marks, downloads, console, size and colours.

        No page may be open while its storage is cleared: the browser tells the page's process of that later, and the
        next page in that process could lose a mark that it has just stored.
        """
        self.size(1400, 900)
        self.colours("light")
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Storage.clearDataForStorageKey", {"storageKey": "file:///", "storageTypes": "all"})
        for file in self.downloads.iterdir():
            file.unlink()
        self.driver.get_log("browser")

    def open(self, file, place=""):
        """Load the page, anew even where it is open, and wait until its scripts are through."""
        self.loads += 1
        self.driver.get(f"{file.as_uri()}?{self.loads}{place}")
        self.wait(lambda: self.script("return 'ready' in document.documentElement.dataset"))

    def go(self, place):
        """Another view of the open page."""
        self.driver.execute_async_script(GO, place)

    def reload(self):
        """Load the page anew and wait until the new one's scripts are through.

        The old page must not pass for the new one, should the driver come back while it is still there.
        """
        self.script("delete document.documentElement.dataset.ready")
        self.driver.refresh()
        self.wait(lambda: self.script("return 'ready' in document.documentElement.dataset"))

    def wait(self, condition):
        """What ``condition`` gives as soon as that is something."""
        return WebDriverWait(self.driver, WAIT_SECONDS, poll_frequency=0.02).until(lambda _: condition())

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        """The whole text of each element, shown or not."""
        return self.script("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def ids(self):
        """Record ids in the worklist, in its order, whole; dead letters have theirs as a heading."""
        chosen = "#worklist .item-meta bdi:first-child, #worklist li:has(.risk[aria-hidden]) .item-question"
        return self.script("return [...document.querySelectorAll(arguments[0])].map((e) => e.title)", chosen)

    def choose(self, name, value):
        field = Select(self.one(f"#filter-{name}"))
        field.select_by_index([option.get_attribute("value") for option in field.options].index(value))

    def press(self, *keys):
        """Press keys in turn; a longer text is typed."""
        actions = ActionChains(self.driver, duration=0)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    def point_at(self, element):
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(self.driver, duration=0).move_to_element(element).perform()

    def size(self, width, height):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def colours(self, scheme, *, medium="screen"):
        """What the system asks for: ``light`` or ``dark``, on a screen or in print."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})

    def complaints(self):
        """Errors and warnings of the console, and directives of the policy that were broken."""
        return [entry["message"] for entry in self.driver.get_log("browser")] + self.script("return brokenPolicies")

    def downloaded(self, ending):
        """The one file with this ending, once it is whole."""
        return self.wait(lambda: next(self.downloads.glob(f"*.{ending}"), None))


@contextmanager
def start_browser(program, driver, folder):
    """A browser with a profile of its own below ``folder``."""
    downloads = folder / "downloads"
    downloads.mkdir()
    options = ChromeOptions()
    options.binary_location = program
    for argument in (*ARGUMENTS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = Chrome(options=options, service=Service(executable_path=driver))
    try:
        behaviour = {"behavior": "allow", "downloadPath": str(downloads), "eventsEnabled": False}
        started.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
        started.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH_POLICY})
        yield OpenPage(started, downloads)
    finally:
        started.quit()
