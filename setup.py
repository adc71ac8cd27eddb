"""Packaging entry point; the metadata stands in pyproject.toml. Beam ships it with ``--setup_file``."""

from pathlib import Path

from setuptools import setup

if not Path("src/attribeam/schemas/__init__.py").is_file():
    raise SystemExit(
        "src/attribeam/schemas should lead to the folder schemas/, but does not: this copy of the repository lost its "
        "symbolic links. Clone it again with git clone -c core.symlinks=true (on Windows in developer mode)."
    )
setup()
