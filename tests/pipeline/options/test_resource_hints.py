"""``--model-resource-hints``: they reach the model stage and no other, and wrong ones are refused before anything."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.portability.common_urns import resource_hints as urns
from apache_beam.transforms.resources import ResourceHint

from attribeam.logs.files import ArrowStorage
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.command_line import main
from attribeam.pipeline.graph import build_graph
from attribeam.pipeline.options.resource_hints import KNOWN_HINTS, check_hints, resource_hints
from attribeam.schemas import evidence_schema
from attribeam.schemas.run_manifest import InputFile
from attribeam.transforms.audit_settings import AuditSettings

CHUNK = Chunk("00000-log-r0000000000", RowRange("log.parquet", 0, 3), InputFile("log.parquet", 10, 3, "aa"))


def hints_by_transform(text: str) -> dict[str, dict[str, bytes]]:
    """The resource hints of the environment of every ParDo, from the pipeline's proto."""
    pipeline = beam.Pipeline()
    build_graph(
        pipeline,
        chunks=[(CHUNK, CHUNK.rows)],
        settings=AuditSettings(),
        storage=ArrowStorage(),
        evidence=evidence_schema(),
        commit=repr,
        take_up=bool,
        model_hints=check_hints(resource_hints(text)),
    )
    components: beam_runner_api_pb2.Components = pipeline.to_runner_api().components
    return {
        one.unique_name: dict(components.environments[one.environment_id].resource_hints)
        for one in components.transforms.values()
        if one.spec.urn == "beam:transform:pardo:v1"
    }


def test_the_hints_are_those_of_the_model_stage_and_of_no_stage_before_it() -> None:
    found = hints_by_transform("accelerator=type:nvidia-l4;count:1;install-nvidia-driver,min_ram=16GB")
    behind = {"AuditRows", "Commit"}
    wanted = {
        urns.ACCELERATOR.urn: b"type:nvidia-l4;count:1;install-nvidia-driver",
        urns.MIN_RAM_BYTES.urn: b"16000000000",
    }
    assert all(found[name] == wanted for name in behind)
    before = set(found) - behind
    assert {"ReadRows", "EncodeRows", "ParseAnswers"} <= before
    assert all(found[name] == {} for name in before)


def test_without_hints_no_stage_has_some() -> None:
    assert all(hints == {} for hints in hints_by_transform("").values())


def test_the_known_hints_are_beams() -> None:
    assert all(ResourceHint.is_registered(name) for name in KNOWN_HINTS)


def audit(tmp_path: Path, *more: str) -> int:
    return main(["audit", "--input", "none.parquet", "--output", str(tmp_path / "out"), *more])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu=1", "accelerator, min_ram, cpu_count, max_active_bundles_per_worker"),
        ("min_ram", "give min_ram a value"),
        ("min_ram=1GB,min_ram=2GB", "each hint once"),
    ],
)
def test_unknown_and_incomplete_hints_are_refused_with_those_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        audit(tmp_path, "--runner", "DirectRunner", "--model-resource-hints", text)
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_value_that_beam_cannot_read_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(tmp_path, "--runner", "DirectRunner", "--model-resource-hints", "min_ram=much") == 2
    error = capsys.readouterr().err
    assert "min_ram has a value that Beam cannot read: 'much'" in error
    assert "cpu_count" in error
    assert not (tmp_path / "out").exists()


def test_hints_without_a_runner_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(tmp_path, "--model-resource-hints", "min_ram=16GB") == 2
    assert "say nothing to a local run" in capsys.readouterr().err
