"""Which devices model workers run on, from ``--device``, ``--model-workers`` and ``--workers``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attribeam.attribution.methods.audit_row import runs_models
from attribeam.attribution.methods.method import resolve_method
from attribeam.schemas.errors import UsageError
from attribeam.transforms.audit_settings import AuditSettings

if TYPE_CHECKING:
    from attribeam.pipeline.options.audit_options import RunOptions

ALL_GPUS = "all"
_GPU = re.compile(r"cuda(:\d+)?")
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


def named_gpus(device: str) -> tuple[str, ...]:
    """The GPUs that ``--device`` names: ``("cuda:0", "cuda:1")``, ``("all",)``, or none for ``auto`` and ``cpu``.

    Raises:
        UsageError: if a list names something else, or a GPU twice.
    """
    if device == ALL_GPUS or _GPU.fullmatch(device):
        return (device,)
    if "," not in device:
        return ()
    names = tuple(name.strip() for name in device.split(","))
    if not all(_GPU.fullmatch(name) for name in names):
        raise UsageError(f"--device should list GPUs, such as cuda:0,cuda:1, or be all, was: {device!r}")
    indices = [int(name.partition(":")[2] or 0) for name in names]
    if len(set(indices)) < len(indices):
        raise UsageError(f"--device should list each GPU once, was: {device!r}")
    return names


def is_list(gpus: Sequence[str]) -> bool:
    """Whether the GPUs are more than one, or may be."""
    return len(gpus) > 1 or gpus == (ALL_GPUS,)


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
