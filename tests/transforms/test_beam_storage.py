"""Beam's file systems behind the same interface, and clients of S3, never used by two at once."""

import os
import time
from dataclasses import dataclass

import pytest
from apache_beam.io.aws import s3io
from apache_beam.io.aws.clients.s3 import boto3_client
from apache_beam.io.filesystems import FileSystems
from tests.logs.log_files import log_row, write_log

from attribeam.pipeline.command_line import main
from attribeam.schemas.errors import ExitCode, UsageError
from attribeam.transforms import beam_storage
from attribeam.transforms.beam_storage import BeamStorage, check_extra


def test_linked_partitions_are_found(tmp_path):
    write_log(tmp_path / "real" / "log.parquet", [log_row(0)])
    (tmp_path / "hv").mkdir()
    (tmp_path / "hv" / "d1").symlink_to("../real")
    assert BeamStorage().find(f"{tmp_path}/hv/*/*.parquet", suffix=".parquet") == [f"{tmp_path}/hv/d1/log.parquet"]


def test_changed_file_has_another_stamp(tmp_path):
    path = write_log(tmp_path / "log.parquet", [log_row(0)])
    before = BeamStorage().stamp(path)
    write_log(tmp_path / "log.parquet", [log_row(0), log_row(1)])
    assert before is not None
    assert BeamStorage().stamp(path) != before
    assert BeamStorage().stamp(str(tmp_path / "none.parquet")) is None


@pytest.mark.parametrize(("path", "extra"), [("s3://logs/*.parquet", "s3"), ("gs://logs/a.parquet", "gcs")])
def test_bucket_without_its_client_names_the_extra(path, extra, monkeypatch):
    monkeypatch.setattr(beam_storage, "_is_installed", lambda _: False)
    with pytest.raises(UsageError, match=rf"pip install 'attribeam\[{extra}\]'"):
        check_extra(path)
    check_extra("hdfs://logs/a.parquet")
    check_extra("a.parquet")


def test_audit_on_a_runner_says_which_extra_it_needs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(beam_storage, "_is_installed", lambda _: False)
    given = ("--input", "s3://logs/*.parquet", "--output", str(tmp_path / "out"), "--runner", "DirectRunner")
    assert main(["audit", *given]) == ExitCode.BAD_USAGE
    assert "pip install 'attribeam[s3]'" in capsys.readouterr().err


def test_beams_file_systems_know_the_runners_options_before_anything_is_looked_up(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(FileSystems, "set_options", given.append)
    options = ("--runner", "DirectRunner", "--hdfs_host=namenode")
    assert main(["audit", "--input", f"{tmp_path}/none", "--output", str(tmp_path / "out"), *options]) == 2
    assert given[0].get_all_options()["hdfs_host"] == "namenode"


OPTIONS, OTHER_OPTIONS = {"region": "eu-north-1"}, {"region": "eu-north-1"}


@dataclass
class Made:
    """A client by its number; an open file leaves its stream in it."""

    number: int
    stream: str | None = None


@pytest.fixture
def made(monkeypatch):
    """The options of every client that is made."""
    made = []

    def make(options):
        made.append(options)
        return Made(len(made))

    monkeypatch.setattr(beam_storage, "_make_client", make)
    monkeypatch.setattr(boto3_client, "Client", beam_storage._IdleClients().client)
    monkeypatch.setattr(s3io, "BOTO3_INSTALLED", True)
    return made


def test_later_operations_use_the_client_of_the_first(made):
    for _ in range(5):
        s3io.S3IO(options=OPTIONS).client.stream = "open"
    assert made == [OPTIONS]
    assert s3io.S3IO(options=OPTIONS).client == Made(1, stream=None)


def test_operations_at_the_same_time_have_clients_of_their_own(made):
    at_once = [s3io.S3IO(options=OPTIONS) for _ in range(3)]
    assert [one.client.number for one in at_once] == [1, 2, 3]
    del at_once
    again = [s3io.S3IO(options=OPTIONS) for _ in range(3)]
    assert {one.client.number for one in again} == {1, 2, 3}
    assert len(made) == 3


def test_another_run_has_other_clients(made):
    first = s3io.S3IO(options=OPTIONS)
    assert s3io.S3IO(options=OTHER_OPTIONS).client.number == 2
    del first
    assert s3io.S3IO(options=OTHER_OPTIONS).client.number == 2
    assert len(made) == 2


@pytest.mark.usefixtures("made")
def test_an_old_client_is_not_used_again_since_its_credentials_may_have_ended(monkeypatch):
    assert s3io.S3IO(options=OPTIONS).client.number == 1
    later = time.monotonic() + beam_storage._FRESH_SECONDS
    monkeypatch.setattr(beam_storage.time, "monotonic", lambda: later)
    assert [s3io.S3IO(options=OPTIONS).client.number for _ in range(2)] == [2, 2]


def test_a_run_in_another_thread_never_lends_its_clients(made):
    class Interrupted(beam_storage._IdleClients):
        """Lets another run take and return a client when the first one has set its list of them."""

        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name in ("_kept", "_idle") and interrupt:
                interrupt.pop()
                self.client(OTHER_OPTIONS)

    interrupt = []
    clients = Interrupted()
    interrupt.append(True)
    used = clients.client(OPTIONS)
    assert made[used.number - 1] is OPTIONS


@pytest.mark.usefixtures("made")
def test_a_forked_process_leaves_the_clients_to_its_parent():
    clients = beam_storage._idle_clients
    clients.client(OPTIONS)
    child = os.fork()
    if child == 0:
        os._exit(clients.client(OPTIONS).number)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert clients.client(OPTIONS).number == 1
    clients.forget()
