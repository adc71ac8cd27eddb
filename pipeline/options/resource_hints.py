"""``--model-resource-hints``: what machines the model stage of a distributed run asks for."""

from __future__ import annotations

import argparse

from attribeam.schemas.errors import UsageError

Hints = tuple[tuple[str, str], ...]
KNOWN_HINTS = ("accelerator", "min_ram", "cpu_count", "max_active_bundles_per_worker")
_EXAMPLE = "accelerator=type:nvidia-l4;count:1;install-nvidia-driver,min_ram=16GB"


def resource_hints(text: str) -> Hints:
    """Comma-separated NAME=VALUE pairs, each name once; values are Beam's and are checked by ``check_hints``.

    Raises:
        argparse.ArgumentTypeError: if a name is unknown or comes twice, or a value is missing.
    """
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    hints = tuple((name.strip(), value.strip()) for name, _, value in pairs)
    for name, value in hints:
        if name not in KNOWN_HINTS:
            raise argparse.ArgumentTypeError(
                f"should be NAME=VALUE,... with the names {', '.join(KNOWN_HINTS)}, such as {_EXAMPLE!r}, has {name!r}"
            )
        if not value:
            raise argparse.ArgumentTypeError(f"should give {name} a value, such as {_EXAMPLE!r}, was: {text!r}")
    if len(dict(hints)) < len(hints):
        raise argparse.ArgumentTypeError(f"should name each hint once, was: {text!r}")
    return hints


def check_hints(hints: Hints) -> dict[str, str]:
    """The hints as ``PTransform.with_resource_hints`` takes them.

    Raises:
        UsageError: if Beam cannot read a value.
    """
    from apache_beam.transforms.resources import parse_resource_hints

    for name, value in hints:
        try:
            parse_resource_hints({name: value})
        except ValueError as error:
            raise UsageError(
                f"--model-resource-hints: {name} has a value that Beam cannot read: {value!r}; there are "
                f"{', '.join(KNOWN_HINTS)}, for example {_EXAMPLE!r}"
            ) from error
    return dict(hints)
