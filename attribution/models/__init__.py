"""What loaders share: what is costly is loaded once, errors of libraries, what the processor computes fast, and files.

A model's files are found, fetched from the hub if need be, and checked before a library opens them. Libraries believe a
directory: they wait for a pipe, make a billion layers, run its code, or end the whole process.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import ParamSpec, TypeVar

from attribeam.attribution.option_declaration import BUNDLED_MODEL_NAME
from attribeam.attribution.options import ModelOptions
from attribeam.schemas import RowFault
from attribeam.schemas.errors import AttribeamError, DataError, ModelLoadError, ModelUnavailableError
from attribeam.schemas.files import check_regular, read_object

CAPTURE_IMPLEMENTATION = "attribeam_capture"
"""The name of the attention that is captured, among those that transformers can be told to use."""
_LONGEST_FAULT = 500
_OUT_OF_MEMORY_MESSAGES = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
"""Of torch's CPU allocator, and of CUDA where something other than torch's GPU allocator asked for the memory."""


def is_out_of_memory(error: BaseException) -> bool:
    """True for the out-of-memory errors of Python, of CUDA and its libraries, and of torch's CPU allocator."""
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in _OUT_OF_MEMORY_MESSAGES)


@contextmanager
def as_load_errors(model: str) -> Iterator[None]:
    """Turn whatever a missing, broken or hostile model makes libraries raise into ``ModelLoadError``."""
    try:
        yield
    except DataError as error:
        raise ModelLoadError(f"model {model!r}: {error}") from error
    except AttribeamError:
        raise
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__module__ == "pyo3_runtime":  # a library in Rust gave up
            kind = ModelUnavailableError if is_out_of_memory(error) else ModelLoadError
            raise kind(f"model {model!r} {_explained(error)}") from error
        raise


def _explained(error: BaseException) -> str:
    if isinstance(error, KeyError):
        if error.args == (CAPTURE_IMPLEMENTATION,):
            return "should go through transformers' attention interface, but its code does not; choose another model"
        return (
            f"should have a config.json and a tokenizer.json that transformers {version('transformers')} knows, "
            f"{error} is missing or unknown; fetch them again"
        )
    if isinstance(error, RowFault):
        return f"cannot take a sample row: {error}; do tokenizer.json and config.json belong to one model?"
    if "ignore_mismatched_sizes" in str(error):
        return (
            "should have weights of the shapes that its config.json says, has others; are both of one model? fetch "
            "them again"
        )
    if is_out_of_memory(error):
        return (
            "does not fit into the free memory of its device; try --quantization nf4, which needs the least, or choose "
            "another --model, --device or --dtype"
        )
    kind = "" if isinstance(error, OSError | ValueError | ImportError) else f"{type(error).__name__}: "
    fault = " ".join(str(error).split())[:_LONGEST_FAULT]
    return (
        f"could not be loaded: {kind}{fault} (--model should be 'bundled', a hub id or a directory with config.json, "
        "tokenizer.json and safetensors weights)"
    )


_P = ParamSpec("_P")
_T = TypeVar("_T")


def loaded_once(load: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a loader so that its last result stays loaded for the next call with the same, hashable arguments.

    Threads wait for the one that loads; ``lru_cache`` alone would let each load its own. One that raises is called
    again.
    """
    keep, lock = lru_cache(maxsize=1)(load), RLock()

    @wraps(load)
    def load_or_wait(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with lock:
            return keep(*args, **kwargs)  # type: ignore[arg-type]

    return load_or_wait


_PROCESSOR = Path("/proc/cpuinfo")
_FLAGS = re.compile(r"^(?:flags|Features)[ \t]*:(.*)", re.MULTILINE)
"""The line of instructions in /proc/cpuinfo: on x86, and on ARM."""
_PRODUCT_INSTRUCTIONS = {"bfloat16": ("amx_bf16", "avx512_bf16"), "float16": ("amx_fp16", "avx512_fp16")}
_QUESTIONS_TO_TORCH = {
    "amx_bf16": "_is_amx_tile_supported",
    "avx512_bf16": "_is_avx512_bf16_supported",
    "amx_fp16": "_is_amx_fp16_supported",
}


def half_precision_instructions() -> dict[str, tuple[str, ...]]:
    """Instructions for products of matrices, by dtype; only those of x86 are known. On Linux no torch is needed."""
    try:
        named = _FLAGS.search(_PROCESSOR.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        named = None
    if named is not None:
        flags = set(named[1].split())
    else:
        import torch  # heavy, and not needed on Linux

        flags = {flag for flag, name in _QUESTIONS_TO_TORCH.items() if getattr(torch.cpu, name, bool)()}
    known = {dtype: tuple(name for name in names if name in flags) for dtype, names in _PRODUCT_INSTRUCTIONS.items()}
    return {dtype: names for dtype, names in known.items() if names}


BUNDLED_MODEL = Path(__file__).parents[1] / "bundled" / "attributor"
CONFIG_FILE = "attribution_config.json"
TOKENIZER = "tokenizer.json"
_CONFIG = "config.json"
GGUF_FILES = "*.gguf"
_CONVERSION = "docs/models.md#gguf-files"
_DESCRIPTION = ("*.json", "*.jinja", "*.py", "*.model", "*.tiktoken", "*.txt")
"""What is fetched of a hub model without its weights."""


def model_folder(options: ModelOptions) -> tuple[Path, str | None]:
    """The folder of a model's config, tokenizer and code, and the commit of a hub model; fetches no weights.

    The hub is asked for the commit of the revision (default: the main branch); offline, the cache gives the last one.
    Raises ``ModelLoadError`` if there is no such model or revision, if it is gated, or if neither hub nor cache
    provides it.
    """
    model = options.model
    folder = BUNDLED_MODEL if model == BUNDLED_MODEL_NAME else Path(model).expanduser()
    if model == BUNDLED_MODEL_NAME and not (folder / _CONFIG).is_file():
        raise ModelLoadError(
            "the bundled attributor should lie beside the package, but is not there; install a complete "
            "distribution, train it with python -m lab.train attributor, or choose another --model"
        )
    if folder.is_dir():
        if options.revision is not None:
            raise ModelLoadError(
                f"--revision is for models of the hub, {model!r} is a local one, whose revision is a digest of its "
                "files; leave --revision out"
            )
        return folder, None
    if folder.match(GGUF_FILES) and folder.is_file():
        refuse_gguf(model, [folder])
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise ModelLoadError(f"model {model!r} should be a directory with config.json, there is none; check --model")
    folder = _fetch(model, options.revision, _DESCRIPTION)
    return folder, folder.name


def fetch_weights(model: str, commit: str, names: Sequence[str]) -> None:
    """Fetch these files of one commit, but those that the model lacks; raises as ``model_folder``."""
    folder = _cached_folder(model, commit)
    if folder is None or not all((folder / name).is_file() for name in names):
        _fetch(model, commit, names, shows_progress=True)


def _fetch(model: str, revision: str | None, patterns: Sequence[str], *, shows_progress: bool = False) -> Path:
    from huggingface_hub import errors, snapshot_download
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **{**options, "disable": True})  # type: ignore[no-untyped-call]

    bars = tqdm if shows_progress else Bar
    try:
        return Path(
            snapshot_download(
                model, revision=revision, allow_patterns=[*patterns], ignore_patterns=["*/*"], tqdm_class=bars
            )
        )
    except (errors.HfHubHTTPError, errors.HFValidationError, errors.LocalEntryNotFoundError) as error:
        folder = _cached_folder(model, revision) if isinstance(error, errors.LocalEntryNotFoundError) else None
        if folder is None:
            raise _not_fetched(model, revision, error) from error
        return folder


def _cached_folder(model: str, revision: str | None) -> Path | None:
    """The folder with files from an earlier fetch, which may lack some that the patterns name."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(model, _CONFIG, revision=revision)
    return Path(config).parent if isinstance(config, str) else None


def _not_fetched(model: str, revision: str | None, error: Exception) -> ModelLoadError:
    """The error of a model that is not to be had; a ``ModelUnavailableError`` if the next attempt may succeed."""
    from huggingface_hub import constants, errors

    page, offline = f"{constants.ENDPOINT}/{model}", constants.is_offline_mode()
    if isinstance(error, errors.LocalEntryNotFoundError):
        cause = "HF_HUB_OFFLINE is set" if offline else f"the hub {constants.ENDPOINT} is unreachable"
        return (ModelLoadError if offline else ModelUnavailableError)(
            f"model {model!r} is no local directory, and {cause}, and it is not wholly in the cache "
            f"{constants.HF_HUB_CACHE}; fetch it with 'hf download {model}' where there is a network, or name a "
            "directory with --model"
        )
    final_causes: dict[type[Exception], str] = {
        errors.GatedRepoError: (
            f"is gated: accept its terms at {page}, then log in with 'hf auth login' or set HF_TOKEN"
        ),
        errors.RepositoryNotFoundError: (
            "should be 'bundled', a directory or a hub id; there is no such directory, and no such model at "
            f"{page}, or it is private; check --model, or log in with 'hf auth login'"
        ),
        errors.RevisionNotFoundError: f"has no revision {revision!r}; see {page}/tree/main and --revision",
        errors.HFValidationError: (
            "should be 'bundled', a directory or a hub id such as organisation/name; it is none of these"
        ),
    }
    for kind, cause in final_causes.items():
        if isinstance(error, kind):
            return ModelLoadError(f"model {model!r} {cause}")
    return ModelUnavailableError(f"model {model!r} could not be fetched from {page}: {error}")


def refuse_gguf(model: str, files: Iterable[Path]) -> None:
    """Refuse GGUF files by a ``ModelLoadError`` that says how to convert one."""
    for file in sorted(files):
        raise ModelLoadError(
            f"model {model!r} should be a directory with config.json, tokenizer.json and safetensors weights, has a "
            f"GGUF file, {file.name}; convert it once as {_CONVERSION} says, and name the new directory with --model"
        )


def check_whole(model: str, folder: Path) -> None:
    """Refuse a GGUF file without a config, an adapter, and a folder without a config, by a ``ModelLoadError``.

    Where transformers reads an adapter, it is without effect, or changes a model that nobody named.
    """
    has_config = (folder / _CONFIG).is_file()
    if not has_config:
        refuse_gguf(model, folder.glob(GGUF_FILES))
    if (folder / "adapter_config.json").is_file():
        raise ModelLoadError(
            f"model {model!r} should be a whole model, is an adapter (adapter_config.json); merge it into its base "
            "model with merge_and_unload of peft and save_pretrained, and name that directory with --model"
        )
    if not has_config:
        raise ModelLoadError(
            f"model {model!r} should have config.json, tokenizer.json and safetensors weights, has no config.json; of "
            f"a hub model with GGUF files, fetch one (hf download {model} FILE.gguf --local-dir .) and convert it as "
            f"{_CONVERSION} says"
        )


_FILES_NAMING_CODE = (_CONFIG, "tokenizer_config.json")


def code_references(folder: Path) -> list[str]:
    """What model and tokenizer name as their own classes, such as "modeling_own.OwnModel", sorted."""
    paths = (folder / file for file in _FILES_NAMING_CODE)
    maps = [read_object(path).get("auto_map") for path in paths if path.is_file()]
    return sorted({value for _, _, value in _json_values(maps) if isinstance(value, str)})


def check_code(options: ModelOptions, folder: Path) -> None:
    """Refuse a model that needs code of its repository unasked, or code of which nobody knows the revision."""
    from transformers import CONFIG_MAPPING

    config = read_object(folder / _CONFIG)
    if not options.trust_remote_code:
        if config.get("auto_map") and config.get("model_type") not in CONFIG_MAPPING:
            raise untrusted_code(options, folder)
        return
    elsewhere = sorted({name.partition("--")[0] for name in code_references(folder) if "--" in name})
    if elsewhere:
        raise ModelLoadError(
            f"model {options.model!r} should bring its code along, names code of {', '.join(elsewhere)}, whose "
            "revision nothing pins; put model and .py files into one directory, leave the names before '--' out of "
            f"auto_map in its {' and '.join(_FILES_NAMING_CODE)}, and name it with --model"
        )


def untrusted_code(options: ModelOptions, folder: Path) -> ModelLoadError:
    """The error of a model whose code was not asked for."""
    return ModelLoadError(
        f"model {options.model!r} needs code of its own repository, not run unasked; read the .py files in "
        f"{folder}, then allow it with --trust-remote-code"
    )


def _json_values(value: object, path: str = "", key: str = "") -> Iterator[tuple[str, str, object]]:
    """Every value in one of JSON, itself included: its path, its key, which those of a list do not have, and itself."""
    yield path, key, value
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _json_values(child, f"{path}.{name}" if path else name, name)
    elif isinstance(value, list):
        for child in value:
            yield from _json_values(child, path)


_OBJECTS = (_CONFIG, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "generation_config.json")
_LIMITS = (
    (re.compile(r"layers?$|^n_layers?$|blocks$|depth$|groups?$"), 1_000),
    (re.compile(r"experts$"), 2**14),
    (re.compile(r"labels$"), 100_000),
    (re.compile(r"theta|base|window|seed|val|clip|_id$"), None),
    (re.compile(""), 2**24),
)
"""The largest whole number of a config by its key; the first pattern that is found in the key counts."""
_POSITIVE = re.compile(
    r"(num_hidden_layers|n_layers?|num_attention_heads|n_heads?|vocab_size|hidden_size|n_embd|max_position_embeddings"
    r"|n_positions)"
)


def check_files(folder: Path) -> None:
    """Check that a directory holds regular files, and JSON objects where libraries expect them, of credible sizes.

    Raises ``DataError`` if it does not; the message names the file, what was expected and what was found.
    """
    check_regular(sorted(folder.iterdir()))
    objects = {name: read_object(folder / name) for name in _OBJECTS if (folder / name).is_file()}
    for path, key, value in _json_values(objects.get(_CONFIG, {})):
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        limit = next(most for pattern, most in _LIMITS if pattern.search(key))
        least = 1 if _POSITIVE.fullmatch(key) else None
        if (limit is not None and value > limit) or (least is not None and value < least):
            expected = f"at most {limit:,}" if least is None else f"from 1 to {limit:,}"
            raise DataError(
                f"{folder / _CONFIG}: {path[:99]} should be {expected}, was: {str(value)[:30]}; choose another --model"
            )


_LARGEST_TOKENIZER = 2**28
_RUNNING = {"Precompiled", "Replace", "Split", "Regex"}
"""What of a tokenizer's file works like a program: maps, replacements and patterns."""
_TRIAL = """
import resource, sys
from tokenizers import Tokenizer
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[3]),) * 2)
try:
    tokenizer = Tokenizer.from_file(sys.argv[1])
    tokenizer.encode("Déjà vu: 3.5 million people, " * 200 + "aaaa" * 200 + " " * 200 + "\\u706f\\u5854\\n")
except BaseException as error:
    sys.exit(" ".join(str(error).split())[:300])
"""
_TRIAL_BYTES, _TRIAL_SECONDS = 2**30, 3
"""What the trial of a tokenizer may take; a large file may take more to be read."""


def check_tokenizer(file: Path) -> None:
    """Check a ``tokenizer.json``, and try one with maps, replacements or patterns in a process of its own.

    Such a process may end by a signal, or take too much time or memory; that is a ``DataError``, too.
    """
    status = file.stat()
    _try_tokenizer(file, (status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=8)
def _try_tokenizer(file: Path, _: tuple[int, int]) -> None:
    checked = {**read_object(file, limit=_LARGEST_TOKENIZER), "model": None, "added_tokens": None}
    parts = [part for _, _, part in _json_values(checked) if isinstance(part, dict)]
    for part in parts:
        if part.get("type") == "TemplateProcessing":
            _check_template(file, part)
    if not any(part.get("type") in _RUNNING or not _RUNNING.isdisjoint(part) for part in parts):
        return
    size = file.stat().st_size
    limits = (str(_TRIAL_BYTES + 32 * size), str(_TRIAL_SECONDS + (size >> 22)))
    ended = subprocess.run([sys.executable, "-P", "-c", _TRIAL, file, *limits], capture_output=True, check=False)
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").splitlines()[-1:] if ended.returncode == 1 else []
        why = said[0] if said else "a short one takes too much time or memory, or ends the process"
        raise DataError(f"{file} should be a tokenizer that takes any text, but: {why}; choose another --model")


def _check_template(file: Path, template: dict[str, object]) -> None:
    """Check that a post-processor knows the special tokens that it adds."""
    named = {
        str(value.get("id"))
        for _, key, value in _json_values([template.get("single"), template.get("pair")])
        if key == "SpecialToken" and isinstance(value, dict)
    }
    known = template.get("special_tokens")
    unknown = sorted(named - set(known if isinstance(known, dict) else ()))
    if unknown:
        raise DataError(f"{file}: post_processor adds {unknown[0][:99]!r}, which is none of its special_tokens")
