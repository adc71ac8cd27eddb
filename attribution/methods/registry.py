"""The methods of an audit by name, and the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from attribeam.attribution.methods.attention_methods import AttentionUnion
from attribeam.attribution.methods.method import Method, MethodSettings
from attribeam.attribution.methods.probed_method import ProbedMethod
from attribeam.attribution.methods.user_method import UserMethod, load_user_method
from attribeam.attribution.options import UNIONS, MethodOptions
from attribeam.attribution.verdict.judge import judge_of, probe_of
from attribeam.attribution.verdict.verified import calibration_texts
from attribeam.schemas.errors import UsageError, did_you_mean

_Method = TypeVar("_Method")


def all_methods(settings: MethodSettings | None = None) -> Mapping[str, Method]:
    """The methods of an audit by their names."""
    settings = settings or MethodSettings()
    return {union: AttentionUnion(union, settings) for union in UNIONS}


def resolve_method(options: MethodOptions) -> Method:
    """The method that ``options.method`` names: one of ``all_methods``, or the user's own ``module:Name``.

    With a verdict that has a model of its own it is a ``ProbedMethod``.

    Raises:
        UsageError: if there is no such method; the message lists the known ones. Also if the verdict is a
            verifier's and has a strictness or prior, or has a band, but no model of its own or a threshold outside it.
        ModelLoadError: if the verdict's directory cannot be read.
    """
    settings = MethodSettings.of(options)
    method = method_named(options.method, all_methods(settings), settings)
    probe = probe_of(options)
    _check_verdict(options, has_probe=probe is not None)
    return ProbedMethod(method, probe, options) if probe is not None or options.has_verifier else method


def _check_verdict(options: MethodOptions, *, has_probe: bool) -> None:
    if options.has_verifier and (options.strictness is not None or options.prior is not None):
        raise UsageError(
            f"--strictness and --prior are for a fitted verdict, not for the verifier {options.verdict}; leave them "
            "out, and fit its thresholds with attribeam calibrate"
        )
    if options.verdict_band is not None and not has_probe and not options.has_verifier:
        raise UsageError(
            f"--verdict-band says which answers a verifier or decoder is asked about, --verdict {options.verdict} has "
            "none; name one with --verdict, or leave the band out"
        )
    if options.verdict_band is not None:
        low, high = options.verdict_band
        flagging = [_flagging_risk(one) for one in (options.first_verdict, options)]
        if not all(low <= one <= high for one in flagging):
            raise UsageError(
                f"--verdict-band should hold the risks from which answers are flagged, {flagging[0]:g} by the bundled "
                f"verdict and {flagging[1]:g} by --verdict {options.verdict}, was: {low:g},{high:g}"
            )


def _flagging_risk(options: MethodOptions) -> float:
    judge = judge_of(options.asked_verdict)
    found = calibration_texts(options.verdict) if options.has_verifier or judge is None else judge.provenance()
    return float(found["answer_risk_threshold"])


def method_named(name: str, known: Mapping[str, _Method], settings: MethodSettings) -> _Method | UserMethod:
    """The method of this name, from ``known`` or the user's own.

    Raises:
        UsageError: if there is no method of this name.
    """
    if name in known:
        return known[name]
    if ":" in name:
        return load_user_method(name, settings)
    hint, names = did_you_mean(name, known), ", ".join(known)
    others = "or module:Name of your own, or of one of those in docs/evaluation.md"
    raise UsageError(f"--method {name!r}: unknown; {hint + ' ' * bool(hint)}there are: {names}; {others}")
