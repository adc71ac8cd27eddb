"""What the tests of the graph share: tiny models, a small log with faulty rows, and a local run of the graph."""

from dataclasses import replace

import pyarrow.parquet as pq
from tests.attribution.tiny_models import save_tiny_model
from tests.logs.log_files import BROKEN_TEXT, log_row
from tests.pipeline.audit_process import AuditProcess
from tests.pipeline.audit_process import write_log as write_audit_log
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.attribution.options import ModelOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline.worker_pool import run_chunk
from attribeam.schemas import dead_letter_schema, evidence_schema
from attribeam.transforms.audit_settings import AuditSettings, OutputSchemas


def save_tiny_audit(folder):
    """Settings of an audit with a tiny model and a tiny parser, which are written to ``folder``."""
    model = save_tiny_model(folder / "model")
    parser = save_tiny_parser(folder / "parser")
    return AuditSettings(model=ModelOptions(model=str(model), token_budget=512), parser=str(parser))


def tiny_audit(root, rows, *, kind="llama"):
    """An audit of these rows; they and small models lie below ``root``."""
    log = write_audit_log(root / "log.parquet", rows)
    return AuditProcess(save_tiny_model(root / "model", kind), save_tiny_parser(root / "parser"), log)


def with_token_budget(settings, token_budget):
    return replace(settings, model=settings.model.replaced(token_budget=token_budget))


def mixed_rows(count):
    """Rows of different lengths; every tenth and some others are faulty, each kind at a stage of its own."""
    rows = [log_row(number, question="Who lit it? " * (1 + number % 4)) for number in range(count)]
    for number in range(0, count, 10):
        rows[number]["answer"] = None
    if count > 8:
        rows[3]["question"] = BROKEN_TEXT
        rows[8]["passages"] = [{"text": "tower " * 900}]
    return rows


def run_locally(file, settings, folder, *, rows=None, extra_fields=(), schemas=None):
    """Audit some rows of a file into a new folder, all by default."""
    chosen = RowRange(file, *(rows or (0, pq.read_metadata(file).num_rows)))
    own = schemas or schemas_with(extra_fields)
    return run_chunk(chosen, settings=settings, schemas=own, folder=folder, on_rows=lambda _: None)


def schemas_with(extra_fields=()):
    metadata = {"attribeam.model": "tiny"}
    return OutputSchemas(evidence_schema(extra_fields=extra_fields, metadata=metadata), dead_letter_schema(metadata))
