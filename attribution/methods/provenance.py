"""What an audit's evidence depends on besides its input, for file metadata and the run manifest."""

from __future__ import annotations

from collections.abc import Mapping

from attribeam.attribution.methods.audit_row import thresholds_of
from attribeam.attribution.methods.method import LoadedModels, Method, Need, has_own_model
from attribeam.attribution.methods.user_method import UserMethod
from attribeam.attribution.option_declaration import option_texts
from attribeam.attribution.options import THRESHOLDS, UNIONS, MethodOptions
from attribeam.attribution.verdict.judge import judge_of
from attribeam.attribution.verdict.verified import calibration_texts

_OF_UNIONS = frozenset(
    {
        *("top_k", "isolation_tau", "strict_isolation", "token_evidence", "own_token_weight", "sentence_weight"),
        *("evidence_window", "word_weight", "supported_threshold", "weak_threshold"),
    }
)
"""The options of the unions of attention; a method of the user's own may read any."""
OF_VERDICTS = frozenset({"verdict", "verdict_band", "strictness", "prior", "assume_language"})
_OF_DECODERS = frozenset({"language_model", "language_model_dtype", "language_model_quantization"})
_AS_LOADED = frozenset({"hidden_layer", "language_model_dtype", "language_model_quantization"})
"""Options that the models say better: with what was loaded."""


def audit_provenance(method: Method, options: MethodOptions, models: LoadedModels) -> dict[str, str]:
    """Models, method and versions; ``device`` is always present.

    Raises:
        UsageError: if the code of a user's own method cannot be identified.
    """
    found = {"device": "cpu"}
    for model in (models.language, models.verdict):
        if model is not None:
            found |= {"device": model.device.type, **model.provenance()}
    if models.attention is not None:
        of_model = models.attention.provenance()
        found |= {name: value for name, value in of_model.items() if name not in MethodOptions.model_fields}
    if Need.HIDDEN_STATES in method.needs and models.attention is not None:
        layer = models.hidden_layer
        found["hidden_layer"] = str(models.attention.layer_count // 2 if layer is None else layer)
    if isinstance(method, UserMethod):
        found["method_code"] = method.code
    return {**found, **_verdict_texts(options), **_method_texts(method, options, models)}


def reused_provenance(before: Mapping[str, str], options: MethodOptions) -> dict[str, str]:
    """What ``audit_provenance`` gives where the evidence is that of an audit with the provenance ``before``.

    ``options`` differ from that audit's in the verdict only, which has no model of its own.
    """
    of_verdict = OF_VERDICTS | THRESHOLDS | {"answer_risk_threshold", "support_score_threshold"}
    kept = {name: text for name, text in before.items() if name not in of_verdict and "verdict" not in name}
    read = OF_VERDICTS | (THRESHOLDS if options.judges_by_mass else frozenset())
    return {**kept, **_verdict_texts(options), **{k: v for k, v in option_texts(options).items() if k in read}}


def options_read(options: MethodOptions) -> frozenset[str]:
    """The names of the options that affect the method and the verdict."""
    of_method = _OF_UNIONS if options.method in UNIONS else frozenset(options.explicit())
    return of_method | OF_VERDICTS | {"method"} | (_OF_DECODERS if has_own_model(options) else frozenset())


def _verdict_texts(options: MethodOptions) -> dict[str, str]:
    """What the verdict depends on besides its own model, and the thresholds in force."""
    judge, first = judge_of(options.asked_verdict), judge_of(options.first_verdict)
    found = {} if judge is None else judge.provenance()
    if options.has_verifier:
        found = {"verdict_model": found["verdict_model"], **calibration_texts(options.verdict)}
    if options.verdict_band is not None and first is not None:
        found["bundled_verdict_model"] = first.provenance()["verdict_model"]
    return found


def _method_texts(method: Method, options: MethodOptions, models: LoadedModels) -> dict[str, str]:
    """The method's name, and the options it reads with the values in force."""
    merged = models.attention.settings if models.attention is not None and Need.ATTENTION in method.needs else None
    read = options_read(options)
    if thresholds_of(method, options, merged) is None or not options.judges_by_mass:
        read -= THRESHOLDS
    texts = option_texts(merged or options)
    return {name: text for name, text in texts.items() if name in read - _AS_LOADED}
