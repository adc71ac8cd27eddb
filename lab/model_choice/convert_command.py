"""Convert a GGUF file to a model directory that --model takes."""

from __future__ import annotations

import argparse
from pathlib import Path

from attribeam.attribution.options import DTYPES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam models convert``."""
    parser.add_argument("file", type=Path, metavar="FILE.gguf", help="the model, as llama.cpp runs it")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new directory for the converted model")
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        default="float32",
        help="precision of the written weights; bfloat16 and float16 halve their size (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Convert the file, and say what to do next.

    Raises:
        UsageError: if the file is no GGUF file, the folder cannot be written, or packages are missing.
        ModelLoadError: if transformers cannot read this model.
    """
    import torch

    from attribeam.attribution.models.gguf_conversion import convert_gguf

    convert_gguf(arguments.file, arguments.folder, dtype=getattr(torch, arguments.dtype))
    print(f"written to {arguments.folder}; check it with: attribeam models check --model {arguments.folder}")
