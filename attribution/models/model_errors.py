"""Turns what libraries raise for an unusable model into ``ModelLoadError``, and keeps transformers quiet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from logging import ERROR

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers.utils import logging

from attribeam.attribution.attention.batching import is_out_of_memory
from attribeam.attribution.attention.capture import CAPTURE_IMPLEMENTATION
from attribeam.schemas.errors import ModelLoadError, ModelUnavailableError


@contextmanager
def as_load_errors(model: str) -> Iterator[None]:
    """Turn the errors that transformers raises for a missing or broken model into ``ModelLoadError``."""
    try:
        yield
    except KeyError as error:
        if error.args == (CAPTURE_IMPLEMENTATION,):
            fault = "should go through transformers' attention interface, but its code does not; choose another model"
        else:
            fault = (
                f"should have a config.json and a tokenizer.json that transformers {version('transformers')} knows, "
                f"{error} is missing or unknown; fetch them again"
            )
        raise ModelLoadError(f"model {model!r} {fault}") from error
    except (OSError, ValueError, ImportError, SafetensorError, StrictDataclassError) as error:
        raise ModelLoadError(
            f"model {model!r} could not be loaded: {error} (--model should be 'bundled', a hub id or a directory with "
            "config.json, tokenizer.json and safetensors weights)"
        ) from error
    except (MemoryError, RuntimeError) as error:
        if "ignore_mismatched_sizes" in str(error):
            raise ModelLoadError(
                f"model {model!r} should have weights of the shapes that its config.json says, has others; are both of "
                "one model? fetch them again"
            ) from error
        if not is_out_of_memory(error):
            raise
        raise ModelUnavailableError(
            f"model {model!r} does not fit into the free memory of its device; try --quantization nf4, which needs the "
            "least, or choose another --model, --device or --dtype"
        ) from error


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress progress bars and reports of omitted layers inside; afterwards both are as before."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(ERROR)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
