"""Exports of trace stores: records to spans, spans of a trace to one row, rows to a QA log."""
