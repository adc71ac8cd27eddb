"""Which devices the models of a run are on, and in which precision.

Model workers follow from ``--device``, ``--model-workers`` and ``--workers``. A run chooses once what
``--dtype auto`` means.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

from attribeam.attribution.methods.audit_row import runs_models
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.methods.models import decoder_to_choose_for, may_leave_float32
from attribeam.attribution.models.loading import half_precision_instructions
from attribeam.attribution.option_declaration import AUTO_DTYPE, BUNDLED_MODEL_NAME
from attribeam.attribution.options import ModelOptions
from attribeam.pipeline.audit_options import ALL_GPUS, RunOptions, is_list
from attribeam.pipeline.worker_process import has_gpu, thread_environment
from attribeam.schemas.errors import UsageError
from attribeam.schemas.run_manifest import RunManifest
from attribeam.transforms.audit_settings import AuditSettings, plain_settings

_WAITING_WORKERS = 2
"""Workers per model worker that wait for blocks at the end of their chunks, while others compute."""


@dataclass(frozen=True, slots=True)
class ModelWorkerPlan:
    """The processes of a run with model workers.

    ``devices`` has one per model worker; ``cpu_workers`` are those besides the workers that wait for blocks.
    """

    devices: tuple[str, ...]
    cpu_workers: int

    @property
    def workers(self) -> int:
        """Workers: a chunk that waits for its last block keeps its worker, which needs no processor then."""
        return self.cpu_workers + min(self.cpu_workers, _WAITING_WORKERS * len(self.devices))


def plan_model_workers(settings: AuditSettings, options: RunOptions) -> ModelWorkerPlan | None:
    """The model workers of a local run; None if every worker process holds the models itself.

    There are model workers if ``--model-workers`` asks for them, or ``--device`` names a GPU, but for ``--workers 1``
    and a single GPU: then one process does everything.

    Raises:
        UsageError: if a GPU does not exist, or the method has no model.
    """
    if not runs_models(resolve_method(settings.method), settings.method):
        if options.model_workers is not None or is_list(options.gpus):
            raise UsageError(
                f"--method {settings.method.method} has no model, so that --model-workers and several devices say "
                "nothing; leave them out"
            )
        return None
    by_default = is_list(options.gpus) or (bool(options.gpus) and options.workers != 1)
    if options.model_workers is None and not by_default:
        return None
    if sys.platform == "win32":
        raise UsageError("--model-workers and several devices need Linux or macOS; use --device cuda --workers 1")
    devices = _existing(options.gpus) if is_list(options.gpus) else (*options.gpus,) or (settings.model.device,)
    count = options.model_workers or len(devices)
    if count < len(devices):
        raise UsageError(
            f"--model-workers should be at least the number of devices, {len(devices)}, was: {count}; name fewer in "
            "--device"
        )
    cpu_workers = options.workers or len(os.sched_getaffinity(0))
    return ModelWorkerPlan(tuple(islice(cycle(devices), count)), cpu_workers)


def _existing(gpus: Sequence[str]) -> tuple[str, ...]:
    """The listed GPUs by number, or all that there are.

    Raises:
        UsageError: if there are none, or one does not exist.
    """
    count = gpu_count()
    if not count:
        raise UsageError(f"--device {','.join(gpus)}: torch finds no CUDA here; use --device cpu")
    if list(gpus) == [ALL_GPUS]:
        return tuple(f"cuda:{number}" for number in range(count))
    missing = [name for name in gpus if int(name.partition(":")[2] or 0) >= count]
    if missing:
        existing = "only cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise UsageError(f"--device {','.join(gpus)}: there is no {' and no '.join(missing)}, torch finds {existing}")
    return tuple(gpus)


def gpu_count() -> int:
    """Number of GPUs that torch finds; asked in another process, so that the driver need not load torch.

    Raises:
        UsageError: if torch cannot be loaded.
    """
    asked = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise UsageError("the number of GPUs cannot be found, because torch cannot be loaded; use --device cpu")
    return int(asked.stdout)


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
    needs, model = resolve_method(settings.method).needs, settings.model
    decoder = decoder_to_choose_for(model, settings.method, needs)
    if model.dtype == AUTO_DTYPE:
        candidate = model if may_leave_float32(needs) and model.model != BUNDLED_MODEL_NAME else None
        choice = _earlier_choice("model", "dtype", settings, options, earlier) or _choice(candidate, settings, options)
        if choice[0] is not None:
            settings = replace(settings, model=model.replaced(dtype=choice[0]))
            options = options.replaced(dtype_choice=choice[1])
    if decoder is not None:
        name = "language_model_dtype"
        choice = _earlier_choice("method", name, settings, options, earlier) or _choice(
            decoder, settings, options, " for the language model"
        )
        dtype = choice[0] or AUTO_DTYPE  # it is told, lest it should take the model's
        settings = replace(settings, method=settings.method.replaced(language_model_dtype=dtype))
        options = options.replaced(language_model_dtype_choice=choice[1]) if choice[1] else options
    return settings, options


_Choice = tuple[str, str] | tuple[None, None]
"""A dtype and what to record of it; None twice where there is nothing to choose."""


def _earlier_choice(
    group: str, name: str, settings: AuditSettings, options: RunOptions, earlier: RunManifest | None
) -> _Choice | None:
    """What the run that is continued chose for the option ``name``; None where it asked for something else."""
    if earlier is None:
        return None
    before, asked, run = earlier.options.get(group), plain_settings(settings)[group], earlier.options.get("run")
    if not isinstance(before, dict) or not isinstance(asked, dict) or name not in earlier.models:
        return None
    why, dtype = run.get(f"{name}_choice") if isinstance(run, dict) else None, earlier.models[name]
    had_no_choice = (
        before.get(name) is None and dtype == "float32" if group == "model" else before.get(name) == AUTO_DTYPE
    )
    if (why is None and not had_no_choice) or {**asked, name: None} != {**before, name: None}:
        return None
    if why is not None and dtype != "float32" and dtype not in half_precision_instructions():
        options.messages.say(
            f"--dtype auto keeps {dtype}, in which this audit was started, but this processor has no instructions "
            f"for products in {dtype}, which may take many times as long; --dtype float32 does all rows again"
        )
    return (None, None) if why is None else (dtype, why)


def _choice(model: ModelOptions | None, settings: AuditSettings, options: RunOptions, of: str = "") -> _Choice:
    on_cpu = model is not None and (model.device == "cpu" or (model.device == "auto" and not has_gpu()))
    if model is None or not on_cpu or not half_precision_instructions():
        return None, None
    if (chosen := _chosen(model, threads=settings.threads)) is None:
        return None, None
    options.messages.say(f"--dtype auto chooses {chosen[0]}{of}: {chosen[1]}")
    return chosen[0], f"{chosen[0]}: {chosen[1]}"


def _chosen(model: ModelOptions, *, threads: int) -> tuple[str, str] | None:
    """The dtype and the reason; None if there is nothing to choose, or the model cannot be read, as workers will say.

    Another process looks, with as many threads as a worker has, so that the driver need not load torch.
    """
    options = {name: value for name, value in model.explicit().items() if name in _ASKED_WITH}
    asked = subprocess.run(
        [sys.executable, "-m", "attribeam.attribution.models.precision"],
        input=json.dumps(options),
        env={**os.environ, **thread_environment(threads)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    choice = None if asked.returncode else json.loads(asked.stdout.splitlines()[-1])
    return None if choice is None else (choice["dtype"], choice["reason"])
