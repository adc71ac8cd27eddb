"""Training of the bundled parser."""
