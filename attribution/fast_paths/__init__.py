"""Faster ways that rest on private parts of libraries, each behind a check and beside a plain path."""
