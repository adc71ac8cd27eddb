"""The attributor's recipe: rows, network, training loop, and held-out rows with labelled claims."""

import json
import random

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from lab.benchmarks.support_check import SpanTruth, load_support_rows
from lab.data_files import PageText
from lab.training.attributor import training_rows as attributor_wording
from lab.training.attributor.corpus import make_corpus, split_held_out
from lab.training.attributor.network import (
    BOS_ID,
    Shape,
    answer_attention,
    collate,
    new_model,
    save_tokenizer,
    train_tokenizer,
)
from lab.training.attributor.recipe import run_recipe
from lab.training.attributor.support_rows import evidence_mass, main
from lab.training.attributor.training_loop import TrainingPlan, train
from lab.training.attributor.training_rows import PROMPT_TEMPLATE, TrainingRow, draw_batch

PLACES = ["Arvik", "Belmora", "Corden", "Dunhaven", "Elsby", "Farrow", "Glimsund", "Hartwell", "Ismere", "Jorvale"]
TRADES = ["a glass works", "a whaling station", "a school for pilots", "an observatory", "a salt mine"]


def pages():
    """Ten pages of three paragraphs on towns that do not exist."""
    return [
        PageText(
            place,
            [
                f"{place} is a harbour town on the river Lund. It was founded in {1500 + 13 * index} by Queen Ysolde. "
                f"The town grew quickly because of {TRADES[index % 5]}, which closed {index + 3} years later.",
                f"A fire destroyed most of {place} in {1700 + 7 * index}. The mayor, Ansel {PLACES[-index]}, rebuilt "
                "it. Its market hall was copied from the one in the capital.",
                f"Today {place} has {1000 + 311 * index} inhabitants. Naïve visitors ask for “old {place}” – gone.",
            ],
        )
        for index, place in enumerate(PLACES)
    ]


@pytest.fixture(scope="module")
def corpus():
    return make_corpus(pages())


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return train_tokenizer(corpus.texts(), vocabulary_size=600)


CPU = torch.device("cpu")
SMALL = Shape(hidden_size=32, intermediate_size=32, local_layers=2, attention_heads=2, window=8)


def test_resumed_run_equals_an_uninterrupted_one(corpus, tokenizer, tmp_path):
    plan = TrainingPlan(steps=4, token_budget=256, checkpoint_every=2, record_every=2, shape=SMALL)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    expected, history = train(corpus, tokenizer, plan=plan, output=whole, device=CPU)
    train(corpus, tokenizer, plan=plan, output=broken, device=CPU, stop_at=2)
    resumed, resumed_history = train(corpus, tokenizer, plan=plan, output=broken, device=CPU)
    assert resumed_history == history
    for name, weights in expected.state_dict().items():
        assert torch.equal(weights, resumed.state_dict()[name]), name


def test_recipe_writes_a_directory_that_transformers_loads_with_one_bos(corpus, tmp_path):
    plan = TrainingPlan(steps=2, token_budget=384, shape=SMALL)
    run_recipe(corpus, plan=plan, output=tmp_path, device=CPU, vocabulary_size=600, held_out_batches=6)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    encoding = tokenizer("Arvik – naïve.", return_offsets_mapping=True, return_tensors="pt")
    ids = encoding["input_ids"][0].tolist()
    assert tokenizer.is_fast
    assert (ids[0], ids.count(tokenizer.bos_token_id)) == (tokenizer.bos_token_id, 1)
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<s>", "</s>", "<pad>")
    assert encoding["offset_mapping"][0, -1].tolist() == [13, 14]
    model = AutoModel.from_pretrained(tmp_path, local_files_only=True, dtype=torch.float32)
    assert model(encoding["input_ids"]).last_hidden_state.isfinite().all()
    settings = json.loads((tmp_path / "attribution_config.json").read_text(encoding="utf-8"))
    assert settings["prompt_template"] == PROMPT_TEMPLATE
    assert 0 <= settings["weak_threshold"] <= settings["supported_threshold"] <= 1
    assert (tmp_path / "loss_curve.png").read_bytes().startswith(b"\x89PNG")


def test_answer_attention_equals_eager_attention_normalised_over_the_prompt(corpus, tokenizer):
    torch.manual_seed(0)
    model = new_model(SMALL, vocabulary_size=tokenizer.get_vocab_size())
    for weights in model.layers[:-1].parameters():
        weights.data.mul_(3.0)  # so that the local layers matter
    rows = draw_batch(corpus, tokenizer, seed=0, step=0, token_budget=600)
    with torch.no_grad():
        fast = answer_attention(model, collate(rows))
        model.set_attn_implementation("eager")
        for row, weights in zip(rows, fast, strict=True):
            eager = model(torch.tensor([row.token_ids]), output_attentions=True).attentions[SMALL.local_layers]
            prompt = eager[0, :, row.answer_start :, : row.answer_start]
            torch.testing.assert_close(weights, (prompt / prompt.sum(-1, keepdim=True)).mean(0))


def draw_rows(corpus, tokenizer, steps):
    return [row for step in range(steps) for row in draw_batch(corpus, tokenizer, seed=5, step=step, token_budget=256)]


def token_text(row, column):
    return row.text[slice(*row.offsets[column])]


def test_gold_columns_hold_the_text_that_was_copied(corpus, tokenizer, monkeypatch):
    monkeypatch.setattr(attributor_wording, "OTHER_WORDING_SHARE", 0.0)
    unlike = compared = 0
    for row in draw_rows(corpus, tokenizer, 30):
        for place, columns in enumerate(row.gold):
            if not columns or columns == (BOS_ID,):
                continue
            said = token_text(row, row.answer_start + place).lower()
            shown = row.text[row.offsets[columns[0]][0] : row.offsets[columns[-1]][1]].lower()
            compared += 1
            unlike += not (said in shown or shown in said)
            assert columns[-1] < row.answer_start
    assert compared > 1000
    assert unlike / compared < 0.02  # a changed ending points at the end of the word that it replaces


def test_rows_depend_only_on_seed_and_step(corpus, tokenizer):
    drawn = []
    for global_seed, seed, step in ((1, 3, 7), (2, 3, 7), (2, 3, 8), (2, 4, 7)):
        random.seed(global_seed)
        drawn.append(draw_batch(corpus, tokenizer, seed=seed, step=step, token_budget=256))
    first, same, *others = drawn
    assert first == same
    assert first not in others


TREES = ["alder", "beech", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "yew"]


def held_out_pages():
    """Pages on gardens that do not exist; each names a tree that no other page names."""
    return [
        PageText(
            f"Garden of {tree.title()}",
            [
                f"The {tree} garden was laid out in {1700 + 11 * index} by Greta {tree.title()}man for the town. "
                f"It has {40 + index} beds, and its wall was built by Otto Brandt after the flood.",
                f"In {1900 + 3 * index} a storm felled the great {tree}. Visitors from Norwich paid for a new one.",
            ],
        )
        for index, tree in enumerate(TREES)
    ]


@pytest.fixture(scope="module")
def held_out_corpus():
    return make_corpus(held_out_pages())


@pytest.fixture(scope="module")
def held_out_tokenizer(held_out_corpus):
    return train_tokenizer(held_out_corpus.texts(), vocabulary_size=500)


@pytest.fixture(scope="module")
def written(held_out_tokenizer, tmp_path_factory):
    directory = tmp_path_factory.mktemp("rows")
    source, output = directory / "pages.jsonl", directory / "rows.jsonl"
    lines = [json.dumps({"title": page.title, "paras": page.paragraphs}) for page in held_out_pages()]
    source.write_text("\n".join(lines), encoding="utf-8")
    save_tokenizer(held_out_tokenizer, directory, max_tokens=2048)
    main(["--pages", str(source), "--count", "40", "--output", str(output), "--tokenizer", str(directory)])
    return output


def test_written_rows_are_read_by_the_check_and_have_both_kinds_of_claims(written):
    answers = load_support_rows(written)
    truths = {truth for answer in answers for truth in answer.truths}
    assert len(answers) == 40
    assert {SpanTruth.SUPPORTED, SpanTruth.PARAPHRASE, SpanTruth.INVENTED_CLAUSE} <= truths
    assert all(len(answer.record.passages) >= 2 for answer in answers)


def test_only_held_out_pages_are_quoted(written, held_out_corpus):
    _, held_out = split_held_out(held_out_corpus)
    assert [page.title for page in held_out.pages] == ["Garden of Yew"]
    others = [tree for tree in TREES if tree != "yew"]
    for answer in load_support_rows(written):
        text = " ".join(passage.text for passage in answer.record.passages).lower()
        assert not any(f"the {tree} garden" in text or f"great {tree}" in text for tree in others)


def test_evidence_mass_excludes_template_columns_and_isolated_tokens():
    offsets = [(0, 0), (0, 2), (3, 5), (6, 8), (9, 10), (11, 12), (13, 14), (20, 25)]
    row = TrainingRow("", [0] * 8, offsets, 7, [()], [], 12, [])
    weights = torch.tensor([[0.1, 0.3, 0.2, 0.0, 0.0, 0.0, 0.4]])
    assert evidence_mass(weights, row, 20, 25) == pytest.approx(0.5)  # 1 and 2; column 6 is the template's
    weights = torch.tensor([[0.0, 0.3, 0.2, 0.0, 0.0, 0.4, 0.1]])
    assert evidence_mass(weights, row, 20, 25) == pytest.approx(0.5)  # column 5 stands alone
    weights = torch.tensor([[0.1, 0.4, 0.0, 0.0, 0.0, 0.5, 0.0]])
    assert evidence_mass(weights, row, 20, 25) == pytest.approx(0.9)  # 1 and 5 both do, so both count
