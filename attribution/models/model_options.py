"""What a user may say about the model; None leaves it to the model directory, then to the paper's default."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from attribeam.attribution.prompts.prompt_template import TemplateText
from attribeam.attribution.settings import Method, QueryPosition


class Quantization(StrEnum):
    """How the weights of the layers' matrices are kept; all others stay in the model's dtype."""

    NONE = "none"
    NF4 = "nf4"
    INT8 = "int8"


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Options of the attributor's model.

    Attributes:
        model: "bundled", a Hugging Face hub id, or a local directory.
        revision: commit, tag or branch of a hub model; default its main branch. What it resolves to is recorded.
        layer: 1-based layer L* whose attention is taken; default floor(L/2) + 1 (Section 4.1).
        query_position: default "predicting" for decoders, "self" for encoders.
        prompt_template: "chat", "plain", "paper", or the path of a Jinja or JSON file, or what such a file holds;
            default the model directory's own, else "chat" where the tokenizer has a chat template, else "plain".
        dtype: "float32", "bfloat16" or "float16"; default float32 on a CPU, the model's own on a GPU.
        quantization: NF4 or LLM.int8 through bitsandbytes, for which the extra ``quantization`` must be installed.
        device: "auto", "cpu", "cuda", "cuda:1", ...
        token_budget: tokens of one batch, padding included; default 2,048 on a CPU, where a batch that fits into the
            caches is quickest, and 16,384 on a GPU.
        max_tokens: tokens that the model reads at once; longer rows are read in windows. Default the model's context.
        trust_remote_code: run code from the model's repository.
        head_weights: path of a JSON file with the fields of ``attention.head_weights.HeadWeights``, fitted
            for this model and layer; default the mean over attention heads (Section 3.4).
        loaded_layers: how many layers are loaded at least, for what lies above L*.
    """

    model: str = "bundled"
    revision: str | None = None
    layer: int | None = None
    query_position: QueryPosition | None = None
    prompt_template: str | TemplateText | None = None
    dtype: str | None = None
    quantization: Quantization = Quantization.NONE
    device: str = "auto"
    token_budget: int | None = None
    max_tokens: int | None = None
    trust_remote_code: bool = False
    head_weights: str | None = None
    loaded_layers: int | None = None


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """Options of the union and the support decision; None means the model directory's or the paper's default."""

    method: Method = Method.ATTN_UNION_DEP
    top_k: int | None = None
    isolation_tau: float | None = None
    own_token_weight: int | None = None
    sentence_weight: float | None = None
    evidence_window: float | None = None
    supported_threshold: float | None = None
    weak_threshold: float | None = None
