"""Reading a model's directory, what is refused there, and how many tokens a model can place."""

import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attribution.made_rows import record
from tests.attribution.tiny_models import edit_json, save_tiny_model
from transformers import BertConfig, LlamaConfig, MistralConfig, dynamic_module_utils, modeling_utils
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.language_models import load_causal_weights
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import ModelChoice, load_audit_models
from attribeam.attribution.models import loaded_once
from attribeam.attribution.models.model_directory import (
    POSITIONS_BEHIND_PADDING,
    AttributionConfig,
    check_position_embeddings,
    choose_layer,
    layer_types,
    load_fast_tokenizer,
    load_row_encoder,
    model_context,
    read_model_directory,
    without_layers_above,
)
from attribeam.attribution.models.precision import choose_device
from attribeam.attribution.models.weight_loading import load_weights, weight_groups
from attribeam.attribution.option_declaration import declared
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.rows import TokenAttribution
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import ModelLoadError


def options(directory):
    return ModelOptions(model=str(directory))


def test_loading_says_nothing_and_leaves_verbosity_as_it_was(tmp_path, caplog, capfd):
    directory = save_tiny_model(tmp_path)
    capfd.readouterr()
    verbosity = logging.getLogger("transformers").level
    load_weights(read_model_directory(options(directory)), layer=3)
    assert (caplog.text, capfd.readouterr()) == ("", ("", ""))
    assert logging.getLogger("transformers").level == verbosity


@pytest.mark.parametrize("name", ["./absent", "/absent/model", "a/b/c"])
def test_missing_directory_is_named_without_asking_the_hub(name):
    with pytest.raises(ModelLoadError, match="there is none; check --model"):
        read_model_directory(options(name))


@pytest.mark.parametrize("name", ["mps", "xpu:3", "hpu", "npu:1", "cuda:99", "gpu"])
def test_device_that_is_not_there_is_named(name):
    with pytest.raises(ModelLoadError, match=f"device .*{name}"):
        choose_device(name)


def test_error_of_a_device_is_told_without_its_advice_to_programmers(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("CUDA error: invalid device ordinal\nCompile with TORCH_USE_CUDA_DSA\n")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "empty", fail)
    with pytest.raises(ModelLoadError, match="is not: CUDA error: invalid device ordinal; use --device cpu"):
        choose_device("cuda:7")


def test_tokenizer_neither_cuts_nor_pads_whatever_its_file_says(tmp_path):
    path = save_tiny_model(tmp_path) / "tokenizer.json"
    edit_json(path, truncation={"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0})
    loaded = load_fast_tokenizer(read_model_directory(options(tmp_path))).backend_tokenizer
    assert len(loaded.encode("The lighthouse at Brigg Point.").ids) > 4


@pytest.mark.parametrize("kind", ["relative_key", "relative_key_query", "alibi"])
@pytest.mark.parametrize("family", [BertConfig, hf.RobertaConfig, hf.ElectraConfig])
def test_relative_positions_of_a_bert_are_refused_when_its_config_is_read(tmp_path, family, kind):
    family(position_embedding_type=kind).save_pretrained(tmp_path)
    with pytest.raises(ModelLoadError, match=f"says position_embedding_type '{kind}', which is ignored"):
        read_model_directory(ModelOptions(model=str(tmp_path)))


@pytest.mark.parametrize("config", [
    BertConfig(), BertConfig(position_embedding_type="absolute"),
    hf.ModernBertConfig(position_embedding_type="absolute"), hf.EsmConfig(position_embedding_type="rotary"),
    hf.GraniteMoeHybridConfig(position_embedding_type="rope"), LlamaConfig(position_embedding_type="rope"),
], ids=lambda config: f"{config.model_type} {getattr(config, 'position_embedding_type', 'nothing')}")  # fmt: skip
def test_positions_that_are_computed_as_the_config_says_are_taken(config):
    check_position_embeddings("lamp", config)


def test_config_of_a_models_own_code_is_not_asked():
    class OwnConfig(BertConfig):
        pass

    assert not OwnConfig.__module__.startswith("transformers.")
    check_position_embeddings("lamp", OwnConfig(position_embedding_type="relative_key"))


@pytest.mark.parametrize(("config", "context"), [
    (BertConfig(), 512), (hf.GPT2Config(n_positions=64), 64),
    (hf.RobertaConfig(max_position_embeddings=514, pad_token_id=1), 512),
    (hf.Gemma3Config(text_config={"max_position_embeddings": 99}), 99), (hf.PreTrainedConfig(), None),
], ids=["bert", "gpt2", "roberta", "nested", "none"])  # fmt: skip
def test_context_is_the_number_of_tokens_with_a_position(config, context):
    assert model_context(config) == context


def modeling_file(model_type):
    """The file of transformers that ``model_type``'s network is in."""
    package, kind = model_type.replace("-", "_"), ""
    if model_type.startswith("data2vec"):
        package, kind = "data2vec", "_text"
    spec = find_spec(f"transformers.models.{package}")
    if spec is None or spec.submodule_search_locations is None:
        return None
    path = Path(spec.submodule_search_locations[0]) / f"modeling_{package}{kind}.py"
    return path if path.is_file() else None


def test_every_text_model_that_begins_behind_the_padding_is_known():
    types = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_MASKED_LM_MAPPING_NAMES}
    files = {model_type: path for model_type in types if (path := modeling_file(model_type)) is not None}
    assert len(files) > 150
    made = "def create_position_ids_from_input_ids"
    found = {model_type for model_type, path in files.items() if made in path.read_text(encoding="utf-8")}
    without_a_table = {"trocr"}
    assert found - without_a_table == POSITIONS_BEHIND_PADDING & files.keys()


KERNEL = "someone/some-attn"


def test_kernel_of_the_hub_that_a_config_names_is_not_fetched(tmp_path, monkeypatch):
    def fetch(name, **_):
        raise AssertionError(f"{name} was fetched")

    monkeypatch.setattr(modeling_utils, "lazy_import_flash_attention", fetch)
    edit_json(save_tiny_model(tmp_path) / "config.json", _attn_implementation=KERNEL)
    directory = read_model_directory(options(tmp_path))
    weight_groups(directory.config, 2)
    load_causal_weights(directory)


OWN_CONFIG = """
class OwnConfig(LlamaConfig):
    model_type = "own_llama"
"""
OWN_MODEL = """
class OwnModel(LlamaModel):
    config_class = OwnConfig
"""
PAST_THE_INTERFACE = """
class OwnAttention(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = inner.q_proj, inner.k_proj, inner.v_proj, inner.o_proj

    def forward(self, hidden_states, **kwargs):
        scores = self.q_proj(hidden_states) @ self.q_proj(hidden_states).transpose(1, 2)
        return self.o_proj(scores.softmax(-1) @ self.q_proj(hidden_states)), None


class OwnModel(LlamaModel):
    def __init__(self, config):
        super().__init__(config)
        for layer in self.layers:
            layer.self_attn = OwnAttention(layer.self_attn)
"""
OTHER_ARGUMENTS = """
class OwnModel(LlamaModel):
    def forward(self, tokens):
        return super().forward(tokens)
"""
UNKNOWN_NUMBERS = """
class OwnModel(LlamaModel):
    def forward(self, **kwargs):
        return super().forward(**kwargs, slopes=torch.ones(4))
"""


@pytest.fixture(autouse=True)
def _modules_of_its_own(monkeypatch, tmp_path_factory):
    """A place of its own for the code that transformers imports, which is forgotten afterwards."""
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path_factory.mktemp("modules")))
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("transformers_modules"):
            del sys.modules[name]


def with_code(directory, code, file="config.json", **changes):
    """A tiny Llama whose file names classes of ``own.py`` beside it."""
    edit_json(save_tiny_model(directory) / file, **changes)
    imports = "import torch\nfrom transformers import LlamaConfig, LlamaModel\n"
    (directory / "own.py").write_text(imports + code, encoding="utf-8")
    return directory


def load_with_code(directory):
    options = ModelOptions(model=str(directory), device="cpu", trust_remote_code=True)
    return AttentionModel.from_pretrained(options)


@pytest.mark.parametrize(("file", "changes"), [
    ("config.json", {"model_type": "own_llama", "auto_map": {"AutoConfig": "own.OwnConfig"}}),
    ("tokenizer_config.json", {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": [None, "own.Own"]}}),
])  # fmt: skip
def test_code_of_the_repository_is_not_run_unasked(tmp_path, file, changes):
    path = with_code(tmp_path, "raise RuntimeError('this ran')", file, **changes)
    with pytest.raises(ModelLoadError, match="then allow it with --trust-remote-code"):
        AttentionModel.from_pretrained(ModelOptions(model=str(path), device="cpu"))


def test_code_of_the_repository_runs_where_it_is_trusted_and_is_named(tmp_path):
    names = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    model = load_with_code(with_code(tmp_path, OWN_CONFIG + OWN_MODEL, model_type="own_llama", auto_map=names))
    assert type(model.network).__name__ == "OwnModel"
    assert model.provenance()["model_code"] == "of its repository"
    assert model.network.config.num_hidden_layers == 4, "own code is given all of its layers"
    (tokens,) = model.attribute([model.encode(record(["Ada lit it."], "Ada."))], [1])
    assert isinstance(tokens, TokenAttribution)


def test_flag_alone_runs_no_code_and_is_not_named(tmp_path):
    assert load_with_code(save_tiny_model(tmp_path)).provenance()["model_code"] == "of transformers"


@pytest.mark.parametrize(("code", "complaint"), [
    (PAST_THE_INTERFACE, "through transformers' attention interface"), (OTHER_ARGUMENTS, "does not give its attention"),
    (UNKNOWN_NUMBERS, "its attention takes slopes, which this version does not know"),
], ids=["past the interface", "other arguments", "unknown numbers"])  # fmt: skip
def test_own_code_that_hides_its_attention_is_a_load_error(tmp_path, code, complaint):
    path = with_code(tmp_path, code, auto_map={"AutoModel": "own.OwnModel"}, architectures=["OwnModel"])
    with pytest.raises(ModelLoadError, match=complaint):
        load_with_code(path)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_of_another_repository_has_no_pinned_revision_and_is_refused(tmp_path, file):
    path = save_tiny_model(tmp_path)
    edit_json(path / file, auto_map={"AutoModel": "someone/else--modeling_own.OwnModel"})
    with pytest.raises(ModelLoadError, match="names code of someone/else, whose revision nothing pins; put model"):
        read_model_directory(ModelOptions(model=str(path), trust_remote_code=True))
    read_model_directory(ModelOptions(model=str(path)))


def written(tmp_path, values):
    path = tmp_path / "attribution_config.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


@pytest.mark.parametrize(("values", "complaint"), [
    ([], "should hold a JSON object, holds: \\[\\]"), ({"layers": 3}, "layers"),
    ({"layer": "3"}, "layer should be a whole number from 1, was: '3'"),
    ({"top_k": True}, "top_k should be a whole number from 1, was: True"),
    ({"top_k": 0}, "top_k should be a whole number from 1, was: 0"),
    ({"supported_threshold": 0.2, "weak_threshold": 0.3}, "weak_threshold <= supported_threshold"),
    ({"isolation_tau": "two"}, "isolation_tau should be a whole number of tokens from 0, or inf"),
    ({"query_position": "next"}, "'predicting', 'self'"), ({"softmax_over": "all"}, "'visible', 'prompt'"),
    ({"prompt_template": "plain"}, "prompt_template should be an object"),
    ({"prompt_template": {"passage": ""}}, "'passage' should have the fields"),
    ({"dtype": 32}, "dtype should be one of 'auto', 'float32', 'bfloat16', 'float16', was: 32"),
])  # fmt: skip
def test_bad_file_is_an_error_with_its_name_and_key(tmp_path, values, complaint):
    with pytest.raises(ValueError, match=complaint) as caught:
        AttributionConfig.from_file(written(tmp_path, values))
    assert "attribution_config.json" in str(caught.value)


def test_nothing_that_a_model_directory_may_decide_is_left_open_with_a_model():
    own = MethodOptions(supported_threshold=0.4, weak_threshold=0.2)
    given = MethodOptions().with_model(own).given()
    decided = [one.name for one in declared(MethodOptions).values() if one.in_directory]
    assert "top_k" in decided
    assert [name for name in decided if given.get(name) is None] == []
    without = MethodOptions().with_model(MethodOptions())
    assert set(decided) - without.model_fields_set == {"supported_threshold", "weak_threshold"}


@pytest.mark.parametrize(("given", "expected"), [
    (MethodOptions(supported_threshold=0.1), (0.1, 0.1)), (MethodOptions(supported_threshold=0.4), (0.4, 0.2)),
    (MethodOptions(weak_threshold=0.5), (0.5, 0.5)),
])  # fmt: skip
def test_threshold_given_alone_moves_the_one_it_would_cross(given, expected):
    settings = given.with_model(MethodOptions(supported_threshold=0.3, weak_threshold=0.2))
    assert (settings.supported_threshold, settings.weak_threshold) == expected


def test_settings_of_a_file_take_the_place_of_the_directorys_own(tmp_path):
    model = save_tiny_model(tmp_path / "model")
    (model / "attribution_config.json").write_text('{"layer": 2, "top_k": 5}', encoding="utf-8")
    own = tmp_path / "own.json"
    own.write_text('{"layer": 1, "isolation_tau": 3}', encoding="utf-8")
    given = ModelOptions(model=str(model), device="cpu", attribution_config=str(own))
    loaded = AttentionModel.from_pretrained(given, method=MethodOptions())
    assert (loaded.layer, loaded.settings.top_k, loaded.settings.isolation_tau) == (1, 2, 3)


FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def with_types(*types):
    return hf.Gemma2Config(num_hidden_layers=len(types), layer_types=list(types))


def chosen(config, requested=None):
    return choose_layer(config, requested).layer


@pytest.mark.parametrize(("layer_count", "layer"), [(1, 1), (2, 2), (3, 2), (4, 3), (32, 17), (33, 17)])
def test_default_is_the_layer_above_the_middle(layer_count, layer):
    choice = choose_layer(LlamaConfig(num_hidden_layers=layer_count), None)
    assert (choice.layer, choice.default) == (layer, layer)
    assert choice.provenance()["layer_choice"] == f"layer {layer} of {layer_count}: the default"


@pytest.mark.parametrize("kind", [SLIDING, "chunked_attention", LINEAR, "conv", "indexed_attention"])
def test_default_that_cannot_see_the_passages_moves_to_the_nearest_full_layer(kind):
    choice = choose_layer(with_types(FULL, kind, kind, kind, FULL, kind), None)
    assert choice.provenance() == {
        "layer": "5", "layer_count": "6", "layer_type": FULL, "layer_default": "4",
        "layer_kinds": ", ".join(sorted([f"{FULL} 2", f"{kind} 4"])),
        "layer_choice": f"layer 5 of 6: nearest full_attention layer to the default 4 ({kind})",
    }  # fmt: skip


def test_model_with_windows_everywhere_keeps_the_default_and_says_what_it_misses():
    choice = choose_layer(MistralConfig(num_hidden_layers=4, sliding_window=8), None)
    assert choice.layer == 3
    assert choice.reason == "the default; a sliding_attention layer, which may not see all passages"
    assert layer_types(MistralConfig(num_hidden_layers=2, sliding_window=8)) == (SLIDING, SLIDING)


def test_requested_layer_is_taken_even_with_a_window():
    choice = choose_layer(with_types(FULL, SLIDING, FULL), 2)
    assert (choice.layer, choice.kind) == (2, SLIDING)
    assert choice.reason.startswith("as configured; a sliding_attention layer")


@pytest.mark.parametrize("layer", [0, 4, -1])
def test_layer_that_does_not_exist_is_refused(layer):
    with pytest.raises(ValueError, match=rf"\[1, 2, 3\], was: {layer}"):
        choose_layer(LlamaConfig(num_hidden_layers=3), layer)


def test_layer_without_attention_is_refused_and_never_the_default():
    config = with_types(LINEAR, LINEAR, LINEAR, FULL)
    assert chosen(config) == 4
    with pytest.raises(ValueError, match=r"\[4\], was: 1"):
        choose_layer(config, 1)


@pytest.mark.parametrize("config", [with_types(LINEAR, LINEAR), hf.MambaConfig(num_hidden_layers=2)])
def test_model_without_any_attention_is_refused(config):
    with pytest.raises(ValueError, match="has only: linear_attention"):
        choose_layer(config, None)


def test_model_of_unknown_depth_is_refused():
    with pytest.raises(ValueError, match=r"\(perceiver\) should have a num_hidden_layers"):
        choose_layer(hf.PerceiverConfig(), None)


@settings(max_examples=30, deadline=None)
@given(kinds=st.lists(st.sampled_from([FULL, SLIDING, LINEAR, "chunked_attention", "hybrid"]), min_size=1, max_size=12))
def test_no_layer_of_as_good_a_kind_is_nearer_to_the_default(kinds):
    if set(kinds) == {LINEAR}:
        return
    choice = choose_layer(with_types(*kinds), None)
    good = [place + 1 for place, kind in enumerate(kinds) if kind in (FULL, "hybrid")]
    some = good or [place + 1 for place, kind in enumerate(kinds) if kind != LINEAR]
    assert choice.layer in some
    assert all(abs(choice.layer - choice.default) <= abs(layer - choice.default) for layer in some)
    assert sum(int(part.split()[-1]) for part in choice.provenance()["layer_kinds"].split(", ")) == len(kinds)


def test_nested_text_config_is_the_one_that_counts():
    text = {"num_hidden_layers": 4, "layer_types": [SLIDING, SLIDING, SLIDING, FULL]}
    config = hf.Gemma3Config(text_config=text, vision_config={"num_hidden_layers": 9})
    assert chosen(config) == 4
    trimmed = without_layers_above(config, 3)
    assert (trimmed.text_config.num_hidden_layers, trimmed.vision_config.num_hidden_layers) == (3, 9)
    assert config.text_config.num_hidden_layers == 4


def test_layers_above_are_cut_from_every_list_of_layers():
    config = with_types(FULL, SLIDING, FULL, SLIDING)
    trimmed = without_layers_above(config, 3)
    assert (trimmed.num_hidden_layers, trimmed.layer_types) == (3, [FULL, SLIDING, FULL])
    assert config.num_hidden_layers == 4


LIT = (Passage("Ada Thorne <s> lit it. 🙂", "Brigg"), Passage(""))
ROW = QARecord("r", "Who lit </s> it?", LIT, "Ada, in 1874.", RowSource("log.parquet", 0))
TEMPLATES = {
    "own": None, "plain": {"question": "Q: {question}\nA: "}, "with BOS": {"preamble": "<s>"},
    "with a special token inside": {"question": "{question}</s>"},
}  # fmt: skip


@pytest.mark.parametrize("name", TEMPLATES)
def test_row_is_encoded_as_the_model_encodes_it(llama, tmp_path, name):
    options = ModelOptions(model=str(llama), device="cpu")
    if TEMPLATES[name] is not None:
        (tmp_path / "template.json").write_text(json.dumps(TEMPLATES[name]))
        options = options.replaced(prompt_template=str(tmp_path / "template.json"))
    ours = load_row_encoder(options).encode(ROW)
    theirs = AttentionModel.from_pretrained(options).encode(ROW)
    assert ours.prompt_length == theirs.prompt_length
    for field in ("token_ids", "column_passage", "column_in_title", "column_char_start", "response_char_end"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))


@pytest.mark.parametrize("max_tokens", [20, None])
def test_length_limit_is_that_of_the_model(llama, max_tokens):
    options = ModelOptions(model=str(llama), device="cpu", max_tokens=max_tokens)
    record = replace(ROW, passages=(Passage("tower " * 900),))
    faults = []
    for encoder in (load_row_encoder(options), AttentionModel.from_pretrained(options)):
        with pytest.raises(RowFault) as caught:
            encoder.encode(record)
        faults.append((caught.value.reason, str(caught.value)))
    assert faults[0] == faults[1]
    assert faults[0][0] is Reason.TOO_MANY_TOKENS
    assert "tower" not in faults[0][1]


def test_whole_row_that_is_too_long_is_refused_where_windows_cannot_help(llama):
    encoder = load_row_encoder(ModelOptions(model=str(llama), device="cpu", max_tokens=60))
    record = replace(ROW, passages=(Passage("tower " * 9),) * 4)
    assert len(encoder.encode(record).windows) > 1
    with pytest.raises(RowFault, match="at most 60 tokens here, has"):
        encoder.encode_whole(record)
    assert encoder.encode_whole(ROW).windows == ()


THREADS = 4


def test_threads_that_ask_together_load_once():
    loads = []
    together = Barrier(THREADS)

    @loaded_once
    def load(name):
        loads.append(name)
        sum(range(200_000))  # long enough for the other threads to come
        return [name]

    def ask(_):
        together.wait()
        return load("model")

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(ask, range(THREADS)))
    assert loads == ["model"]
    assert all(one is found[0] for one in found)


def test_a_load_that_failed_is_tried_again():
    answers = iter([ValueError("not yet"), "model"])

    @loaded_once
    def load():
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    with pytest.raises(ValueError, match="not yet"):
        load()
    assert load() == "model"


def test_threads_of_a_worker_share_one_model_and_one_encoder():
    choice = ModelChoice(model=ModelOptions(device="cpu"))
    needs = frozenset({Need.PARSER, Need.ATTENTION})
    with ThreadPoolExecutor(THREADS) as pool:
        models = list(pool.map(lambda _: load_audit_models(choice, needs), range(THREADS)))
        encoders = list(pool.map(lambda _: load_row_encoder(choice.model), range(THREADS)))
    assert all(one is models[0] for one in models)
    assert all(one is encoders[0] for one in encoders)
