"""Training the bundled parser."""
