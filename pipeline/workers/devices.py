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

from attribeam.attribution.methods.audit_row import runs_models
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.methods.models import decoder_to_choose_for, may_leave_float32
from attribeam.attribution.models.loading import half_precision_instructions
from attribeam.attribution.option_declaration import AUTO_DTYPE, BUNDLED_MODEL_NAME
from attribeam.attribution.options import ModelOptions
from attribeam.pipeline.audit_options import ALL_GPUS, RunOptions, is_list
from attribeam.pipeline.chunks.configuration import plain_settings
from attribeam.pipeline.workers.worker_process import has_gpu, thread_environment
from attribeam.schemas.errors import UsageError
from attribeam.schemas.run_manifest import RunManifest
from attribeam.transforms.audit_settings import AuditSettings

_WAITING_WORKERS = 2
"""Workers per model worker that wait for blocks at the end of their chunks, while others compute."""


@dataclass(frozen=True, slots=True)
class ModelWorkerPlan:
    """The processes of a run with model workers.

    Attributes:
        devices: one per model worker.
        turns: workers besides those that wait for blocks.
    """

    devices: tuple[str, ...]
    turns: int

    @property
    def workers(self) -> int:
        """Workers: a chunk that waits for its last block keeps its worker, which needs no processor then."""
        return self.turns + min(self.turns, _WAITING_WORKERS * len(self.devices))


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
    turns = options.workers or len(os.sched_getaffinity(0))
    return ModelWorkerPlan(tuple(devices[place % len(devices)] for place in range(count)), turns)


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
        found = "only cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise UsageError(f"--device {','.join(gpus)}: there is no {' and no '.join(missing)}, torch finds {found}")
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


@dataclass(frozen=True, slots=True)
class _Auto:
    """A model whose precision is to be chosen.

    Attributes:
        model: how to load it.
        may_be_chosen: whether it is worth while to look at it.
        room: the settings that ask for the precision, and its name there and in the provenance.
        record: the option that keeps the choice.
        said: what the user calls it.
    """

    model: ModelOptions
    may_be_chosen: bool
    room: str
    name: str
    record: str
    said: str = ""

    def as_before(self, settings: AuditSettings, earlier: RunManifest) -> bool:
        """Whether the earlier run had "auto" as well, or nothing to choose, and all else that it asked for here."""
        before, asked = earlier.options.get(self.room), plain_settings(settings)[self.room]
        if not isinstance(before, dict) or not isinstance(asked, dict) or self.name not in earlier.models:
            return False
        if self.room == "model":
            had_nothing_to_choose = before.get(self.name) is None and earlier.models[self.name] == "float32"
        else:
            had_nothing_to_choose = before.get(self.name) == AUTO_DTYPE
        was_auto = had_nothing_to_choose or self.recorded(earlier) is not None
        return was_auto and {**asked, self.name: None} == {**before, self.name: None}

    def recorded(self, earlier: RunManifest) -> str | None:
        """The choice of an earlier run, and its reason."""
        run = earlier.options.get("run")
        return run.get(self.record) if isinstance(run, dict) else None


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
        is_candidate = may_leave_float32(needs) and settings.model.model != BUNDLED_MODEL_NAME
        auto = _Auto(settings.model, is_candidate, "model", "dtype", "dtype_choice")
        if (choice := _choice(auto, settings, options, earlier)) is not None:
            dtype, why = choice
            settings = replace(settings, model=settings.model.replaced(dtype=dtype))
            options = options.replaced(dtype_choice=why)
    if decoder is None:
        return settings, options
    name, said = "language_model_dtype", " for the language model"
    auto = _Auto(decoder, True, "method", name, "language_model_dtype_choice", said)
    choice = _choice(auto, settings, options, earlier)
    dtype = AUTO_DTYPE if choice is None else choice[0]  # it is told, lest it should take the model's
    options = options if choice is None else options.replaced(language_model_dtype_choice=choice[1])
    return replace(settings, method=settings.method.replaced(language_model_dtype=dtype)), options


def _choice(
    auto: _Auto, settings: AuditSettings, options: RunOptions, earlier: RunManifest | None
) -> tuple[str, str] | None:
    """The dtype and what to record of it; None if there is nothing to choose."""
    if earlier is not None and auto.as_before(settings, earlier):
        why, dtype = auto.recorded(earlier), earlier.models[auto.name]
        if why is not None and dtype != "float32" and dtype not in half_precision_instructions():
            options.messages.say(
                f"--dtype auto keeps {dtype}, in which this audit was started, but this processor has no instructions "
                f"for products in {dtype}, which may take many times as long; --dtype float32 does all rows again"
            )
        return None if why is None else (dtype, why)
    may_choose = auto.may_be_chosen and _runs_on_cpu(auto.model) and bool(half_precision_instructions())
    chosen = _chosen(auto.model, threads=settings.threads) if may_choose else None
    if chosen is None:
        return None
    dtype, reason = chosen
    options.messages.say(f"--dtype auto chooses {dtype}{auto.said}: {reason}")
    return dtype, f"{dtype}: {reason}"


def _runs_on_cpu(model: ModelOptions) -> bool:
    return model.device == "cpu" or (model.device == "auto" and not has_gpu())


def _chosen(model: ModelOptions, *, threads: int) -> tuple[str, str] | None:
    """The dtype and the reason; None if there is nothing to choose, or the model cannot be read, as workers will say.

    Another process looks, with as many threads as a worker has, so that the driver need not load torch.
    """
    asked = subprocess.run(
        [sys.executable, "-m", "attribeam.attribution.models.precision"],
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
