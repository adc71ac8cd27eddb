"""An audit of ferries with known risks and scores, and marks on its answers."""

import json
import random
from dataclasses import replace

from tests.report.made_audit import made_audit, supported_span, unsupported_span

from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, load_verdict_model

LEAVES, CARS = supported_span().chars, unsupported_span().chars


def ferry_audit(folder, answers, *, models=None, support=None):
    """Answers of two claims; in every other one ``40 cars`` lacks support, at a higher risk and lower score on average.

    ``support`` replaces the verdicts, without scores and risks.
    """
    chance = random.Random(7)
    spans = {}
    for row in range(answers):
        lacking = lacks(row)
        score, risk = chance.gauss(0.4 if lacking else 0.7, 0.12), chance.gauss(0.6 if lacking else 0.3, 0.12)
        first, second = supported_span(), replace(unsupported_span(), evidence_mass=_share(score))
        scored = ((first, chance.gauss(0.85, 0.08)), (second, score))
        spans[row] = tuple(replace(one, support_score=_share(own), answer_risk=_share(risk)) for one, own in scored)
        if support is not None:
            unscored = {"support": support, "support_score": None, "answer_risk": None}
            spans[row] = tuple(replace(one, **unscored) for one in spans[row])
    digest = load_verdict_model(BUNDLED_VERDICT).digest[:16]
    names = [f"ferry-{row}" for row in range(answers)]
    manifest = {"verdict_model": digest, "model": "tiny", "method": "attn-union-dep", "layer": "1", **(models or {})}
    return made_audit(folder, record_ids=names, spans=spans, rows_per_chunk=answers + 1, models=manifest)


def lacks(row):
    return row % 2 == 1


def claim_marks(rows):
    found = []
    for row in rows:
        for chars, lacking in ((LEAVES, False), (CARS, lacks(row))):
            label = "unsupported" if lacking else "supported"
            found.append({**_mark(row, label), "char_start": chars.char_start, "char_end": chars.char_end})
    return found


def answer_marks(rows):
    return [_mark(row, "unsupported" if lacks(row) else "supported") for row in rows]


def save(path, marks):
    path.write_text("".join(f"{json.dumps(one)}\n" for one in marks), encoding="utf-8")
    return path


def _mark(row, label):
    return {"record_id": f"ferry-{row}", "char_start": None, "char_end": None, "label": label, "reviewer": "Ada"}


def _share(number):
    return min(0.999, max(0.001, number))


def judged_by(audit, verdict):
    """The audit when its manifest says that it was asked for this verdict."""
    file = audit.root / "run_manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    manifest["options"]["method"] = {"verdict": verdict}
    file.write_text(json.dumps(manifest), encoding="utf-8")
    return audit
