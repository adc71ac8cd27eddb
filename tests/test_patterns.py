"""Every regular expression of the package ends soon on text that repeats one thing, whoever wrote that text."""

import importlib
import pkgutil
import signal
from contextlib import contextmanager

import attribeam

ROOMS = ("schemas", "logs", "attribution", "transforms", "report", "pipeline")
UNITS = (
    *"-_=*#|:;,.'\"()[]{}<>/\\a1é中 \t\n\u00a0",
    *("- ", "| ", "|-", "* ", "a ", "a-", "a.", "a'", "1 ", "1,", "1.", "1-", "1:", "[1", "[1]", "(a", "a,", "A "),
    *("the ", "and ", "one ", "two hundred ", "passage ", "first ", "no ", "not a ", "it ", "is ", "a@", "a@b.", "+1 "),
)
REPEATS = 60
SECONDS = 60
"""Far more than any pattern needs; one that backtracks exponentially would take years."""


def _modules():
    for room in ROOMS:
        package = importlib.import_module(f"attribeam.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield found.name


def _patterns():
    """All patterns of modules by their names, the same pattern once."""
    assert attribeam.__version__
    found = {}
    for module in _modules():
        for name, value in vars(importlib.import_module(module)).items():
            for place, one in enumerate(value if isinstance(value, list | tuple) else [value]):
                if hasattr(one, "finditer") and isinstance(getattr(one, "pattern", None), str):
                    found.setdefault(one, f"{module}.{name}[{place}]")
    return {name: pattern for pattern, name in found.items()}


@contextmanager
def _ends_in_time(what):
    def give_up(_, __):
        raise TimeoutError(f"{what} backtracks without end")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _texts():
    """One thing over and over, then with something else now and then: a pattern that needs much text must try, too."""
    for unit in UNITS:
        yield from (unit * REPEATS + tail for tail in ("", "!", "x"))
        yield (unit * REPEATS + " x\n") * 10


def test_no_pattern_backtracks_without_end():
    patterns = _patterns()
    assert len(patterns) > 60
    texts = [*_texts()]
    for name, pattern in patterns.items():
        with _ends_in_time(name):
            for text in texts:
                for _ in pattern.finditer(text):
                    pass
