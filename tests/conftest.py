"""What tests of several folders share."""

import gc
import os
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

from attribeam.pipeline.worker_process import stop_import_server

settings.register_profile("attribeam", deadline=None, max_examples=50)  # a busy machine is slow, not wrong
settings.load_profile("attribeam")


_LONG_FILES = (
    "deploy/test_flink_cluster.py", "pipeline/test_golden_audits.py", "pipeline/test_model_worker_audits.py",
    "pipeline/test_local_driver.py", "pipeline/test_row_isolation.py", "pipeline/test_privacy.py",
    "test_distribution.py", "pipeline/test_audit_methods.py", "pipeline/test_distributed_driver.py",
    "pipeline/test_distributed_resuming.py", "pipeline/test_object_store.py", "lab/training/test_parser_recipe.py",
)  # fmt: skip
"""Those that take a minute or more, longest first."""


def pytest_collection_modifyitems(items):
    """Start long files first: where each file runs on one worker, a late one would keep the others waiting."""
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(_LONG_FILES)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def pytest_collection_finish():
    """Keep what lives as long as the tests out of garbage collections, which would look at it each time."""
    gc.collect()
    gc.freeze()


_TINY_MODELS_CODE = ("transformers.models.llama.modeling_llama", "transformers.tokenization_utils_tokenizers")
"""What a worker would import for itself to load a tiny model, which takes four times as long as all the rest."""


@pytest.fixture(scope="session", autouse=True)
def _one_import_server():
    """Let the audits of all tests fork their workers from one import server; another replaces it where it would differ.

    It also has one seed of hashes: a test for which that matters calls ``stop_import_server`` before its audit.
    """
    server = forkserver._forkserver
    ensure_running, inherited = server.ensure_running, _inherited(server)

    def ensure_fitting():
        nonlocal inherited
        alive = server._forkserver_pid is not None
        if alive and inherited != _inherited(server) and not psutil.Process(server._forkserver_pid).children():
            stop_import_server()
        if server._forkserver_pid is None:
            inherited = _inherited(server)
        ensure_running()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forkserver, "ensure_running", ensure_fitting)
        patch.setattr(forkserver, "set_forkserver_preload", lambda names: _preload(server, names))
        yield


def _preload(server, names):
    more = _TINY_MODELS_CODE if any(name.endswith("_imports") for name in names) else ()
    server.set_forkserver_preload([*names, *more])


def _inherited(server):
    """What processes inherit from an import server that starts now; their working directory is always the driver's."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    os.umask(umask := os.umask(0o077))
    return environment, umask, server._preload_modules


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """The directory of a tiny Llama; no test writes there."""
    from tests.attribution.tiny_models import save_tiny_model

    return save_tiny_model(tmp_path_factory.mktemp("llama"))


class _CarefulLibrary:
    """bitsandbytes' own library, never asked for weights whose scales it would mix up on processors with AVX-512."""

    def __init__(self, library):
        self._library = library

    def __getattr__(self, name):
        function = getattr(self._library, name)
        if not name.startswith("cdequantize_blockwise_cpu_nf4"):
            return function

        def checked(weights, scales, out, blocksize, rows, columns):
            if rows.value > 1 and columns.value % 16 == 0 and columns.value % blocksize.value != 0:
                pytest.fail(f"rows of {columns.value} weights were read in blocks of {blocksize.value}")
            function(weights, scales, out, blocksize, rows, columns)

        return checked


@pytest.fixture(params=[False, True], ids=["plain processor", "AVX512-BF16"])
def either_processor(request, monkeypatch):
    """Processors without instructions for bfloat16 and with them, as bitsandbytes sees them, whichever is here.

    4-bit weights that are repacked for the kernel of the latter fail the test, before that kernel could run; so do
    those of a shape whose scales are mixed up with AVX-512.
    """
    from bitsandbytes.backends.cpu import ops
    from bitsandbytes.nn import modules

    def repacked(*_, **__):
        pytest.fail("4-bit weights were repacked")

    monkeypatch.setattr(modules, "has_avx512bf16", lambda: request.param)
    monkeypatch.setattr(modules, "_convert_weight_packed_for_cpu", repacked)
    monkeypatch.setattr(ops, "lib", _CarefulLibrary(ops.lib))
