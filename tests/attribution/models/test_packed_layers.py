"""Linear layers whose weights oneDNN has in its own order give what plain ones give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.attribution.tiny_models import SENTENCES, save_tiny_model
from torch import nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP

from attribeam.attribution.attention import model_setup
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.models import packed_layers
from attribeam.attribution.models.packed_layers import is_packed, pack_linear_layers, unpack_linear_layers
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas import Passage, QARecord, RowSource

TOLERANCE = 2e-2
IN, OUT = 64, 96

pytestmark = pytest.mark.skipif(
    not packed_layers._has_operators(), reason="oneDNN does not multiply in bfloat16 on this processor"
)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(5)


def states(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2)).bfloat16()


def gated_block(activation: str = "silu", *, bias: bool = False) -> LlamaMLP:
    config = LlamaConfig(hidden_size=IN, intermediate_size=OUT, hidden_act=activation, mlp_bias=bias)
    return LlamaMLP(config).bfloat16().requires_grad_(False)


def assert_near(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.numel():
        assert (found - expected).abs().max() <= TOLERANCE * expected.abs().max()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "shape",
    [(), (0,), (2, 0), (1,), (7,), (2, 5), (31,), (32,), (33,), (511,), (512,), (1, 513), (2, 272), (3, 512), (1100,)],
    ids=str,
)
def test_packed_layer_gives_the_same_product(shape: tuple[int, ...], bias: bool) -> None:
    layer = nn.Linear(IN, OUT, bias=bias).bfloat16().requires_grad_(False)
    given = states(*shape, IN)
    expected = layer(given)
    assert pack_linear_layers(layer) == 1
    assert is_packed(layer)
    assert_near(layer(given), expected)


@pytest.mark.parametrize("shape", [(0,), (1,), (2, 33), (512,), (513,), (3, 400)], ids=str)
def test_gated_block_serves_any_number_of_tokens(shape: tuple[int, ...]) -> None:
    block = gated_block(bias=True)
    given = states(*shape, IN)
    expected = block(given)
    pack_linear_layers(block)
    assert_near(block(given), expected)


def test_a_token_gets_the_same_result_whatever_stands_beside_it() -> None:
    block = gated_block()
    given = states(700, IN)
    pack_linear_layers(block)
    assert_near(torch.cat([block(given[:100]), block(given[100:])]), block(given))


@pytest.mark.parametrize("name", ["gate_proj", "up_proj", "act_fn", "down_proj"])
def test_hooks_within_a_gated_block_are_called(name: str) -> None:
    block = gated_block()
    given = states(3, IN)
    assert pack_linear_layers(block) == 3
    expected = block(given)
    seen: list[torch.Tensor] = []
    handle = block.get_submodule(name).register_forward_hook(lambda *arguments: seen.append(arguments[-1]))
    assert_near(block(given), expected)
    assert len(seen) == 1
    handle.remove()
    assert block(given).equal(expected)


def test_unpacking_gives_the_plain_network_back() -> None:
    network = nn.Sequential(nn.Linear(IN, OUT), nn.Linear(OUT, IN), gated_block()).bfloat16().requires_grad_(False)
    weights = {name: weight.clone() for name, weight in network.state_dict().items()}
    given = states(5, IN)
    expected = network(given)
    assert pack_linear_layers(network) == 5
    unpack_linear_layers(network)
    assert dict.fromkeys(weights, True) == {
        name: bool(weight.equal(weights[name])) for name, weight in network.state_dict().items()
    }
    assert not any("forward" in vars(module) for module in network.modules())
    assert network(given).equal(expected)


def test_block_that_computes_something_else_runs_its_own_code() -> None:
    class Other(LlamaMLP):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = self.down_proj(self.act_fn(self.gate_proj(x)) + self.up_proj(x))
            return output

    block = Other(LlamaConfig(hidden_size=IN, intermediate_size=OUT)).bfloat16().requires_grad_(False)
    given = states(3, IN)
    expected = block(given)
    pack_linear_layers(block)
    assert "forward" not in vars(block)
    assert_near(block(given), expected)


def test_layers_with_code_of_their_own_and_other_dtypes_stay_as_they_are() -> None:
    class Scaled(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    layers = [Scaled(IN, OUT, dtype=torch.bfloat16), nn.Linear(IN, OUT), nn.Linear(IN, OUT, dtype=torch.float16)]
    assert pack_linear_layers(nn.ModuleList(layers)) == 0
    assert not any(map(is_packed, layers))


def test_a_large_model_keeps_weights_that_processes_share(monkeypatch: pytest.MonkeyPatch) -> None:
    network = nn.Sequential(nn.Linear(IN, OUT, bias=False), nn.Linear(OUT, IN, bias=False)).bfloat16()
    monkeypatch.setattr(packed_layers, "_MOST_COPIED_BYTES", 2 * IN * OUT * 2 - 1)
    assert pack_linear_layers(network) == 0
    monkeypatch.setattr(packed_layers, "_MOST_COPIED_BYTES", 2 * IN * OUT * 2)
    assert pack_linear_layers(network) == 2


def test_a_layer_whose_product_would_differ_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_layers, "_product", lambda states, *_: states.new_zeros(len(states), OUT))
    layer = nn.Linear(IN, OUT).bfloat16()
    assert pack_linear_layers(layer) == 0
    assert layer(states(1, IN)).shape == (1, OUT)


def test_a_torch_without_the_operators_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    packed_layers._has_operators.cache_clear()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    try:
        assert pack_linear_layers(nn.Linear(IN, OUT).bfloat16()) == 0
    finally:
        packed_layers._has_operators.cache_clear()


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_a_loaded_decoder_is_packed_and_finds_what_the_plain_one_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    save_tiny_model(tmp_path, kind)
    options = ModelOptions(model=str(tmp_path), device="cpu", layer=3, dtype="bfloat16")
    packed = AttentionModel.from_pretrained(options)
    monkeypatch.setattr(model_setup, "pack_linear_layers", lambda _: 0)
    plain = AttentionModel.from_pretrained(options)
    assert [lower_linear_layers(model) for model in (packed, plain)] == [[True] * 14, [False] * 14]
    record = QARecord("1", "Who?", (Passage(text=SENTENCES[0]), Passage(text=SENTENCES[1])), "Ada.", RowSource("", 0))
    found, expected = (model.attribute([model.encode(record)], [2])[0] for model in (packed, plain))
    assert isinstance(found, TokenAttribution)
    assert isinstance(expected, TokenAttribution)
    # Both round, each in its own order: on AMX, masses of this model differ by up to 0.0101.
    np.testing.assert_allclose(found.passage_mass, expected.passage_mass, atol=2e-2, rtol=0)


def test_a_model_whose_code_multiplies_by_a_weight_itself_stays_plain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_itself(block: LlamaMLP, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = block.down_proj(nn.functional.linear(x, block.up_proj.weight))
        return output

    save_tiny_model(tmp_path, "llama")
    monkeypatch.setattr(LlamaMLP, "forward", by_itself)
    model = AttentionModel.from_pretrained(ModelOptions(model=str(tmp_path), device="cpu", layer=3, dtype="bfloat16"))
    assert not any(lower_linear_layers(model))


def lower_linear_layers(model: AttentionModel) -> list[bool]:
    """Whether each linear layer below the captured layer is packed."""
    layers: nn.ModuleList = model.network.layers  # type: ignore[assignment]
    return [is_packed(one) for one in layers[: model.layer - 1].modules() if isinstance(one, nn.Linear)]
