"""Loads a verifier by its name: of the hub, a directory, or another package; what it is, its config.json says."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
    T5ForTokenClassification,
)

from attribeam.attribution.models.loading import as_load_errors
from attribeam.attribution.models.model_directory import ModelDirectory, load_fast_tokenizer, read_model_directory
from attribeam.attribution.models.model_files import model_folder
from attribeam.attribution.models.precision import choose_device, choose_dtype
from attribeam.attribution.models.weight_files import weights_folder
from attribeam.attribution.models.weight_loading import quiet_transformers
from attribeam.attribution.option_declaration import VERIFIERS
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.verdict.verified import Verifier, calibrated_verifier
from attribeam.attribution.verifiers.classifiers import (
    FACTCG_PROMPT,
    MOST_PAIR_TOKENS,
    MOST_PROMPT_TOKENS,
    PairClassifier,
    PairPrompt,
    TokenClassifier,
    entailment_label,
    loaded,
    read_first_token,
    read_first_word,
    read_pair,
    read_tokens,
)
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.json_file import read_object

_HHEM = "HHEMv2"
_HHEM_FOUNDATION = "google/flan-t5-base"
_HHEM_PROMPT = "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {text1}\n\nHypothesis: {text2}"
_KINDS = "ForTokenClassification, ForSequenceClassification or T5ForConditionalGeneration"


def load_verifier(options: ModelOptions, *, threads: int | None = None) -> Verifier:
    """The verifier that ``options.model`` names, or what was calibrated in the directory of this name.

    ``threads`` sets torch's CPU threads for the whole process. No code of the model's repository runs unless
    ``trust_remote_code`` asks for it.

    Raises:
        ModelLoadError: if there is no such verifier, or it is of a kind that is not read.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    fitted = calibrated_verifier(options.model)
    if fitted is not None:
        options = options.replaced(model=fitted.verifier)
    for found in entry_points(group=VERIFIERS, name=options.model):
        return _of_package(found.value, found.load(), options)
    with as_load_errors(options.model):
        folder, commit = model_folder(options)
        config = read_object(folder / "config.json") if (folder / "config.json").is_file() else {}
        if config.get("model_type") == _HHEM:
            return _hhem(options, folder, commit, config)
        return _of_directory(read_model_directory(options, any_kind=True))


def _of_package(place: str, factory: Any, options: ModelOptions) -> Verifier:
    try:
        verifier: Verifier = factory(options)
    except TypeError as error:
        raise ModelLoadError(
            f"--verdict {options.model!r}: {place} should take the options, raised: {error}"
        ) from error
    if not callable(getattr(verifier, "verify", None)) or not callable(getattr(verifier, "provenance", None)):
        raise ModelLoadError(
            f"--verdict {options.model!r}: {place} should give a verifier with verify and provenance, gave "
            f"{type(verifier).__name__}; docs/extending.md shows one"
        )
    return verifier


def _of_directory(directory: ModelDirectory) -> Verifier:
    """The verifier that the config says it is; the name tells which prompt MiniCheck and FactCG were trained with."""
    config, name = directory.config, directory.options.model
    kind = next(iter(config.architectures or ()), "")
    short_name = Path(name).name.lower()
    tokenizer = load_fast_tokenizer(directory)
    if kind.endswith("ForTokenClassification"):
        if config.num_labels != 2:
            raise ModelLoadError(f"--verdict {name!r} should have two classes for tokens, has {config.num_labels}")
        network = _load(directory, AutoModelForTokenClassification)
        most = MOST_PROMPT_TOKENS
        return TokenClassifier(loaded(directory, network, tokenizer, read_tokens, most_tokens=most))
    most = MOST_PAIR_TOKENS
    separator = str(tokenizer.eos_token or tokenizer.sep_token or "\n")
    if kind.endswith("ForSequenceClassification"):
        network = _load(directory, AutoModelForSequenceClassification)
        prompt = FACTCG_PROMPT if "factcg" in short_name else None
        prompt = PairPrompt("", separator, "") if "minicheck" in short_name else prompt
        label = 1 if prompt else entailment_label(dict(network.config.id2label or {}), f"--verdict {name!r}")
        return PairClassifier(
            loaded(directory, network, tokenizer, read_pair, most_tokens=most),
            prompt=prompt,
            label=label,
        )
    if kind == "T5ForConditionalGeneration":
        network = _load(directory, AutoModelForSeq2SeqLM)
        return PairClassifier(
            loaded(directory, network, tokenizer, read_first_word, most_tokens=most),
            prompt=PairPrompt("predict: ", separator, ""),
            label=1,
        )
    raise ModelLoadError(
        f"--verdict {name!r} should be a verifier of the kind {_KINDS}, its config.json says {kind or 'none'}; a "
        "causal model goes with --verdict smollm2-135m, or a verdict fitted to it, see docs/models.md"
    )


def _hhem(options: ModelOptions, folder: Path, commit: str | None, config: dict[str, Any]) -> Verifier:
    """HHEM 2.1: a T5 encoder with a head, read without the code of its repository, which is for older versions."""
    foundation = str(config.get("foundation", _HHEM_FOUNDATION))
    base = read_model_directory(options.replaced(model=foundation), any_kind=True)
    directory = replace(base, location=str(folder), commit=commit, options=options)
    base.config.num_labels = 2
    try:
        prompt = PairPrompt.of_template(str(config.get("prompt", _HHEM_PROMPT)), "{text1}", "{text2}")
    except ValueError as error:
        raise ModelLoadError(f"--verdict {options.model!r}: the prompt in config.json {error}") from error
    network = _load(directory, T5ForTokenClassification, key_mapping={r"^t5\.": ""})
    tokenizer = load_fast_tokenizer(base)
    most = MOST_PAIR_TOKENS
    return PairClassifier(
        loaded(directory, network, tokenizer, read_first_token, most_tokens=most),
        prompt=prompt,
        label=1,
    )


def _load(directory: ModelDirectory, kind: Any, **reading: Any) -> PreTrainedModel:
    """The whole model, in evaluation mode on its device.

    Raises:
        ModelLoadError: if it lacks weights, or cannot be loaded for another reason.
    """
    options = directory.options
    device = choose_device(options.device)
    make = getattr(kind, "from_config", None) or kind
    trusting = {"trust_remote_code": True} if options.trust_remote_code and make is not kind else {}
    with torch.device("meta"):
        needed = sum(one.numel() for one in make(directory.config, **trusting).parameters())
    with weights_folder(directory, needed=needed) as folder, quiet_transformers():
        network, report = kind.from_pretrained(
            str(folder),
            config=directory.config,
            use_safetensors=True,
            dtype=choose_dtype(directory, device),
            output_loading_info=True,
            **trusting,
            **reading,
        )
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelLoadError(
            f"--verdict {options.model!r} should have all weights of a classifier, lacks {len(missing)}: "
            f"{', '.join(missing[:3])}; is it one, and is it complete?"
        )
    found: PreTrainedModel = network.eval().requires_grad_(False).to(device)
    return found
