"""How well worker processes keep a model worker busy: rows per second, and the share of time that the model waits.

Without ``--model`` and ``--shape``, the model is a stand-in that sleeps for a set time per token, so no GPU is needed,
and all CPU time is that of the workers. The log is short and ``--rows-per-chunk`` the default, so ends of chunks count.

python -m lab.benchmarks.model_workers --rows 1000 --workers 1 2 4 --microseconds-per-token 1 30
python -m lab.benchmarks.model_workers --shape qwen2-0.5b --device cuda --dtype bfloat16
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaModel

from attribeam.attribution.models import BUNDLED_MODEL
from attribeam.schemas.errors import RunError
from attribeam.schemas.run_manifest import RunManifest
from lab.benchmarks.generated_rows import RowShape, benchmark_rows, made_up_pages, read_pages, write_log
from lab.benchmarks.machine import machine_description, markdown_table, run_measured
from lab.benchmarks.random_model import SHAPES, RandomModel

_USE = re.compile(r"model workers waited for rows ([\d.]+)% of the time")
_HEADER = (
    "model ms/row", "workers", "rows/s", "CPU ms/row", "CPU ms/row / workers", "model waits", "peak MiB",
)  # fmt: skip
_CONFIGURATION = """
from transformers import LlamaConfig


class SleepingConfig(LlamaConfig):
    model_type = "sleeping"
    seconds_per_token = 0.0
"""
_MODELING = """
import time

from transformers import LlamaModel

from .configuration_sleeping import SleepingConfig


class SleepingModel(LlamaModel):
    config_class = SleepingConfig

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, **arguments):
        time.sleep(input_ids.numel() * self.config.seconds_per_token)
        return super().forward(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, **arguments
        )
"""


def main() -> int:
    """Measure and print.

    Raises:
        RunError: if an audit failed.
    """
    args = _parser().parse_args()
    print(machine_description(), flush=True)
    lines = []
    with tempfile.TemporaryDirectory(prefix="attribeam-model-workers-") as name:
        folder = Path(name)
        log = folder / "qa_logs.parquet"
        pages = read_pages(args.text) if args.text else made_up_pages(seed=0)
        write_log(log, benchmark_rows(pages, rows=args.rows, seed=0, shape=RowShape.QUOTESUM))
        for model, workers in product([*_models(folder, args)], args.workers):
            lines.append(_measure(log, folder / "audit", model, workers, args))
            print(" ".join(lines[-1]), file=sys.stderr, flush=True)
    print(markdown_table(_HEADER, lines, padded=True))
    return 0


def _models(folder: Path, args: argparse.Namespace) -> Iterator[list[str]]:
    """The options of ``attribeam audit`` that name each model."""
    where = ["--device", args.device, "--dtype", args.dtype]
    if args.model:
        yield ["--model", args.model, *where]
    elif args.shape:
        saved = RandomModel(args.shape, "cpu", args.dtype).save(folder / "model")
        yield ["--model", str(saved), *where]
    else:
        for index, microseconds in enumerate(args.microseconds_per_token):
            saved = save_sleeping_model(folder / f"model-{index}", seconds_per_token=microseconds / 1e6)
            yield ["--model", str(saved), "--device", "cpu", "--trust-remote-code"]


def save_sleeping_model(folder: Path, *, seconds_per_token: float) -> Path:
    """Write a model of one tiny layer, with the tokenizer of the bundled model; it needs ``--trust-remote-code``.

    It takes a set time per token and leaves the CPU alone, because it sleeps. Besides, it does what any model does:
    attention is captured and reduced, which takes a little CPU time.
    """
    folder.mkdir(parents=True)
    AutoTokenizer.from_pretrained(BUNDLED_MODEL).save_pretrained(folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    words = [*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])]
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=max(words) + 1,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        max_position_embeddings=65_536,
    )
    LlamaModel(config).save_pretrained(folder)
    path = folder / "config.json"
    classes = {"AutoConfig": "configuration_sleeping.SleepingConfig", "AutoModel": "modeling_sleeping.SleepingModel"}
    own = {"model_type": "sleeping", "auto_map": classes, "seconds_per_token": seconds_per_token}
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | own), encoding="utf-8")
    (folder / "configuration_sleeping.py").write_text(_CONFIGURATION, encoding="utf-8")
    (folder / "modeling_sleeping.py").write_text(_MODELING, encoding="utf-8")
    return folder


def _measure(log: Path, output: Path, model: Sequence[str], workers: int, args: argparse.Namespace) -> tuple[str, ...]:
    """Run one audit; its line below ``_HEADER``."""
    options = {
        "--input": log,
        "--output": output,
        "--workers": workers,
        "--model-workers": args.model_workers,
        "--rows-per-chunk": args.rows_per_chunk,
    }
    given = [str(part) for pair in options.items() for part in pair]
    run = run_measured([sys.executable, "-m", "attribeam", "audit", *given, *model, "--no-report"])
    told = _USE.search(run.standard_error)
    if run.exit_code or told is None:
        raise RunError(f"the audit ended with exit code {run.exit_code}: {run.standard_error}")
    manifest = RunManifest.from_json((output / "run_manifest.json").read_text(encoding="utf-8"))
    shutil.rmtree(output)
    rows = manifest.counts.rows
    model_ms = 1000 * sum(stage.wall_seconds for stage in manifest.stages if stage.stage == "attribute") / rows
    cpu_ms = 1000 * sum(stage.cpu_seconds for stage in manifest.stages if stage.stage != "attribute") / rows
    return (
        f"{model_ms:.1f}",
        str(workers),
        f"{manifest.rows_per_second:.1f}",
        f"{cpu_ms:.1f}",
        f"{cpu_ms / workers:.1f}",
        f"{float(told[1]):.1f} %",
        f"{run.peak_bytes / 2**20:.0f}",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000, help="rows of the log (default: 1000)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="numbers of workers")
    parser.add_argument(
        "--microseconds-per-token", type=float, nargs="+", default=[1.0, 30.0], help="how long the stand-ins sleep"
    )
    parser.add_argument("--model", help="a hub id or a directory instead of the stand-ins")
    parser.add_argument("--shape", choices=SHAPES, help="shape of a random model instead of the stand-ins")
    parser.add_argument("--device", default="cpu", help="of --model or --shape (default: cpu)")
    parser.add_argument("--dtype", default="float32", help="of --model or --shape (default: float32)")
    parser.add_argument("--text", type=Path, help="pages to take text from, as for audit_throughput")
    parser.add_argument("--model-workers", type=int, default=1, help="model workers (default: 1)")
    parser.add_argument("--rows-per-chunk", type=int, default=500, help="as in attribeam audit (default: 500)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
