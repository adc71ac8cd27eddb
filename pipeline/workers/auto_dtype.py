"""What ``--dtype auto`` means in a local audit: decided once, before the workers start, and kept by every later run.

The decision stands in the settings, as if the user had made it. So workers only do as they are told, and a chunk that
was computed in another precision is of another configuration. This module imports no model library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

from attribeam.attribution.methods.models import decoder_to_choose_for, may_leave_float32
from attribeam.attribution.methods.registry import resolve_method
from attribeam.attribution.models.processor import half_precision_instructions
from attribeam.attribution.option_types import BUNDLED_MODEL_NAME
from attribeam.attribution.options import AUTO_DTYPE, ModelOptions
from attribeam.pipeline.chunks.configuration import plain_settings
from attribeam.pipeline.options.audit_options import RunOptions
from attribeam.pipeline.workers.worker_process import has_gpu, thread_environment
from attribeam.schemas.run_manifest import RunManifest
from attribeam.transforms.audit_settings import AuditSettings

_ASKED_WITH = ("model", "revision", "quantization", "device", "attribution_config", "trust_remote_code")


def with_auto_dtype(
    settings: AuditSettings, options: RunOptions, earlier: RunManifest | None
) -> tuple[AuditSettings, RunOptions]:
    """``settings`` with the dtype that "auto" means in this run, and ``options`` that say why; prints what was chosen.

    It is chosen for the model, and by the same rule for the decoder of a verdict's probe. A run that continues an
    ``earlier`` one of the same model keeps that one's choice, on whatever machine. Both stay as they are if there is
    nothing to choose: "auto" is then float32 on a CPU, and the model's own precision on a GPU.
    """
    earlier = None if options.overwrite else earlier
    needs = resolve_method(settings.method).needs
    decoder = decoder_to_choose_for(settings.model, settings.method, needs)
    if settings.model.dtype == AUTO_DTYPE:
        settings, options = _of_model(settings, options, earlier)
    return (settings, options) if decoder is None else _of_decoder(decoder, settings, options, earlier)


def _of_model(
    settings: AuditSettings, options: RunOptions, earlier: RunManifest | None
) -> tuple[AuditSettings, RunOptions]:
    if earlier is not None and _is_of_same_model(settings, earlier):
        return _as_before(settings, options, earlier)
    chosen = _chosen(settings.model, threads=settings.threads) if _may_choose(settings) else None
    if chosen is None:
        return settings, options
    dtype, reason = chosen
    options.messages.say(f"--dtype auto chooses {dtype}: {reason}")
    return _settled(settings, options, dtype, f"{dtype}: {reason}")


def _of_decoder(
    decoder: ModelOptions, settings: AuditSettings, options: RunOptions, earlier: RunManifest | None
) -> tuple[AuditSettings, RunOptions]:
    """As ``_of_model``; a decoder without a choice is told so, lest it should take the choice for the model."""
    if earlier is not None and _is_of_same_decoder(settings, earlier):
        dtype, choice = earlier.models["language_model_dtype"], _recorded(earlier, "language_model_dtype_choice")
        if choice is not None:
            _warn_if_slow(dtype, options)
            return _with_decoder_in(dtype, settings, options.replaced(language_model_dtype_choice=choice))
        return _with_decoder_in(AUTO_DTYPE, settings, options)
    may_choose = _runs_on_cpu(decoder) and bool(half_precision_instructions())
    chosen = _chosen(decoder, threads=settings.threads) if may_choose else None
    if chosen is None:
        return _with_decoder_in(AUTO_DTYPE, settings, options)
    dtype, reason = chosen
    options.messages.say(f"--dtype auto chooses {dtype} for the language model: {reason}")
    return _with_decoder_in(dtype, settings, options.replaced(language_model_dtype_choice=f"{dtype}: {reason}"))


def _with_decoder_in(dtype: str, settings: AuditSettings, options: RunOptions) -> tuple[AuditSettings, RunOptions]:
    return replace(settings, method=settings.method.replaced(language_model_dtype=dtype)), options


def _is_of_same_decoder(settings: AuditSettings, earlier: RunManifest) -> bool:
    """Whether the earlier run chose for a decoder, too, or had nothing to choose, and all else of it was the same."""
    before, asked = earlier.options.get("method"), plain_settings(settings)["method"]
    if not isinstance(before, dict) or not isinstance(asked, dict) or "language_model_dtype" not in earlier.models:
        return False
    was_auto = (
        before.get("language_model_dtype") == AUTO_DTYPE
        or _recorded(earlier, "language_model_dtype_choice") is not None
    )
    dtypes = {"language_model_dtype": None}
    return was_auto and {**asked, **dtypes} == {**before, **dtypes}


def _recorded(earlier: RunManifest, name: str) -> str | None:
    run = earlier.options.get("run")
    return run.get(name) if isinstance(run, dict) else None


def _is_of_same_model(settings: AuditSettings, earlier: RunManifest) -> bool:
    """Whether the earlier run had "auto" as well, and all other options of the model were the same."""
    run, model = earlier.options.get("run"), earlier.options.get("model")
    if not isinstance(run, dict) or not isinstance(model, dict):
        return False
    had_nothing_to_choose = model.get("dtype") is None and earlier.models.get("dtype") == "float32"
    was_auto = had_nothing_to_choose or run.get("dtype_choice") is not None
    asked = plain_settings(settings)["model"]
    return was_auto and isinstance(asked, dict) and {**asked, "dtype": None} == {**model, "dtype": None}


def _as_before(settings: AuditSettings, options: RunOptions, earlier: RunManifest) -> tuple[AuditSettings, RunOptions]:
    """Keep what the earlier run chose; one that had nothing to choose ran in float32."""
    dtype, choice = earlier.models["dtype"], _recorded(earlier, "dtype_choice")
    if choice is None:
        return settings, options
    _warn_if_slow(dtype, options)
    return _settled(settings, options, dtype, choice)


def _warn_if_slow(dtype: str, options: RunOptions) -> None:
    if dtype != "float32" and dtype not in half_precision_instructions():
        options.messages.say(
            f"--dtype auto keeps {dtype}, in which this audit was started, but this processor has no instructions for "
            f"products in {dtype}, which may take many times as long; --dtype float32 does all rows again"
        )


def _settled(settings: AuditSettings, options: RunOptions, dtype: str, choice: str) -> tuple[AuditSettings, RunOptions]:
    model = settings.model.replaced(dtype=dtype)
    return replace(settings, model=model), options.replaced(dtype_choice=choice)


def _may_choose(settings: AuditSettings) -> bool:
    """Whether it is worth while to look at the model: it may run on this CPU, which has the instructions."""
    reads_attention = may_leave_float32(resolve_method(settings.method).needs)
    is_candidate = reads_attention and settings.model.model != BUNDLED_MODEL_NAME
    return is_candidate and _runs_on_cpu(settings.model) and bool(half_precision_instructions())


def _runs_on_cpu(model: ModelOptions) -> bool:
    return model.device == "cpu" or (model.device == "auto" and not has_gpu())


def _chosen(model: ModelOptions, *, threads: int) -> tuple[str, str] | None:
    """The dtype and the reason; None if there is nothing to choose, or the model cannot be read, as workers will say.

    Another process looks, with as many threads as a worker has, so that the driver need not load torch.
    """
    asked = subprocess.run(
        [sys.executable, "-m", "attribeam.attribution.models.dtype_choice"],
        input=json.dumps(_asked(model)),
        env={**os.environ, **thread_environment(threads)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    choice = None if asked.returncode else json.loads(asked.stdout.splitlines()[-1])
    return None if choice is None else (choice["dtype"], choice["reason"])


def _asked(model: ModelOptions) -> dict[str, object]:
    return {name: value for name, value in model.explicit().items() if name in _ASKED_WITH}
