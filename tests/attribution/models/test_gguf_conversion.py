"""A GGUF file becomes a directory with the same model, and whatever cannot become one is refused with a way out."""

from __future__ import annotations

import json
import os
import stat
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors import SafetensorError
from tests.attribution.tiny_models import CONFIGS, SENTENCES, save_tiny_model, tiny_tokenizer
from transformers import AutoModelForCausalLM, PreTrainedModel

from attribeam.attribution.models import gguf_conversion
from attribeam.attribution.models.gguf_conversion import convert_gguf
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.models.weight_files import require_files
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.prompts.row_encoder import load_row_encoder
from attribeam.pipeline.command_line import main
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError, RunError, UsageError

Weights = dict[str, npt.NDArray[np.float32]]
Packed = dict[str, tuple[npt.NDArray[np.uint8], object]]
ROW = QARecord("r", "Who built it?", (Passage(SENTENCES[0]),), "Ada Thorne built it in 1874.", RowSource("log", 0))


@pytest.fixture
def gguf() -> ModuleType:
    return pytest.importorskip("gguf", reason="the extra gguf is not installed")


def write_gguf(
    gguf: ModuleType, path: Path, weights: Weights, *, packed: Packed | None = None, architecture: str = "llama"
) -> Path:
    """A file as llama.cpp's converter writes it, of the shape of the small Llama."""
    config, tokenizer = CONFIGS["llama"], json.loads(tiny_tokenizer().to_str())["model"]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(tokenizer["vocab"], key=tokenizer["vocab"].__getitem__))
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["merges"]])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    for name, tensor in weights.items():
        blocks, kind = (packed or {}).get(name, (tensor, None))
        writer.add_tensor(name, blocks, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


_PLACES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def weights_of(directory: Path) -> Weights:
    """The model's weights under llama.cpp's names; queries and keys have their rotated halves interleaved there."""
    config = CONFIGS["llama"]
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    renamed: Weights = {}
    for name, tensor in AutoModelForCausalLM.from_pretrained(directory).state_dict().items():
        values = tensor.numpy()
        module = name.removesuffix(".weight")
        if module in _OUTSIDE:
            renamed[f"{_OUTSIDE[module]}.weight"] = values
            continue
        _, _, layer, inside = module.split(".", 3)
        place = _PLACES[inside]
        if place in heads:
            halves = values.reshape(heads[place], 2, -1, values.shape[1])
            values = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))
        renamed[f"blk.{layer}.{place}.weight"] = values
    return renamed


def test_converted_directory_holds_the_same_weights_and_tokens(gguf: ModuleType, tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path / "original")
    file = write_gguf(gguf, tmp_path / "small.gguf", weights_of(directory))
    convert_gguf(file, tmp_path / "converted")
    original, converted = (
        AutoModelForCausalLM.from_pretrained(one).state_dict() for one in (directory, tmp_path / "converted")
    )
    assert original.keys() == converted.keys()
    for name, expected in original.items():
        torch.testing.assert_close(converted[name], expected, atol=0, rtol=0)
    rows = [load_row_encoder(ModelOptions(model=str(one))).encode(ROW) for one in (directory, tmp_path / "converted")]
    np.testing.assert_array_equal(*(row.token_ids[row.prompt_length :] for row in rows))
    np.testing.assert_array_equal(*(row.response_char_start for row in rows))


def test_source_stands_in_the_config(gguf: ModuleType, tmp_path: Path) -> None:
    file = write_gguf(gguf, tmp_path / "small.gguf", weights_of(save_tiny_model(tmp_path / "original")))
    convert_gguf(file, tmp_path / "converted", dtype=torch.bfloat16)
    config = json.loads((tmp_path / "converted" / "config.json").read_text(encoding="utf-8"))
    assert config["converted_from"] == {"file": "small.gguf", "sha256": sha256(file.read_bytes()).hexdigest()}
    assert config["dtype"] == "bfloat16"
    assert "quantization_config" not in config


def test_quantised_blocks_are_unpacked(gguf: ModuleType, tmp_path: Path) -> None:
    weights = weights_of(save_tiny_model(tmp_path / "original"))
    packed = gguf.GGMLQuantizationType.Q8_0
    name = "blk.1.ffn_up.weight"
    blocks = gguf.quants.quantize(weights[name], packed)
    file = write_gguf(gguf, tmp_path / "small.gguf", weights, packed={name: (blocks, packed)})
    convert_gguf(file, tmp_path / "converted")
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "converted").state_dict()[
        "model.layers.1.mlp.up_proj.weight"
    ]
    error = np.abs(found.numpy() - weights[name])
    assert 0 < error.max() <= np.abs(weights[name]).max() / 127


def test_unknown_architecture_is_refused(gguf: ModuleType, tmp_path: Path) -> None:
    file = write_gguf(gguf, tmp_path / "small.gguf", {}, architecture="wavenet")
    with pytest.raises(ModelLoadError, match=r"wavenet.*or use the directory or hub id"):
        convert_gguf(file, tmp_path / "converted")
    assert not (tmp_path / "converted").exists()


def test_part_of_a_model_is_refused(gguf: ModuleType, tmp_path: Path) -> None:
    weights = weights_of(save_tiny_model(tmp_path / "original"))
    del weights["blk.3.ffn_up.weight"]
    with pytest.raises(ModelLoadError, match=r"lacks 1: model\.layers\.3\.mlp\.up_proj\.weight; .* merge them"):
        convert_gguf(write_gguf(gguf, tmp_path / "small.gguf", weights), tmp_path / "converted")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["original", "small.gguf"]


@pytest.mark.usefixtures("gguf")
@pytest.mark.parametrize("content", [b"GGUF", b"GGUF" + bytes(8), b"GGUF\3\0\0\0" + b"\xff" * 64])
def test_damaged_file_is_a_load_error(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(content)
    with pytest.raises(ModelLoadError, match="could not be read by transformers"):
        convert_gguf(file, tmp_path / "converted")


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("llama.block_count", 2**31),
        ("llama.block_count", 2**32 - 1),
        ("llama.embedding_length", 0),
        ("llama.embedding_length", 7),
        ("llama.embedding_length", 2**31),
        ("llama.attention.head_count", 0),
        ("llama.attention.head_count", 7),
        ("llama.attention.head_count_kv", 0),
        ("llama.feed_forward_length", 1),
        ("llama.vocab_size", 2**32 - 1),
    ],
)
def test_number_that_does_not_fit_the_weights_is_a_load_error(
    gguf: ModuleType, key: str, number: int, tmp_path: Path
) -> None:
    file = write_gguf(gguf, tmp_path / "small.gguf", weights_of(save_tiny_model(tmp_path / "original")))
    content = bytearray(file.read_bytes())
    place = content.index(key.encode()) + len(key) + 4
    content[place : place + 4] = number.to_bytes(4, "little")
    file.write_bytes(content)
    with pytest.raises(ModelLoadError, match=r"small\.gguf could not be read by transformers"):
        convert_gguf(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_token_that_its_merges_lack_is_a_load_error(gguf: ModuleType, tmp_path: Path) -> None:
    file = write_gguf(gguf, tmp_path / "small.gguf", weights_of(save_tiny_model(tmp_path / "original")))
    merged = "".join(json.loads(tiny_tokenizer().to_str())["model"]["merges"][0]).encode()
    token = len(merged).to_bytes(8, "little") + merged
    file.write_bytes(file.read_bytes().replace(token, token[:-1] + b"\x01", 1))
    with pytest.raises(ModelLoadError, match=r"small\.gguf could not be read by transformers"):
        convert_gguf(file, tmp_path / "out")


def test_file_that_ends_amid_its_weights_is_a_load_error(gguf: ModuleType, tmp_path: Path) -> None:
    file = write_gguf(gguf, tmp_path / "small.gguf", weights_of(save_tiny_model(tmp_path / "original")))
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 3 // 4])
    with pytest.raises(ModelLoadError, match=r"could not be read by transformers .*fetch it again if it is damaged"):
        convert_gguf(file, tmp_path / "converted")
    assert not (tmp_path / "converted").exists()


def test_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_conversion, "find_spec", lambda name: None if name == "gguf" else find_spec(name))
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    with pytest.raises(UsageError, match=r"needs gguf, not installed here; .*'attribeam\[gguf\]'"):
        convert_gguf(tmp_path / "small.gguf", tmp_path / "converted")


@pytest.mark.parametrize("content", [None, b"", b"PK\3\4"])
def test_file_that_is_no_gguf_is_refused(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match="should be a GGUF file"):
        convert_gguf(file, tmp_path / "converted")


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), SafetensorError("I/O error: disk full")])
def test_folder_that_cannot_be_written_is_a_clear_error_that_leaves_nothing(
    gguf: ModuleType, fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise fault

    file = write_gguf(gguf, tmp_path / "small.gguf", weights_of(save_tiny_model(tmp_path / "original")))
    monkeypatch.setattr(PreTrainedModel, "save_pretrained", full)
    with pytest.raises(RunError, match=r"converted could not be written: .*(No space|disk full).*; make room"):
        convert_gguf(file, tmp_path / "converted")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["original", "small.gguf"]


@pytest.mark.usefixtures("gguf")
def test_directory_in_which_nothing_can_be_created_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    with pytest.raises(RunError, match=r"^/proc/converted could not be written: .*name a folder that you may write to"):
        convert_gguf(tmp_path / "small.gguf", Path("/proc/converted"))


def test_interrupted_conversion_leaves_nothing(
    gguf: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    file = write_gguf(gguf, tmp_path / "small.gguf", weights_of(save_tiny_model(tmp_path / "original")))
    monkeypatch.setattr(gguf_conversion, "_allow_reading", interrupted)
    with pytest.raises(KeyboardInterrupt):
        convert_gguf(file, tmp_path / "converted")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["original", "small.gguf"]


def test_whoever_may_read_the_config_may_read_the_weights(gguf: ModuleType, tmp_path: Path) -> None:
    file = write_gguf(gguf, tmp_path / "small.gguf", weights_of(save_tiny_model(tmp_path / "original")))
    before = os.umask(0o027)
    try:
        convert_gguf(file, tmp_path / "converted")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "converted").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= modes.keys()
    assert set(modes.values()) == {0o640}


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    (tmp_path / "converted").mkdir()
    with pytest.raises(UsageError, match="should be a new directory"):
        convert_gguf(tmp_path / "small.gguf", tmp_path / "converted")


def test_directory_is_no_gguf_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="should be a GGUF file"):
        convert_gguf(tmp_path, tmp_path / "converted")


def test_missing_parent_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    with pytest.raises(UsageError, match="should be a new directory in an existing one"):
        convert_gguf(tmp_path / "small.gguf", tmp_path / "absent" / "converted")


@pytest.mark.parametrize("named", ["small.gguf", "."])
def test_model_in_a_gguf_file_is_refused_with_the_command_that_converts_it(named: str, tmp_path: Path) -> None:
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelLoadError, match=r"attribeam models convert \S+small\.gguf NEW_DIRECTORY"):
        read_model_directory(ModelOptions(model=str(tmp_path / named)))


def test_directory_with_a_config_whose_weights_are_a_gguf_file_is_refused(tmp_path: Path) -> None:
    save_tiny_model(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "small.gguf")
    with pytest.raises(ModelLoadError, match="attribeam models convert"):
        require_files(read_model_directory(ModelOptions(model=str(tmp_path))), ["model.safetensors"])


def test_command_converts_and_says_how_to_go_on(
    gguf: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_gguf(gguf, tmp_path / "small.gguf", weights_of(save_tiny_model(tmp_path / "original")))
    folder = tmp_path / "converted"
    main(["models", "convert", str(file), str(folder), "--dtype", "float16"])
    said = capsys.readouterr()
    assert f"attribeam models check --model {folder}" in said.out
    assert f"unpacking {file}" in said.err
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["dtype"] == "float16"
