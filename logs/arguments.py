"""The options that say how a log is read, for every command that reads one."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from attribeam.logs.columns import PARQUET, LogOptions, parse_column_mapping
from attribeam.logs.reader import OWN_READERS

LOG_FORMAT_HELP = f"{', '.join(OWN_READERS)}, or that of a package"
COLUMNS_HELP = "which column holds which field, e.g. record_id=trace_id,answer=response"


def add_log_arguments(add: Callable[..., argparse.Action]) -> None:
    """Add ``--log-format`` and ``--columns`` with the ``add_argument`` of a parser or a group."""
    add("--log-format", default=PARQUET, metavar="NAME", help=f"{LOG_FORMAT_HELP} (default: %(default)s)")
    add("--columns", default="", metavar="FIELD=COLUMN,...", help=COLUMNS_HELP)


def log_options(arguments: argparse.Namespace) -> LogOptions:
    """How to read the logs.

    Raises:
        UsageError: if ``--columns`` is no list of fields and columns.
    """
    return LogOptions(parse_column_mapping(arguments.columns), format=arguments.log_format)
