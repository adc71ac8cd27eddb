"""For tests and notebooks: ``assert_supported`` says which claims of an answer its passages do not support, and why.

Importing this loads no model. With pytest, the fixture ``attribeam_attributor`` gives all tests one attributor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from attribeam.schemas import SpanEvidence, Support
from attribeam.schemas.errors import UsageError
from attribeam.schemas.evidence_html import Explanation
from attribeam.schemas.evidence_record import VERDICTS

if TYPE_CHECKING:
    from attribeam.attribution.attributor import Attributor
    from attribeam.attribution.rows import PassageLike

_MOST_PIECES, _MOST_CHARS = 3, 200


def assert_supported(
    *,
    question: str,
    passages: Sequence[PassageLike],
    answer: str,
    attributor: Attributor | None = None,
    strictness: str | None = None,
    allow_weak: bool = True,
) -> Explanation:
    """The attribution of an answer whose claims the passages support; passages are what ``Attributor.attribute`` takes.

    What claims nothing, such as a refusal or a heading, needs no support. What cannot be judged beside claims that can
    (code, a cell of a table) is let pass.

    Args:
        question: what was asked; "" where nothing was.
        passages: what was retrieved.
        answer: the answer to be checked.
        attributor: whose verdict counts; without one, the bundled model's, loaded once for all calls.
        strictness: "lenient", "balanced" or "strict": how soon the bundled model calls a claim unsupported. Any other
            attributor has its own.
        allow_weak: whether claims with weak support pass; only ``unsupported`` ones fail then.

    Raises:
        AssertionError: if a claim is not supported, or nothing in the answer can be judged, as in another language. The
            message names each claim, its reason, what the evidence has instead, and the evidence.
        UsageError: if both an attributor and a strictness are given, or no thresholds are known for the model.
        DataError, RowFault: as ``Attributor.explain``.
    """
    __tracebackhide__ = True
    if attributor is not None and strictness is not None:
        raise UsageError("strictness belongs to the attributor: give it to Attributor.from_pretrained(strictness=...)")
    chosen = bundled_attributor(strictness) if attributor is None else attributor
    found = chosen.explain(question=question, passages=passages, answer=answer)
    problems = support_problems(found, allow_weak=allow_weak)
    if problems:
        raise AssertionError(problems)
    return found


@cache
def bundled_attributor(strictness: str | None = None) -> Attributor:
    """The bundled attributor, one per process and strictness."""
    from attribeam.attribution.attributor import Attributor

    return Attributor.from_pretrained("bundled", strictness=strictness)


def support_problems(found: Explanation, *, allow_weak: bool = True) -> str:
    """What ``assert_supported`` complains about; empty where it does not.

    Raises:
        UsageError: if no thresholds are known for the model.
    """
    if any(span.support is Support.NOT_CALIBRATED for span in found.spans):
        raise UsageError("no thresholds are known for this model: take the bundled one, or run attribeam calibrate")
    claims = judged_claims(found)
    failing = {Support.UNSUPPORTED} if allow_weak else {Support.UNSUPPORTED, Support.WEAK}
    failed = [span for span in claims if span.support in failing]
    if failed:
        head = f"{len(failed)} of {len(claims)} claims lack support in {len(found.record.passages)} passages:"
        return "\n".join([head, *(line for span in failed for line in _lines(found, span))])
    if not claims and any(span.support is Support.NOT_JUDGED for span in found.spans):
        kinds = sorted({str(span.claim_kind) for span in found.spans if span.support is Support.NOT_JUDGED})
        return f"nothing in the answer can be judged: {', '.join(kinds)}"
    return ""


def faithfulness(found: Explanation) -> float | None:
    """The share of the judged claims that are not unsupported, 0 to 1; None where no claim is judged."""
    claims = judged_claims(found)
    return 1 - sum(span.support is Support.UNSUPPORTED for span in claims) / len(claims) if claims else None


def judged_claims(found: Explanation) -> list[SpanEvidence]:
    """The claims that have a verdict, in their order."""
    return [span for span in found.spans if span.is_claim and span.support in VERDICTS]


def _lines(found: Explanation, span: SpanEvidence) -> Iterator[str]:
    yield f"- “{span.text}” is {span.support}{f': {span.why}' if span.why else ''}"
    for piece in span.evidence[:_MOST_PIECES]:
        title = found.record.passages[piece.passage_index].title
        text = piece.text if len(piece.text) <= _MOST_CHARS else f"{piece.text[:_MOST_CHARS]}…"
        yield f"  passages[{piece.passage_index}]{f' ({title})' if title else ''}: “{text}”"
