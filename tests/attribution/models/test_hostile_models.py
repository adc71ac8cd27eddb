"""Model directories that nobody should trust: each is a sentence that says what is wrong, and costs next to nothing."""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.attribution.tiny_models import CONFIGS, VOCABULARY_SIZE

from attribeam import Attributor
from attribeam.attribution import models
from attribeam.schemas.errors import UsageError

CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
WEIGHTS, INDEX, SETTINGS = "model.safetensors", "model.safetensors.index.json", "attribution_config.json"
BILLION = 10**9
DEEP = 100_000


def _holds(name, content):
    return lambda folder: (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def _without(name):
    return lambda folder: (folder / name).unlink()


def _cut(name):
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 2)


def _replaced(name, make):
    def replace(folder):
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return replace


def _queue(name):
    """A FIFO that nobody writes to."""
    return _replaced(name, os.mkfifo)


def _link(name, target):
    return _replaced(name, lambda path: path.symlink_to(target))


def _folder(name):
    return _replaced(name, Path.mkdir)


def _edited(name, edit):
    def write(folder):
        values = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
        (folder / name).write_text(json.dumps(edit(values) or values))

    return write


def _says(name=CONFIG, **changes):
    return _edited(name, lambda values: values | changes)


def _config_of(kind, **changes):
    """The config of another architecture beside the same weights."""
    return _holds(CONFIG, json.dumps(CONFIGS[kind].to_diff_dict() | changes, default=str))


def _model(**changes):
    """A tokenizer.json whose model has these parts."""
    return _edited(TOKENIZER, lambda values: values["model"].update(changes))


def _nested(start, end, depth=DEEP):
    return start * depth + end * depth


def _weights(change, name=""):
    return _tensors(lambda found: {key: change(one) if name in key else one for key, one in found.items()})


def _named(rename):
    """Weights under other names, without those that get none."""
    return _tensors(lambda found: {new: one for name, one in found.items() if (new := rename(name)) is not None})


def _tensors(edit):
    return lambda folder: save_file(edit(load_file(folder / WEIGHTS)), folder / WEIGHTS)


def _header(edit, *, length=None):
    """Weights whose header says something else of the same bytes."""

    def write(folder):
        content = (folder / WEIGHTS).read_bytes()
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        text = json.dumps(edit(header) or header).encode()
        said = (len(text) if length is None else length).to_bytes(8, "little")
        (folder / WEIGHTS).write_bytes(said + text + content[8 + size :])

    return write


def _first(**changes):
    """A header whose first tensor says something else."""
    return _header(lambda header: next(one for name, one in header.items() if name != "__metadata__").update(changes))


def _indexed(weight_map):
    def write(folder):
        (folder / WEIGHTS).rename(folder / "a.safetensors")
        (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))

    return write


class _Touch:
    """Touches a file where it is unpickled."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return Path.touch, (self._path,)


def _pickled(name):
    def write(folder):
        (folder / WEIGHTS).unlink()
        (folder / name).write_bytes(pickle.dumps(_Touch(folder / "RAN")))

    return write


def _named_by(name, key, code="raise SystemExit(7)"):
    """A file that names code of the directory."""

    def write(folder):
        (folder / "own.py").write_text(f"import pathlib; pathlib.Path({str(folder / 'RAN')!r}).touch(); {code}")
        _says(name, auto_map={key: "own.Own"}, model_type="own")(folder)

    return write


def _all_of(*damages):
    return lambda folder: [one(folder) for one in damages]


def _larger_vocabulary(values):
    vocabulary = values["model"]["vocab"]
    values["model"]["vocab"] = {word: number + VOCABULARY_SIZE for word, number in vocabulary.items()}
    for one in values["added_tokens"]:
        one["id"] += VOCABULARY_SIZE


def _wide_numbers(values):
    values["model"]["vocab"] = {word: 2**32 - 1 - number for word, number in values["model"]["vocab"].items()}


_QUANTIZED = {"quant_method": "bitsandbytes", "load_in_4bit": True}
_NORMALIZERS = '{"type":"Sequence","normalizers":['

CONFIGS_DAMAGED = {
    "no config": _without(CONFIG), "cut config": _cut(CONFIG), "config is a list": _holds(CONFIG, "[]"),
    "config nested deep": _holds(CONFIG, _nested("[", "]")), "config is a folder": _folder(CONFIG),
    "config links in a circle": _link(CONFIG, CONFIG), "config is a queue": _queue(CONFIG),
    "config is endless": _link(CONFIG, "/dev/zero"), "config of another kind": _says(model_type="wavenet"),
    "kind is a number": _says(model_type=5), "no layers": _says(num_hidden_layers=0),
    "a billion layers": _says(num_hidden_layers=BILLION),
    "layers of 400 digits": _holds(CONFIG, '{"model_type":"llama","num_hidden_layers":1' + "0" * 400 + "}"),
    "digits without end": _holds(CONFIG, '{"model_type":"llama","num_hidden_layers":1' + "0" * 5000 + "}"),
    "layers as a float": _says(num_hidden_layers=1e300), "a billion words": _says(vocab_size=BILLION),
    "a billion numbers a state": _says(hidden_size=BILLION), "a state of NaN": _says(hidden_size=float("nan")),
    "heads that do not divide": _says(num_attention_heads=3, head_dim=None),
    "a billion positions": _config_of("bert", max_position_embeddings=BILLION),
    "ten million positions": _config_of("bert", max_position_embeddings=10**7),
    "a billion labels": _says(num_labels=BILLION),
    "a billion experts": _config_of("gpt_oss", num_local_experts=BILLION),
    "a billion layers inside": _says(model_type="gemma3", text_config={"model_type": "gemma3_text",
        "num_hidden_layers": BILLION}),
    "layers of unknown kinds": _says(layer_types=["nonsense"] * 4),
    "rotation by a word": _says(rope_parameters={"rope_type": "nonsense", "rope_theta": "x"}),
    "rotation by NaN": _says(rope_parameters={"rope_type": "default", "rope_theta": float("nan")}),
    "quantised by nobody": _says(quantization_config={"quant_method": "nonsense"}),
    "said to be quantised": _says(quantization_config=_QUANTIZED), "inner config is a list": _says(text_config=[1]),
    "architecture is a number": _says(architectures=7), "padding far away": _says(pad_token_id=BILLION),
    "code of its own": _named_by(CONFIG, "AutoConfig"), "activation of its own": _says(hidden_act="nonsense"),
    "config of another kind of weights": _config_of("gpt2"), "an encoder-decoder": _says(is_encoder_decoder=True),
}  # fmt: skip

TOKENIZERS_DAMAGED = {
    "no tokenizer": _all_of(_without(TOKENIZER), _without(TOKENIZER_CONFIG)), "cut tokenizer": _cut(TOKENIZER),
    "tokenizer nested deep": _holds(TOKENIZER, _nested("[", "]")),
    "normalizers nested deep": _says(TOKENIZER, normalizer=json.loads(_nested(_NORMALIZERS, "]}", 100))),
    "tokenizer is a queue": _queue(TOKENIZER), "tokenizer is endless": _link(TOKENIZER, "/dev/zero"),
    "tokenizer of other words": _edited(TOKENIZER, _larger_vocabulary),
    "numbers of words without end": _edited(TOKENIZER, _wide_numbers),
    "tokenizer without words": _model(vocab={}, merges=[]),
    "unigram far away": _says(TOKENIZER, model={"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": BILLION}),
    "words without an unknown one": _says(TOKENIZER, model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "b"}),
    "map that points away": _says(TOKENIZER, normalizer={"type": "Precompiled",
        "precompiled_charsmap": "BAAAAP////8="}),
    "split by a bad pattern": _says(TOKENIZER, pre_tokenizer={"type": "Split", "pattern": {"Regex": "("},
        "behavior": "Isolated", "invert": False}),
    "split by a slow pattern": _says(TOKENIZER, pre_tokenizer={"type": "Split", "pattern": {"Regex": "(.*)*(.*)*x"},
        "behavior": "Isolated", "invert": False}),
    "split by a large pattern": _says(TOKENIZER, pre_tokenizer={"type": "Split",
        "pattern": {"Regex": "((((a{99}){99}){99}){99}){99}"}, "behavior": "Isolated", "invert": False}),
    "text grows without end": _says(TOKENIZER, normalizer={"type": "Sequence", "normalizers": [{"type": "Replace",
        "pattern": {"String": "e"}, "content": "e" * 30}] * 8}),
    "every letter dropped": _says(TOKENIZER, normalizer={"type": "Replace", "pattern": {"Regex": "."}, "content": ""}),
    "added words far away": _edited(TOKENIZER, lambda values: values["added_tokens"][0].update(id=BILLION)),
    "added words of a number": _edited(TOKENIZER, lambda values: values["added_tokens"][0].update(content=5)),
    "empty added word": _edited(TOKENIZER, lambda values: values["added_tokens"].append(values["added_tokens"][0]
        | {"id": VOCABULARY_SIZE, "content": ""})),
    "tokenizer settings nested deep": _holds(TOKENIZER_CONFIG, _nested("[", "]")),
    "tokenizer settings are a list": _holds(TOKENIZER_CONFIG, "[]"),
    "tokenizer settings are garbage": _holds(TOKENIZER_CONFIG, b"\xff" * 9),
    "tokenizer of an odd class": _says(TOKENIZER_CONFIG, tokenizer_class="os.system"),
    "special words are numbers": _says(TOKENIZER_CONFIG, bos_token=5, eos_token=[1], pad_token={"a": 1}),
    "tokenizer with code": _named_by(TOKENIZER_CONFIG, "AutoTokenizer"),
    "chat without end": _says(TOKENIZER_CONFIG, chat_template="{% for i in range(10**9) %}{{ i }}{% endfor %}"),
    "chat nested deep": _says(TOKENIZER_CONFIG, chat_template="{% if 1 %}" * 5000),
    "chat of a large power": _says(TOKENIZER_CONFIG, chat_template="{{ 10 ** 10 ** 10 }}"),
    "chat with code": _says(TOKENIZER_CONFIG, chat_template="{{ cycler.__init__.__globals__.os.system('touch RAN') }}"),
    "chat is a number": _says(TOKENIZER_CONFIG, chat_template=5),
}  # fmt: skip

WEIGHTS_DAMAGED = {
    "no weights": _without(WEIGHTS), "cut weights": _cut(WEIGHTS), "garbage weights": _holds(WEIGHTS, os.urandom(999)),
    "GGUF under another name": _holds(WEIGHTS, b"GGUF\x03\0\0\0" + b"\xff" * 99),
    "GGUF beside nothing": _all_of(_without(WEIGHTS), _without(CONFIG), _holds("model.gguf", b"GGUF" + b"\xff" * 99)),
    "GGUF beside a config": _all_of(_without(WEIGHTS), _holds("model.gguf", b"GGUF" + b"\xff" * 99)),
    "pickle beside a config": _pickled("pytorch_model.bin"), "pickle under another name": _pickled(WEIGHTS),
    "header longer than the file": _header(dict, length=10**12),
    "header nested deep": _holds(WEIGHTS, (2 * DEEP).to_bytes(8, "little") + _nested("[", "]").encode()),
    "header is a list": _header(lambda header: [header]), "header is empty": _header(lambda header: header.clear()),
    "offsets beyond the file": _first(data_offsets=[0, 10**15]), "offsets of words": _first(data_offsets=["a", "b"]),
    "shape of a billion": _first(shape=[BILLION, BILLION]), "unknown dtype": _first(dtype="F7"),
    "another dtype": _first(dtype="I64"),
    "weights turned": _weights(lambda one: one.t().contiguous() if one.dim() == 2 else one),
    "weights of one number": _weights(lambda one: one.flatten()[:1].clone()),
    "weights of whole numbers": _weights(lambda one: one.to(torch.int64)),
    "weights of bytes": _weights(lambda one: one.to(torch.float8_e4m3fn)),
    "NaN weights": _weights(lambda one: one * float("nan")), "enormous weights": _weights(lambda one: one * 1e38),
    "NaN in one place": _weights(lambda one: one.index_fill(0, torch.tensor([0]), float("nan")), "embed_tokens"),
    "layer left out": _named(lambda name: None if ".1." in name else name), "other names": _named("x.{}".format),
    "weights are a queue": _queue(WEIGHTS), "weights are a folder": _folder(WEIGHTS),
    "weights link in a circle": _link(WEIGHTS, WEIGHTS), "weights are endless": _link(WEIGHTS, "/dev/zero"),
    "index is garbage": _all_of(_without(WEIGHTS), _holds(INDEX, "{")),
    "index nested deep": _all_of(_without(WEIGHTS), _holds(INDEX, _nested("[", "]"))),
    "index of a list": _indexed(["a.safetensors"]), "index of numbers": _indexed({"model.embed_tokens.weight": 5}),
    "index of nothing": _indexed({}), "index of one tensor": _indexed({"model.norm.weight": "a.safetensors"}),
    "index of other folders": _indexed({"model.embed_tokens.weight": "../../etc/passwd"}),
    "index of a queue": _all_of(_indexed({"model.embed_tokens.weight": "b.safetensors"}), _queue("b.safetensors")),
    "an adapter": _holds("adapter_config.json", "{}"),
}  # fmt: skip

SETTINGS_DAMAGED = {
    "settings are garbage": _holds(SETTINGS, b"\xff" * 9), "settings nested deep": _holds(SETTINGS, _nested("[", "]")),
    "settings of other names": _holds(SETTINGS, json.dumps({"x" * 99: 1, **{f"y{one}": 1 for one in range(999)}})),
    "settings of a far layer": _holds(SETTINGS, json.dumps({"layer": BILLION})),
    "settings of NaN": _holds(SETTINGS, '{"isolation_tau": NaN}'),
    "settings of digits without end": _holds(SETTINGS, '{"layer": 1' + "0" * 5000 + "}"),
    "settings of thresholds the wrong way": _holds(SETTINGS, '{"supported_threshold": 0.1, "weak_threshold": 0.9}'),
    "settings of a number as template": _holds(SETTINGS, '{"prompt_template": 5}'),
    "settings are a queue": _queue(SETTINGS), "settings are endless": _link(SETTINGS, "/dev/zero"),
}  # fmt: skip

HARMLESS = {
    "added words far away", "architecture is a number", "empty added word", "enormous weights", "index of one tensor",
    "quantised by nobody", "tokenizer of an odd class", "tokenizer with code", "weights of bytes",
}  # fmt: skip
"""Those whose oddity is without effect: their attention is taken as of any model."""

DAMAGES = {**CONFIGS_DAMAGED, **TOKENIZERS_DAMAGED, **WEIGHTS_DAMAGED, **SETTINGS_DAMAGED}


LONGEST_SENTENCE = 1_500


def damaged(llama, tmp_path, name):
    folder = tmp_path / "model"
    shutil.copytree(llama, folder)
    DAMAGES[name](folder)
    return folder


@pytest.mark.parametrize("name", sorted(DAMAGES.keys() - HARMLESS))
def test_a_hostile_directory_is_refused_in_one_sentence(llama, tmp_path, name, capfd):
    folder = damaged(llama, tmp_path, name)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as caught:
        Attributor.from_pretrained(str(folder), device="cpu")
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < LONGEST_SENTENCE
    assert "panicked" not in capfd.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before, "code of the directory ran"


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_a_directory_whose_oddity_has_no_effect_serves_and_runs_no_code(llama, tmp_path, name):
    folder = damaged(llama, tmp_path, name)
    before = sorted(tmp_path.rglob("*"))
    attributor = Attributor.from_pretrained(str(folder), device="cpu")
    assert attributor.attribute(question="Who?", passages=["Ada Thorne built it."], answer="Ada Thorne did.")
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_is_allocated_for_weights_that_the_files_do_not_hold(llama, tmp_path, monkeypatch):
    folder = damaged(llama, tmp_path, "ten million positions")
    monkeypatch.setattr("attribeam.attribution.models.weight_loading.AutoModel.from_pretrained", pytest.fail)
    with pytest.raises(UsageError, match=r"asks for 320,036,496 weights, the safetensors files hold 56,608"):
        Attributor.from_pretrained(str(folder), device="cpu")


def test_an_ordinary_tokenizer_is_read_without_a_process_of_its_own(llama, monkeypatch):
    monkeypatch.setattr(models.subprocess, "run", pytest.fail)
    models.check_tokenizer(llama / models.TOKENIZER)
