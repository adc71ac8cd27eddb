"""A part that cannot even be imported."""

raise ImportError("no such library")
