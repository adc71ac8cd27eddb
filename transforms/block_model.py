"""What runs blocks of rows through the method's models: those of this process, or those of another one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from attribeam.attribution.methods.audit_row import AuditRow, model_outcomes
from attribeam.attribution.methods.models import load_audit_models
from attribeam.attribution.methods.registry import resolve_method
from attribeam.attribution.options import MethodOptions
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.elements import BlockOutcomes, start_outcomes

if TYPE_CHECKING:
    import torch


class BlockModel(Protocol):
    """Runs blocks through the models of a method."""

    @property
    def settings(self) -> MethodOptions | None:
        """The method's options merged with the model's; None without an attention model."""
        ...

    def start(self, rows: Sequence[AuditRow]) -> BlockOutcomes:
        """Start on a block; its outcomes may be pending."""
        ...


class OwnModels:
    """The models of this process, which are loaded once for all of its threads."""

    def __init__(self, settings: AuditSettings) -> None:
        """Load the models.

        Raises:
            ModelLoadError: as ``load_audit_models``.
        """
        self._method = resolve_method(settings.method)
        self._models = load_audit_models(settings.models, self._method.needs)

    @property
    def settings(self) -> MethodOptions | None:
        """See ``BlockModel``."""
        return None if self._models.attention is None else self._models.attention.settings

    def start(self, rows: Sequence[AuditRow]) -> BlockOutcomes:
        """See ``BlockModel``."""
        work = partial(model_outcomes, self._method, self._models, rows)
        return start_outcomes(work, ahead=runs_in_model_thread(self._models.device))


def runs_in_model_thread(device: torch.device) -> bool:
    """Whether the model runs in its own thread, while other blocks are parsed and written: True on a GPU.

    On a CPU all stages share the processors anyway.
    """
    return device.type != "cpu"


_elsewhere: BlockModel | None = None


def run_blocks_elsewhere(model: BlockModel) -> None:
    """Let all stages of this process use ``model``, which runs in another process, instead of models of their own.

    Beam pickles its stages, so what cannot be pickled belongs to the process.
    """
    global _elsewhere
    _elsewhere = model


def load_block_model(settings: AuditSettings) -> BlockModel:
    """The model of ``run_blocks_elsewhere``, else this process's own.

    Raises:
        ModelLoadError: as ``OwnModels``.
    """
    return _elsewhere or OwnModels(settings)
