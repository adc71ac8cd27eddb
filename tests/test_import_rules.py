"""Which room may import which, read from the import statements, and no pattern backtracks, whoever wrote a text."""

import ast
import importlib
import pkgutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import attribeam

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "attribeam"
ROOMS = ("schemas", "logs", "attribution", "transforms", "report", "integrations", "evaluation", "pipeline")
LAB = "lab"
"""Stands at the top, too, and is not shipped: ``lab.*`` from a checkout."""
ALLOWED = {
    "schemas": {"schemas"}, "logs": {"schemas", "logs"}, "attribution": {"schemas", "attribution"},
    "transforms": {"schemas", "logs", "attribution", "transforms"}, "report": {"schemas", "logs", "report"},
    "integrations": {"schemas", "logs", "attribution", "report", "integrations", "testing"},
    "pipeline": {"schemas", "logs", "attribution", "transforms", "report", "pipeline"},
    "evaluation": {"schemas", "logs", "attribution", "report", "evaluation"},
    "lab/training": {"schemas", "logs", "attribution", "report", "evaluation"}, "examples": {"schemas", "attribution"},
}  # fmt: skip
EXCEPTIONS = {"attribution": {("attribution/attribute_table.py", "logs")}}
"""Where a table in memory meets the method: its rows are read as those of a log are."""
FORBIDDEN = {
    "schemas": {"torch", "transformers", "spacy", "apache_beam"},
    "logs": {"torch", "transformers", "spacy", "apache_beam"},
    "attribution": {"apache_beam"},
    "report": {"torch", "transformers", "spacy", "apache_beam"},
    "integrations": {"torch", "transformers", "spacy", "apache_beam"},
    "evaluation": {"apache_beam"},
}


@cache
def _imports(path, *, top_level_only=False):
    """Modules that a file imports, with their full names; relative imports come as "."."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(_imported(tree.body if top_level_only else ast.walk(tree)))


def _imported(nodes):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." if node.level else str(node.module)


def _files(room):
    return sorted((ROOT / room).rglob("*.py"))


def _rooms_of(path):
    parts = [name.split(".") for name in _imports(path)]
    return {part[1] for part in parts if part[0] == "attribeam" and len(part) > 1}


def test_every_room_stands_at_the_top_and_is_linked_into_the_package():
    links = {path.name: path.resolve() for path in PACKAGE.iterdir() if path.is_symlink()}
    assert links == {room: ROOT / room for room in ROOMS}


def test_no_room_is_imported_by_its_bare_name():
    bare = {*ROOMS, "training", "benchmarks"}
    paths = [path for room in (*ROOMS, LAB, "examples", "tests", "src") for path in _files(room)]
    assert len(paths) > 100
    assert [path.name for path in paths for name in _imports(path) if name.split(".")[0] in bare] == []


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_the_rooms_below_it(room):
    found = {(path.relative_to(ROOT).as_posix(), name) for path in _files(room) for name in _rooms_of(path)}
    assert found or room == "examples", f"{room} should import something, else this test looks at nothing"
    assert {one for one in found if one[1] not in ALLOWED[room]} == EXCEPTIONS.get(room, set())


def test_nothing_that_is_shipped_imports_tests_or_the_lab():
    found = [(path.name, name) for room in ROOMS for path in _files(room) for name in _imports(path)]
    assert [one for one in found if one[1].split(".")[0] in {"tests", LAB}] == []


SUB_ROOMS = {
    "attribution": ("answers", "prompts", "models", "attention", "evidence", "verdict", "language_models", "methods"),
    "evaluation": ("datasets", "methods", "measures"),
    "logs": ("traces",),
}  # fmt: skip
"""The rooms within a room, in an order in which each imports itself and those before it."""


@pytest.mark.parametrize("room", ROOMS)
def test_the_rooms_within_a_room_stand_in_an_order(room):
    names = SUB_ROOMS.get(room, ())
    found = {path.name for path in (ROOT / room).iterdir() if (path / "__init__.py").is_file()}
    assert found == set(names)
    for place, name in enumerate(names):
        parts = [one.split(".") for path in _files(f"{room}/{name}") for one in _imports(path)]
        found = {part[2] for part in parts if part[:2] == ["attribeam", room] and part[2] in names}
        assert found <= set(names[: place + 1]), name


@pytest.mark.parametrize("room", ["answers", "evidence", "verdict"])
def test_answers_evidence_and_verdict_know_nothing_of_models(room):
    parts = [name.split(".") for path in _files(f"attribution/{room}") for name in _imports(path)]
    found = {part[2] for part in parts if part[:2] == ["attribeam", "attribution"]} & set(SUB_ROOMS["attribution"])
    assert room in found
    assert found <= {"answers", "evidence", "verdict"}


def test_no_files_import_each_other_in_a_circle():
    """A check of the statements at the top of files; one within a function may close a circle on purpose."""
    paths = {path: _module(path) for room in ROOMS for path in _files(room)}
    imported = {
        module: {one for one in _names_at_the_top(path) if one in paths.values() and one != module}
        for path, module in paths.items()
    }
    try:
        order = [*TopologicalSorter(imported).static_order()]
    except CycleError as error:
        pytest.fail(f"a circle of imports: {error.args[1]}")
    assert len(order) == len(paths) > 100


def _module(path):
    return "attribeam." + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")


@cache
def _names_at_the_top(path):
    """The modules that a file may mean by its imports: those named, and each name as a module of its package."""
    found = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
    return tuple(name for one in found for name in (str(one.module), *(f"{one.module}.{a.name}" for a in one.names)))


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_does_without_the_libraries_that_are_not_its_business(room):
    found = {(path.name, name) for path in _files(room) for name in _imports(path)}
    assert {(file, name) for file, name in found if name.split(".")[0] in FORBIDDEN[room]} == set()


def test_spacy_is_imported_for_the_answer_parser_only():
    found = {path.name for path in _files("attribution") for name in _imports(path) if name.split(".")[0] == "spacy"}
    assert found == {"answer_parser.py", "spacy_pipeline.py"}
    parser = ROOT / "attribution" / "answers" / "answer_parser.py"
    assert "spacy" not in {name.split(".")[0] for name in _imports(parser, top_level_only=True)}


@pytest.mark.parametrize("room", [*ROOMS, LAB])
def test_imports_are_absolute(room):
    assert [path.name for path in _files(room) if "." in _imports(path)] == []


FIRST_ROW = """
from attribeam import Attributor
rows = Attributor.from_pretrained("bundled").attribute(question="Who?", passages=["Ada built it."], answer="Ada did.")
assert rows
"""
WORKER = """
from pathlib import Path
from tempfile import TemporaryDirectory
from attribeam.logs.rows import RowRange
from attribeam.transforms.audit_settings import output_schemas
from attribeam.pipeline import worker_imports
from attribeam.pipeline.worker_pool import load_models, run_chunk
from attribeam.transforms.audit_settings import AuditSettings
settings = AuditSettings()
schemas = output_schemas(settings, load_models(settings), [])
rows = RowRange("examples/qa_logs.parquet", 0, 2)
with TemporaryDirectory() as folder:
    run_chunk(rows, settings=settings, schemas=schemas, folder=Path(folder) / "attempt", on_rows=lambda _: None)
"""
CHECKED_OPTIONS = """
from attribeam.pipeline.audit_options import AuditOptions, read_run_options
read_run_options(AuditOptions(input=("a",), output="b"))
"""
NO_MODELS = {"torch", "spacy", "transformers", "apache_beam"}


@pytest.mark.parametrize(
    ("code", "unused"),
    [
        ("import attribeam, attribeam.testing", NO_MODELS),
        ("import attribeam.integrations.pytest_plugin", NO_MODELS | {"pyarrow"}),
        ("import attribeam.pipeline.local_driver", NO_MODELS),
        (CHECKED_OPTIONS, NO_MODELS),
        (FIRST_ROW, {"transformers", "apache_beam"}),
        (WORKER, {"transformers", "apache_beam"}),
    ],
    ids=["package", "plugin of pytest", "driver", "options of a driver", "first row", "worker"],
)
def test_libraries_that_take_seconds_to_import_are_imported_where_they_are_needed(code, unused):
    code = f"{code}\nimport sys; print(sorted({unused} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_one_row_passes_few_modules():
    code = f"{FIRST_ROW}\nimport sys; print(sum(name.split('.')[0] == 'attribeam' for name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert 50 < int(run.stdout) <= 80


SEARCHED = ("schemas", "logs", "attribution", "transforms", "report", "pipeline")
UNITS = (
    *"-_=*#|:;,.'\"()[]{}<>/\\a1é中 \t\n\u00a0",
    *("- ", "| ", "|-", "* ", "a ", "a-", "a.", "a'", "1 ", "1,", "1.", "1-", "1:", "[1", "[1]", "(a", "a,", "A "),
    *("the ", "and ", "one ", "two hundred ", "passage ", "first ", "no ", "not a ", "it ", "is ", "a@", "a@b.", "+1 "),
)
REPEATS = 60
SECONDS = 60
"""Far more than any pattern needs; one that backtracks exponentially would take years."""


def _modules():
    for room in SEARCHED:
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
