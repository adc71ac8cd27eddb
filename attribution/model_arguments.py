"""The command line options that say which model is loaded and how; the same for every command."""

from __future__ import annotations

import argparse
from typing import TypedDict

from attribution.model_options import ModelOptions, Quantization

_DEFAULTS = ModelOptions()


class LoadingOptions(TypedDict):
    """The fields of ``ModelOptions`` that ``add_loading_arguments`` asks for."""

    model: str
    revision: str | None
    dtype: str | None
    quantization: Quantization
    device: str
    trust_remote_code: bool


def add_loading_arguments(group: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add --model, --revision, --dtype, --quantization, --device and --trust-remote-code."""
    add = group.add_argument
    add("--model", default=_DEFAULTS.model, help="bundled, a hub id or a directory (default: %(default)s)")
    add("--revision", metavar="REV", help="commit, tag or branch of a hub model (default: its main branch)")
    add("--dtype", choices=["float32", "bfloat16", "float16"], help="(default: float32 on a CPU, else the model's)")
    add(
        "--quantization", choices=[str(kind) for kind in Quantization], default=str(_DEFAULTS.quantization),
        help="keep the layers' weights in 4 (nf4) or 8 (int8) bits; needs the extra attribeam[quantization] "
        "(default: %(default)s)",
    )  # fmt: skip
    add("--device", default=_DEFAULTS.device, help="auto, cpu, cuda, cuda:1 (default: %(default)s)")
    add("--trust-remote-code", action="store_true", help="run code from the model's repository")


def loading_options(arguments: argparse.Namespace) -> LoadingOptions:
    """What was given, as keyword arguments of ``ModelOptions``."""
    return LoadingOptions(
        model=arguments.model,
        revision=arguments.revision,
        dtype=arguments.dtype,
        quantization=Quantization(arguments.quantization),
        device=arguments.device,
        trust_remote_code=arguments.trust_remote_code,
    )
