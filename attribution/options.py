"""Every option of model and method, declared once, with the paper's defaults.

Each declaration yields the command-line option, the keyword of ``Attributor.from_pretrained``, the key of
``attribution_config.json``, the entry in manifests and file metadata, and the row in docs/options.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Self, TypeAlias

from pydantic import BeforeValidator, model_validator

from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS, parse_span_kinds
from attribeam.attribution.option_declaration import (
    AUTO_DTYPE,
    BUNDLED_MODEL_NAME,
    BUNDLED_VERDICT_NAME,
    MASS_VERDICT,
    DtypeName,
    Fraction,
    NonNegative,
    Options,
    Parsed,
    PositiveInteger,
    RiskBand,
    Strictness,
    TokenCount,
    TokenDistance,
    Value,
    WholeNumber,
    device_name,
    existing_file,
    names_verifier,
    option,
    prompt_template,
    verdict_source,
)
from attribeam.attribution.prompts import TEMPLATE_NAMES, TemplateText
from attribeam.schemas import SpanKind

LOADING, READING, LAYER = "loading", "reading", "layer"
METHOD, UNION, SUPPORT, MASS = "method", "union", "support", "mass"
LANGUAGE, HIDDEN, COMPARED = "language", "hidden", "compared"
SPANS, PARSER, THREADS = "spans", "parser", "threads"
"""Groups of options; each command adds the groups that it uses. ``audit`` has no LAYER, UNION, MASS and COMPARED."""

ATTN_UNION, ATTN_UNION_DEP = "attn-union", "attn-union-dep"
UNIONS = (ATTN_UNION, ATTN_UNION_DEP)
"""The paper's two methods: the union alone (Section 3.2), and with dependency augmentation (Section 3.3)."""


class QueryPosition(StrEnum):
    """The position whose attention is row i of S: the one that predicts r_i (decoders), or r_i's own (encoders)."""

    PREDICTING = "predicting"
    SELF = "self"


class SoftmaxOver(StrEnum):
    """The columns over which a row of the attention is normalised: all that its token sees, or only the prompt's.

    ``PROMPT`` is for encoders trained that way: a response token never attends to the response itself.
    """

    VISIBLE = "visible"
    PROMPT = "prompt"


class Quantization(StrEnum):
    """How the weights of the layers' matrices are stored; all others stay in the model's dtype."""

    NONE = "none"
    NF4 = "nf4"
    INT8 = "int8"


class ModelOptions(Options):
    """Which model to load, how to load it, and how it reads rows."""

    model: Value[str] = option(
        default=BUNDLED_MODEL_NAME, group=LOADING, help="bundled, a hub id or a directory", kw_only=False
    )
    revision: str | None = option(
        default=None, group=LOADING, metavar="REV", default_words="its main branch",
        help="commit, tag or branch of a hub model; outputs record the commit",
    )  # fmt: skip
    layer: PositiveInteger | None = option(
        default=None, group=LAYER, metavar="L", default_words="the model's, else floor(L/2) + 1", in_directory=True,
        help="layer L* whose attention is taken, counted from 1", paper="4.1",
    )  # fmt: skip
    query_position: Parsed[QueryPosition | None, QueryPosition | str | None] = option(
        default=None, group=LAYER, in_directory=True,
        default_words="the model's, else predicting for decoders and self for encoders",
        help="where the attention of an answer token is read: at the token before it, which predicts it, or at itself",
    )  # fmt: skip
    prompt_template: str | TemplateText | None = option(
        default=None, group=READING, metavar="NAME|FILE", reads=prompt_template,
        default_words="the model's, else chat where its tokenizer has a chat template, else plain",
        help=f"{', '.join(TEMPLATE_NAMES)}, or a .jinja or .json file; see docs/extending.md",
    )  # fmt: skip
    dtype: Value[DtypeName] = option(
        default=AUTO_DTYPE, group=LOADING, metavar="auto|float32|bfloat16|float16", in_directory=True,
        default_words="the model's, else auto: that of the weights on a GPU; float32 on a CPU, or the weights' half "
        "precision where products are faster in it",
        help="precision of weights and activations",
    )  # fmt: skip
    quantization: Parsed[Quantization, Quantization | str | None] = option(
        default=Quantization.NONE, group=LOADING,
        help="keep the layers' weights in 4 (nf4) or 8 (int8) bits; needs the extra attribeam[quantization]",
    )  # fmt: skip
    device: Value[str] = option(
        default="auto", group=LOADING, reads=device_name,
        help="auto, cpu, cuda, cuda:1; for an audit also cuda:0,cuda:1 or all",
    )  # fmt: skip
    token_budget: PositiveInteger | None = option(
        default=None, group=LAYER, metavar="N", default_words="2048 on a CPU, 16384 on a GPU",
        help="tokens per batch, padding included; twice as many where all its rows have one prompt",
    )  # fmt: skip
    max_tokens: PositiveInteger | None = option(
        default=None, group=READING, metavar="N", default_words="the model's context",
        help="the most tokens that the model reads at once; longer rows are read in windows",
    )  # fmt: skip
    attribution_config: str | None = option(
        default=None, group=READING, metavar="FILE.json", reads=existing_file,
        default_words="the model directory's attribution_config.json",
        help="a file of settings to use instead of the model directory's own; models check --sweep-layers writes one",
    )  # fmt: skip
    trust_remote_code: Value[bool] = option(default=False, group=LOADING, help="run code from the model's repository")
    loaded_layers: WholeNumber | None = option(
        default=None, default_words="those up to L*", help="load at least this many layers, to read some above L*"
    )


THRESHOLDS = frozenset({"supported_threshold", "weak_threshold"})


class TrainedOptions(Options):
    """How a model was trained; only its directory can say so."""

    softmax_over: Value[SoftmaxOver] = option(
        default=SoftmaxOver.VISIBLE, in_directory=True, default_words="visible",
        help="tokens that the softmax of the attention runs over: all that a token sees, or only the prompt's",
    )  # fmt: skip


class MethodOptions(Options):
    """How evidence is found and judged: union, augmentation, passage decision and verdict.

    With ``verdict`` "mass", a span is supported from ``supported_threshold`` on, unsupported below ``weak_threshold``,
    and weak in between.
    """

    method: Value[str] = option(
        default=ATTN_UNION_DEP, group=METHOD, metavar="NAME|MODULE:CLASS", paper="3.2, 3.3",
        help="how evidence is found, see docs/evaluation.md, or a class of your own, see docs/extending.md",
    )  # fmt: skip
    token_evidence: Value[bool] = option(
        default=False, group=METHOD,
        help="also record every evidence token with its score, in the column token_evidence",
    )  # fmt: skip
    top_k: Value[PositiveInteger] = option(
        default=2, group=UNION, metavar="K", in_directory=True, paper="3.2",
        help="prompt tokens kept per answer token",
    )  # fmt: skip
    isolation_tau: Value[TokenDistance] = option(
        default=2.0, group=UNION, metavar="TAU", in_directory=True, paper="3.2",
        help="drop an evidence token if no other one lies within TAU tokens of it; inf keeps all of them",
    )  # fmt: skip
    strict_isolation: Value[bool] = option(
        default=False, group=UNION, paper="3.2",
        help="drop isolated evidence even if nothing else is left; such a span then has no passage",
    )  # fmt: skip
    own_token_weight: Value[PositiveInteger] = option(
        default=1, group=UNION, metavar="N", in_directory=True, extends_paper=True,
        help="how many times a span's own tokens count; the other tokens of its atomic fact count once",
    )  # fmt: skip
    sentence_weight: Value[NonNegative] = option(
        default=0.0, group=UNION, metavar="W", in_directory=True, extends_paper=True,
        help="weight of the rest of the span's sentence when the best passage is chosen",
    )  # fmt: skip
    evidence_window: Value[TokenCount] = option(
        default=math.inf, group=UNION, metavar="N", in_directory=True, extends_paper=True,
        help="count only the best N tokens in a row of each passage, and its title; inf counts all",
    )  # fmt: skip
    word_weight: Value[NonNegative] = option(
        default=0.0, group=UNION, metavar="W", in_directory=True, extends_paper=True,
        help="weight of the words that a passage shares with span and sentence when the best passage is chosen",
    )  # fmt: skip
    verdict: Value[str] = option(
        default=BUNDLED_VERDICT_NAME, group=SUPPORT, metavar="NAME|DIR", extends_paper=True, reads=verdict_source,
        help="how claims are judged: bundled; smollm2-135m, which needs that --language-model; a directory that "
        "attribeam calibrate wrote; a verifier, see docs/verifiers.md; or mass, by two thresholds of evidence mass",
    )  # fmt: skip
    verdict_band: Parsed[RiskBand | None, Sequence[float] | str | None] = option(
        default=None, group=SUPPORT, metavar="LOW,HIGH", extends_paper=True, default_words="all answers",
        help="ask the model of --verdict, a verifier or a decoder, only about answers whose risk by the bundled "
        "verdict lies between these; the others keep what the bundled verdict says",
    )  # fmt: skip
    strictness: Parsed[Strictness | None, Strictness | str | None] = option(
        default=None, group=SUPPORT, extends_paper=True, default_words="balanced",
        help="how soon a claim is called unsupported",
    )  # fmt: skip
    prior: Fraction | None = option(
        default=None, group=SUPPORT, metavar="SHARE", extends_paper=True, default_words="0.5",
        help="share of answers that you expect to have an unsupported claim; support scores follow it",
    )  # fmt: skip
    assume_language: Value[bool] = option(
        default=False, group=MASS, extends_paper=True,
        help="judge answers in any language; by default only languages are judged that model and parser read",
    )  # fmt: skip
    supported_threshold: Value[Fraction] = option(
        default=0.5, group=MASS, metavar="SHARE", in_directory=True, extends_paper=True,
        help="evidence mass from which a span is supported",
    )  # fmt: skip
    weak_threshold: Value[Fraction] = option(
        default=0.25, group=MASS, metavar="SHARE", in_directory=True, extends_paper=True,
        help="evidence mass below which a span is unsupported",
    )  # fmt: skip

    hidden_layer: WholeNumber | None = option(
        default=None, group=HIDDEN, metavar="L", default_words="floor(L/2)", paper="3.4",
        help="layer of the hidden states that the hss methods compare, 0 for the embeddings",
    )  # fmt: skip
    language_model: str | None = option(
        default=None, group=LANGUAGE, metavar="NAME", default_words="--model", paper="4.1",
        help="causal language model of cci or a verdict: a hub id or a directory",
    )  # fmt: skip
    language_model_dtype: DtypeName | None = option(
        default=None, group=COMPARED, metavar="auto|float32|bfloat16|float16", default_words="--dtype",
        help="precision of the language model; for a verdict with a probe auto chooses as --dtype auto does",
    )  # fmt: skip
    language_model_quantization: Parsed[Quantization | None, Quantization | str | None] = option(
        default=None, group=COMPARED, default_words="--quantization",
        help="keep the language model's weights in 4 (nf4) or 8 (int8) bits",
    )  # fmt: skip

    @model_validator(mode="after")
    def _check_thresholds(self) -> Self:
        if self.model_fields_set >= THRESHOLDS and self.weak_threshold > self.supported_threshold:
            raise ValueError(
                "thresholds should satisfy 0 <= weak_threshold <= supported_threshold <= 1, were: "
                f"{self.weak_threshold} and {self.supported_threshold}"
            )
        return self

    def with_model(self, defaults: MethodOptions) -> MethodOptions:
        """The options in force for a model with these defaults: the user's, else the model's, else the paper's.

        Every option that a model directory may decide is set, but for thresholds of support that nobody gave. If the
        user gives only one threshold and it crosses the other, the other moves with it. A threshold that the user gives
        means that claims are judged by their mass.
        """
        own = self.model_fields_set
        supported = (self if "supported_threshold" in own else defaults).supported_threshold
        weak = (self if "weak_threshold" in own else defaults).weak_threshold
        if "supported_threshold" not in own:
            supported = max(supported, weak)
        elif "weak_threshold" not in own:
            weak = min(supported, weak)
        in_force = self.replaced(supported_threshold=supported, weak_threshold=weak).over(defaults)
        has_thresholds = (own | defaults.model_fields_set) & THRESHOLDS
        names = [name for name in MethodOptions.model_fields if has_thresholds or name not in THRESHOLDS]
        every = {name: getattr(in_force, name) for name in names}
        return MethodOptions(**every | ({"verdict": MASS_VERDICT} if self.judges_by_mass else {}))

    @property
    def judges_by_mass(self) -> bool:
        """Whether claims are judged by their evidence mass: asked for, or implied by a threshold that is given."""
        given = self.model_fields_set
        return self.verdict == MASS_VERDICT or ("verdict" not in given and bool(THRESHOLDS & given))

    @property
    def has_verifier(self) -> bool:
        """Whether claims are judged by a verifier, after the bundled verdict has told what is a claim."""
        return not self.judges_by_mass and names_verifier(self.verdict)

    @property
    def first_verdict(self) -> Self:
        """The same options with the verdict that comes before a verifier, and before any with a band."""
        return self.replaced(verdict=BUNDLED_VERDICT_NAME, verdict_band=None)

    @property
    def asked_verdict(self) -> Self:
        """The same options with a fitted verdict: that of the options, or the one that comes before a verifier."""
        return self.first_verdict if self.has_verifier else self

    @property
    def is_augmented(self) -> bool:
        """Whether a span is widened to its atomic facts (Section 3.3)."""
        return self.method == ATTN_UNION_DEP

    def with_paper_weights(self) -> Self:
        """The same options, with the union as in the paper: extensions are switched off."""
        return self.replaced(own_token_weight=1, sentence_weight=0.0, evidence_window=math.inf, word_weight=0.0)


_SpanKinds: TypeAlias = Annotated[
    tuple[SpanKind, ...], BeforeValidator(lambda value: parse_span_kinds(value) if isinstance(value, str) else value)
]


class AttributorOptions(MethodOptions, ModelOptions):
    """All options of ``Attributor.from_pretrained``."""

    spans: Parsed[_SpanKinds, Sequence[SpanKind] | str | None] = option(
        default=DEFAULT_SPAN_KINDS, group=SPANS, metavar="KIND,...",
        expects=f"a comma-separated list of {', '.join(SpanKind)}", default_words=",".join(DEFAULT_SPAN_KINDS),
        help=f"kinds of target spans: {', '.join(SpanKind)}",
    )  # fmt: skip
    parser: Value[str] = option(default="bundled", group=PARSER, help="bundled, a spaCy pipeline or a directory")
    threads: Value[PositiveInteger] = option(
        default=1, group=THREADS, metavar="N",
        help="CPU threads of torch, for the process of a command, or for an Attributor while it works",
    )  # fmt: skip
