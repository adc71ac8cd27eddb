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

from attribeam.attribution.methods.models import may_leave_float32
from attribeam.attribution.methods.registry import resolve_method
from attribeam.attribution.models.processor import half_precision_instructions
from attribeam.attribution.options import AUTO_DTYPE, ModelOptions
from attribeam.pipeline.chunks.configuration import plain_settings
from attribeam.pipeline.options.audit_options import RunOptions
from attribeam.pipeline.workers.import_server import has_gpu, thread_environment
from attribeam.schemas.run_manifest import RunManifest
from attribeam.transforms.audit_settings import AuditSettings

_ASKED_WITH = ("model", "revision", "quantization", "device", "attribution_config", "trust_remote_code")


def with_auto_dtype(
    settings: AuditSettings, options: RunOptions, earlier: RunManifest | None
) -> tuple[AuditSettings, RunOptions]:
    """``settings`` with the dtype that "auto" means in this run, and ``options`` that say why; prints what was chosen.

    A run that continues an ``earlier`` one of the same model keeps that one's choice, on whatever machine. Both stay as
    they are if there is nothing to choose: "auto" is then float32 on a CPU, and the model's own precision on a GPU.
    """
    if settings.model.dtype != AUTO_DTYPE:
        return settings, options
    if earlier is not None and not options.overwrite and _is_of_same_model(settings, earlier):
        return _as_before(settings, options, earlier)
    chosen = _chosen(settings) if _may_choose(settings) else None
    if chosen is None:
        return settings, options
    dtype, reason = chosen
    options.messages.say(f"--dtype auto chooses {dtype}: {reason}")
    return _settled(settings, options, dtype, f"{dtype}: {reason}")


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
    dtype, run = earlier.models["dtype"], earlier.options["run"]
    choice = run.get("dtype_choice") if isinstance(run, dict) else None
    if choice is None:
        return settings, options
    if dtype != "float32" and dtype not in half_precision_instructions():
        options.messages.say(
            f"--dtype auto keeps {dtype}, in which this audit was started, but this processor has no instructions for "
            f"products in {dtype}, which may take many times as long; --dtype float32 does all rows again"
        )
    return _settled(settings, options, dtype, choice)


def _settled(settings: AuditSettings, options: RunOptions, dtype: str, choice: str) -> tuple[AuditSettings, RunOptions]:
    model = settings.model.replaced(dtype=dtype)
    return replace(settings, model=model), options.replaced(dtype_choice=choice)


def _may_choose(settings: AuditSettings) -> bool:
    """Whether it is worth while to look at the model: it may run on this CPU, which has the instructions."""
    model = settings.model
    on_cpu = model.device == "cpu" or (model.device == "auto" and not has_gpu())
    reads_attention = may_leave_float32(resolve_method(settings.method).needs)
    return on_cpu and reads_attention and model.model != "bundled" and bool(half_precision_instructions())


def _chosen(settings: AuditSettings) -> tuple[str, str] | None:
    """The dtype and the reason; None if there is nothing to choose, or the model cannot be read, as workers will say.

    Another process looks, with as many threads as a worker has, so that the driver need not load torch.
    """
    asked = subprocess.run(
        [sys.executable, "-m", "attribeam.attribution.models.dtype_choice"],
        input=json.dumps(_asked(settings.model)),
        env={**os.environ, **thread_environment(settings.threads)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    choice = None if asked.returncode else json.loads(asked.stdout.splitlines()[-1])
    return None if choice is None else (choice["dtype"], choice["reason"])


def _asked(model: ModelOptions) -> dict[str, object]:
    return {name: value for name, value in model.explicit().items() if name in _ASKED_WITH}
