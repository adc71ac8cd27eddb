"""A hub model's files in the local cache, pinned to one commit; fetches only the files that are needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import constants, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import tqdm as hub_tqdm

from attribeam.schemas.errors import ModelLoadError, ModelUnavailableError

_SMALL_FILES = ("*.json", "*.jinja", "*.py", "*.model", "*.tiktoken", "*.txt")
_HUB_ERRORS = (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError)


def fetch_description(model: str, revision: str | None) -> Path:
    """The folder of a hub model's config, tokenizer and code, without weights; its name is the commit.

    Asks the hub for the commit of ``revision`` (default: the main branch); offline, the cache gives the last one seen.

    Raises:
        ModelLoadError: if there is no such model or revision, if it is gated, or if neither hub nor cache provides it.
    """
    return _fetch(model, revision, _SMALL_FILES)


def fetch_weights(model: str, commit: str, names: Sequence[str]) -> None:
    """Fetch these files of one commit into the same folder; files that the model lacks are skipped.

    Raises:
        ModelLoadError: as for ``fetch_description``.
    """
    folder = _cached_folder(model, commit)
    if folder is None or not all((folder / name).is_file() for name in names):
        _fetch(model, commit, names, bars=hub_tqdm)


class _NoBar(hub_tqdm):
    """A progress bar that is never shown."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **{**options, "disable": True})  # type: ignore[no-untyped-call]


def _fetch(model: str, revision: str | None, patterns: Sequence[str], *, bars: type[hub_tqdm] = _NoBar) -> Path:
    try:
        return Path(
            snapshot_download(
                model, revision=revision, allow_patterns=[*patterns], ignore_patterns=["*/*"], tqdm_class=bars
            )
        )
    except _HUB_ERRORS as error:
        folder = _cached_folder(model, revision) if isinstance(error, LocalEntryNotFoundError) else None
        if folder is None:
            kind = ModelLoadError if _is_final(error) else ModelUnavailableError
            raise kind(f"model {model!r} {_explanation(model, revision, error)}") from error
        return folder


def _cached_folder(model: str, revision: str | None) -> Path | None:
    """The folder with files from an earlier fetch, which may lack some that the patterns name."""
    config = try_to_load_from_cache(model, "config.json", revision=revision)
    return Path(config).parent if isinstance(config, str) else None


def _is_final(error: Exception) -> bool:
    """Whether the next attempt would fail, too."""
    if isinstance(error, LocalEntryNotFoundError):
        return constants.is_offline_mode()
    return isinstance(error, GatedRepoError | RepositoryNotFoundError | RevisionNotFoundError | HFValidationError)


def _explanation(model: str, revision: str | None, error: Exception) -> str:
    page = f"{constants.ENDPOINT}/{model}"
    if isinstance(error, GatedRepoError):
        return f"is gated: accept its terms at {page}, then log in with 'hf auth login' or set HF_TOKEN"
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"should be 'bundled', a directory or a hub id; there is no such directory, and no such model at {page}, "
            "or it is private; check --model, or log in with 'hf auth login'"
        )
    if isinstance(error, RevisionNotFoundError):
        return f"has no revision {revision!r}; see {page}/tree/main and --revision"
    if isinstance(error, LocalEntryNotFoundError):
        return _unreachable(model)
    if isinstance(error, HFValidationError):
        return "should be 'bundled', a directory or a hub id such as organisation/name; it is none of these"
    return f"could not be fetched from {page}: {error}"


def _unreachable(model: str) -> str:
    cause = "HF_HUB_OFFLINE is set" if constants.is_offline_mode() else f"the hub {constants.ENDPOINT} is unreachable"
    return (
        f"is no local directory, and {cause}, and it is not wholly in the cache {constants.HF_HUB_CACHE}; fetch it "
        f"with 'hf download {model}' where there is a network, or name a directory with --model"
    )
