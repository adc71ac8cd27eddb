"""SmolLM2-135M-Instruct as an attributor: real weights of a Llama with grouped heads, and its chat template.

It comes as a GGUF file, which is converted first. The rows were written for this test. Without the package of
``tests/pretrained_models.txt`` and the package ``gguf`` everything is skipped.
"""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tests.attribution.attention.test_capture import EVERYTHING, eager_similarity
from tests.attribution.made_rows import full_similarity
from tests.attribution.models.test_gguf_files import convert_as_documented
from tests.attribution.models.test_pretrained_encoder import PASSAGES as FERRY_PASSAGES
from tests.attribution.models.test_pretrained_encoder import QUESTION
from tests.attribution.prompts.test_token_offsets import attributed_by
from tests.pipeline.audit_process import read_all
from tests.pretrained_packages import SMOLLM2, checked_package
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.hidden_states import states_of_layers
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.language_models import LanguageModel
from attribeam.attribution.options import MethodOptions, ModelOptions, QueryPosition
from attribeam.pipeline.command_line import main
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import Passage, QARecord, RowSource

pytestmark = pytest.mark.pretrained

LAYER = 18
"""The layer whose attention finds most passages of the package's own labelled rows."""

PASSAGES = {
    **FERRY_PASSAGES,
    "owners": "The line belongs to the town, which bought it in 1931 from a company that had gone bankrupt.",
}
CLAIMS = (
    "In December the ice keeps the boats in the harbour", "Children under seven years travel free",
    "The town has owned the line since 1931", "The older of the two vessels was built in Kalbrook",
)  # fmt: skip
ANSWER = f"{'. '.join(CLAIMS)}. Café 🙂"
ANSWERS = (ANSWER, "Children travel free.", "It was bought in 1931.", ANSWER[:60])


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    package = checked_package(SMOLLM2)
    pytest.importorskip("gguf", reason="gguf is not installed")
    folder = tmp_path_factory.mktemp("converted") / "SmolLM2-135M-Instruct"
    convert_as_documented(next(package.glob("*.gguf")), folder)
    return folder


@cache
def load(directory, *, dtype="float32", layer=LAYER):
    options = ModelOptions(model=str(directory), device="cpu", dtype=dtype, layer=layer)
    return AttentionModel.from_pretrained(options, method=MethodOptions(top_k=EVERYTHING), threads=1)


@pytest.fixture(scope="module")
def model(directory):
    return load(directory)


def record(answer=ANSWER, *, name="ferry"):
    passages = tuple(Passage(text, title) for title, text in PASSAGES.items())
    return QARecord(name, QUESTION, passages, answer, RowSource("log", 0))


def test_decoder_gets_its_own_chat_template_and_layer(directory):
    found = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"), threads=1)
    assert (found.layer, found.layer_count, found.query_position) == (16, 30, QueryPosition.PREDICTING)
    assert (found.max_tokens, found.network.config.num_key_value_heads) == (8192, 3)
    assert found.provenance()["prompt_template_name"] == "chat"


def test_tokens_are_those_of_the_models_own_chat(model, directory):
    tokenizer = AutoTokenizer.from_pretrained(directory)
    rendered = model.template.render(question=QUESTION, passages=record().passages).text
    opening, _, rest = rendered.partition("<|im_start|>user\n")
    message, _, closing = rest.partition("<|im_end|>")
    assert opening.startswith("<|im_start|>system\n")
    assert closing == "\n<|im_start|>assistant\n"
    chat = [{"role": "user", "content": message}]
    theirs = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    expected = tokenizer(theirs + ANSWER, add_special_tokens=False)["input_ids"]
    assert model.encode(record()).token_ids.tolist() == expected


def test_every_token_covers_its_own_characters(model, directory):
    tokenizer, row = AutoTokenizer.from_pretrained(directory), model.encode(record())
    texts = [*PASSAGES.values()]
    for column in np.flatnonzero((row.column_passage >= 0) & ~row.column_in_title):
        start, end = row.column_char_start[column], row.column_char_end[column]
        token = tokenizer.decode([row.token_ids[column]])
        assert texts[row.column_passage[column]][start:end] == token.strip()
    pieces = zip(row.response_char_start, row.response_char_end, strict=True)
    covered = {place for start, end in pieces for place in range(start, end)}
    assert covered == {place for place, letter in enumerate(ANSWER) if not letter.isspace()}
    assert tokenizer.decode(row.token_ids[row.prompt_length :]) == ANSWER


def test_captured_attention_is_transformers_own(model, directory):
    row = model.encode(record())
    expected = eager_similarity(directory, model, row)
    np.testing.assert_allclose(full_similarity(attributed_by(model, row, len(PASSAGES))), expected, atol=1e-5, rtol=0)


def test_attention_finds_the_passages_of_paraphrases(directory):
    attributor = Attributor.from_pretrained(str(directory), layer=LAYER, spans="given", device="cpu", threads=1)
    places = [(ANSWER.index(claim), ANSWER.index(claim) + len(claim)) for claim in CLAIMS]
    found = attributor.attribute(question=QUESTION, passages=[*PASSAGES.values()], answer=ANSWER, target_spans=places)
    assert [one.top_passage_index for one in found] == [0, 1, 2, 3]


def test_probability_of_an_answer_is_transformers_own_and_falls_without_its_passage(directory):
    language = LanguageModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))
    whole = record("In 1931.")
    rows = [language.encode(one) for one in (whole, replace(whole, passages=whole.passages[1:2]))]
    plain = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager").eval()
    sums = []
    for row, found in zip(rows, language.token_log_probabilities(rows), strict=True):
        np.testing.assert_allclose(found, log_probabilities(plain, row), atol=1e-4, rtol=0)
        sums.append(float(np.sum(found)))
    assert sums[0] > sums[1] + 1


def log_probabilities(plain, row):
    ids = torch.from_numpy(row.token_ids.astype(np.int64))
    with torch.no_grad():
        logits = plain(input_ids=ids[None]).logits[0].log_softmax(-1)
    return logits[torch.arange(row.prompt_length - 1, len(ids) - 1), ids[row.prompt_length :]].numpy()


def test_converted_file_is_the_decoder_of_the_shipped_verdict(directory):
    judge = Attributor.from_pretrained(verdict="smollm2-135m", language_model=str(directory), device="cpu", threads=1)
    rows = [
        {"question": QUESTION, "passages": [*PASSAGES.values()], "answer": answer}
        for answer in (". ".join(CLAIMS), "The ferry runs twice a day, and a captain from Norway steers it.")
    ]
    true, invented = judge.attribute_many(rows)
    assert true[0].answer_risk < judge_threshold(judge) <= invented[0].answer_risk


def judge_threshold(judge):
    return float(judge.provenance()["answer_risk_threshold"])


def test_audit_with_the_model_reconciles(directory, tmp_path):
    rows = [
        {"record_id": f"ferry-{number}", "question": QUESTION, "passages": [*PASSAGES.values()], "answer": answer}
        for number, answer in enumerate([*ANSWERS, None])
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    config = tmp_path / "layer.json"
    config.write_text(json.dumps({"layer": LAYER}), encoding="utf-8")
    options = ["--model", str(directory), "--attribution-config", str(config), "--device", "cpu", "--workers", "1"]
    output = tmp_path / "audit"
    assert main(["audit", "--input", str(tmp_path / "log.parquet"), "--output", str(output), *options]) == 0
    evidence, dead = read_all(output / "evidence"), read_all(output / "dead_letters")
    assert set(evidence["record_id"].to_pylist()) == {f"ferry-{number}" for number in range(len(ANSWERS))}
    assert dead["record_id"].to_pylist() == [f"ferry-{len(ANSWERS)}"]
    audit = AuditDirectory.open(output)
    assert (audit.counts.rows, audit.counts.audited, audit.counts.dead_lettered) == (5, 4, 1)
    assert (audit.manifest.models["layer"], audit.manifest.models["prompt_template_name"]) == (str(LAYER), "chat")


def test_hidden_states_are_transformers_own(model, directory):
    row, layers = model.encode(record()), (0, 1, LAYER - 1)
    reference = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    with torch.no_grad():
        ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
        expected = reference(ids, output_hidden_states=True).hidden_states
    found = states_of_layers(model.network, row.token_ids, layers=layers)
    for layer in layers:
        largest = float(expected[layer].abs().max())
        torch.testing.assert_close(
            found[layer].reshape(expected[layer].shape), expected[layer], atol=1e-5 * largest, rtol=1e-4
        )
