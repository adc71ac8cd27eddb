"""Logs from trace stores: records of an export to spans, spans of a trace to one row, rows to a QA log.

``record_files`` reads the records of a file, ``formats`` has the table of each format that maps them to spans,
``assembly`` puts the spans of a trace together, ``rows`` reads what has one row per record. ``trace_log`` puts the
steps together for the reader of an audit and for ``attribeam import``.
"""
