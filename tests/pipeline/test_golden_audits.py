"""Whole audits give what they gave when their results were frozen in golden_audits.json.

With the processor and the torch of the frozen run, every value is equal to the last bit. Elsewhere floats
differ in their last digits: rows, spans and offsets are equal then, and the sums of the floats are close.

A change that means to move values says so in its message and freezes them anew:

python -m tests.pipeline.test_golden_audits
"""

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from tests.attribution.tiny_models import save_tiny_model
from tests.attribution.verdict.judged_rows import save_probed_verdict

from attribeam.pipeline.command_line import main
from lab.benchmarks.generated_rows import RowShape, benchmark_rows, made_up_pages, write_log

GOLDEN = Path(__file__).with_name("golden_audits.json")
EXAMPLE = Path(__file__).parents[2] / "examples" / "qa_logs.parquet"
EXACT = ("record_id", "source_row", "span_index", "span_kind", "char_start", "char_end", "text", "claim_kind")
NAMES = ("example", "generated", "windows", "given", "redacted", "decoder")


def arguments(name, folder):
    """The options of one golden audit; its log and models are written to ``folder``."""
    shapes = {"generated": (RowShape.WIKIPEDIA, 400), "given": (RowShape.QUOTESUM, 60), "decoder": (RowShape.SHORT, 20)}
    log = EXAMPLE
    if name in shapes:
        shape, rows = shapes[name]
        log = folder / "log.parquet"
        write_log(log, benchmark_rows(made_up_pages(seed=0), rows=rows, seed=0, shape=shape))
    more = {"windows": ["--max-tokens", "200"], "given": ["--spans", "given", "--token-evidence"]}
    given = {**more, "redacted": ["--redact", "--no-texts"]}.get(name, [])
    if name == "decoder":
        decoder = save_tiny_model(folder / "decoder", "llama")
        verdict = save_probed_verdict(folder / "verdict", decoder)
        given = ["--verdict", str(verdict), "--language-model", str(decoder)]
    return ["audit", "--input", str(log), *given]


def audited(name, folder):
    """Run an audit; what is frozen of it."""
    output = folder / "audit"
    options = ["--output", str(output), "--workers", "1", "--threads", "1", "--quiet", "--no-report"]
    assert main([*arguments(name, folder), *options]) == 0
    evidence, letters = (read_folder(output / kind) for kind in ("evidence", "dead_letters"))
    counts = {"spans": evidence.num_rows, "dead_letters": letters.num_rows, "exact": digest(evidence.select(EXACT))}
    floats = [field.name for field in evidence.schema if pa.types.is_floating(field.type)]
    sums = {name: pc.sum(evidence[name]).as_py() for name in floats}
    return {**counts, "all": digest(evidence) + digest(letters), "sums": sums}


def read_folder(folder):
    """Its records, without the path of the log."""
    return pa.concat_tables([pq.read_table(file) for file in sorted(folder.rglob("*.parquet"))]).drop(["source_file"])


def digest(table):
    """The SHA-256 of all values; floats count with all their bits."""
    found = hashlib.sha256()
    for row in table.to_pylist():
        found.update(json.dumps(row, default=str, sort_keys=True).encode())
    return found.hexdigest()[:16]


def machine():
    """What the last digits depend on: the processor, by a digest of its name and features, and torch."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    processor = sorted({line for line in lines if line.startswith(("model name", "flags"))})
    digest_of_it = hashlib.sha256("\n".join(processor).encode()).hexdigest()[:16]
    return f"{digest_of_it}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__.split('+')[0]}"


@pytest.mark.parametrize("name", NAMES)
def test_audit_is_as_it_was_frozen(name, tmp_path):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    frozen, found = golden["audits"][name], audited(name, tmp_path)
    if golden["machine"] == machine():
        assert found == frozen
        return
    for key in ("spans", "dead_letters", "exact"):
        assert found[key] == frozen[key], key
    assert found["sums"] == pytest.approx(frozen["sums"], rel=1e-2)


def freeze():
    os.environ["HF_HUB_OFFLINE"] = "1"
    audits = {}
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            audits[name] = audited(name, Path(folder))
    GOLDEN.write_text(json.dumps({"machine": machine(), "audits": audits}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(freeze())
