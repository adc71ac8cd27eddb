"""Labelled data, read from published files and from logs, and written as logs."""
