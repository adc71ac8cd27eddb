"""What ``--dtype auto`` means in a local audit: decided once, before the workers start, and kept by every later run.

The decision stands in the settings, as if the user had made it. So workers only do as they are told, and a chunk that
was computed in another precision is of another configuration. This module imports no model library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace

from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.methods.models import decoder_to_choose_for, may_leave_float32
from attribeam.attribution.models.processor import half_precision_instructions
from attribeam.attribution.option_declaration import AUTO_DTYPE, BUNDLED_MODEL_NAME
from attribeam.attribution.options import ModelOptions
from attribeam.pipeline.chunks.configuration import plain_settings
from attribeam.pipeline.options.audit_options import RunOptions
from attribeam.pipeline.workers.worker_process import has_gpu, thread_environment
from attribeam.schemas.run_manifest import RunManifest
from attribeam.transforms.audit_settings import AuditSettings

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
