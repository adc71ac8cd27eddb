"""Hub models: one commit, recorded; files that are needed; the cache alone offline; errors that name the way."""

from pathlib import Path
from shutil import copy

import httpx2
import huggingface_hub
import pytest
from huggingface_hub import constants, errors
from tests.attribution.models.test_weight_loading import save_in_shards
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.models.weight_loading import load_weights
from attribeam.attribution.options import ModelOptions
from attribeam.schemas.errors import ModelLoadError, ModelUnavailableError

NAME = "brigg/lighthouse"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OLDER = "89abcdef0123456789abcdef0123456789abcdef"


def cache_folder(cache, commit, *, ref):
    """The folder of a commit in a cache of the hub's layout, with the name that points to it."""
    repository = cache / "models--brigg--lighthouse"
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    (repository / "refs" / ref).write_text(commit, encoding="ascii")
    folder = repository / "snapshots" / commit
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a hub that must not be asked."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def test_cached_model_loads_offline_and_its_commit_is_recorded(cache):
    save_tiny_model(cache_folder(cache, COMMIT, ref="main"))
    provenance = AttentionModel.from_pretrained(ModelOptions(model=NAME, device="cpu")).provenance()
    assert (provenance["model"], provenance["model_revision"]) == (NAME, COMMIT)


@pytest.mark.parametrize("revision", ["v1", OLDER])
def test_revision_is_a_name_or_a_commit_and_what_is_recorded_is_the_commit(cache, revision):
    save_tiny_model(cache_folder(cache, COMMIT, ref="main"))
    save_tiny_model(cache_folder(cache, OLDER, ref="v1"), "qwen2")
    directory = read_model_directory(ModelOptions(model=NAME, revision=revision))
    assert (directory.commit, directory.config.model_type) == (OLDER, "qwen2")
    assert Path(directory.location).name == OLDER


def test_model_that_is_not_cached_is_not_asked_for_offline(cache):
    with pytest.raises(ModelLoadError, match=rf"HF_HUB_OFFLINE is set, and it is not .* {cache}; fetch it with 'hf "):
        read_model_directory(ModelOptions(model=NAME))


def test_cached_model_without_its_weights_says_so_offline(cache):
    folder = save_tiny_model(cache_folder(cache, COMMIT, ref="main"))
    (folder / "model.safetensors").unlink()
    directory = read_model_directory(ModelOptions(model=NAME))
    with pytest.raises(ModelLoadError, match="should have its weights in safetensors files"):
        load_weights(directory, layer=2)


def test_revision_of_a_local_model_is_refused(tmp_path):
    with pytest.raises(ModelLoadError, match="leave --revision out"):
        read_model_directory(ModelOptions(model=str(save_tiny_model(tmp_path)), revision="v1"))


@pytest.fixture
def hub(tmp_path, cache, monkeypatch):
    """A hub that holds a model in several files and hands out what is asked for; the model, and what was asked."""
    origin, asked = tmp_path / "origin", []
    save_in_shards(origin)

    def download(model, *, revision, allow_patterns, **options):
        asked.append({"model": model, "revision": revision, "patterns": allow_patterns, **options})
        folder = cache / "models--brigg--lighthouse" / "snapshots" / COMMIT
        if not folder.is_dir():
            cache_folder(cache, COMMIT, ref="main")
        for pattern in allow_patterns:
            for path in origin.glob(pattern):
                copy(path, folder)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return origin, asked


def test_of_a_hub_model_only_files_with_needed_layers_are_fetched(hub):
    origin, asked = hub
    directory = read_model_directory(ModelOptions(model=NAME))
    folder = Path(directory.location)
    assert not list(folder.glob("*.safetensors"))
    load_weights(directory, layer=1)
    fetched = {path.name for path in folder.glob("*.safetensors")}
    assert 0 < len(fetched) < len(list(origin.glob("*.safetensors")))
    assert [(one["revision"], set(one["patterns"]) == fetched) for one in asked] == [(None, False), (COMMIT, True)]


def test_hub_model_that_has_only_gguf_files_is_refused_with_how_to_convert_one(hub):
    origin, _ = hub
    for path in origin.iterdir():
        path.unlink()
    (origin / "small.Q4_1.gguf").write_bytes(b"GGUF")
    way = rf"has no config\.json; .*\(hf download {NAME} FILE\.gguf --local-dir \.\) .*as docs/models\.md#gguf-files"
    with pytest.raises(ModelLoadError, match=way):
        read_model_directory(ModelOptions(model=NAME))


def _answered(kind, status):
    request = httpx2.Request("GET", "https://hub.invalid/brigg/lighthouse")
    return kind("refused", response=httpx2.Response(status, request=request))


@pytest.mark.parametrize(("error", "offline", "complaint"), [
    (_answered(errors.GatedRepoError, 403), False,
        r"is gated: accept its terms at \S+/brigg/lighthouse, then log in with"),
    (_answered(errors.RepositoryNotFoundError, 401), False,
        "no such directory, and no such model at .* or it is private"),
    (_answered(errors.RevisionNotFoundError, 404), False, "has no revision 'v9'; see"),
    (_answered(errors.HfHubHTTPError, 500), False, "could not be fetched from .*: refused"),
    (errors.LocalEntryNotFoundError("no"), False,
        r"the hub https://\S+ is unreachable, and it is not wholly in the cache"),
    (errors.LocalEntryNotFoundError("no"), True, "HF_HUB_OFFLINE is set, and it is not wholly in the cache"),
    (errors.HFValidationError("no"), False, "a hub id such as organisation/name; it is none of these"),
])  # fmt: skip
def test_each_way_in_which_a_hub_model_is_not_to_be_had_is_told_apart(cache, monkeypatch, error, offline, complaint):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(ModelLoadError, match=complaint) as raised:
        read_model_directory(ModelOptions(model=NAME, revision="v9"))
    assert isinstance(raised.value, ModelUnavailableError) == ("unreachable" in complaint or "fetched" in complaint)
    assert not cache.exists()


def test_partly_cached_model_that_suffices_is_used_where_the_hub_is_out_of_reach(cache, monkeypatch):
    save_tiny_model(cache_folder(cache, COMMIT, ref="main"))

    def incomplete(*_, **__):
        raise errors.LocalEntryNotFoundError("README.md is missing")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", incomplete)
    directory = read_model_directory(ModelOptions(model=NAME))
    assert directory.commit == COMMIT
    load_weights(directory, layer=2)
