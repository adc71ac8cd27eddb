"""Which formats of trace stores there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attribeam.logs.traces.langfuse import Langfuse
from attribeam.logs.traces.langsmith import LangsmithRuns
from attribeam.logs.traces.mlflow import MlflowTraces
from attribeam.logs.traces.openinference import OpenInference
from attribeam.logs.traces.otel_genai import OtelGenAi
from attribeam.logs.traces.providers import ResponseRows
from attribeam.logs.traces.rows import Rows
from attribeam.logs.traces.trace_records import SpanFormat


@dataclass(frozen=True, slots=True)
class LogKind:
    """A format by the name that ``attribeam import`` and ``--log-format`` know it by."""

    name: str
    title: str
    format: SpanFormat | Rows
    suffix: str
    takes_csv: bool = True


_SUFFIX = "{.jsonl,.json,.csv,.parquet,.jsonl.gz,.json.gz,.csv.gz}"
_ROWS_SUFFIX = "{.jsonl,.csv,.parquet,.arrow,.jsonl.gz,.csv.gz}"
"""Without .json, since a folder of a Hugging Face data set has its metadata in such files."""

RAGAS_KIND = LogKind("ragas", "ragas data sets", Rows(), _ROWS_SUFFIX)
OPENINFERENCE = LogKind("openinference", "OpenInference spans, as Phoenix exports them", OpenInference(), _SUFFIX)
LANGFUSE = LogKind("langfuse", "Langfuse observations and traces", Langfuse(), _SUFFIX)
OTEL_GENAI = LogKind("otel-genai", "OpenTelemetry GenAI spans in OTLP JSON", OtelGenAi(), _SUFFIX, takes_csv=False)
MLFLOW = LogKind("mlflow", "MLflow traces", MlflowTraces(), _SUFFIX)
LANGSMITH = LogKind("langsmith", "LangSmith runs", LangsmithRuns(), _SUFFIX)
PLAIN_ROWS = LogKind("jsonl", "rows of plain JSON, CSV or Parquet", Rows(), _ROWS_SUFFIX)
RESPONSES = LogKind("responses", "providers' responses with their requests", ResponseRows(), _SUFFIX)

LOG_KINDS: Mapping[str, LogKind] = {
    kind.name: kind
    for kind in (RAGAS_KIND, OPENINFERENCE, LANGFUSE, OTEL_GENAI, MLFLOW, LANGSMITH, PLAIN_ROWS, RESPONSES)
}
"""By the names that ``attribeam import`` knows. ``--log-format jsonl`` is stricter, see ``logs/jsonl_log.py``."""
