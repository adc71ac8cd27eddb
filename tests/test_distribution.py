"""What pip installs and what Beam ships: the wheel and the source distribution, away from the checkout."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.stager import Stager

from attribeam import __version__

ROOT = Path(__file__).parents[1]
ROOMS = ("schemas", "logs", "attribution", "transforms", "report", "integrations", "evaluation", "pipeline")
WORKING_FILES = (".*", "*.egg-info", "__pycache__", "build", "dist", "audits", "shared", "site", "tests", "docs")
NOT_SHIPPED = ("report/page_scripts/", "report/vendor/make_bundles.sh", "report/vendor/*.mjs")
EXTRAS = ("accelerate", "bitsandbytes", "flash_attn", "matplotlib", "opentelemetry", "prometheus_client", "psutil")
USERS_MODULES = ("schemas", "report", "pipeline", "evaluation", "logs", "attribution", "transforms", "lab")


@dataclass(frozen=True)
class Installed:
    """An environment that holds the wheel, and a user's folder with modules named like the rooms."""

    folder: Path
    users_folder: Path

    def run(self, *command):
        """What ``command`` prints, run in the user's folder without the checkout on any path."""
        cleaned = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment = {**cleaned, "PATH": os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])}
        run = subprocess.run(
            command, cwd=self.users_folder, env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        return run.stdout


def _pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def _build_wheel(source, target):
    _pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", target, source)
    (wheel,) = target.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout, links kept: building writes beside the sources."""
    copy = tmp_path_factory.mktemp("checkout") / "attribeam"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*WORKING_FILES))
    return copy


@pytest.fixture(scope="module")
def sdist(checkout, tmp_path_factory):
    """The source distribution that Beam makes for ``--setup_file``."""
    options = PipelineOptions(["--setup_file", str(checkout / "setup.py"), "--sdk_location", "container"])
    staged = tmp_path_factory.mktemp("staged")
    Stager.create_job_resources(options, str(staged))
    (found,) = staged.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory):
    return _build_wheel(checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel in a new environment without the packages of extras, as a plain ``pip install`` makes it.

    All other packages come from the running environment, whose .pth files do not apply.
    """
    folder, users_folder = tmp_path_factory.mktemp("environment"), tmp_path_factory.mktemp("user")
    venv.create(folder, with_pip=False)
    _pip("--python", folder / "bin" / "python", "install", "--no-index", "--no-deps", wheel)
    (packages,) = folder.glob("lib/python*/site-packages")
    missing = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r}))"
    (packages / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n{missing}\n")
    for name in USERS_MODULES:
        (users_folder / f"{name}.py").write_text(f"raise ImportError('attribeam imported a user\\'s {name}.py')\n")
    return Installed(folder, users_folder)


def test_the_wheel_holds_every_file_of_every_room_but_what_the_page_is_built_from(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.split("/")[0] for name in names} == {"attribeam", f"attribeam-{__version__}.dist-info"}
    shipped = {name.removeprefix("attribeam/") for name in names if name.startswith("attribeam/")}
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*") if path.is_file() and path.suffix != ".pyc"]
    wanted = {path.relative_to(ROOT).as_posix() for path in files}
    left_out = {name for name in wanted if any(fnmatch(name, f"{one}*") for one in NOT_SHIPPED)}
    assert len(wanted) > 100
    assert shipped == wanted - left_out | {"__init__.py", "__main__.py", "testing.py", "py.typed"}


def test_the_sdist_that_beam_ships_holds_files_in_place_of_links(sdist):
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert [one.name for one in members if one.issym() or one.islnk()] == []
    names = {PurePosixPath(*PurePosixPath(one.name).parts[1:]).as_posix() for one in members}
    assert {"setup.py", "README.md", *(f"src/attribeam/{room}/__init__.py" for room in ROOMS)} <= names


def test_wheel_and_sdist_are_what_a_registry_takes(wheel, sdist):
    assert max(one.stat().st_size for one in (wheel, sdist)) < 60_000_000
    check = pytest.importorskip("twine.commands.check")
    assert not check.check([str(wheel), str(sdist)], strict=True)


def test_a_checkout_that_lost_its_links_is_not_built(checkout, tmp_path):
    """Git without symbolic links writes each link as a small text file that names its target."""
    flat = tmp_path / "attribeam"
    shutil.copytree(checkout / "src", flat / "src", symlinks=True, ignore=shutil.ignore_patterns("*.egg-info"))
    shutil.copy(checkout / "setup.py", flat)
    for room in ROOMS:
        (flat / "src" / "attribeam" / room).unlink()
        (flat / "src" / "attribeam" / room).write_text(f"../../{room}")
    run = subprocess.run(
        [sys.executable, "setup.py", "bdist_wheel"], cwd=flat, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "core.symlinks=true" in run.stderr


def _lines_of_the_readme():
    """The README's three lines of Python, whose names stand for a reader's own texts."""
    (lines,) = re.findall(
        r"```python\n(from attribeam import.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL
    )
    assert lines.count("\n") <= 4
    return str(lines).replace("(title, text), ...", "(title, text), ('Lamp', 'The lamp was lit in 1887.')")


def test_the_lines_of_the_readme_run_beside_a_users_modules_of_the_same_names(installed):
    """All that they import of attribeam comes from the wheel."""
    (installed.users_folder / "notebook.py").write_text(
        "title, text = 'Pier', 'The new pier is 340 metres long.'\n"
        "question, answer = 'How long is the pier?', 'It is 340 metres long.'\n"
        f"{_lines_of_the_readme()}\n"
        "print(spans[0].top_passage_index)\n"
        "import sys, attribeam\n"
        "for name in attribeam.__all__: getattr(attribeam, name)\n"
        "for name, module in sys.modules.items():\n"
        "    if name.split('.')[0] == 'attribeam': print(module.__file__)\n"
    )
    passage_index, *modules = installed.run("python", "notebook.py").splitlines()
    assert passage_index == "0"
    assert len(modules) > 20
    assert [module for module in modules if not Path(module).is_relative_to(installed.folder)] == []


def test_neither_what_the_wheel_leaves_out_nor_an_extra_is_importable(installed):
    code = """
import sys
from importlib import import_module
sys.path.remove("")
for name in sys.argv[1:]:
    try:
        print(import_module(name))
    except ImportError:
        pass
"""
    assert installed.run("python", "-c", code, "schemas", "lab", *EXTRAS) == ""


def test_the_demo_audits_a_log_that_is_in_the_wheel_and_names_its_page(installed):
    assert installed.run("attribeam", "--version").strip().endswith(__version__)
    assert "report.html" in installed.run("attribeam", "demo", "--no-browser", "--output", "demo")
    page = (installed.users_folder / "demo" / "report.html").read_text(encoding="utf-8")
    assert "The tide gate has two oak doors" in page
    assert "twelve minutes" in installed.run("attribeam", "show", "demo-tide-gate", "--audit", "demo")
    digest = installed.run("attribeam", "report", "--audit", "demo", "--format", "md", "--output", "-")
    assert "| rows | 7 |" in digest
    assert "| dead letters: `empty_answer` | 1 |" in digest
    (source,) = set(pq.read_table(installed.users_folder / "demo" / "evidence")["source_file"].to_pylist())
    assert Path(source).is_relative_to(installed.folder)


def test_pytest_finds_the_plugin_whose_attributor_is_loaded_when_a_test_of_a_worker_asks_for_it(installed):
    (installed.users_folder / "test_answers.py").write_text(
        "import sys\n"
        "from attribeam.testing import assert_supported, bundled_attributor\n"
        "def test_unasked():\n"
        "    assert 'torch' not in sys.modules\n"
        "def test_asked(attribeam_attributor):\n"
        "    row = {'question': '', 'passages': ['The lamp was lit in 1887.'], 'answer': 'The lamp was lit in 1887.'}\n"
        "    assert assert_supported(**row, attributor=attribeam_attributor).spans\n"
        "    assert attribeam_attributor is bundled_attributor()\n"
    )
    assert "2 passed" in installed.run("python", "-m", "pytest", "-q", "-n1", "test_answers.py")
    plugins = installed.run("python", "-m", "pytest", "--fixtures", "-q", "-p", "no:attribeam", "test_answers.py")
    assert "attribeam_attributor" not in plugins
