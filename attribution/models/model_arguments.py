"""The command line options that say which model is loaded, how, and how it reads; the same for every command."""

from __future__ import annotations

import argparse
from typing import TypedDict

from attribeam.attribution.models.model_options import ModelOptions, Quantization
from attribeam.attribution.option_types import positive_integer, prompt_template
from attribeam.attribution.prompts.prompt_template import TEMPLATE_NAMES
from attribeam.attribution.settings import QueryPosition

_DEFAULTS = ModelOptions()


class LoadingOptions(TypedDict):
    """The fields of ``ModelOptions`` that ``add_loading_arguments`` asks for."""

    model: str
    revision: str | None
    dtype: str | None
    quantization: Quantization
    device: str
    trust_remote_code: bool


class ReadingOptions(TypedDict):
    """The fields of ``ModelOptions`` that ``add_reading_arguments`` asks for."""

    layer: int | None
    query_position: QueryPosition | None
    prompt_template: str | None
    token_budget: int | None
    max_tokens: int | None


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


def add_reading_arguments(group: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add --layer, --query-position, --prompt-template, --token-budget and --max-tokens."""
    add = group.add_argument
    add("--layer", type=positive_integer, metavar="L", help="1-based layer (default: the model's, else floor(L/2) + 1)")
    add("--query-position", choices=[position.value for position in QueryPosition], help="(default: the model's)")
    add(
        "--prompt-template", type=prompt_template, metavar="NAME|FILE",
        help=f"{', '.join(TEMPLATE_NAMES)}, or a .jinja or .json file; see docs/prompts.md (default: the model's own, "
        "else chat where its tokenizer has a chat template, else plain)",
    )  # fmt: skip
    add(
        "--token-budget", type=positive_integer, metavar="N",
        help="tokens of one batch, padding included (default: 2048 on a CPU, 16384 on a GPU)",
    )  # fmt: skip
    add(
        "--max-tokens", type=positive_integer, metavar="N",
        help="tokens that the model reads at once; longer rows are read in windows (default: the model's context)",
    )  # fmt: skip


def reading_options(arguments: argparse.Namespace) -> ReadingOptions:
    """What was given, as keyword arguments of ``ModelOptions``."""
    position = arguments.query_position
    return ReadingOptions(
        layer=arguments.layer,
        query_position=None if position is None else QueryPosition(position),
        prompt_template=arguments.prompt_template,
        token_budget=arguments.token_budget,
        max_tokens=arguments.max_tokens,
    )
