"""Labelled data: what is read from published files and from logs, and written as a log."""
