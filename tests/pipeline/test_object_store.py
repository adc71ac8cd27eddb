"""A distributed audit on an object store: a local S3 server, reached through Beam's own file system and by reports."""

import argparse
import json

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from tests.logs.log_files import write_log
from tests.pipeline.audit_fixtures import mixed_rows, save_tiny_audit
from tests.pipeline.distributed_audit import DistributedAudit, counted_rows

from attribeam.logs.files import ArrowStorage, match_files
from attribeam.report import report_command, show_command
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas.errors import UsageError
from attribeam.schemas.run_manifest import RunStatus
from attribeam.transforms.beam_storage import BeamStorage

boto3 = pytest.importorskip("boto3", reason="needs the extra attribeam[s3]")
moto_server = pytest.importorskip("moto.server", reason="needs moto, a local S3 server, with flask and flask-cors")

ROWS, STARTS = 20, [0, 8, 16]
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "eu-north-1"}


@pytest.fixture(scope="module")
def bucket():
    """The URI of a new bucket; clients find its server in the environment."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(
            Bucket="logs", CreateBucketConfiguration={"LocationConstraint": KEYS["AWS_DEFAULT_REGION"]}
        )
        yield "s3://logs"
    server.stop()


@pytest.fixture(scope="module")
def audit(bucket, tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    log = write_log(folder / "log.parquet", mixed_rows(ROWS), row_group_size=7)
    boto3.client("s3").upload_file(log, "logs", "nightly/log.parquet")
    return DistributedAudit.of(save_tiny_audit(folder), f"{bucket}/nightly/log.parquet")


ODD_KEYS = (
    "a b.parquet", "p%20q.parquet", "100%.parquet", "é🙂.parquet", "x#y?.parquet", "*.parquet", "l[1].parquet",
    "{a,b}.parquet", "day.parquet/part 0.parquet",
)  # fmt: skip


def find(storage, pattern):
    return [path.rpartition("odd/")[2] for path in storage.find(pattern, suffix=".parquet")]


@pytest.mark.parametrize("storage", [ArrowStorage(), BeamStorage()])
def test_odd_keys_of_a_bucket_are_found_and_read_by_both_clients(storage, bucket):
    FileSystems.set_options(PipelineOptions([]))
    for key in (*ODD_KEYS, "day.parquet/_SUCCESS", "marker.parquet/", "day.parquet/"):
        boto3.client("s3").put_object(Bucket="logs", Key=f"odd/{key}", Body=key.encode())
    for pattern in ("odd", "odd/", "odd/*.parquet", "odd/**", "o*/"):
        assert find(storage, f"{bucket}/{pattern}") == sorted(ODD_KEYS)
    assert find(storage, f"{bucket}/odd/day.parquet") == ["day.parquet/part 0.parquet"]
    assert find(storage, f"{bucket}/odd/marker.parquet/") == []
    for key in ODD_KEYS:
        assert key in find(storage, f"{bucket}/odd/{key}")
        with storage.open(f"{bucket}/odd/{key}") as file:
            assert file.read() == key.encode()
    assert f"{bucket}/odd/a b.parquet" in storage.find(bucket, suffix=".parquet")


def test_key_with_two_slashes_is_read_by_beam_and_refused_by_arrow(bucket):
    FileSystems.set_options(PipelineOptions([]))
    for key in ("slashes//a.parquet", "slashes/b.parquet"):
        boto3.client("s3").put_object(Bucket="logs", Key=key, Body=key.encode())
    found = BeamStorage().find(f"{bucket}/slashes", suffix=".parquet")
    assert found == [f"{bucket}/slashes//a.parquet", f"{bucket}/slashes/b.parquet"]
    for pattern in ("slashes", "slashes//a.parquet", "slashes//*.parquet"):
        with pytest.raises(UsageError, match=r"--input .*slashes.* cannot be looked up: .*mpty"):
            match_files([f"{bucket}/{pattern}"], ".parquet", ArrowStorage(), option="--input")
    paths, _ = match_files([f"{bucket}/slashes/*.parquet"], ".parquet", ArrowStorage(), option="--input")
    assert paths == [f"{bucket}/slashes/b.parquet"]
    for key in ("slashes//a.parquet", "slashes/b.parquet"):
        boto3.client("s3").delete_object(Bucket="logs", Key=key)


def test_a_bucket_is_read_written_resumed_and_reported(audit, bucket, tmp_path, capsys):
    output = f"{bucket}/audits/one"
    with counted_rows() as starts:
        audit.run(output)
    assert sorted(starts) == STARTS
    found = AuditDirectory.open(output, BeamStorage())
    assert (found.manifest.status, found.counts.rows, found.counts.is_reconciled) == (RunStatus.DONE, ROWS, True)
    sizes = BeamStorage().sizes(f"{output}/evidence")
    assert {f"{output}/evidence/{name}" for name in sizes} == set(found.evidence_files)
    assert {"run_manifest.json", "metrics.json", "metrics.prom", "report.html"} <= set(BeamStorage().sizes(output))

    BeamStorage().delete([found.evidence_files[1]])
    with counted_rows() as starts:
        audit.run(output)
    assert starts == [8]
    with counted_rows() as starts:
        audit.run(output)
    assert starts == []

    capsys.readouterr()
    for command, given in (
        (report_command, ["--format", "jsonl", "--output", str(tmp_path / "rows.jsonl")]),
        (show_command, ["row-12"]),
    ):
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        command.run(parser.parse_args([*given, "--audit", output]))
    rows = {json.loads(line)["source_row"] for line in (tmp_path / "rows.jsonl").read_text().splitlines()}
    assert len(rows) == found.counts.audited
    assert "Ada Thorne lit lamp 12" in capsys.readouterr().out
