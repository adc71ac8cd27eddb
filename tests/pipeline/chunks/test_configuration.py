"""A prompt template travels as text: a worker needs no file."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from attribeam.attribution.models.row_encoder import load_row_encoder
from attribeam.attribution.options import ModelOptions
from attribeam.schemas.errors import UsageError
from attribeam.transforms.audit_settings import AuditSettings, with_template_text

TEXTS = {
    "mine.jinja": "{% for p in passages %}{{ p.text }}\n{% endfor %}Question – {{ question }}\nA: ",
    "mine.json": json.dumps({"passage": "{text}\n", "question": "Question – {question}\nA: "}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_worker_without_the_file_has_the_same_prompt_under_the_same_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(TEXTS[name], encoding="utf-8")
    options = ModelOptions(prompt_template=str(path))
    here = load_row_encoder(options)
    sent = pickle.dumps(with_template_text(AuditSettings(model=options)))
    path.unlink()
    there = load_row_encoder(pickle.loads(sent).model)
    assert (there.template_name, there.template.digest) == (name, here.template.digest)


@pytest.mark.parametrize("option", [None, "chat", "plain", "paper"])
def test_named_template_has_no_text_to_take_along(option: str | None) -> None:
    settings = AuditSettings(model=ModelOptions(prompt_template=option))
    assert with_template_text(settings) is settings


def test_text_is_taken_along_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text(TEXTS["mine.jinja"], encoding="utf-8")
    once = with_template_text(AuditSettings(model=ModelOptions(prompt_template=str(path))))
    assert with_template_text(once) is once


def test_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_bytes(b"\xff\xfe")
    settings = AuditSettings(model=ModelOptions(prompt_template=str(path)))
    with pytest.raises(UsageError, match=r"mine\.jinja should be a readable text file"):
        with_template_text(settings)
    with pytest.raises(UsageError, match=r"absent\.jinja"):
        with_template_text(replace(settings, model=ModelOptions(prompt_template="absent.jinja")))
