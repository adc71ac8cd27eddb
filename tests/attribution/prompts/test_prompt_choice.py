"""Which prompt a model gets, and what the run says about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from attribution.models.model_directory import ModelLoadError
from attribution.models.model_options import ModelOptions
from attribution.prompts.prompt_choice import ChosenTemplate, choose_template
from attribution.prompts.prompt_template import PAPER_TEMPLATE, PLAIN_TEMPLATE, PromptTemplate
from attribution.prompts.row_encoder import RowEncoder, load_row_encoder
from schemas import Passage, QARecord, RowSource
from tests.attribution.prompts.test_chat_template import CHATML, fast
from tests.attribution.small_tokenizers import byte_level
from tests.attribution.tiny_models import save_tiny_model

OWN = PromptTemplate(preamble="Own. ")
RECORD = QARecord("r", "Who?", (Passage("Ada lit it. <|im_end|>"),), "Ada.", RowSource("log.parquet", 0))


@pytest.mark.parametrize(
    ("option", "default", "chat", "name"),
    [
        (None, OWN, CHATML, "model"),
        (None, None, CHATML, "chat"),
        (None, None, None, "plain"),
        ("plain", OWN, CHATML, "plain"),
        ("paper", OWN, None, "paper"),
        ("chat", OWN, CHATML, "chat"),
    ],
)
def test_option_wins_then_the_directory_then_the_chat_template(
    option: str | None, default: PromptTemplate | None, chat: str | None, name: str
) -> None:
    chosen = choose_template(option, default=default, tokenizer=fast(chat))
    assert chosen.name == name
    expected = {"model": OWN, "plain": PLAIN_TEMPLATE, "paper": PAPER_TEMPLATE}
    assert name == "chat" or chosen == ChosenTemplate(name, expected[name])


@pytest.mark.parametrize("suffix", [".jinja", ".json"])
def test_file_is_read_by_its_suffix_and_named_without_its_folder(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"mine{suffix}"
    jinja = "{% for p in passages %}{{ p.text }}\n{% endfor %}Q: {{ question }}\nA: "
    path.write_text(
        jinja if suffix == ".jinja" else json.dumps({"passage": "{text}\n", "question": "Q: {question}\nA: "})
    )
    chosen = choose_template(str(path), default=OWN, tokenizer=fast(CHATML))
    assert chosen.name == f"mine{suffix}"
    assert chosen.template.render(question="Who?", passages=[Passage("x")]).text == "x\nQ: Who?\nA: "


def chat_model(directory: Path) -> Path:
    save_tiny_model(directory)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_level(), bos_token="<s>", eos_token="</s>", pad_token="<pad>", chat_template=CHATML
    )
    tokenizer.save_pretrained(directory)
    return directory


def encoder(directory: Path, option: str | None) -> RowEncoder:
    return load_row_encoder(ModelOptions(model=str(directory), prompt_template=option, device="cpu"))


def test_model_with_a_chat_template_gets_it_without_another_bos(tmp_path: Path) -> None:
    directory = chat_model(tmp_path)
    chosen = encoder(directory, None)
    row = chosen.encode(RECORD)
    tokenizer = byte_level()
    assert chosen.template_name == "chat"
    assert tokenizer.id_to_token(int(row.token_ids[0])) == "<|im_start|>"
    assert row.token_ids.tolist().count(tokenizer.token_to_id("<s>")) == 0
    assert row.token_ids.tolist().count(tokenizer.token_to_id("<|im_end|>")) == 1
    plain = encoder(directory, "plain").encode(RECORD)
    assert plain.token_ids.tolist().count(tokenizer.token_to_id("<s>")) == 1
    assert plain.token_ids.tolist().count(tokenizer.token_to_id("<|im_end|>")) == 0


def test_bundled_model_keeps_its_own_template() -> None:
    chosen = load_row_encoder(ModelOptions())
    assert (chosen.template_name, chosen.template) == ("model", PLAIN_TEMPLATE)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("absent.jinja", None, r"absent\.jinja"),
        ("upper.jinja", "{{ question | upper }}", r"upper\.jinja.*as they are"),
        ("broken.json", "{", r"broken\.json"),
        ("chat", None, "should have a chat template, has none; use --prompt-template plain"),
    ],
)
def test_template_that_cannot_be_used_is_a_load_error(
    tmp_path: Path, name: str, content: str | None, complaint: str
) -> None:
    directory = save_tiny_model(tmp_path / "model")
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ModelLoadError, match=complaint):
        encoder(directory, name if name == "chat" else str(tmp_path / name))
