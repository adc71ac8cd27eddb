"""Running the distributed driver in this process, on Beam's runner in memory, with tiny models."""

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from attribeam.pipeline import distributed_driver
from attribeam.pipeline.audit_options import RunOptions
from attribeam.pipeline.worker_pool import load_models
from attribeam.schemas.run_manifest import ChunkManifest
from attribeam.transforms import stages
from attribeam.transforms.audit_settings import AuditSettings

ROWS_PER_CHUNK = 8


@dataclass(frozen=True, slots=True)
class DistributedAudit:
    """One audit's settings and log; the models' provenance is found once, not by a new process for every run."""

    settings: AuditSettings
    log: str
    models: Mapping[str, str]

    @classmethod
    def of(cls, settings, log):
        """The audit of a log; loads the models in this process, where the driver starts another."""
        return cls(settings, log, load_models(settings))

    def run(self, output, **options):
        given = {"input": (self.log,), "output": str(output), "rows_per_chunk": ROWS_PER_CHUNK, "quiet": True}
        run = RunOptions().replaced(**{**given, "runner": "DirectRunner", **options})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distributed_driver, "_load_here", lambda *_: self.models)
            return distributed_driver.run_distributed(self.settings, run)


@contextmanager
def counted_rows():
    """The first rows of the ranges that are read during the block, in the order in which they are."""
    starts = []
    outcomes = stages._outcomes

    def noted(rows, *given, **options):
        starts.append(rows.row_start)
        return outcomes(rows, *given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "_outcomes", noted)
        yield starts


def chunk_manifests(output):
    paths = sorted((output / "_chunks").glob("*.json"))
    return {path.stem: ChunkManifest.from_json(path.read_text()) for path in paths}


def written_files(output):
    """Evidence and dead letters, relative to the output."""
    return {
        path.relative_to(output).as_posix() for path in [*output.glob("evidence/*"), *output.glob("dead_letters/*")]
    }


def named_files(output):
    manifests = chunk_manifests(output).values()
    return {file.path for one in manifests for file in (one.evidence, one.dead_letters)}
