"""The lines of docs/models.md make a directory of a GGUF file with the same model; the file itself is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.attribution.tiny_models import CONFIGS, SENTENCES, save_tiny_model, tiny_tokenizer
from transformers import AutoModelForCausalLM

from attribeam.attribution.language_models import LanguageModel
from attribeam.attribution.models.model_directory import load_row_encoder, read_model_directory
from attribeam.attribution.options import ModelOptions
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError

DOCUMENT = Path(__file__).parents[3] / "docs" / "models.md"
ROW = QARecord("r", "Who built it?", (Passage(SENTENCES[0]),), "Ada Thorne built it in 1874.", RowSource("log", 0))


@pytest.fixture
def gguf():
    return pytest.importorskip("gguf", reason="gguf is not installed")


def write_gguf(gguf, path, weights, *, packed):
    """A file as llama.cpp's converter writes it, of the shape of the small Llama."""
    config, tokenizer = CONFIGS["llama"], json.loads(tiny_tokenizer().to_str())["model"]
    writer = gguf.GGUFWriter(path, "llama")
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
        blocks, kind = packed.get(name, (tensor, None))
        writer.add_tensor(name, blocks, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


_PLACES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
_OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def weights_of(directory):
    """The model's weights under llama.cpp's names; queries and keys have their rotated halves interleaved there."""
    config = CONFIGS["llama"]
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    renamed = {}
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


def convert_as_documented(file, output):
    """Run the lines of docs/models.md on ``file``."""
    (lines,) = re.findall(
        r"```python\n(from transformers import.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL
    )
    names = f"folder, file, output = {str(file.parent)!r}, {file.name!r}, {str(output)!r}"
    exec(re.sub(r"^folder, file, output = .*", lambda _: names, lines, flags=re.MULTILINE), {})


def test_documented_lines_make_a_directory_of_the_same_model(gguf, tmp_path):
    directory, output = save_tiny_model(tmp_path / "original"), tmp_path / "converted"
    weights, packed, name = weights_of(directory), gguf.GGMLQuantizationType.Q8_0, "model.layers.1.mlp.up_proj.weight"
    blocks = gguf.quants.quantize(weights["blk.1.ffn_up.weight"], packed)
    file = write_gguf(gguf, tmp_path / "small.gguf", weights, packed={"blk.1.ffn_up.weight": (blocks, packed)})
    convert_as_documented(file, output)
    original, converted = (AutoModelForCausalLM.from_pretrained(one).state_dict() for one in (directory, output))
    assert original.keys() == converted.keys()
    assert 0 < (converted[name] - original[name]).abs().max() <= original[name].abs().max() / 127
    for same in original.keys() - {name}:
        torch.testing.assert_close(converted[same], original[same], atol=0, rtol=0)
    rows = [load_row_encoder(ModelOptions(model=str(one))).encode(ROW) for one in (directory, output)]
    np.testing.assert_array_equal(*(row.token_ids[row.prompt_length :] for row in rows))
    np.testing.assert_array_equal(*(row.response_char_start for row in rows))


@pytest.mark.parametrize("named", ["small.gguf", "."])
@pytest.mark.parametrize("load", [read_model_directory, LanguageModel.from_pretrained])
def test_model_in_a_gguf_file_is_refused_with_where_its_conversion_is_told(load, named, tmp_path):
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelLoadError, match=r"small\.gguf; convert it once as docs/models\.md#gguf-files says"):
        load(ModelOptions(model=str(tmp_path / named)))
