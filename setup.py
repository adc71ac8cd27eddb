"""Packaging entry point; the metadata stands in pyproject.toml. Beam ships it with ``--setup_file``."""

from setuptools import setup

setup()
