"""Verifiers of the hub: pair classifiers and token classifiers."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch
import transformers as hf
from safetensors.torch import load_file
from tests.attribution.tiny_models import edit_json
from tests.attribution.tiny_verifiers import KINDS, NLI, WORDS, save_nli, save_verifier

from attribeam.attribution.language_models import verifiers
from attribeam.attribution.language_models.verifiers import AnswerDoubts, TokenClassifier, load_verifier
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.verdict.verified import AnswerToVerify, ClaimToVerify, VerifiedAnswer
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError

PAIRS = tuple(kind for kind in KINDS if kind != "lettucedetect")
PREMISE, CLAIM = "The lighthouse was built in 1874 by Ada Thorne.", "Ada Thorne built the {lighthouse}."
MADE = ("MiniCheck-RoBERTa", "nli")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verifiers")
    return {kind: save_verifier(folder, kind) for kind in KINDS}


def options(folder, **more):
    return ModelOptions(model=str(folder), device="cpu", **more)


def asked(premises, *claims, order=None):
    passages = tuple(Passage(text=one) for one in premises)
    record = QARecord("1", "Who?", passages, " ".join(claims), RowSource("log", 0))
    places = tuple(order or range(len(premises)))
    return AnswerToVerify(record, tuple(ClaimToVerify(CharRange(0, len(one)), one, places) for one in claims))


def support(kind, folders, *answers):
    found = load_verifier(options(folders[kind])).verify(answers)
    return [one.support for one in found if isinstance(one, VerifiedAnswer)]


@torch.inference_mode()
def by_hand(kind, folder, premise, claim):
    """As the authors' own code does it, one pair at a time."""
    if kind == "hhem":
        foundation = folder.parent / "foundation"
        tokenizer = hf.AutoTokenizer.from_pretrained(foundation)
        config = hf.T5Config.from_pretrained(foundation, num_labels=2)
        model = hf.T5ForTokenClassification(config).eval()
        weights = load_file(folder / "model.safetensors")
        model.load_state_dict({name.removeprefix("t5."): one for name, one in weights.items()}, strict=False)
        text = f"<pad> Is it true?\n\nPremise: {premise}\n\nHypothesis: {claim}"
        return float(model(**tokenizer(text, return_tensors="pt")).logits[:, 0].softmax(-1)[0, 1])
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    if kind == "MiniCheck-Flan-T5":
        t5 = hf.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        inputs = tokenizer(f"predict: {premise}</s>{claim}", return_tensors="pt")
        logits = t5(**inputs, decoder_input_ids=torch.zeros((1, 1), dtype=torch.long)).logits[0, 0]
        return float(logits[[3, 209]].softmax(-1)[1])
    pair = hf.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    if kind == "nli":
        return float(pair(**tokenizer(premise, claim, return_tensors="pt")).logits.softmax(-1)[0, 2])
    question = f'\n\nChoose your answer: based on the paragraph above can we conclude that "{claim}"?'
    factcg = f"{premise}{question}\n\nOPTIONS:\n- Yes\n- No\nI think the answer is "
    text = factcg if kind == "FactCG-DeBERTa" else f"{premise}</s>{claim}"
    return float(pair(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0, 1])


@pytest.mark.parametrize("kind", PAIRS)
def test_support_is_what_the_authors_code_gives_for_each_pair(kind, folders):
    claims = (CLAIM, "Its keeper painted the tower in a week, twice.", "Nobody.")
    batch = support(kind, folders, asked([PREMISE], *claims), asked(["Rain fell."], CLAIM))
    expected = [by_hand(kind, folders[kind], PREMISE, one) for one in claims]
    assert batch[0] == pytest.approx(expected, abs=1e-5)
    assert batch[1] == pytest.approx([by_hand(kind, folders[kind], "Rain fell.", CLAIM)], abs=1e-5)
    assert len(set(batch[0])) == 3


def decoder(pad_token_id):
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    return hf.LlamaForSequenceClassification(
        hf.LlamaConfig(vocab_size=WORDS, **shape, id2label=NLI, num_labels=3, pad_token_id=pad_token_id)
    )


def xlnet():
    shape = {"d_model": 32, "d_inner": 48, "n_layer": 2, "n_head": 4}
    return hf.XLNetForSequenceClassification(hf.XLNetConfig(vocab_size=WORDS, **shape, id2label=NLI, num_labels=3))


@pytest.mark.parametrize(("make", "tokenizer"), [
    (lambda: decoder(0), {}), (lambda: decoder(None), {}), (lambda: decoder(1), {}),
    (lambda: decoder(1), {"pad_token": None}), (xlnet, {"padding_side": "left"}),
], ids=["padded", "no padding in the config", "another padding", "no padding token", "xlnet"])  # fmt: skip
def test_claims_of_a_batch_are_read_as_alone_whatever_a_classifier_takes_for_padding(make, tokenizer, tmp_path):
    folder = save_nli(make(), tmp_path / "nli", **tokenizer)
    claims = (CLAIM, "Its keeper painted the tower in a week, twice.", "Nobody.")
    (found,) = support("nli", {"nli": folder}, asked([PREMISE], *claims))
    assert found == pytest.approx([by_hand("nli", folder, PREMISE, one) for one in claims], abs=1e-5)


@pytest.mark.parametrize("kind", MADE)
def test_passages_are_read_in_the_order_of_their_evidence_with_their_titles(kind, folders):
    titled = QARecord(
        "1", "", (Passage(text="Rain fell."), Passage(text=PREMISE, title="Light")), CLAIM, RowSource("", 0)
    )
    answer = AnswerToVerify(titled, (ClaimToVerify(CharRange(0, len(CLAIM)), CLAIM, (1, 0)),))
    expected = by_hand(kind, folders[kind], f"Light\n{PREMISE}\n\nRain fell.", CLAIM)
    assert support(kind, folders, answer) == [pytest.approx((expected,), abs=1e-5)]


@pytest.mark.parametrize("kind", MADE)
def test_of_several_windows_the_one_that_supports_most_counts_and_no_more_than_four_are_read(kind, folders):
    passages = [f"Ferry {number} has {number + 40} cars. " * 22 for number in range(7)]  # each fills a window
    (found,) = support(kind, folders, asked(passages, CLAIM, order=[6, 2, 0, 1, 3, 4, 5]))
    each = [by_hand(kind, folders[kind], passages[place], CLAIM) for place in (6, 2, 0, 1)]
    assert found == (pytest.approx(max(each), abs=1e-5),)


def test_claim_beyond_what_it_reads_is_refused_alone(folders):
    found = load_verifier(options(folders["nli"])).verify([asked([PREMISE], "cars " * 600), asked([PREMISE], CLAIM)])
    assert found[0].reason is Reason.TOO_MANY_TOKENS
    assert isinstance(found[1], VerifiedAnswer)


@pytest.mark.parametrize(("kind", "changes", "complaint"), [
    ("nli", {"id2label": {"0": "a", "1": "b", "2": "c"}}, "one of them called entailment"),
    ("nli", {"architectures": ["BertModel"]}, "should be a verifier of the kind"),
    ("nli", {"architectures": ["BertForTokenClassification"]}, "should have two classes for tokens, has 3"),
    ("nli", {"architectures": []}, "says none"),
    ("lettucedetect", {"id2label": {"0": "hallucinated", "1": "Supported"}}, "its config.json calls it 'Supported'"),
    ("nli", {"hidden_size": 40}, "should"),
    ("nli", {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}, "allow it with --trust-remote-code"),
    ("hhem", {"prompt": "{text2} before {text1}"}, r"should have \{text1\} and \{text2\} in this order"),
    ("hhem", {"foundation": "/nowhere"}, "'/nowhere' should be a directory"),
])  # fmt: skip
def test_model_that_is_no_verifier_is_refused(kind, changes, complaint, tmp_path):
    folder = save_verifier(tmp_path, kind)
    edit_json(folder / "config.json", **changes)
    with pytest.raises(ModelLoadError, match=complaint):
        load_verifier(options(folder))


class OwnVerifier:
    device = torch.device("cpu")

    def __init__(self, asked):
        self.asked = asked

    def provenance(self):
        return {"verifier_revision": "1"}

    def verify(self, answers):
        return [VerifiedAnswer(tuple(0.25 for _ in one.claims)) for one in answers]


@pytest.mark.parametrize(
    ("name", "complaint"), [("OwnVerifier", None), ("dict", "gave dict"), ("MADE", "should take the options")]
)
def test_verifier_of_another_package_is_found_by_its_entry_point(name, complaint, monkeypatch):
    def found(*, group, name):
        return [EntryPoint(name, f"{__name__}:{kind}", group)] if name == "own" else []

    kind = name
    monkeypatch.setattr(EntryPoint, "load", lambda _: globals().get(kind, dict))
    monkeypatch.setattr(verifiers, "entry_points", found)
    if complaint is None:
        own = load_verifier(options("own"))
        assert own.verify([asked([PREMISE], CLAIM)]) == [VerifiedAnswer((0.25,))]
        return
    with pytest.raises(ModelLoadError, match=complaint):
        load_verifier(options("own"))


CASES = {
    "question": ("Who built it?", ("The lighthouse was built in 1874 by Ada Thorne.", "Its lamp burned oil."),
                 "Ada Thorne built the lighthouse. Its keeper painted the tower."),
    "summary": ("", ("The ferry leaves at nine and carries forty cars.",), "Forty cars leave at nine, with a dog."),
    "marks": ("Wo?", ("Am Kai, hinter dem Zollhaus – Tür „3“.",), "Hinter dem Zollhaus, Tür 3 🙂 (links)."),
}  # fmt: skip
# made by lettucedetect 0.2.3 with the model of save_verifier
SPANS = {
    "question": [(0, 3, 0.954832), (20, 31, 0.766803), (44, 45, 0.96961), (46, 49, 0.735818), (50, 51, 0.857523),
                 (61, 62, 0.612359)],
    "summary": [(2, 3, 0.789368), (8, 12, 0.944062), (16, 19, 0.693068), (33, 34, 0.566713), (35, 37, 0.859326)],
    "marks": [(1, 4, 0.596949), (7, 9, 0.633002), (11, 12, 0.966556), (13, 15, 0.983159), (18, 19, 0.629042),
              (22, 23, 0.824066), (25, 26, 0.696852), (27, 28, 0.979157), (29, 31, 0.774494), (34, 37, 0.80955)],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_verifier(tmp_path_factory.mktemp("verifiers"), "lettucedetect")


@pytest.fixture(scope="module")
def verifier(folder):
    found = load_verifier(ModelOptions(model=str(folder), device="cpu"))
    assert isinstance(found, TokenClassifier)
    return found


def record(name):
    question, passages, answer = CASES[name]
    return QARecord(name, question, tuple(Passage(text=one) for one in passages), answer, RowSource("log", 0))


def spans_of(found):
    """As LettuceDetect gives them: the range of each run, and its largest doubt."""
    doubts = dict(zip(found.chars, found.doubts.tolist(), strict=True))
    return [
        (one.char_start, one.char_end, max(doubt for chars, doubt in doubts.items() if chars.overlaps(one)))
        for one in found.ranges()
    ]


@pytest.mark.parametrize("name", CASES)
def test_spans_are_those_that_lettucedetect_gave(name, verifier):
    found = spans_of(verifier.doubts([record(name)])[0])
    assert [one[:2] for one in found] == [one[:2] for one in SPANS[name]]
    assert [one[2] for one in found] == pytest.approx([one[2] for one in SPANS[name]], abs=1e-5)


def test_spans_are_those_of_the_package_where_it_is_installed(folder, verifier):
    package = pytest.importorskip("lettucedetect.detectors.transformer")
    detector = package.TransformerDetector(str(folder), device="cpu")
    batch = verifier.doubts([record(name) for name in CASES])
    for name, ours in zip(CASES, batch, strict=True):
        question, passages, answer = CASES[name]
        theirs = detector.predict([*passages], answer, question or None, output_format="spans")
        found = spans_of(ours)
        assert [one[:2] for one in found] == [(one["start"], one["end"]) for one in theirs]
        assert [one[2] for one in found] == pytest.approx([one["confidence"] for one in theirs], abs=1e-5)


def test_long_row_is_read_in_windows_and_the_least_doubt_of_a_token_counts(verifier):
    passages = tuple(
        Passage(text=f"Ferry {number} carries forty cars to the island at noon. " * 4) for number in range(9)
    )
    answer = "Ferry 7 carries forty cars."
    whole = QARecord("1", "Which?", passages, answer, RowSource("log", 0))
    (found,) = verifier.doubts([whole])
    assert isinstance(found, AnswerDoubts)
    rows = [verifier.row(prompt, answer) for prompt in verifier._prompts(whole)]
    assert len(rows) > 1
    assert all(len(row["input_ids"]) <= 512 for row in rows)
    count = len(verifier.tokenizer(answer, add_special_tokens=False)["input_ids"])
    each = [one for one in verifier.probabilities(rows) if not isinstance(one, RowFault)]
    doubts = [one[len(row["input_ids"]) - 1 - count :][:count, 1] for one, row in zip(each, rows, strict=True)]
    assert found.doubts == pytest.approx(np.min([one.numpy() for one in doubts], axis=0), abs=1e-5)


def test_passage_beyond_a_window_is_cut_into_pieces_that_overlap(verifier):
    text = " ".join(f"cars{number}" for number in range(600))
    pieces = [one for (one,) in verifier.windows([Passage(text=text)], overhead=20)]
    assert len(pieces) > 2
    assert all(one in text for one in pieces)
    places = [text.index(one) for one in pieces]
    ends = [place + len(one) for place, one in zip(places, pieces, strict=True)]
    assert places[0] == 0
    assert ends[-1] == len(text)
    assert all(start < end for start, end in zip(places[1:], ends, strict=False))


def test_answer_beyond_what_it_reads_is_refused_alone(verifier):
    long = QARecord("1", "Which?", (Passage(text="Short."),), "Ferries carry cars. " * 300, RowSource("log", 0))
    refused, read = verifier.doubts([long, record("summary")])
    assert refused.reason is Reason.TOO_MANY_TOKENS
    assert isinstance(read, AnswerDoubts)


def test_token_counts_for_the_shortest_claim_around_it():
    chars = tuple(CharRange(start, start + 4) for start in range(0, 25, 5))
    doubts = AnswerDoubts(chars, np.array([0.1, 0.9, 0.2, 0.6, 0.7]))
    outer, inner, same = (ClaimToVerify(CharRange(*one), "", (0,)) for one in ((0, 14), (5, 9), (15, 24)))
    assert doubts.support([outer, inner, same]) == pytest.approx((0.8, 0.1, 0.3))
    assert doubts.ranges() == (CharRange(5, 9), CharRange(15, 24))
