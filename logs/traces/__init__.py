"""Logs from trace stores: records of an export to spans, spans of a trace to one row, rows to a QA log.

``formats`` lists the formats. Each has one file that only maps its records to ``Span`` or ``TraceRow``; everything
else is written once. ``trace_log`` puts the steps together for the readers of an audit and for ``attribeam import``.
"""

from __future__ import annotations
