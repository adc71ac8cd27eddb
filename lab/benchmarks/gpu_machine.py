"""The device that figures are measured on, with its driver and the versions of what runs there.

python -m attribeam.lab.benchmarks.gpu_machine --device cuda
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import torch

from attribeam.attribution.attention.end_to_end_attention import ROW_BY_ROW, varlen_kernels
from attribeam.attribution.attention.model_setup import configured_layer
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.models.weight_loading import choose_device, format_size
from attribeam.attribution.options import ModelOptions
from attribeam.lab.benchmarks.machine import processor_with_instructions
from attribeam.schemas.errors import AttribeamError

_PACKAGES = (
    "torch", "transformers", "flash-attn", "bitsandbytes", "accelerate", "triton", "tokenizers", "numpy", "apache-beam",
    "spacy", "pyarrow",
)  # fmt: skip
_ROOT = Path(__file__).resolve().parents[2]
_ASKED = ("driver_version", "mig.mode.current", "power.limit", "clocks.max.sm")


def describe_machine(device: str) -> dict[str, str]:
    """What does not change while the machine is ours: hardware, driver, versions and the commit.

    Raises:
        ModelLoadError: if there is no such device.
    """
    chosen = choose_device(device)
    memory, cores = psutil.virtual_memory().total / 2**30, len(os.sched_getaffinity(0))
    return {
        **(_gpu(chosen) if chosen.type == "cuda" else {"device": chosen.type}),
        "processor": f"{processor_with_instructions()}, {cores} cores used, {memory:.0f} GiB memory",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        **{name: _version(name) for name in _PACKAGES},
        "attribeam": f"commit {_commit()}",
    }


def describe_load(device: str) -> dict[str, str]:
    """What may change from one moment to the next."""
    found = {"load of the processors": f"{os.getloadavg()[0]:.1f}"}
    chosen = torch.device(device)
    if chosen.type == "cuda":
        found["free memory of the GPU"] = format_size(torch.cuda.mem_get_info(chosen)[0])
    return found


def _gpu(device: torch.device) -> dict[str, str]:
    properties = torch.cuda.get_device_properties(device)
    kernels = varlen_kernels(device.index, device.type, torch.bfloat16) or (ROW_BY_ROW,)
    return {
        "device": torch.cuda.get_device_name(device),
        "memory": format_size(properties.total_memory),
        "compute capability": f"{properties.major}.{properties.minor}, {properties.multi_processor_count} processors",
        **_driver(str(getattr(properties, "uuid", ""))),
        "CUDA of torch": str(torch.version.cuda),
        "kernels for rows of variable length": ", ".join(kernels),
    }


def _driver(uuid: str) -> dict[str, str]:
    """What nvidia-smi says of the GPU; of the first one, if it does not know this one (a MIG instance)."""
    command = ["nvidia-smi", f"--query-gpu=uuid,{','.join(_ASKED)}", "--format=csv,noheader"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return {"driver": f"unknown, nvidia-smi does not tell: {type(error).__name__}"}
    lines = [[cell.strip() for cell in line.split(",")] for line in asked.stdout.splitlines() if line.strip()]
    if not lines:
        return {"driver": "unknown, nvidia-smi names no GPU"}
    own = next((line for line in lines if uuid and uuid in line[0]), lines[0])
    return dict(zip(("driver", "MIG", "power limit", "highest clock"), own[1:], strict=False))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The commit of the checkout, with "changed" if files differ from it."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty=, changed", "--abbrev=12", "--exclude=*"],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return described.stdout.strip()


def main() -> int:
    """Print both descriptions as JSON; returns 1 with the reason if there is no such device or model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", help="a model that has to be there, too")
    args = parser.parse_args()
    device = args.device
    try:
        if args.model:
            configured_layer(read_model_directory(ModelOptions(model=args.model)))
        found: dict[str, Any] = {"machine": describe_machine(device), "at_start": describe_load(device)}
    except AttribeamError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
