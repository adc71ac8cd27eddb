"""Convert a GGUF file to a model directory that --model takes."""

from __future__ import annotations

import argparse
from pathlib import Path

from attribeam.attribution.options import DTYPES
from attribeam.report.messages import Messages, print_lines


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
        UsageError: if the file is no GGUF file, the folder is there already, or packages are missing.
        ModelLoadError: if transformers cannot read this model.
        RunError: if the folder cannot be written.
    """
    import torch

    from attribeam.attribution.models.gguf_conversion import check_paths, convert_gguf
    from attribeam.attribution.models.weight_loading import format_size

    file, folder = arguments.file, arguments.folder
    check_paths(file, folder)
    Messages("attribeam models convert").say(
        f"unpacking {file} ({format_size(file.stat().st_size)}) to {arguments.dtype}; this takes tens of seconds for a "
        "small model, and memory for all of its weights"
    )
    convert_gguf(file, folder, dtype=getattr(torch, arguments.dtype))
    size = format_size(sum(path.stat().st_size for path in folder.iterdir()))
    print_lines(f"written to {folder} ({size}); check it with: attribeam models check --model {folder}")
